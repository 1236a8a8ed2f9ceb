package serve

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
)

// dripping gives a byte of a text at a time.
type dripping struct {
	text  string
	every time.Duration
}

func (d *dripping) Read(p []byte) (int, error) {
	if d.text == "" {
		return 0, io.EOF
	}
	time.Sleep(d.every)
	p[0], d.text = d.text[0], d.text[1:]
	return 1, nil
}

func TestH01Defaults(t *testing.T) {
	var c Config
	c.defaults()
	if c.HeaderTimeout < 10*time.Second || c.HeaderTimeout > 30*time.Second || c.RestTimeout != 30*time.Second || c.MinFlow < 1<<10 {
		t.Errorf("%+v", c)
	}
}

func TestH01SlowHeaders(t *testing.T) {
	r := start(t, &Config{HeaderTimeout: 300 * time.Millisecond})
	r.notes()
	begun := time.Now()
	var wg sync.WaitGroup
	closed := make(chan time.Duration, 200)
	for range cap(closed) {
		c := r.raw("G")
		wg.Go(func() {
			defer c.Close()
			for range 1000 {
				_, err := c.Write([]byte("E"))
				if err == nil {
					err = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
				}
				if err == nil {
					_, err = io.ReadFull(c, make([]byte, 1024)) // a line that says 408, or nothing
				}
				if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					closed <- time.Since(begun)
					return
				}
			}
		})
	}
	for range 10 { // others are served meanwhile
		r.ok("POST", "/v1/collections/notes/search", `{"query":"granite"}`)
	}
	wg.Wait()
	if n := len(closed); n != cap(closed) {
		t.Errorf("%d of %d slow connections were closed", n, cap(closed))
	}
	for range len(closed) {
		if d := <-closed; d < 250*time.Millisecond {
			t.Error("closed after", d)
		}
	}
}

func TestH01SlowBody(t *testing.T) {
	r := start(t, &Config{RestTimeout: 200 * time.Millisecond, RequestTimeout: time.Minute})
	r.notes()
	for path, media := range map[string]string{"/v1/collections/notes/documents": "application/json", "/v1/collections/notes/bulk": "application/x-ndjson"} {
		method := "PUT"
		if strings.HasSuffix(path, "bulk") {
			method = "POST"
		}
		a := r.do(method, path, &dripping{`{"documents":[{"id":"slow","text":{"text":"` + strings.Repeat("x", 1000), 10 * time.Millisecond}, "Content-Type", media)
		if p := a.problem(t); p.Status != 408 || p.Code != httpapi.CodeSlow {
			t.Errorf("%s: a body that trickles: %+v", path, p)
		}
		// One that stands still.
		c := r.raw(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n{", method, path, media))
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 408 {
			t.Errorf("%s: a body that stands still: %d", path, res.StatusCode)
		}
		_ = res.Body.Close()
	}
	if a := r.do("GET", "/v1/collections/notes/documents/slow", nil); a.status != 404 {
		t.Error("a slow body was stored:", a)
	}
}

// TestH01RequestTimeout bounds a body that flows, but has no end in sight.
func TestH01RequestTimeout(t *testing.T) {
	r := start(t, &Config{RequestTimeout: 300 * time.Millisecond, MinFlow: 1})
	r.notes()
	a := r.do("PUT", "/v1/collections/notes/documents", &dripping{`{"documents":[{"id":"slow","text":{"text":"` + strings.Repeat("x", 1000), 5 * time.Millisecond}, "Content-Type", "application/json")
	if p := a.problem(t); p.Status != 408 || p.Code != httpapi.CodeSlow {
		t.Error(p)
	}
}

// TestH01AnswersNobodyWaitsFor holds that a client that refuses to send what it
// announced keeps no request open: net/http reads it before it answers.
func TestH01AnswersNobodyWaitsFor(t *testing.T) {
	r := start(t, &Config{RestTimeout: 300 * time.Millisecond})
	c := r.raw("POST /v1/none HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
	if err := c.SetReadDeadline(time.Now().Add(leftover)); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 404 {
		t.Error(res.StatusCode)
	}
	_ = res.Body.Close()
}

func TestH01StreamsAreNotCut(t *testing.T) {
	t.Parallel() // it waits
	stream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 25 {
			fmt.Fprintln(w, "event")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(100 * time.Millisecond)
		}
	})
	r := start(t, &Config{RequestTimeout: time.Second, RestTimeout: 2 * time.Second, MinFlow: 10,
		Mounts: []httpapi.Route{{Method: "GET", Pattern: "/events", Access: httpapi.Read, Stream: true, Handler: stream}}})
	r.notes()
	// A long import that flows, and one answer at its end.
	in, out := io.Pipe()
	go func() {
		for i := range 25 {
			fmt.Fprintf(out, `{"id":"s%d","text":{"text":"stream"}}`+"\n", i)
			time.Sleep(100 * time.Millisecond)
		}
		_ = out.Close()
	}()
	events := make(chan answer, 1)
	go func() { events <- r.do("GET", "/events", nil) }() // a long answer that flows
	a := r.ok("POST", "/v1/collections/notes/bulk", in)
	if !strings.Contains(a.body, `"documents":25,`) {
		t.Error(a.body)
	}
	if a := <-events; strings.Count(a.body, "event") != 25 {
		t.Error(a.body)
	}
}

func TestH01ClientThatDoesNotRead(t *testing.T) {
	ended := make(chan error, 1)
	r := start(t, &Config{RestTimeout: 300 * time.Millisecond, Mounts: []httpapi.Route{{Method: "GET", Pattern: "/much", Access: httpapi.Read, Stream: true,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			block := make([]byte, 1<<20)
			for {
				if _, err := w.Write(block); err != nil {
					ended <- err
					return
				}
			}
		})}}})
	r.raw("GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a client that does not read is waited for")
	}
}

// allocated is how much f allocates, in bytes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestH02HugeBodies(t *testing.T) {
	const limit = 1 << 20
	r := start(t, &Config{API: httpapi.Options{MaxBody: limit, MaxBulk: limit, MaxFile: limit, MaxUpload: limit, MaxArchive: limit}})
	r.notes()
	r.ok("POST", "/v1/knowledge-bases", `{"id":"kb"}`)
	for _, c := range []struct{ method, path, media, begin string }{
		{"PUT", "/v1/collections/notes/documents/big", "application/json", `{"text":{"text":"`},
		{"POST", "/v1/collections/notes/search", "application/json", `{"query":"`},
		{"POST", "/v1/collections/notes/bulk", "application/x-ndjson", `{"id":"big","text":{"text":"`},
		{"PUT", "/v1/knowledge-bases/kb/documents/big.txt", "text/plain", ""},
		{"POST", "/v1/knowledge-bases/kb/documents", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"big.txt\"\r\n\r\n"},
	} {
		head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n", c.method, c.path, c.media)
		for name, send := range map[string]func(net.Conn) error{
			"says 10 GB and sends nothing": func(n net.Conn) error {
				_, err := io.WriteString(n, head+"Content-Length: 10000000000\r\n\r\n")
				return err
			},
			"sends a byte more": func(n net.Conn) error {
				_, err := io.WriteString(n, head+fmt.Sprintf("Content-Length: %d\r\n\r\n", limit+1)+c.begin+strings.Repeat("x", limit+1-len(c.begin)))
				return err
			},
			"sends without end": func(n net.Conn) error {
				if _, err := io.WriteString(n, head+"Transfer-Encoding: chunked\r\n\r\n"+fmt.Sprintf("%x\r\n%s\r\n", len(c.begin)+1, c.begin+"x")); err != nil {
					return err
				}
				chunk := fmt.Sprintf("%x\r\n%s\r\n", 1<<16, strings.Repeat("x", 1<<16))
				for {
					if _, err := io.WriteString(n, chunk); err != nil {
						return err
					}
				}
			},
			"waits for 100": func(n net.Conn) error {
				_, err := io.WriteString(n, head+"Expect: 100-continue\r\nContent-Length: 10000000000\r\n\r\n")
				return err
			},
		} {
			begun := time.Now()
			var a answer
			used := allocated(func() {
				n := r.raw("")
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					_ = send(n) // the server closes the connection
				}()
				res, err := http.ReadResponse(bufio.NewReader(n), nil)
				if err != nil {
					t.Fatalf("%s, %s: %v", c.path, name, err)
				}
				b, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatalf("%s, %s: %v", c.path, name, err)
				}
				a = answer{res.StatusCode, res.Header, string(b)}
				_ = n.Close()
				<-sent
			})
			if p := a.problem(t); p.Status != 413 || p.Code != httpapi.CodeTooLarge || p.Limit != limit || !strings.Contains(p.Detail, "1 MiB") {
				t.Errorf("%s, %s: %+v", c.path, name, p)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("%s, %s: answered after %v", c.path, name, took)
			}
			if used > 32*limit {
				t.Errorf("%s, %s: %d bytes were allocated", c.path, name, used)
			}
		}
	}
	if a := r.ok("GET", "/v1/collections/notes/stats", nil); !strings.Contains(a.body, `"documents":2,`) {
		t.Error("stored in part:", a.body)
	}
	if a := r.ok("GET", "/v1/knowledge-bases/kb/documents", nil); !strings.Contains(a.body, `"documents":[]`) {
		t.Error("stored in part:", a.body)
	}
}

func TestH02OneHugeDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("sends 50 MB twice")
	}
	r := start(t, nil)
	r.notes()
	huge := `{"id":"huge","text":{"text":"` + strings.Repeat("word ", 10<<20) + `"}}`
	a := r.do("PUT", "/v1/collections/notes/documents", io.NopCloser(strings.NewReader(`{"documents":[`+huge+`]}`)), "Content-Type", "application/json")
	if p := a.problem(t); p.Status != 413 || p.Limit != 32<<20 {
		t.Error(p)
	}
	a = r.do("POST", "/v1/collections/notes/bulk", strings.NewReader(`{"id":"c","text":{"text":"x"}}`+"\n"+huge), "Content-Type", "application/x-ndjson")
	if p := a.problem(t); p.Status != 413 || p.Limit != 32<<20 || p.Durable == nil || p.Durable.Documents != 0 {
		t.Error(p)
	}
	if a := r.ok("GET", "/v1/collections/notes/stats", nil); !strings.Contains(a.body, `"documents":2,`) {
		t.Error("stored in part:", a.body)
	}
}

func TestBadJSON(t *testing.T) {
	r := start(t, nil)
	r.notes()
	for _, body := range []string{"", "{", `{"query":`, `{"query":"x"}}`, "\xff\xfe", `{"query":"\ud800"}`, "null", "[]", `"x"`, "NaN", strings.Repeat("[", 10_000), strings.Repeat(`{"a":`, 10_000), `{"query":"x","query":"y"}`, `{"filter":` + strings.Repeat(`{"not":`, 100) + `{}` + strings.Repeat("}", 101)} {
		if p := r.do("POST", "/v1/collections/notes/search", body).problem(t); p.Status != 400 || p.Code != httpapi.CodeInvalid || p.Detail == "" {
			t.Errorf("%.40q: %+v", body, p)
		}
	}
	if p := r.do("POST", "/v1/collections/notes/search", bytes.NewReader([]byte(`{"query":"x"}`)), "Content-Type", "").problem(t); p.Status != 415 {
		t.Error(p)
	}
}

// TestImportCutOff breaks the connection of an import: what was durable stays,
// the rest is not there, and the collection works on.
func TestImportCutOff(t *testing.T) {
	r := start(t, nil)
	r.notes()
	c := r.raw("POST /v1/collections/notes/bulk HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
	const batch = 1000
	for i := range 2*batch + 10 {
		line := fmt.Sprintf(`{"id":"i%d","text":{"text":"imported"}}`+"\n", i)
		if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", len(line), line); err != nil {
			t.Fatal(err)
		}
	}
	var stats struct{ Documents int }
	for range 500 {
		if err := json.Unmarshal([]byte(r.ok("GET", "/v1/collections/notes/stats", nil).body), &stats); err != nil {
			t.Fatal(err)
		}
		if stats.Documents >= 2*batch+2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = c.Close()
	r.ok("PUT", "/v1/collections/notes/documents/after", `{"text":{"text":"after"}}`)
	if err := json.Unmarshal([]byte(r.ok("GET", "/v1/collections/notes/stats", nil).body), &stats); err != nil || stats.Documents != 2*batch+3 {
		t.Errorf("%d documents, want the two whole batches and three more", stats.Documents)
	}
	dir := r.s.c.Data
	r.stop()
	r = start(t, &Config{Data: dir})
	r.ok("GET", fmt.Sprintf("/v1/collections/notes/documents/i%d", 2*batch-1), nil)
	if a := r.do("GET", fmt.Sprintf("/v1/collections/notes/documents/i%d", 2*batch), nil); a.status != 404 {
		t.Error(a)
	}
}
