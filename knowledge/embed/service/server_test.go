package service

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dim = 8

// vectorOf is the vector that the fake services give a text: not of unit
// length, and different for different texts.
func vectorOf(text string) []float32 {
	v := make([]float32, dim)
	for i := range v {
		h := fnv.New32a()
		fmt.Fprint(h, text, i)
		v[i] = float32(h.Sum32()%2000)/500 - 2
	}
	return v
}

func unit(text string) []float32 {
	v := vectorOf(text)
	normalize(v, v)
	return v
}

// A server is a fake OpenAI-compatible service.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests int
	open     int
	most     int                                                                  // requests open at once
	embedded map[string]int                                                       // texts answered with a vector
	seen     map[string]int                                                       // texts that came at all
	before   func(n int, w http.ResponseWriter, body []byte, texts []string) bool // true: it has answered
	reply    func(texts []string) any                                             // nil: as it should be
}

func newServer(t *testing.T) *server {
	s := &server{embedded: map[string]int{}, seen: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var req struct{ Input []string }
	if err := json.Unmarshal(body, &req); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	s.mu.Lock()
	s.requests++
	n := s.requests
	s.open++
	s.most = max(s.most, s.open)
	for _, t := range req.Input {
		s.seen[t]++
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.open--
		s.mu.Unlock()
	}()
	if s.before != nil && s.before(n, w, body, req.Input) {
		return
	}
	s.mu.Lock()
	for _, t := range req.Input {
		s.embedded[t]++
	}
	s.mu.Unlock()
	reply := s.reply
	if reply == nil {
		reply = func(texts []string) any { return dataReply(texts, true) }
	}
	if text, ok := reply(req.Input).(string); ok {
		io.WriteString(w, text)
		return
	}
	json.NewEncoder(w).Encode(reply(req.Input))
}

type dataItem struct {
	Index     *int `json:"index,omitempty"`
	Embedding any  `json:"embedding"`
}

func dataReply(texts []string, index bool) map[string]any {
	items := []dataItem{}
	for i, t := range texts {
		it := dataItem{Embedding: base64Of(vectorOf(t))}
		if index {
			it.Index = &i
		}
		items = append(items, it)
	}
	return map[string]any{"object": "list", "data": items}
}

func base64Of(v []float32) string {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// open returns a Service over a fake OpenAI-compatible server that sleeps only
// in name; slept collects the waits.
func open(t *testing.T, s *server, o Options) (*Service, func() []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var slept []time.Duration
	o.Model = "m"
	o.Call.BaseURL = s.URL + "/v1"
	o.Call.Seed = 1
	if o.Call.Sleep == nil {
		o.Call.Sleep = func(ctx context.Context, d time.Duration) error {
			mu.Lock()
			slept = append(slept, d)
			mu.Unlock()
			return ctx.Err()
		}
	}
	sv, err := New(OpenAI, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sv.Close() })
	return sv, func() []time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(slept)
	}
}

func texts(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("text %d", i)
	}
	return out
}

// checkVectors demands the right vector, bit for bit, for each text.
func checkVectors(t *testing.T, got []float32, texts []string) {
	t.Helper()
	if len(got) != len(texts)*dim {
		t.Fatalf("%d components for %d texts", len(got), len(texts))
	}
	for i, text := range texts {
		if row := got[i*dim : (i+1)*dim]; !slices.Equal(row, unit(text)) {
			t.Fatalf("text %d %.20q has vector %v, want %v", i, text, row, unit(text))
		}
	}
}
