package rerank

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func passages(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("passage %d", i)
	}
	return out
}

// serve starts a fake Cohere-shaped service.
func serve(t *testing.T, o Options, h http.HandlerFunc) *HTTP {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	o.Model = "m"
	o.Call.BaseURL = srv.URL
	o.Call.Backoff = time.Millisecond
	r, err := NewHTTP(Cohere, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// results answers with the given scores of the given indices.
func results(indices []int, score func(i int) float64) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		list := []map[string]any{}
		for _, i := range indices {
			list = append(list, map[string]any{"index": i, "relevance_score": score(i)})
		}
		json.NewEncoder(w).Encode(map[string]any{"results": list})
	}
}

func upTo(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

func indices(r []Ranked) (out []int) {
	for _, x := range r {
		out = append(out, x.Index)
	}
	return out
}

// G03: 20 candidates, of which 14, none, or all with one score are answered:
// the scored ones come first, the rest as it was, ties as they were.
func TestG03(t *testing.T) {
	even := func(int) float64 { return .5 }
	rising := func(i int) float64 { return float64(i) / 20 }
	backwards := upTo(20)
	slices.Reverse(backwards)
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		topN   int
		scored int
		want   []int
	}{
		{"14 of 20", results(upTo(14), rising), 0, 14, []int{13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 14, 15, 16, 17, 18, 19}},
		{"some 3, cut at 5", results([]int{9, 19, 4}, rising), 5, 3, []int{19, 9, 4, 0, 1}},
		{"0 of 20", results(nil, rising), 0, 0, upTo(20)},
		{"all equal", results(upTo(20), even), 0, 20, upTo(20)},
		{"all equal, sent backwards", results(backwards, even), 0, 20, upTo(20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := serve(t, Options{}, c.answer)
			for _, p := range []Policy{Fail, Keep} {
				out, err := Apply(context.Background(), r, "q", passages(20), c.topN, p)
				if err != nil || out.Scored != c.scored || !slices.Equal(indices(out.Ranked), c.want) {
					t.Fatalf("got %v (%d scored), %v, want %v", indices(out.Ranked), out.Scored, err, c.want)
				}
				if (out.Flag == FlagSkipped) != (c.scored == 0) {
					t.Errorf("flag %q with %d scored", out.Flag, c.scored)
				}
				for i, x := range out.Ranked {
					if x.Scored != (i < c.scored) {
						t.Errorf("place %d: %+v", i, x)
					}
				}
			}
		})
	}
}

// G03: what breaks the contract is an error, not a crash and not a lost passage.
func TestG03Contract(t *testing.T) {
	half := func(int) float64 { return .5 }
	for name, answer := range map[string]http.HandlerFunc{
		"index twice":         results([]int{1, 2, 1}, half),
		"index out of range":  results([]int{20}, half),
		"index negative":      results([]int{-1}, half),
		"score above 1":       results([]int{1}, func(int) float64 { return 1.5 }),
		"score a logit":       results([]int{1}, func(int) float64 { return -3 }),
		"more than there are": results(append(upTo(20), 3), half),
		"index missing":       text(`{"results":[{"relevance_score":0.5}]}`),
		"score missing":       text(`{"results":[{"index":0}]}`),
		"score null":          text(`{"results":[{"index":0,"relevance_score":null}]}`),
		"score NaN":           text(`{"results":[{"index":0,"relevance_score":NaN}]}`),
		"score too large":     text(`{"results":[{"index":0,"relevance_score":1e999}]}`),
		"score a string":      text(`{"results":[{"index":0,"relevance_score":"0.5"}]}`),
		"index a fraction":    text(`{"results":[{"index":0.5,"relevance_score":0.5}]}`),
	} {
		r := serve(t, Options{}, answer)
		if _, err := Apply(context.Background(), r, "q", passages(20), 0, Fail); !errors.Is(err, call.ErrReply) {
			t.Errorf("%s: %v", name, err)
		}
		out, err := Apply(context.Background(), r, "q", passages(20), 0, Keep)
		if err != nil || out.Flag != FlagSkipped || !errors.Is(out.Err, call.ErrReply) || !slices.Equal(indices(out.Ranked), upTo(20)) {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) }
}

// G05: a reranker that sleeps, fails, cuts the line, or sends nonsense gives
// the first order within the deadline, flagged; in strict mode an error.
func TestG05(t *testing.T) {
	const deadline = 2 * time.Second
	for name, answer := range map[string]http.HandlerFunc{
		"sleeps 30 s": func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // else the server does not notice that the client left
			select {
			case <-r.Context().Done():
			case <-time.After(30 * time.Second):
			}
		},
		"sleeps in the middle": func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, `{"results":[`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"status 500": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) },
		"status 401": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) },
		"429, come back tomorrow": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(429)
		},
		"cuts the line": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"results":[{"index":0,`)
		},
		"hangs up": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Close()
		},
		"bad JSON":                  text(`{"results":[{"index":0,`),
		"HTML":                      text(`<html>`),
		"{}":                        text(`{}`),
		"null":                      text(`null`),
		"results null":              text(`{"results":null}`),
		"nothing":                   text(``),
		"an error, with status 200": text(`{"error":"overloaded"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, Options{}, answer)
			for _, p := range []Policy{Keep, Fail} {
				ctx, cancel := context.WithTimeout(context.Background(), deadline)
				start := time.Now()
				out, err := Apply(ctx, r, "q", passages(20), 5, p)
				took := time.Since(start)
				if ctx.Err() != nil || took >= deadline {
					t.Errorf("no time left: took %v", took)
				}
				cancel()
				if p == Fail {
					if err == nil || !Degradable(err) || out.Ranked != nil {
						t.Errorf("strict: %+v, %v", out, err)
					}
					continue
				}
				if err != nil || out.Flag != FlagSkipped || out.Err == nil || !slices.Equal(indices(out.Ranked), upTo(5)) {
					t.Errorf("keep: %+v, %v", out, err)
				}
			}
		})
	}
}

// Nobody waits for a canceled call's answer, and a wrong call is not a failing
// reranker.
func TestNotDegraded(t *testing.T) {
	r := serve(t, Options{}, results(upTo(20), func(int) float64 { return .5 }))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Apply(ctx, r, "q", passages(20), 0, Keep); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), -time.Second)
	defer cancel()
	if _, err := Apply(ctx, r, "q", passages(20), 0, Keep); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("late: %v", err)
	}
	for _, q := range []string{"", " \n", "\u200b"} {
		if _, err := Apply(context.Background(), r, q, passages(2), 0, Keep); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("query %q: %v", q, err)
		}
	}
	if _, err := Apply(context.Background(), r, "q", passages(2), 0, 9); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("policy: %v", err)
	}
	if out, err := Apply(context.Background(), r, "q", nil, 0, Fail); err != nil || out.Ranked != nil || r.Stats().Requests != 0 {
		t.Errorf("no passages: %+v, %v", out, err)
	}
	if Degradable(nil) {
		t.Error("nil is degradable")
	}
}

// G06 for rerankers: limits of one request are kept, a 413 halves, a 429 is
// repeated, and indices are those of the whole list.
func TestG06Batches(t *testing.T) {
	for _, c := range []struct{ max, limit int }{{7, 100}, {100, 7}} {
		n := 0
		r := serve(t, Options{MaxPassages: c.max, Call: call.Options{Concurrent: 1}}, func(w http.ResponseWriter, req *http.Request) {
			var body struct{ Documents []string }
			json.NewDecoder(req.Body).Decode(&body)
			n++
			switch {
			case len(body.Documents) > c.limit:
				w.WriteHeader(413)
				return
			case n == 2:
				w.WriteHeader(429)
				return
			case slices.ContainsFunc(body.Documents, func(s string) bool { return strings.TrimSpace(s) == "" }):
				t.Errorf("a blank passage was sent")
			}
			var list []map[string]any
			for i, d := range body.Documents {
				var id int
				fmt.Sscanf(d, "passage %d", &id)
				list = append(list, map[string]any{"index": i, "relevance_score": float64(id) / 100})
			}
			json.NewEncoder(w).Encode(map[string]any{"results": list})
		})
		in := passages(30)
		in[3], in[29] = " ", ""
		got, err := r.Rerank(context.Background(), "q", in, 0)
		if err != nil || len(got) != 28 {
			t.Fatalf("%d scored, %v", len(got), err)
		}
		for _, s := range got {
			if s.Score != float64(s.Index)/100 {
				t.Errorf("%+v", s)
			}
		}
		if got[0].Index != 28 || got[27].Index != 0 {
			t.Errorf("first %+v, last %+v", got[0], got[27])
		}
	}
}
