package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// flat is an engine that compares the query with every row.
func flat(base Matrix[float32]) func(context.Context, []float32, int, int, []int32) ([]int32, error) {
	return func(ctx context.Context, query []float32, k, ef int, dst []int32) ([]int32, error) {
		n := min(base.Rows(), ef) // a small ef sees only the first rows
		found, err := Truth(ctx, base.Head(n), Matrix[float32]{Dim: base.Dim, Data: query}, L2, min(k, n))
		return append(dst, found.Data...), err
	}
}

func TestRunVectors(t *testing.T) {
	base, queries := randomMatrix(1, 200, 6), randomMatrix(2, 12, 6)
	truth, err := Truth(context.Background(), base, queries.Head(10), L2, 20)
	if err != nil {
		t.Fatal(err)
	}
	var lines []any
	c := VectorConfig{
		Engine: "flat", Queries: queries, Truth: truth, EF: []int{50, 200}, Threads: 2,
		Build:  func(context.Context) (int, int64, error) { return base.Rows(), 4800, nil },
		Search: flat(base),
		Count:  func(_ context.Context, _ []float32, _, ef int) (int, error) { return min(ef, base.Rows()), nil },
		Report: func(line any) error { lines = append(lines, line); return nil },
	}
	if err := RunVectors(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	if len(lines) != 3 {
		t.Fatalf("got %d lines, want 3", len(lines))
	}
	if got := lines[0].(VectorBuild); got != (VectorBuild{Kind: "build", Engine: "flat", Threads: 2, Vectors: 200, Bytes: 4800}) {
		t.Errorf("build line %+v", got)
	}
	low, full := lines[1].(VectorSetting), lines[2].(VectorSetting)
	if full.EF != 200 || full.Recall != 1 || full.QPS < 1 || full.Distances != 200 {
		t.Errorf("full scan: %+v", full)
	}
	if low.EF != 50 || low.Recall <= 0 || low.Recall >= 1 || low.Distances != 50 {
		t.Errorf("a quarter of the rows: %+v", low)
	}
	for i, want := range []string{`{"kind":"build","engine":"flat","build_s":0,"threads":2,"vectors":200,"bytes":4800}`, `{"kind":"curve","engine":"flat","ef":50,"recall":`} {
		got, err := json.Marshal(lines[i])
		if err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("line %d: got %s, %v, want %s", i, got, err, want)
		}
	}
}

func TestRunVectorsErrors(t *testing.T) {
	broken := errors.New("broken")
	good := func() VectorConfig {
		base := randomMatrix(1, 30, 2)
		return VectorConfig{
			Engine: "flat", Queries: base.Head(3), Truth: Matrix[int32]{Dim: 10, Data: make([]int32, 30)}, EF: []int{30},
			Build:  func(context.Context) (int, int64, error) { return 30, 0, nil },
			Search: flat(base), Report: func(any) error { return nil },
		}
	}
	for name, c := range map[string]struct {
		change func(*VectorConfig)
		want   error
	}{
		"truth too short": {func(c *VectorConfig) { c.K = 11 }, ErrInput},
		"negative k":      {func(c *VectorConfig) { c.K = -1 }, ErrInput},
		"no truth":        {func(c *VectorConfig) { c.Truth.Data = nil }, ErrInput},
		"passes":          {func(c *VectorConfig) { c.Passes = -1 }, ErrInput},
		"build":           {func(c *VectorConfig) { c.Build = func(context.Context) (int, int64, error) { return 0, 0, broken } }, broken},
		"report":          {func(c *VectorConfig) { c.Report = func(any) error { return broken } }, broken},
		"search": {func(c *VectorConfig) {
			c.Search = func(context.Context, []float32, int, int, []int32) ([]int32, error) { return nil, broken }
		}, broken},
	} {
		cfg := good()
		c.change(&cfg)
		if err := RunVectors(context.Background(), cfg); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if err := RunVectors(context.Background(), good()); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}

func TestRunText(t *testing.T) {
	var lines []any
	c := TextConfig{
		Engine: "fake", Mode: "and", Queries: 4,
		Index:  func(context.Context) (TextSize, error) { return TextSize{Docs: 9, Segments: 2, Bytes: 77}, nil },
		Search: func(_ context.Context, i int) (int, error) { time.Sleep(time.Microsecond); return i, nil },
		Report: func(line any) error { lines = append(lines, line); return nil },
	}
	if err := RunText(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	if got := lines[0].(TextIndex).String(); got != "fake index 9 docs 0.0 s 77 bytes" {
		t.Errorf("index line %q", got)
	}
	l := lines[1].(TextLatency)
	if l.Hits != 6 || l.AvgUs <= 0 || l.P50Us > l.P99Us {
		t.Errorf("latency line %+v", l)
	}
	l.Latency = Latency{AvgUs: 1.25, P50Us: 1, P99Us: 22.5}
	if got := l.String(); got != "fake and k=10 segments=2 avg 1.2 p50 1.0 p99 22.5 us" {
		t.Errorf("latency line %q", got)
	}
	if got, err := json.Marshal(l); err != nil || string(got) != `{"kind":"text","engine":"fake","mode":"and","k":10,"segments":2,"queries":4,"hits":6,"avg_us":1.25,"p50_us":1,"p99_us":22.5}` {
		t.Errorf("JSON %s, %v", got, err)
	}
	c.Queries = 0
	if err := RunText(context.Background(), c); !errors.Is(err, ErrInput) {
		t.Errorf("no queries: got %v, want ErrInput", err)
	}
}

func TestRunEval(t *testing.T) {
	rankings := map[string][]Ranked{
		"q1": {{"a", 3}, {"b", 2}}, // first is relevant
		"q2": {{"a", 3}, {"b", 2}}, // second is relevant
		"q3": nil,                  // nothing found
	}
	var run bytes.Buffer
	c := EvalConfig{
		Set: "toy", Mode: "keyword", Docs: 2, Run: &run,
		Queries: []Query{{ID: "q1"}, {ID: "q2"}, {ID: "q3"}, {ID: "unjudged"}, {ID: "q4"}},
		Qrels:   Qrels{"q1": {"a": 1}, "q2": {"b": 1}, "q3": {"a": 1}, "q4": {"a": 0}, "elsewhere": {"a": 1}},
		Search: func(_ context.Context, q Query, depth int) ([]Ranked, error) {
			if depth != DefaultDepth {
				return nil, fmt.Errorf("depth %d", depth)
			}
			return rankings[q.ID], nil
		},
	}
	got, err := RunEval(context.Background(), c)
	want := EvalReport{Set: "toy", Mode: "keyword", Docs: 2, Queries: 3, Skipped: 2, NDCG10: round((1+1/math.Log2(3))/3, 4), MAP: .5, Recall100: round(2.0/3, 4), MRR10: .5}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if s := got.String(); s != "toy keyword: nDCG@10 0.5436 MAP 0.5000 recall@100 0.6667 MRR@10 0.5000 (2 docs, 3 queries, 0.0 s)" {
		t.Errorf("report %q", s)
	}
	if want := "q1 Q0 a 1 3 quarry\nq1 Q0 b 2 2 quarry\nq2 Q0 a 1 3 quarry\nq2 Q0 b 2 2 quarry\n"; run.String() != want {
		t.Errorf("run file %q, want %q", run.String(), want)
	}
	c.Depth = 99
	if _, err := RunEval(context.Background(), c); !errors.Is(err, ErrInput) {
		t.Errorf("depth 99: got %v, want ErrInput", err)
	}
	c.Depth, c.Qrels = 0, Qrels{}
	if _, err := RunEval(context.Background(), c); !errors.Is(err, ErrInput) {
		t.Errorf("no judgements: got %v, want ErrInput", err)
	}
	c.Qrels = Qrels{"q1": {"a": 1}}
	rankings["q1"] = []Ranked{{"a", 1}, {"a", 1}}
	if _, err := RunEval(context.Background(), c); err == nil || !strings.Contains(err.Error(), `query "q1"`) {
		t.Errorf("repeated document: got %v", err)
	}
}

func TestRunFileScoresFallStrictly(t *testing.T) {
	for name, scores := range map[string][]float64{
		"all equal":           {.5, .5, .5, .5},
		"zeros":               {0, 0, 0},
		"equal in float32":    {.1 + 1e-12, .1, .1 - 1e-12},
		"rising":              {.1, .2, .3},
		"beyond float32":      {1e300, 1e300, 1e200, -1e300, -1e299},
		"equal, then a touch": {1, 1, math.Nextafter(1, 0), .999},
	} {
		var b bytes.Buffer
		w := NewRunWriter(&b, "tag")
		var ranking []Ranked
		for i, s := range scores {
			ranking = append(ranking, Ranked{ID: "d" + strconv.Itoa(i), Score: s})
		}
		if err := w.Query("q", ranking); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		last := math.Inf(1)
		for i, line := range strings.Split(strings.TrimSpace(b.String()), "\n") {
			cols := strings.Fields(line)
			score, err := strconv.ParseFloat(cols[4], 32)
			if err != nil || len(cols) != 6 || cols[3] != strconv.Itoa(i+1) || cols[2] != ranking[i].ID {
				t.Errorf("%s: line %q, %v", name, line, err)
			}
			if score >= last {
				t.Errorf("%s: score %v after %v", name, score, last)
			}
			last = score
		}
	}
	for name, c := range map[string]struct {
		tag, query string
		doc        Ranked
	}{
		"space in query": {"", "q 1", Ranked{"d", 1}}, "tab in document": {"", "q", Ranked{"d\t1", 1}}, "empty document": {"", "q", Ranked{"", 1}},
		"space in tag": {"a b", "q", Ranked{"d", 1}}, "NaN": {"", "q", Ranked{"d", math.NaN()}}, "Inf": {"", "q", Ranked{"d", math.Inf(1)}},
	} {
		if err := NewRunWriter(&bytes.Buffer{}, c.tag).Query(c.query, []Ranked{c.doc}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestLines(t *testing.T) {
	path := write(t, t.TempDir(), "queries.txt", "one\r\ntwo\n\nlast")
	got, err := ReadLines(path)
	if err != nil || strings.Join(got, "|") != "one|two||last" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := ReadLines(filepath.Join(filepath.Dir(path), "none")); err == nil {
		t.Error("missing file: no error")
	}
}
