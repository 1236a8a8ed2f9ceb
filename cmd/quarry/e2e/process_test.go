package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the quarry under test.
var binary string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "quarry-e2e-")
	if err == nil {
		defer os.RemoveAll(dir)
		binary, err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stopBrowser()
	return m.Run()
}

// build builds the command in its own module, with the versions of libraries it
// is shipped with.
func build(dir string) (string, error) {
	name := filepath.Join(dir, "quarry")
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	cmd := exec.Command("go", "build", "-o", name, "./cmd/quarry")
	cmd.Dir = filepath.Join("..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building quarry: %w\n%s", err, out)
	}
	return name, nil
}

// unable skips a test for want of something, or fails it in CI.
func unable(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// A server is a quarry that serves.
type server struct {
	url  string // without a slash at the end
	data string // its directory
	pid  int
	log  *output
	stop func()
}

var address = regexp.MustCompile(`https?://127\.0\.0\.1:\d+`)

// start starts a server over a new data directory, and stops it with the test:
// it must end well, and in time.
func start(t *testing.T, args ...string) *server {
	t.Helper()
	return launch(t, t.TempDir(), "serve", args...)
}

// launch starts a command that listens, and waits until it is ready.
func launch(t *testing.T, data, command string, args ...string) *server {
	t.Helper()
	s := &server{data: data, log: &output{}}
	cmd := exec.Command(binary, append([]string{command, "--data", data, "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var once sync.Once
	s.stop = func() {
		once.Do(func() {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Errorf("the server is gone: %v\n%s", err, s.log)
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("the server ended with %v\n%s", err, s.log)
				}
			case <-time.After(15 * time.Second):
				t.Errorf("the server goes on after SIGTERM\n%s", s.log)
				_ = cmd.Process.Kill() // it may end at this moment
			}
		})
	}
	t.Cleanup(s.stop)
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if s.url = address.FindString(s.log.String()); s.url != "" && s.ready() {
			return s
		}
		select {
		case err := <-ended:
			t.Fatalf("the server ended: %v\n%s", err, s.log)
		default:
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("the server is not ready\n%s", s.log)
		}
	}
}

func (s *server) ready() bool {
	res, err := client.Get(s.url + "/readyz")
	if err != nil {
		return false
	}
	return res.Body.Close() == nil && res.StatusCode == http.StatusOK
}

// output keeps what a process writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
