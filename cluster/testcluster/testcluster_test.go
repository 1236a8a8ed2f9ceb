package testcluster

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A cluster of three: ready, one killed and back, the leader known throughout.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three processes")
	}
	c, err := Start(t.Context(), Options{Proxy: true})
	if errors.Is(err, ErrNoBinary) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			_ = c.Close()
		}
	}()
	leader, err := c.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Kill(leader); err != nil {
		t.Fatal(err)
	}
	next := leader
	for start := time.Now(); next == leader || err != nil; time.Sleep(100 * time.Millisecond) {
		if time.Since(start) > 30*time.Second {
			t.Fatalf("leader %d, %v: no other leader after 30 s", next, err)
		}
		next, err = c.Leader(t.Context())
	}
	if err := c.Restart(t.Context(), leader); err != nil {
		t.Fatal(err)
	}
	if err := c.Restart(t.Context(), leader); err == nil {
		t.Error("a node that runs was started")
	}
	if u, err := c.Usage(leader); err != nil || u.Disk == 0 || runtime.GOOS == "linux" && (u.Resident == 0 || u.CPU == 0) {
		t.Errorf("%+v, %v", u, err)
	}
	end, err := c.Stutter(leader, 50*time.Millisecond, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ready(t.Context(), leader); err != nil {
		t.Error(err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	closed = true
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for i := range c.nodes {
		if err := c.ready(t.Context(), i); err == nil {
			t.Errorf("node %d answers after Close", i)
		}
	}
}

func TestBinary(t *testing.T) {
	t.Setenv("QUARRY_WEAVIATE", "")
	if _, err := Start(t.Context(), Options{}); !errors.Is(err, ErrNoBinary) {
		t.Errorf("got %v, want %v", err, ErrNoBinary)
	}
}

// A program that ends at once is told with the end of its log.
func TestStartFails(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := Start(ctx, Options{Nodes: 1, Binary: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no program: got %v", err)
	}
	program, err := exec.LookPath("false")
	if err != nil {
		t.Skip("there is no program that fails at once")
	}
	if _, err := Start(ctx, Options{Nodes: 1, Binary: program}); err == nil || !strings.Contains(err.Error(), "node0 ended") {
		t.Errorf("a program that fails: got %v", err)
	}
}

func TestFreePorts(t *testing.T) {
	got, err := freePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.ListenTCP("tcp", &net.TCPAddr{Port: got[0]})
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if free(got[0]) {
		t.Errorf("port %d is taken and was called free", got[0])
	}
}

func TestProxy(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	defer s.Close()
	p, err := newProxy(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(limit time.Duration) (string, error) {
		client := http.Client{Timeout: limit}
		a, err := client.Post("http://"+p.address(), "text/plain", strings.NewReader("echo"))
		if err != nil {
			return "", err
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		return string(b), err
	}
	if got, err := ask(time.Minute); got != "echo" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	p.delay.Store(int64(200 * time.Millisecond))
	if _, err := ask(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("held back: got %v, want a deadline", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := ask(time.Minute); err == nil {
		t.Error("a closed proxy answered")
	}
}
