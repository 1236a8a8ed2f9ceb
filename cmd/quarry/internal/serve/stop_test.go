package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
)

// child is the program, with the signals of main.
func child(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	var c struct{ Commands }
	parser, err := kong.New(&c, kong.BindTo(ctx, (*context.Context)(nil)))
	if err == nil {
		var k *kong.Context
		if k, err = parser.Parse(args); err == nil {
			err = k.Run()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A process is a server of its own.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	log  *lines
	exit chan error
}

func spawn(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := &process{t: t, log: &lines{}, exit: make(chan error, 1)}
	p.cmd = exec.Command(os.Args[0], append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--no-page"}, args...)...)
	p.cmd.Env = append(os.Environ(), "QUARRY_TEST_SERVER=1")
	p.cmd.Stderr = p.log
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, at, ok := strings.Cut(strings.TrimSpace(line), " at ")
	if err != nil || !ok {
		t.Fatalf("%q, %v: %s", line, err, p.log)
	}
	p.url = at
	go func() { p.exit <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits for the end and tells how long it took.
func (p *process) wait(most time.Duration) error {
	p.t.Helper()
	select {
	case err := <-p.exit:
		return err
	case <-time.After(most):
		p.t.Fatalf("still running after %v: %s", most, p.log)
		return nil
	}
}

// send sends JSON and returns the answer, status 0 for none.
func send(client *http.Client, method, url, media string, body io.Reader) answer {
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		return answer{body: err.Error()}
	}
	req.Header.Set("Content-Type", media)
	res, err := client.Do(req)
	if err != nil {
		return answer{body: err.Error()}
	}
	defer res.Body.Close() // read to its end
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{body: err.Error()}
	}
	return answer{res.StatusCode, res.Header, string(b)}
}

// TestH10Stop stops a server, in three ways, under 100 writers, an import and a
// request that takes long: what was acknowledged is there afterwards.
func TestH10Stop(t *testing.T) {
	t.Parallel() // the work is done by others
	if testing.Short() {
		t.Skip("starts three servers in processes of their own")
	}
	for _, c := range []struct {
		name    string
		signals []os.Signal
	}{
		{"SIGTERM", []os.Signal{syscall.SIGTERM}},
		{"SIGTERM twice", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}},
		{"kill -9", []os.Signal{syscall.SIGKILL}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && c.signals[0] == syscall.SIGTERM {
				t.Skip("Windows has no SIGTERM")
			}
			stopUnderLoad(t, c.signals)
		})
	}
}

func stopUnderLoad(t *testing.T, signals []os.Signal) {
	dir := t.TempDir()
	p := spawn(t, dir)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}}
	defer client.CloseIdleConnections()
	if a := send(client, "POST", p.url+"/v1/collections", "application/json", strings.NewReader(`{"name":"c","schema":{"text":[{"name":"t"}]}}`)); a.status != 201 {
		t.Fatal(a)
	}
	var mu sync.Mutex
	var acknowledged []string
	var wg sync.WaitGroup
	running := make(chan struct{}, 100)
	for i := range 100 {
		wg.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("w%d-%d", i, n)
				a := send(client, "PUT", p.url+"/v1/collections/c/documents/"+id, "application/json", strings.NewReader(`{"text":{"t":"written"}}`))
				if a.status != 200 {
					if a.status != 0 && a.status != 503 {
						t.Errorf("a write was answered with %d %s", a.status, a.body)
					}
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, id)
				mu.Unlock()
				if n == 0 {
					running <- struct{}{}
				}
			}
		})
	}
	imported := make(chan answer, 1)
	in, out := io.Pipe()
	go func() { imported <- send(client, "POST", p.url+"/v1/collections/c/bulk", "application/x-ndjson", in) }()
	wg.Go(func() {
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(out, `{"id":"i%d","text":{"t":"imported"}}`+"\n", i); err != nil {
				return
			}
		}
	})
	long := make(chan answer, 1)
	texts, err := json.Marshal(strings.Repeat("A sentence that takes its time. ", 1000))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		long <- send(client, "POST", p.url+"/v1/nodes/ai-search", "application/json", strings.NewReader(`{"query":"time","input":`+string(texts)+`}`))
	}()
	for range cap(running) {
		<-running
	}
	time.Sleep(300 * time.Millisecond)
	begun := time.Now()
	for i, sig := range signals {
		if i > 0 {
			time.Sleep(200 * time.Millisecond)
		}
		p.signal(sig)
	}
	err = p.wait(12 * time.Second)
	took := time.Since(begun)
	if graceful := len(signals) == 1 && signals[0] == syscall.SIGTERM; graceful {
		if err != nil || took > 10*time.Second {
			t.Errorf("ended after %v with %v: %s", took, err, p.log)
		}
		durable := -1
		if a := <-imported; a.status == 503 {
			if p := a.problem(t); p.Code != httpapi.CodeStopping || p.Durable == nil {
				t.Errorf("%+v", p)
			} else {
				durable = p.Durable.Durable
			}
		} else {
			t.Errorf("the import was answered with %d %s", a.status, a.body)
		}
		for i := range durable {
			acknowledged = append(acknowledged, fmt.Sprintf("i%d", i))
		}
		if a := <-long; a.status != 200 && a.status != 503 && a.status != 0 {
			t.Error(a)
		}
	} else if err == nil || took > 3*time.Second {
		t.Errorf("ended after %v with %v", took, err)
	}
	_ = in.Close()
	wg.Wait()
	if len(acknowledged) < 100 {
		t.Fatal("only", len(acknowledged))
	}
	reg, err := registry.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := reg.Get(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, id := range acknowledged {
		if there, err := h.Index().Exists(t.Context(), id); err != nil || !there {
			lost++
		}
	}
	h.Release()
	if err := reg.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged documents are lost", lost, len(acknowledged))
	}
}

func TestServeCommandRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--tls-cert":       {"--listen", "0.0.0.0:0"},
		"HOST:PORT":        {"--listen", "here"},
		"--max-body":       {"--max-body", "32MB"},
		"--sync":           {"--sync", "never"},
		"--model":          {"--model", "e5=x.qem"},
		"nothing behind":   {"--model", "a=openai:"},
		"unknown field":    {"--model", `a={"modle":"x"}`},
		"reranker":         {"--reranker", "guess"},
		"allowed host":     {"--allow-host", "a/b"},
		"allowed origin":   {"--allow-origin", "*"},
		"--max-concurrent": {"--max-concurrent", "0"},
		"open none":        {"--tls-cert", "none", "--tls-key", "none"},
	} {
		_, err := command(t, append([]string{"serve", "--data", filepath.Join(dir, "d")}, args...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
	if _, err := command(t, "serve", "--data", filepath.Join(dir, "file")); err == nil {
		t.Error("a file serves as a directory")
	}
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{"1": 1, "1000": 1000, "64KiB": 64 << 10, "32MiB": 32 << 20, "2GiB": 2 << 30} {
		if got, err := parseSize("--x", s); err != nil || got != want {
			t.Errorf("%s: %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "0", "-1", "1.5MiB", "MiB", "9999999999GiB", "1 KiB"} {
		if got, err := parseSize("--x", s); err == nil {
			t.Errorf("%s: %d", s, got)
		}
	}
}

// TestListenerThatBreaks ends the server with the listener's error.
func TestListenerThatBreaks(t *testing.T) {
	r := start(t, nil)
	r.client.CloseIdleConnections()
	l, err := r.s.Listen()
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	r.stop()
	s, err := New(Config{Data: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if l, err = s.Listen(); err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), l); err == nil || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
