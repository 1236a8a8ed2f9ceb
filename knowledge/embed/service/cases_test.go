package service

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// G01: items out of order carry their index; without an index position counts,
// but only if no item has one.
func TestG01(t *testing.T) {
	in := texts(5)
	reversed := func(texts []string, index bool) map[string]any {
		r := dataReply(texts, index)
		slices.Reverse(r["data"].([]dataItem))
		return r
	}
	intp := func(i int) *int { return &i }
	change := func(f func([]dataItem) []dataItem) func([]string) any {
		return func(texts []string) any {
			r := reversed(texts, true)
			r["data"] = f(r["data"].([]dataItem))
			return r
		}
	}
	for _, c := range []struct {
		name  string
		reply func([]string) any
		want  string // of the error
	}{
		{"reversed, with index", func(x []string) any { return reversed(x, true) }, ""},
		{"in order, without index", func(x []string) any { return dataReply(x, false) }, ""},
		{"first without index", change(func(d []dataItem) []dataItem { d[0].Index = nil; return d }), "order is not known"},
		{"last without index", change(func(d []dataItem) []dataItem { d[4].Index = nil; return d }), "order is not known"},
		{"index twice", change(func(d []dataItem) []dataItem { d[1].Index = intp(4); return d }), "index 4 comes twice"},
		{"index negative", change(func(d []dataItem) []dataItem { d[1].Index = intp(-1); return d }), "index -1, want 0 to 4"},
		{"index too large", change(func(d []dataItem) []dataItem { d[1].Index = intp(5); return d }), "index 5, want 0 to 4"},
		{"one missing", change(func(d []dataItem) []dataItem { return d[1:] }), "4 embeddings for 5 texts"},
		{"one too many", change(func(d []dataItem) []dataItem { return append(d, d[0]) }), "6 embeddings for 5 texts"},
		{"no embedding", func([]string) any { return `{"data":[{"index":0},{},{},{},{}]}` }, `item 0 has no "embedding"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t)
			s.reply = c.reply
			sv, _ := open(t, s, Options{})
			r, err := sv.Embed(context.Background(), embed.Passage, in)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				checkVectors(t, r.Vectors, in)
				return
			}
			if !errors.Is(err, call.ErrReply) || !strings.Contains(err.Error(), c.want) || r.Vectors != nil {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// limits answers as G06's server: at most 20 texts and 64 KiB, each third call
// 429 with Retry-After 1.
func (s *server) limits(t *testing.T) {
	s.before = func(n int, w http.ResponseWriter, body []byte, texts []string) bool {
		switch {
		case len(texts) > 20 || len(body) > 64<<10:
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		case n%3 == 0:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			return false
		}
		return true
	}
}

func g06Texts() []string {
	in := texts(473)
	for i := 5; i < len(in); i += 50 {
		in[i] += strings.Repeat("x", 40<<10)
	}
	return in
}

// G06: each text is embedded once, only the failed batch repeats, and waits are
// as told.
func TestG06(t *testing.T) {
	in := g06Texts()
	for name, o := range map[string]Options{
		"limits known":   {MaxTexts: 20, MaxBytes: 64 << 10},
		"limits unknown": {}, // halves on 413
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.limits(t)
			o.Call.Concurrent = 3
			o.Call.Tries = 20 // with three at once, one batch may meet several third calls
			sv, slept := open(t, s, o)
			r, err := sv.Embed(context.Background(), embed.Passage, in)
			if err != nil {
				t.Fatal(err)
			}
			checkVectors(t, r.Vectors, in)
			for _, text := range in {
				if s.embedded[text] != 1 {
					t.Fatalf("%.20q was embedded %d times", text, s.embedded[text])
				}
			}
			if s.most > 3 {
				t.Errorf("%d requests open at once, want at most 3", s.most)
			}
			if len(slept()) == 0 || slices.Max(slept()) < time.Second {
				t.Errorf("slept %v, want Retry-After's second", slept())
			}
			if st := sv.Stats(); int(st.Requests) != s.requests || st.Retries == 0 {
				t.Errorf("stats %+v, the server counts %d requests", st, s.requests)
			}
			t.Logf("%d requests, %d waits", s.requests, len(slept()))
		})
	}
}

// G06, with the real clock: a second is a second.
func TestG06RealWait(t *testing.T) {
	s := newServer(t)
	s.before = func(n int, w http.ResponseWriter, _ []byte, _ []string) bool {
		if n == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(429)
		}
		return n == 1
	}
	sv, err := New(OpenAI, Options{Model: "m", Call: call.Options{BaseURL: s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer sv.Close()
	start := time.Now()
	if _, err := sv.Embed(context.Background(), embed.Query, texts(1)); err != nil || time.Since(start) < time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

// G06: it stops after the documented tries, and on cancel.
func TestG06Stops(t *testing.T) {
	s := newServer(t)
	s.before = func(_ int, w http.ResponseWriter, _ []byte, _ []string) bool {
		w.WriteHeader(429)
		return true
	}
	sv, slept := open(t, s, Options{MaxTexts: 10, Call: call.Options{Concurrent: 1}})
	_, err := sv.Embed(context.Background(), embed.Passage, texts(30))
	if !errors.Is(err, call.ErrRateLimited) || s.requests != 5 || len(slept()) != 4 {
		t.Errorf("%v after %d requests and %d waits, want 5 and 4", err, s.requests, len(slept()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	o := call.Options{Backoff: time.Hour, MaxWait: time.Hour, Sleep: func(ctx context.Context, _ time.Duration) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	sv, _ = open(t, s, Options{MaxTexts: 1, Call: o})
	if _, err := sv.Embed(ctx, embed.Passage, texts(30)); !errors.Is(err, context.Canceled) {
		t.Errorf("on cancel: %v", err)
	}
}

// G06: one bad batch fails the call with its own error, and the others are not
// waited for.
func TestFirstErrorWins(t *testing.T) {
	s := newServer(t)
	s.before = func(_ int, w http.ResponseWriter, _ []byte, texts []string) bool {
		if slices.Contains(texts, "text 7") {
			http.Error(w, "no such thing", 400)
			return true
		}
		time.Sleep(5 * time.Millisecond)
		return false
	}
	sv, _ := open(t, s, Options{MaxTexts: 1, Call: call.Options{Concurrent: 4}})
	_, err := sv.Embed(context.Background(), embed.Passage, texts(200))
	var te *TextError
	if !errors.As(err, &te) || te.Index != 7 || !errors.Is(err, call.ErrRefused) || s.requests > 30 {
		t.Errorf("%v after %d requests", err, s.requests)
	}
}

// G08: blank texts never reach the provider, and the error names them; a long
// one is an error or a cut that is told.
func TestG08(t *testing.T) {
	s := newServer(t)
	sv, _ := open(t, s, Options{})
	for _, blank := range []string{"", " ", "\u3000\n", "\u200b\u200d\ufeff\u2060", "\t\r\n\v\f", "\u00a0\u2028", "\ufe0f", "\x00"} {
		for _, kind := range []embed.Kind{embed.Query, embed.Passage} {
			_, err := sv.Embed(context.Background(), kind, []string{"a", "b", blank, "c"})
			var te *TextError
			if !errors.As(err, &te) || te.Index != 2 || !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "text 2") {
				t.Errorf("%q: %v", blank, err)
			}
		}
	}
	if s.requests != 0 {
		t.Errorf("%d requests for blank texts", s.requests)
	}
	for _, text := range []string{".", "\u200bx", "日", "\u0301", "🙂"} {
		if IsBlank(text) {
			t.Errorf("%q is not blank", text)
		}
	}

	// The service refuses what is too long: its error comes through.
	long := strings.Repeat("word ", 600)
	s.before = func(_ int, w http.ResponseWriter, _ []byte, texts []string) bool {
		for _, t := range texts {
			if len(t) > 2000 {
				http.Error(w, `{"error":"maximum context length is 512 tokens"}`, 400)
				return true
			}
		}
		return false
	}
	if _, err := sv.Embed(context.Background(), embed.Passage, []string{long + "a", long + "b"}); !errors.Is(err, call.ErrRefused) || !strings.Contains(err.Error(), "512 tokens") {
		t.Errorf("too long: %v", err)
	}
	// Or they are cut here, and the Result says so.
	sv, _ = open(t, s, Options{MaxTextBytes: 2000})
	in := []string{"short", long + "a", long + "b", strings.Repeat("日", 700)}
	r, err := sv.Embed(context.Background(), embed.Passage, in)
	if err != nil || !slices.Equal(r.Truncated, []int{1, 2, 3}) {
		t.Fatalf("cut: %v, %v", r.Truncated, err)
	}
	checkVectors(t, r.Vectors, []string{"short", long[:2000], long[:2000], strings.Repeat("日", 666)})
	if in[1] != long+"a" {
		t.Error("the caller's list was changed")
	}
	if _, err := sv.Embed(context.Background(), embed.Passage, []string{strings.Repeat(" ", 2000) + "a"}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("blank after the cut: %v", err)
	}
	// What does not fit into a request is named, and nothing is sent.
	before := s.requests
	sv, _ = open(t, s, Options{MaxBytes: 1000})
	_, err = sv.Embed(context.Background(), embed.Passage, []string{"a", strings.Repeat("\"", 500)})
	var te *TextError
	if !errors.As(err, &te) || te.Index != 1 || !errors.Is(err, storage.ErrTooLarge) || s.requests != before {
		t.Errorf("too large: %v", err)
	}
}
