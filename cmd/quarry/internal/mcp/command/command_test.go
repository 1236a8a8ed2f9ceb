package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/index"
)

// asCommand makes this test binary quarry mcp: then it is another process.
const asCommand = "QUARRY_TEST_AS_MCP"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var c Command
	k := kong.Parse(&c, kong.BindTo(ctx, (*context.Context)(nil)))
	if err := k.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// newData makes a data directory with the collection "notes".
func newData(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	r, err := registry.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Create(t.Context(), "notes", registry.CreateOptions{Schema: index.Schema{Text: []index.TextField{{Name: "title"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), []index.Document{{ID: "a", Text: map[string]string{"title": "harbor lights"}}, {ID: "b", Text: map[string]string{"title": "harbor dues"}}}); err != nil {
		t.Fatal(err)
	}
	c.Release()
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// call calls a tool and wants a part of its result.
func call(t *testing.T, cs *sdk.ClientSession, tool, args, want string) {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		t.Errorf("%s: %v", tool, err)
		return
	}
	data, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if res.IsError || !strings.Contains(string(data), want) {
		t.Errorf("%s %s: no %s in %s, %+v", tool, args, want, data, res.Content)
	}
}

// useEachTool calls every tool there is.
func useEachTool(t *testing.T, cs *sdk.ClientSession, write bool) {
	t.Helper()
	call(t, cs, "list", `{}`, `"collection":"notes"`)
	call(t, cs, "search", `{"query":"harbor"}`, `"total":2`)
	call(t, cs, "get", `{"id":"a"}`, `harbor lights`)
	call(t, cs, "stats", `{}`, `"documents":2`)
	call(t, cs, "explain", `{"query":"harbor","id":"b"}`, `"found":true`)
	list, err := cs.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[bool]int{false: 5, true: 7}[write]; len(list.Tools) != want {
		t.Errorf("%d tools, want %d", len(list.Tools), want)
	}
	if write {
		call(t, cs, "upsert", `{"documents":[{"id":"c","text":{"title":"c"}}]}`, `"put":1`)
		call(t, cs, "delete", `{"ids":["c","d"]}`, `"removed":1`)
	}
}

// A client in this process, the server in another.
func TestStdio(t *testing.T) {
	for _, write := range []bool{false, true} {
		t.Run(fmt.Sprint("write=", write), func(t *testing.T) {
			args := []string{"--data", newData(t)}
			if write {
				args = append(args, "--write")
			}
			cmd := child(args...)
			var logs bytes.Buffer
			cmd.Stderr = &logs
			cs, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
			if err != nil {
				t.Fatalf("%v; stderr: %s", err, logs.String())
			}
			useEachTool(t, cs, write)
			if err := cs.Close(); err != nil {
				t.Errorf("%v; stderr: %s", err, logs.String())
			}
			if logs.Len() > 0 {
				t.Errorf("stderr: %s", logs.String())
			}
		})
	}
}

// Every line on stdout is a message of the protocol, whatever the process logs
// and whatever goes wrong in it.
func TestH08NothingButProtocolOnStdout(t *testing.T) {
	cmd := child("--data", newData(t), "--verbose")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var logs bytes.Buffer
	cmd.Stderr = &logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	id := 0
	// say sends a request and waits for its answer; every line on the way must
	// be JSON-RPC.
	say := func(method, params string) {
		t.Helper()
		id++
		if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
			t.Fatal(err)
		}
		for answered := false; !answered; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				t.Fatalf("%v; stderr: %s", err, logs.String())
			}
			var m map[string]any
			if err := json.Unmarshal(line, &m); err != nil || m["jsonrpc"] != "2.0" {
				t.Fatalf("stdout has %q", line)
			}
			answered = m["id"] == float64(id)
		}
	}
	say("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`)
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	for _, params := range []string{
		`{"name":"search","arguments":{"query":"harbor"}}`,
		`{"name":"search","arguments":{"collection":"absent","query":"harbor"}}`,
		`{"name":"search","arguments":{"query":"harbor","mode":"vector"}}`,
		`{"name":"search","arguments":[1]}`,
		`{"name":"absent","arguments":{}}`,
		`{"name":"list"}`,
	} {
		say("tools/call", params)
	}
	say("absent/method", `{}`)
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil || len(bytes.TrimSpace(rest)) > 0 {
		t.Errorf("after the end of stdin: %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process ended with %v; stderr: %s", err, logs.String())
	}
	if !strings.Contains(logs.String(), "tool failed") {
		t.Errorf("stderr has no log of the failing tools: %s", logs.String())
	}
}

func TestH08BadConfiguration(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	data := newData(t)
	for _, args := range [][]string{
		{"--data", t.TempDir() + "/absent"}, {"--data", file}, {"--data", file, "--write"}, {"--data", data, "--listen", "nonsense"}, {"--data", data, "--listen", "0.0.0.0:0"},
	} {
		cmd := child(args...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		var exit *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("%v: %v", args, err)
		}
		if stdout.Len() > 0 || stderr.Len() == 0 {
			t.Errorf("%v: stdout %q, stderr %q", args, stdout.String(), stderr.String())
		}
	}
}

// A signal ends the process in time, with what was acknowledged kept.
func TestH10SignalEnds(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SIGTERM")
	}
	dir := newData(t)
	cmd := child("--data", dir, "--write")
	cs, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	call(t, cs, "upsert", `{"documents":[{"id":"kept","text":{"title":"kept"}}]}`, `"put":1`)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cs.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
		t.Fatal("the process goes on after SIGTERM")
	}
	_ = cs.Close() // the process is gone
	r, err := registry.Open(dir, &registry.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Get(t.Context(), "notes")
	if err != nil {
		t.Fatal(err)
	}
	if there, err := c.Index().Exists(t.Context(), "kept"); err != nil || !there {
		t.Errorf("what was acknowledged is gone: %v, %v", there, err)
	}
	c.Release()
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// listening starts the command with --listen and returns its address.
func listening(t *testing.T, args ...string) string {
	t.Helper()
	cmd := child(append(args, "--listen", "127.0.0.1:0")...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var logs bytes.Buffer
	cmd.Stderr = &logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if runtime.GOOS == "windows" { // which has no SIGTERM
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return
		}
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("the process ended with %v; stderr: %s", err, logs.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`http://\S+`).FindString(line)
}

func TestHTTP(t *testing.T) {
	for _, write := range []bool{false, true} {
		t.Run(fmt.Sprint("write=", write), func(t *testing.T) {
			args := []string{"--data", newData(t)}
			if write {
				args = append(args, "--write")
			}
			endpoint := listening(t, args...)
			cs, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: endpoint}, nil)
			if err != nil {
				t.Fatal(err)
			}
			useEachTool(t, cs, write)
			if err := cs.Close(); err != nil {
				t.Error(err)
			}
			if !write {
				guards(t, endpoint)
			}
		})
	}
}

// guards tries what other people's pages and hosts may not (H09).
func guards(t *testing.T, endpoint string) {
	const message = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	for _, c := range []struct {
		method, host, origin string
		want                 int
	}{
		{"POST", "", "", 200},
		{"POST", "", "https://evil.example", 403},
		{"POST", "", "null", 403},
		{"POST", "", "http://localhost.evil.example", 403},
		{"POST", "evil.example", "", 403},
		{"POST", "evil.example", "http://evil.example", 403},
		{"OPTIONS", "", "https://evil.example", 403},
		{"POST", "", "self", 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, endpoint, strings.NewReader(message))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if c.origin == "self" {
			c.origin = strings.TrimSuffix(endpoint, "/mcp")
		}
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if c.host != "" {
			r.Host = c.host
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != c.want {
			t.Errorf("%+v: %s %s", c, res.Status, body)
		}
		if allow := res.Header.Get("Access-Control-Allow-Origin"); allow != "" {
			t.Errorf("%+v: lets in %s", c, allow)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, io.LimitReader(zeros{}, 32<<20))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if res, err := http.DefaultClient.Do(r); err == nil { // or the server has hung up
		if res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("a body of 32 MiB: %s", res.Status)
		}
		_ = res.Body.Close() // it is the status that counts
	}
}

// zeros is as much of nothing as is asked for.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
