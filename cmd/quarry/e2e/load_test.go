package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	connections = 64
	loadDim     = 64
	loadDocs    = 4000 // ids that are written over and over: what is there does not grow
)

// 64 connections search and write at the same time, from this process, and no
// answer is a failure. How fast it is, is told; memory must not grow.
func TestLoad(t *testing.T) {
	long := 3 * time.Second
	if os.Getenv("QUARRY_LONG") == "1" {
		long = 60 * time.Second
	} else if testing.Short() {
		t.Skip("a load of seconds is no short test")
	}
	s := start(t)
	s.send(t, http.MethodPost, "/v1/collections", map[string]any{"name": "load", "schema": map[string]any{
		"text":    []any{map[string]any{"name": "text"}},
		"vectors": []any{map[string]any{"name": "v", "dim": loadDim}},
		"meta":    map[string]any{"group": "int64"},
	}}, nil)
	seed := rand.New(rand.NewPCG(1, 2))
	var lines bytes.Buffer
	for i := range loadDocs {
		lines.Write(loadDoc(seed, i))
		lines.WriteByte('\n')
	}
	s.request(t, http.MethodPost, "/v1/collections/load/bulk", "application/x-ndjson", lines.Bytes(), nil)
	l := &load{s: s, until: time.Now().Add(long), client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}}}
	var wg sync.WaitGroup
	for c := range connections {
		wg.Go(func() { l.connection(rand.New(rand.NewPCG(7, uint64(c)))) })
	}
	memory := s.watchMemory(t, l.until)
	wg.Wait()
	for what, times := range map[string][]time.Duration{"search": l.searches, "write": l.writes} {
		if len(times) == 0 {
			t.Errorf("no %s was answered", what)
			continue
		}
		slices.Sort(times)
		at := func(p float64) time.Duration { return times[min(len(times)-1, int(p*float64(len(times))))] }
		t.Logf("%-6s %6d in %v (%.0f a second): p50 %v, p99 %v, worst %v", what, len(times), long, float64(len(times))/long.Seconds(), at(.5), at(.99), times[len(times)-1])
	}
	for _, e := range l.errors {
		t.Error(e)
	}
	third := len(memory) / 3
	if third == 0 {
		t.Log("the system does not tell the memory of the server")
	} else {
		first, middle, last := slices.Max(memory[:third]), slices.Max(memory[third:2*third]), slices.Max(memory[2*third:])
		t.Logf("memory of the server, the most in each third of the time: %d, %d, %d MiB", first>>20, middle>>20, last>>20)
		// A fifth more, and what a merge takes for a moment; nothing is flat yet in seconds.
		if long > 30*time.Second && last > middle+middle/5+32<<20 {
			t.Errorf("memory grows: %d MiB in the second third, %d MiB in the last", middle>>20, last>>20)
		}
	}
	var st struct {
		Documents int `json:"documents"`
	}
	s.send(t, http.MethodGet, "/v1/collections/load/stats", nil, &st)
	if st.Documents != loadDocs {
		t.Errorf("%d documents, want %d", st.Documents, loadDocs)
	}
}

type load struct {
	s      *server
	client *http.Client
	until  time.Time

	mu               sync.Mutex
	searches, writes []time.Duration
	errors           []string
}

func (l *load) connection(r *rand.Rand) {
	var searches, writes []time.Duration
	for time.Now().Before(l.until) {
		begin := time.Now()
		var err error
		if r.IntN(5) == 0 {
			if err = l.do(http.MethodPut, "/v1/collections/load/documents", append(append([]byte(`{"documents":[`), loadDoc(r, r.IntN(loadDocs))...), "]}"...)); err == nil {
				writes = append(writes, time.Since(begin))
			}
		} else if err = l.do(http.MethodPost, "/v1/collections/load/search", loadQuery(r)); err == nil {
			searches = append(searches, time.Since(begin))
		}
		if err != nil {
			l.mu.Lock()
			l.errors = append(l.errors, err.Error())
			l.mu.Unlock()
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.searches, l.writes = append(l.searches, searches...), append(l.writes, writes...)
}

func (l *load) do(method, path string, body []byte) error {
	r, err := http.NewRequest(method, l.s.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := l.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK || !json.Valid(data) {
		return fmt.Errorf("%s %s: %s: %.300s", method, path, res.Status, data)
	}
	return nil
}

var loadWords = strings.Fields("harbor tide ship berth pilot buoy ferry crane anchor rope fog light radio signal tug dock pier wave wind storm chart compass deck hull mast sail port lee bow stern")

func words(r *rand.Rand, n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = loadWords[r.IntN(len(loadWords))]
	}
	return strings.Join(out, " ")
}

func vector(r *rand.Rand) []float32 {
	v := make([]float32, loadDim)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func loadDoc(r *rand.Rand, i int) []byte {
	return encoded(map[string]any{"id": strconv.Itoa(i), "text": map[string]any{"text": words(r, 20+r.IntN(40))}, "vectors": map[string]any{"v": vector(r)}, "meta": map[string]any{"group": i % 100}})
}

func loadQuery(r *rand.Rand) []byte {
	q := map[string]any{"k": 10}
	switch r.IntN(4) {
	case 0:
		q["query"] = words(r, 3)
	case 1:
		q["vector"] = map[string]any{"values": vector(r)}
	case 2:
		q["query"], q["filter"], q["highlight"], q["count"] = words(r, 2), fmt.Sprintf("group < %d", 1+r.IntN(100)), []string{"text"}, true
	default:
		q["query"], q["vector"], q["mode"] = words(r, 3), map[string]any{"values": vector(r)}, "hybrid"
	}
	return encoded(q)
}

// encoded is v as JSON; there is nothing in the load that has none.
func encoded(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return []byte(err.Error())
	}
	return data
}

// watchMemory samples the server's memory until the end, ten times a second; it
// is empty where the system does not tell.
func (s *server) watchMemory(t *testing.T, until time.Time) (samples []int64) {
	t.Helper()
	for ; time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if m := s.memory(t); m > 0 {
			samples = append(samples, m)
		}
	}
	return samples
}

// memory is what the server occupies, 0 where the system does not tell.
func (s *server) memory(t *testing.T) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		// Anonymous memory: mapped files come and go with the system's cache.
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	return 0
}
