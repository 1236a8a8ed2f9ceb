package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// A fake is a node that knows one class and answers as its handler says.
type fake struct {
	*httptest.Server
	asked atomic.Int32
}

const fakeClass = `{"class": "Quarry_c", "description": "{\"quarry\":1,\"collection\":\"c\",\"text\":[{\"name\":\"t\",\"analyzer\":\"english\",\"boost\":1}],` +
	`\"vectors\":[{\"name\":\"v\",\"dim\":2,\"metric\":0}]}",
	"properties": [{"name": "t_t", "dataType": ["text"]}, {"name": "m_n", "description": "{\"field\":\"n\",\"type\":\"int64\"}", "dataType": ["text[]"]}],
	"vectorConfig": {"v_v": {}}}`

func newFake(t testing.TB, answer http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		if strings.HasPrefix(r.URL.Path, "/v1/schema/") && r.Method == http.MethodGet {
			io.WriteString(w, fakeClass)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// connect opens the collection of fakes.
func connect(t testing.TB, o Options, fakes ...*fake) *Collection {
	t.Helper()
	for _, f := range fakes {
		o.URLs = append(o.URLs, f.URL)
	}
	o.Collection = "c"
	c, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // some tests have closed it
	return c
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

const counted7 = `{"data": {"Aggregate": {"n": [{"meta": {"count": 7}}]}}}`

func TestFailover(t *testing.T) {
	for name, bad := range map[string]http.HandlerFunc{
		"status 503":       says(503, "down"),
		"status 500":       says(500, `{"error": [{"message": "no leader"}]}`),
		"status 429":       says(429, "slow down"),
		"no JSON":          says(200, `{"data": {`),
		"cut off":          func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
		"silent":           func(_ http.ResponseWriter, r *http.Request) { time.Sleep(100 * time.Millisecond) },
		"error of GraphQL": says(200, `{"data": null, "errors": [{"message": "resolve node name \"node1\": not found"}]}`),
		"too long": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(maxAnswer+1))
			io.WriteString(w, "{")
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newFake(t, bad), newFake(t, says(200, counted7))
			c := connect(t, Options{Attempt: 40 * time.Millisecond}, a, b)
			for range 6 {
				if n, err := c.Count(t.Context(), filter.Filter{}); n != 7 || err != nil {
					t.Fatal(n, err)
				}
			}
		})
	}
}

func TestHealthMemory(t *testing.T) {
	a, b := newFake(t, says(503, "")), newFake(t, says(200, counted7))
	c := connect(t, Options{}, a, b)
	before := a.asked.Load()
	for range 20 {
		if _, err := c.Count(t.Context(), filter.Filter{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.asked.Load() - before; n < 1 || n > 3 {
		t.Errorf("the node that fails was asked %d times in 20 calls, want it passed by after the first", n)
	}
}

func TestDeadlines(t *testing.T) {
	release := make(chan struct{})
	a := newFake(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	hasty, patient := connect(t, Options{Attempt: 60 * time.Millisecond, Timeout: 400 * time.Millisecond}, a), connect(t, Options{}, a)
	calls := map[string]func(ctx context.Context, c *Collection) error{
		"count":  func(ctx context.Context, c *Collection) error { _, err := c.Count(ctx, filter.Filter{}); return err },
		"get":    func(ctx context.Context, c *Collection) error { _, err := c.Get(ctx, "x"); return err },
		"exists": func(ctx context.Context, c *Collection) error { _, err := c.Exists(ctx, "x"); return err },
		"search": func(ctx context.Context, c *Collection) error {
			_, err := c.Search(ctx, index.Query{Text: &index.TextQuery{Text: "a"}, K: 1})
			return err
		},
		"apply": func(ctx context.Context, c *Collection) error {
			b := index.NewBatch()
			b.Put(index.Document{ID: "x"})
			return c.Apply(ctx, b)
		},
		"delete": func(ctx context.Context, c *Collection) error {
			b := index.NewBatch()
			b.Delete("x")
			return c.Apply(ctx, b)
		},
		"list": func(ctx context.Context, c *Collection) error {
			for _, err := range c.Documents(ctx, "") {
				return err
			}
			return nil
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			if err := call(t.Context(), hasty); !errors.Is(err, collection.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("without a deadline: %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			if err := call(ctx, patient); !errors.Is(err, context.Canceled) || errors.Is(err, collection.ErrUnavailable) {
				t.Errorf("cancelled: %v", err)
			}
		})
	}
}

func TestStatusErrors(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   error
	}{
		{401, `{"error": [{"message": "who are you"}]}`, storage.ErrInvalid}, {403, "", storage.ErrInvalid}, {404, "", storage.ErrNotFound},
		{413, "", storage.ErrTooLarge}, {422, `{"error": [{"message": "bad class"}]}`, storage.ErrInvalid}, {307, "", storage.ErrInvalid},
	} {
		a := newFake(t, says(c.status, c.body))
		col := connect(t, Options{Key: "a-secret"}, a)
		_, err := col.Count(t.Context(), filter.Filter{})
		if !errors.Is(err, c.want) || strings.Contains(fmt.Sprint(err), "a-secret") {
			t.Errorf("status %d: %v, want %v", c.status, err, c.want)
		}
	}
	a := newFake(t, says(200, `{"errors": [{"message": "Syntax Error GraphQL request (1:2)"}]}`))
	if _, err := connect(t, Options{}, a).Count(t.Context(), filter.Filter{}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("bad question: %v", err)
	}
}

func TestKeyIsSentToNodesOnly(t *testing.T) {
	elsewhere := newFake(t, says(200, counted7))
	var got atomic.Value
	a := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization"))
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	t.Setenv(KeyVariable, "k1")
	if _, err := connect(t, Options{}, a).Count(t.Context(), filter.Filter{}); err == nil {
		t.Error("a redirection was followed")
	}
	if got.Load() != "Bearer k1" || elsewhere.asked.Load() != 0 {
		t.Errorf("sent %v; the other host was asked %d times", got.Load(), elsewhere.asked.Load())
	}
}

// batchServer takes objects, and refuses some as refuse says.
type batchServer struct {
	mu     sync.Mutex
	levels []string
	sizes  []int
	refuse func(try int, id string) string
}

func (s *batchServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Objects []struct {
			ID string `json:"id"`
		} `json:"objects"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.levels, s.sizes = append(s.levels, r.URL.Query().Get("consistency_level")), append(s.sizes, len(in.Objects))
	var out []map[string]any
	for _, o := range in.Objects {
		res := map[string]any{"status": "SUCCESS"}
		if text := s.refuse(len(s.sizes), o.ID); text != "" {
			res = map[string]any{"status": "FAILED", "errors": map[string]any{"error": []any{map[string]any{"message": text}}}}
		}
		out = append(out, map[string]any{"id": o.ID, "result": res, "vectors": map[string]any{"v_v": []float64{1, 2}}})
	}
	_ = json.NewEncoder(w).Encode(out) // the client may be gone
}

func batch(n int) *index.Batch {
	b := index.NewBatch()
	for i := range n {
		b.Put(index.Document{ID: fmt.Sprint("d", i), Meta: map[string]any{"n": i}})
	}
	return b
}

func TestRefusedObjectsAreSentAgain(t *testing.T) {
	s := &batchServer{refuse: func(try int, id string) string {
		if try == 1 && id < "8" {
			return "could not find class Quarry_c in schema"
		}
		return ""
	}}
	a := newFake(t, s.ServeHTTP)
	if err := connect(t, Options{}, a).Apply(t.Context(), batch(50)); err != nil {
		t.Fatal(err)
	}
	if len(s.sizes) != 2 || s.sizes[0] != 50 || s.sizes[1] < 5 || s.sizes[1] > 45 {
		t.Errorf("objects a request: %v, want 50 and then those refused", s.sizes)
	}
}

func TestRefusedForGood(t *testing.T) {
	bad := uuid("d3")
	s := &batchServer{refuse: func(_ int, id string) string {
		if id == bad {
			return "vector lengths don't match"
		}
		return ""
	}}
	a := newFake(t, s.ServeHTTP)
	err := connect(t, Options{}, a).Apply(t.Context(), batch(10))
	if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), `"d3"`) || !strings.Contains(err.Error(), "lengths don't match") {
		t.Errorf("%v, want ErrInvalid naming the document and the reason", err)
	}
}

func TestAllThenMajority(t *testing.T) {
	s := &batchServer{refuse: func(int, string) string { return "" }}
	a := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("consistency_level") == "ALL" {
			w.WriteHeader(500)
			io.WriteString(w, `{"error": [{"message": "cannot achieve consistency level ALL"}]}`)
			return
		}
		s.ServeHTTP(w, r)
	})
	c := connect(t, Options{}, a)
	for range 3 {
		before := a.asked.Load()
		if err := c.Apply(t.Context(), batch(1)); err != nil {
			t.Fatal(err)
		}
		if n := a.asked.Load() - before; before > 10 && n != 1 {
			t.Errorf("%d requests, want one: a majority is enough for a while", n)
		}
	}
	for _, l := range s.levels {
		if l != "QUORUM" {
			t.Errorf("level %q", l)
		}
	}
}

func TestBatchesAreBounded(t *testing.T) {
	s := &batchServer{refuse: func(int, string) string { return "" }}
	a := newFake(t, s.ServeHTTP)
	if err := connect(t, Options{Documents: 7}, a).Apply(t.Context(), batch(50)); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, n := range s.sizes {
		total += n
		if n > 7 {
			t.Errorf("%d documents in a request", n)
		}
	}
	if total != 50 {
		t.Errorf("%d documents were sent", total)
	}
}

func TestOptionErrors(t *testing.T) {
	for name, o := range map[string]Options{
		"no URLs": {Collection: "c"}, "scheme": {URLs: []string{"ftp://x"}, Collection: "c"}, "user": {URLs: []string{"http://a:b@x"}, Collection: "c"},
		"query": {URLs: []string{"http://x?a"}, Collection: "c"}, "no name": {URLs: []string{"http://x"}}, "name": {URLs: []string{"http://x"}, Collection: "../x"},
		"negative": {URLs: []string{"http://x"}, Collection: "c", Writers: -1},
	} {
		if _, err := Open(t.Context(), o); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTiesMeetTheEndOfAPage asks a node that gives equal distances in one order and
// in the other in turns: pages are one list all the same, in order of id.
func TestTiesMeetTheEndOfAPage(t *testing.T) {
	const docs, alike = 60, 20
	turn := 0
	a := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		_, after, _ := strings.Cut(string(body), "(limit:")
		limit := 0
		if _, serr := fmt.Sscanf(after, "%d", &limit); err != nil || serr != nil {
			t.Error(err, serr)
		}
		turn++
		var hits []string
		for i := range min(limit, docs) {
			if turn%2 == 1 {
				i = i/alike*alike + alike - 1 - i%alike
			}
			hits = append(hits, fmt.Sprintf(`{"docid":%q,"_additional":{"distance":0.%d}}`, idKey(fmt.Sprintf("d%02d", i)), i/alike+1))
		}
		io.WriteString(w, `{"data":{"Get":{"r":[`+strings.Join(hits, ",")+`]}}}`)
	})
	c := connect(t, Options{}, a)
	q := index.Query{Vector: &index.VectorQuery{Vector: []float32{0.6, 0.8}}, K: 7}
	for i := 0; i == 0 || q.After != ""; {
		res, err := c.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range res.Hits {
			if want := fmt.Sprintf("d%02d", i); h.ID != want {
				t.Fatalf("hit %d is %s", i, h.ID)
			}
			i++
		}
		if q.After = res.Next; q.After == "" && i != docs {
			t.Errorf("%d hits on all pages, want %d", i, docs)
		}
	}
}
