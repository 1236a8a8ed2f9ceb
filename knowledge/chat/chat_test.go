package chat

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// serve makes a client of a fake endpoint.
func serve(t testing.TB, o Options, h http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	o.Call.BaseURL, o.Call.Backoff = srv.URL+"/v1", time.Millisecond
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
}

func TestComplete(t *testing.T) {
	var got map[string]any
	half := .5
	c := serve(t, Options{Model: "by default"}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" || json.NewDecoder(r.Body).Decode(&got) != nil {
			t.Errorf("path %s", r.URL.Path)
		}
		io.WriteString(w, `{"model": "m-1", "usage": {"prompt_tokens": 7, "completion_tokens": 3},
			"choices": [{"finish_reason": "length", "message": {"role": "assistant", "content": "half an ans"}}]}`)
	})
	r, err := c.Complete(context.Background(), Request{Messages: []Message{{"user", "q"}}, Temperature: &half, MaxTokens: 3})
	if want := (Reply{"half an ans", "m-1", "length", 7, 3}); err != nil || r != want {
		t.Errorf("got %+v, %v, want %+v", r, err, want)
	}
	if got["model"] != "by default" || got["temperature"] != .5 || got["max_tokens"] != 3. || got["stream"] != false {
		t.Errorf("request %v", got)
	}
}

// Whatever the endpoint does, the error says which side is at fault.
func TestServiceFails(t *testing.T) {
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want error
	}{
		"late": {func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // else the server does not notice that the client left
			select {
			case <-r.Context().Done():
			case <-time.After(30 * time.Second):
			}
		}, call.ErrUnavailable},
		"500": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) }, call.ErrUnavailable},
		"401": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) }, call.ErrRefused},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"choices":[`)
		}, call.ErrUnavailable},
		"bad JSON":      {says(`{"choices":[`), call.ErrReply},
		"{}":            {says(`{}`), call.ErrReply},
		"another shape": {says(`{"choices":"x"}`), call.ErrReply},
	} {
		t.Run(name, func(t *testing.T) {
			m := serve(t, Options{Model: "m", Call: call.Options{Timeout: 200 * time.Millisecond}}, c.h)
			if _, err := m.Complete(context.Background(), Request{Messages: []Message{{"user", "x"}}}); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestReplyChecked(t *testing.T) {
	for reply, want := range map[string]string{
		`{"choices":[]}`:                                                                       `no "choices"`,
		`{"error":{"message":"overloaded"}}`:                                                   "overloaded",
		`{"choices":[{"message":{}}]}`:                                                         "empty",
		`{"choices":[{"message":{"content":" \u200b"}}]}`:                                      "empty",
		`{"choices":[{"message":{"content":null},"finish_reason":"tool_calls"}]}`:              "tool_calls",
		`{"choices":[{"message":{"content":null,"refusal":"I can not"}}]}`:                     "I can not",
		`{"choices":[{"message":{"content":["x"]}}]}`:                                          "want string",
		`{"choices":[{"message":{"content":"` + strings.Repeat("x", 1+MaxReplyBytes) + `"}}]}`: "at most",
		strings.Repeat(" ", 1+6*MaxReplyBytes):                                                 "more than",
	} {
		c := serve(t, Options{Model: "m"}, says(reply))
		if _, err := c.Complete(context.Background(), Request{}); !errors.Is(err, call.ErrReply) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v", reply, err)
		}
	}
}

// What is wrong before a request goes out sends none.
func TestConfiguration(t *testing.T) {
	asked := false
	c := serve(t, Options{}, func(http.ResponseWriter, *http.Request) { asked = true })
	if _, err := c.Complete(context.Background(), Request{}); !errors.Is(err, storage.ErrInvalid) || asked {
		t.Errorf("no model: %v", err)
	}
	if _, err := New(Options{Model: "m"}); !errors.Is(err, ErrNotConfigured) {
		t.Error(err)
	}
	if _, err := (*Client)(nil).Complete(context.Background(), Request{}); !errors.Is(err, ErrNotConfigured) {
		t.Error(err)
	}
	for _, o := range []call.Options{
		{BaseURL: "https://127.0.0.1", KeyFile: "key"},
		{BaseURL: "https://127.0.0.1", KeyEnv: "QUARRY_TEST_NO_SUCH_KEY"},
	} {
		if _, err := New(Options{Call: o}); !errors.Is(err, storage.ErrInvalid) {
			t.Error(err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"choices":[{"message":{"content":"x"}}]}`, `{"choices":[]}`, `{"error":"x"}`, `{}`, `[`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(data)
		if (err == nil) == (r.Text == "") || err != nil && !errors.Is(err, call.ErrReply) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
