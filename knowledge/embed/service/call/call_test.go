package call

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/storage"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server and a client of it that does not really sleep; slept
// adds up what it was told to.
func serve(t *testing.T, o Options, h http.HandlerFunc) (c *Client, slept *atomic.Int64) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	slept = new(atomic.Int64)
	if o.BaseURL == "" {
		o.BaseURL = srv.URL + "/v1/"
	}
	if o.Sleep == nil {
		o.Sleep = func(ctx context.Context, d time.Duration) error {
			slept.Add(int64(d))
			return ctx.Err()
		}
	}
	c, err := New("fake", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, slept
}

func post(c *Client) ([]byte, error) {
	return c.Post(context.Background(), "/x", []byte(`{"a":1}`), 1<<10)
}

func TestPost(t *testing.T) {
	t.Setenv("QUARRY_TEST_KEY", " sk-test-1 \n")
	c, _ := serve(t, Options{KeyEnv: "QUARRY_TEST_KEY"}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.URL.Path, body, r.Header.Get("Authorization"), r.Header.Get("Content-Type"))
		if !strings.HasPrefix(r.Header.Get("User-Agent"), "quarry/") {
			t.Errorf("User-Agent %q", r.Header.Get("User-Agent"))
		}
	})
	got, err := post(c)
	if want := `POST /v1/x {"a":1} Bearer sk-test-1 application/json`; err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// What is repeated, and what it is called in the end.
func TestClasses(t *testing.T) {
	for _, c := range []struct {
		status, tries int
		class         error
	}{
		{400, 1, ErrRefused}, {401, 1, ErrRefused}, {404, 1, ErrRefused}, {413, 1, storage.ErrTooLarge}, {422, 1, ErrRefused},
		{408, 3, ErrUnavailable}, {425, 3, ErrUnavailable}, {429, 3, ErrRateLimited}, {429, 3, ErrUnavailable},
		{500, 3, ErrUnavailable}, {501, 1, ErrRefused}, {502, 3, ErrUnavailable}, {503, 3, ErrUnavailable}, {529, 3, ErrUnavailable},
	} {
		client, _ := serve(t, Options{Tries: 3}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) })
		_, err := post(client)
		var e *Error
		if !errors.As(err, &e) || e.Tries != c.tries || e.Status != c.status || !errors.Is(err, c.class) {
			t.Errorf("status %d: %v (%d tries), want %d tries and %v", c.status, err, e.Tries, c.tries, c.class)
		}
		if got := client.Stats(); got != (Stats{int64(c.tries), int64(c.tries - 1)}) {
			t.Errorf("status %d: %+v", c.status, got)
		}
	}
}

func TestRecovers(t *testing.T) {
	n := 0
	c, _ := serve(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		n++
		switch n {
		case 1:
			w.WriteHeader(503)
		case 2: // the line is cut in the middle of the reply
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "half")
		case 3: // and before it
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Close()
		default:
			io.WriteString(w, "ok")
		}
	})
	if got, err := post(c); string(got) != "ok" || err != nil || n != 4 {
		t.Errorf("got %q, %v after %d tries", got, err, n)
	}
}

func TestWaitsAsTold(t *testing.T) {
	for _, c := range []struct {
		header, value string
		least         time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", time.Now().Add(9 * time.Second).UTC().Format(http.TimeFormat), 7 * time.Second},
		{"Retry-After-Ms", "1500", 1500 * time.Millisecond},
		{"Retry-After", "soon", 250 * time.Millisecond}, // falls back to Backoff
		{"Retry-After", "-5", 250 * time.Millisecond},
	} {
		n := 0
		client, slept := serve(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
			if n++; n == 1 {
				w.Header().Set(c.header, c.value)
				w.WriteHeader(429)
			}
		})
		_, err := client.Post(context.Background(), "/x", nil, 10)
		got := time.Duration(slept.Load())
		if err != nil || got < c.least || got > 3*c.least {
			t.Errorf("%s: %s: slept %v, %v, want at least %v", c.header, c.value, got, err, c.least)
		}
	}
}

func TestRetryAfterFunction(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "2": 2 * time.Second, "0.5": 500 * time.Millisecond, "NaN": 0, "1e300": 365 * 24 * time.Hour,
		"Mon, 30 Nov 2026 12:00:30 GMT": 30 * time.Second, "Mon, 30 Nov 2026 11:00:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
}

// A wait that cannot end in time is not begun.
func TestNoHopelessWait(t *testing.T) {
	limited := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(429)
	}
	c, slept := serve(t, Options{}, limited)
	if _, err := post(c); !errors.Is(err, ErrRateLimited) || !strings.Contains(err.Error(), "more than the 1m0s allowed") || slept.Load() != 0 {
		t.Errorf("MaxWait: %v, slept %v", err, slept.Load())
	}
	c, slept = serve(t, Options{MaxWait: time.Hour}, limited)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := c.Post(ctx, "/x", nil, 10); !errors.Is(err, ErrRateLimited) || !strings.Contains(err.Error(), "after the deadline") || slept.Load() != 0 {
		t.Errorf("deadline: %v, slept %v", err, slept.Load())
	}
}

func TestBackoffRepeats(t *testing.T) {
	waits := func(seed uint64) (out []time.Duration) {
		c, _ := serve(t, Options{Seed: seed, Tries: 6}, nil)
		for try := 1; try < 6; try++ {
			d := c.backoff(try, 0)
			full := 500 * time.Millisecond << (try - 1)
			if d < full/2 || d > full {
				t.Errorf("try %d waits %v, want %v to %v", try, d, full/2, full)
			}
			out = append(out, d)
		}
		return out
	}
	a, b, other := fmt.Sprint(waits(1)), fmt.Sprint(waits(1)), fmt.Sprint(waits(2))
	if a != b || a == other {
		t.Errorf("seed 1: %s and %s; seed 2: %s", a, b, other)
	}
}

func TestTimeoutAndCancel(t *testing.T) {
	slow := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
		}
	}
	c, _ := serve(t, Options{Timeout: 30 * time.Millisecond, Tries: 2}, slow)
	if _, err := post(c); !errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "after 2 tries: no answer within 30ms") {
		t.Errorf("timeout of a try: %v", err)
	}
	c, _ = serve(t, Options{}, slow)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := c.Post(ctx, "/x", nil, 10); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable) || time.Since(start) > 2*time.Second {
		t.Errorf("deadline: %v", err)
	}
	c, _ = serve(t, Options{Backoff: time.Hour, MaxWait: 2 * time.Hour, Sleep: sleep}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	cctx, stop := context.WithCancel(context.Background())
	time.AfterFunc(30*time.Millisecond, stop)
	if _, err := c.Post(cctx, "/x", nil, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("cancel while waiting: %v", err)
	}
}

func TestNobodyThere(t *testing.T) {
	srv := httptest.NewServer(nil)
	url := srv.URL
	srv.Close()
	c, _ := serve(t, Options{BaseURL: url, Tries: 2}, nil)
	_, err := post(c)
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
}

func TestReplyLimit(t *testing.T) {
	c, _ := serve(t, Options{}, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("x", 1<<20)) })
	if _, err := post(c); !errors.Is(err, ErrReply) || !strings.Contains(err.Error(), "more than 1024 bytes") {
		t.Errorf("got %v", err)
	}
	c, _ = serve(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(400)
		io.WriteString(w, strings.Repeat("x\n\x07", 1<<20))
	})
	_, err := post(c)
	if len(err.Error()) > 700 || strings.ContainsAny(err.Error(), "\n\x07") {
		t.Errorf("%d bytes: %q", len(err.Error()), err)
	}
}

// No error, and nothing that prints a client, shows the key.
func TestSecret(t *testing.T) {
	const key = `sk-very"secret&0123456789`
	t.Setenv("QUARRY_TEST_KEY", key)
	bodies := []string{
		`{"error":"bad key ` + key + `"}`, `{"error":"bad key sk-very\"secret&0123456789"}`, "key=sk-very%22secret%260123456789",
		strings.Repeat(" ", errorBodyBytes-10) + key, // cut in two by the bound
	}
	n := 0
	c, _ := serve(t, Options{KeyEnv: "QUARRY_TEST_KEY"}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			t.Errorf("authorization %q", r.Header.Get("Authorization"))
		}
		w.WriteHeader(401)
		io.WriteString(w, bodies[n])
		n++
	})
	for range bodies {
		_, err := post(c)
		if !errors.Is(err, ErrRefused) {
			t.Fatal(err)
		}
		for _, part := range []string{"very", "0123"} {
			if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), part) {
				t.Errorf("an error shows the key: %v", err)
			}
		}
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", c, c, c), "very") {
		t.Error("a printed client shows the key")
	}
}

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func TestSecretInTransportError(t *testing.T) {
	t.Setenv("QUARRY_TEST_KEY", "sk-very-secret")
	c, _ := serve(t, Options{KeyEnv: "QUARRY_TEST_KEY", Transport: failing{errors.New("proxy says: sk-very-secret")}}, nil)
	if _, err := post(c); !strings.Contains(err.Error(), "[secret]") || strings.Contains(err.Error(), "very") {
		t.Errorf("got %v", err)
	}
}

func TestKeySources(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	t.Setenv("QUARRY_TEST_KEY", "k")
	t.Setenv("QUARRY_TEST_BLANK", " ")
	for _, c := range []struct {
		o    Options
		want string // of the error; "" for none
	}{
		{Options{KeyFile: file("good", "sk-1\r\n")}, ""},
		{Options{KeyFile: file("two", "sk-1\nsk-2\n")}, "no API key has, at 4"},
		{Options{KeyFile: file("empty", "")}, "holds no API key"},
		{Options{KeyFile: file("long", strings.Repeat("k", 5000))}, "more than 4096 bytes"},
		{Options{KeyFile: filepath.Join(dir, "absent")}, "key file"},
		{Options{KeyEnv: "QUARRY_TEST_KEY"}, ""},
		{Options{KeyEnv: "QUARRY_TEST_BLANK"}, "QUARRY_TEST_BLANK holds no API key"},
		{Options{KeyEnv: "QUARRY_TEST_UNSET"}, "holds no API key"},
		{Options{KeyEnv: "QUARRY_TEST_KEY", KeyFile: "x"}, "both set"},
		{Options{Tries: -1}, "Tries"}, {Options{Concurrent: 5000}, "Concurrent"}, {Options{Timeout: -1}, "negative"},
	} {
		c.o.BaseURL = "https://example.com"
		_, err := New("fake", c.o)
		if c.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.o, err)
			}
		} else if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "sk-") {
			t.Errorf("%+v: got %v, want %q", c.o, err, c.want)
		}
	}
}

func TestBaseURL(t *testing.T) {
	t.Setenv("QUARRY_TEST_KEY", "k")
	for _, c := range []struct{ url, want string }{
		{"https://example.com/v1", ""}, {"http://localhost:1/", ""}, {"http://127.0.0.1:1", ""}, {"http://[::1]:1", ""},
		{"http://example.com", "clear text"}, {"ftp://example.com", "http://"}, {"example.com/v1", "http://"}, {"", "http://"},
		{"https://", "no host"}, {"https://:80", "no host"}, {"https://me:pw@example.com", "user or password"},
		{"https://example.com?key=pw", "a query"}, {"https://example.com#pw", "fragment"}, {"https://exa mple.com/pw", "parse"},
	} {
		_, err := New("fake", Options{BaseURL: c.url, KeyEnv: "QUARRY_TEST_KEY"})
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "pw")) {
			t.Errorf("%q: got %v, want %q", c.url, err, c.want)
		}
	}
	if _, err := New("fake", Options{BaseURL: "http://example.com", KeyEnv: "QUARRY_TEST_KEY", PlainKey: true}); err != nil {
		t.Error(err)
	}
}

func TestRedirects(t *testing.T) {
	t.Setenv("QUARRY_TEST_KEY", "sk-1")
	var stolen atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Store(true) }))
	defer other.Close()
	for _, c := range []struct {
		status int
		to     string
		want   string
	}{
		{307, other.URL, "another host"}, {302, other.URL, "another host"}, {302, "/v1/ok", "into a GET"}, {303, "/v1/ok", "into a GET"},
		{307, "/v1/ok", ""}, {308, "/v1/ok", ""}, {307, "/v1/x", "more than 3"},
	} {
		client, _ := serve(t, Options{KeyEnv: "QUARRY_TEST_KEY"}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/ok" {
				body, _ := io.ReadAll(r.Body)
				fmt.Fprintf(w, "%s %s %s", r.Method, body, r.Header.Get("Authorization"))
				return
			}
			http.Redirect(w, r, c.to, c.status)
		})
		got, err := post(client)
		if c.want == "" {
			if string(got) != `POST {"a":1} Bearer sk-1` || err != nil {
				t.Errorf("%d to %s: %q, %v", c.status, c.to, got, err)
			}
		} else if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want) || client.Stats().Retries != 0 {
			t.Errorf("%d to %s: %v, want %q", c.status, c.to, err, c.want)
		}
	}
	if stolen.Load() {
		t.Error("another host was called")
	}
}

func TestCertificate(t *testing.T) {
	srv := httptest.NewUnstartedServer(nil)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.StartTLS()
	defer srv.Close()
	c, _ := serve(t, Options{BaseURL: srv.URL}, nil)
	if _, err := post(c); !errors.Is(err, ErrRefused) || c.Stats().Requests != 1 {
		t.Errorf("an unknown certificate: %v", err)
	}
	c, _ = serve(t, Options{BaseURL: srv.URL, Transport: srv.Client().Transport}, nil)
	if _, err := post(c); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a known one: %v", err)
	}
	srv.Client().CloseIdleConnections()
}

func TestDecode(t *testing.T) {
	for data, want := range map[string]string{
		`{"index":1}`:          "",
		`{"index":1.5}`:        "field index holds a JSON number 1.5 at byte 12, want int",
		`{"index":"1"}`:        "field index holds a JSON string",
		`[]`:                   "the reply holds a JSON array",
		`{"index":1} x`:        "no JSON at byte 13 of 13",
		"<html>\n<b>Bad</b>":   `it begins "<html> <b>Bad</b>"`,
		``:                     "no JSON at byte 0",
		`{"index":1`:           "unexpected end",
		`{"index":1e999}`:      "field index",
		"{\"index\":\x00\xff}": "no JSON",
	} {
		var v struct {
			Index int `json:"index"`
		}
		err := Decode("fake", []byte(data), &v)
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrReply) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", data, err, want)
		}
	}
}
