package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// gather collects the lines of a run.
func gather(lines *[]any) func(any) error {
	return func(line any) error { *lines = append(*lines, line); return nil }
}

// among is an engine that compares every row that passes.
func among(g *Grid, base Matrix[float32], miss bool) FilteredSearch {
	return func(_ context.Context, query []float32, k int, r Restriction, dst []int32) ([]int32, error) {
		for _, row := range rankAll(base, query, L2) {
			if len(dst) < k && int(g.Columns[r.Column][row]) < r.Below {
				dst = append(dst, row)
			}
		}
		if miss && len(dst) > 0 {
			dst = dst[1:]
		}
		return dst, nil
	}
}

func TestRunFiltered(t *testing.T) {
	base, queries := randomMatrix(1, 300, 5), randomMatrix(2, 20, 5)
	g, err := NewGrid(base, queries, L2, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, column := range g.Columns {
		sorted := slices.Clone(column)
		slices.Sort(sorted)
		if len(sorted) != 300 || sorted[0] != 0 || sorted[299] != 299 || len(slices.Compact(sorted)) != 300 {
			t.Errorf("column %d is no numbering of the rows", i)
		}
	}
	// The rows that pass lie near to the queries of "+", and far from those of "-".
	distance := func(c Correlation) (sum float64) {
		for _, q := range g.cell(c, 30, 8) {
			for row, v := range g.Columns[q.Column] {
				if int(v) < q.Below {
					sum += l2squared64(base.Row(row), queries.Row(q.query))
				}
			}
		}
		return sum
	}
	if near, none, far := distance(Near), distance(None), distance(Far); near >= none || none >= far {
		t.Errorf("distances %v, %v, %v do not rise", near, none, far)
	}
	var lines []any
	c := FilteredConfig{Engine: "flat", Set: "s", Grid: g, Base: base, Queries: queries, Metric: L2, K: 5, Shares: []float64{50, 1}, PerCell: 6, Passes: 1,
		Search: among(g, base, false), Exact: among(g, base, false), Singles: []Strategy{{"bad", among(g, base, true)}, {"good", among(g, base, false)}}, Report: gather(&lines)}
	if err := RunFiltered(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if len(lines) != 6 {
		t.Fatalf("%d lines, want 6", len(lines))
	}
	for i, l := range lines {
		cell := l.(FilteredCell)
		if cell.Recall != 1 || cell.Short != 0 || cell.Queries != 6 || cell.Best == "bad" || cell.Matches != []int{150, 3}[i/3] || cell.AvgUs <= 0 || cell.ExactUs <= 0 {
			t.Errorf("%+v", cell)
		}
	}
	lines = nil
	c.Search = among(g, base, true)
	if err := RunFiltered(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if cell := lines[3].(FilteredCell); cell.Short != 6 || cell.Recall > 0.7 {
		t.Errorf("an engine that loses hits: %+v", cell)
	}
	if _, err := NewGrid(base, queries, L2, 21); !errors.Is(err, ErrInput) {
		t.Error(err)
	}
	c.Shares = []float64{0}
	if err := RunFiltered(t.Context(), c); !errors.Is(err, ErrInput) {
		t.Error(err)
	}
}

// store is an index of what is live, that forgets every seventh upsert when told
// to.
type store struct {
	base   Matrix[float32]
	rows   map[int]int
	forget bool
	n      int
}

func (s *store) index() ChurnIndex {
	return ChurnIndex{
		Apply: func(_ context.Context, changes []Change) error {
			for _, c := range changes {
				if s.n++; c.Row < 0 {
					delete(s.rows, c.ID)
				} else if !s.forget || s.n%7 != 0 {
					s.rows[c.ID] = c.Row
				}
			}
			return nil
		},
		Search: func(_ context.Context, query []float32, k int, dst []int32) ([]int32, error) {
			ids := make([]int32, 0, len(s.rows))
			for id := range s.rows {
				ids = append(ids, int32(id))
			}
			slices.SortFunc(ids, func(a, b int32) int {
				return cmp.Compare(l2squared64(s.base.Row(s.rows[int(a)]), query), l2squared64(s.base.Row(s.rows[int(b)]), query))
			})
			return append(dst, ids[:min(k, len(ids))]...), nil
		},
		Settle: func(context.Context) error { return nil },
		Size:   func() (ChurnSize, error) { return ChurnSize{Segments: 1, Bytes: int64(len(s.rows))}, nil },
		Close:  func() error { return nil },
	}
}

func TestRunChurn(t *testing.T) {
	base, queries := randomMatrix(1, 90, 4), randomMatrix(2, 5, 4)
	for i := range base.Data { // no two at equal distances
		base.Data[i] += float32(i*i%101) / 1024
	}
	run := func(forget bool) []any {
		t.Helper()
		var lines []any
		opened := 0
		c := ChurnConfig{Engine: "map", Base: base, Queries: queries, Metric: L2, K: 3, Rounds: 4, Batch: 7, Report: gather(&lines),
			Open: func(context.Context) (ChurnIndex, error) {
				opened++
				return (&store{base: base, rows: map[int]int{}, forget: forget && opened == 1}).index(), nil
			}}
		if err := RunChurn(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if len(lines) != 7 || opened != 2 {
			t.Fatalf("%d lines of %d indexes", len(lines), opened)
		}
		return lines
	}
	for i, l := range run(false) {
		s := l.(ChurnState)
		if s.Recall != 1 || s.Live != 45 || s.Bytes != 45 {
			t.Errorf("line %d: %+v", i, s)
		}
		if want := []string{"churned", "churned", "churned", "churned", "churned", "merged", "fresh"}[i]; s.State != want {
			t.Errorf("line %d: %+v", i, s)
		}
		if i > 0 && i < 5 && s.Changes != 45+22 {
			t.Errorf("line %d: %d changes are no full replacement", i, s.Changes)
		}
	}
	lines := run(true)
	if s := lines[4].(ChurnState); s.Recall >= 1 {
		t.Errorf("an engine that forgets: %+v", s)
	}
	if s := lines[6].(ChurnState); s.Recall != 1 {
		t.Errorf("built fresh: %+v", s)
	}
}

func TestParallel(t *testing.T) {
	base, queries := randomMatrix(1, 50, 4), randomMatrix(2, 9, 4)
	truth, err := Truth(t.Context(), base, queries, L2, 10)
	if err != nil {
		t.Fatal(err)
	}
	var lines []any
	c := VectorConfig{Engine: "flat", Set: "s", M: 8, Queries: queries, Truth: truth, EF: []int{12, 50}, Parallel: []int{1, 3}, Search: flat(base), Report: gather(&lines),
		Build: func(context.Context) (int, int64, error) { return 50, 1, nil }}
	if err := RunVectors(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if p := lines[3].(VectorParallel); len(lines) != 5 || p.EF != 50 || p.Threads != 1 || p.Ratio != 1 || p.QPS < 1 {
		t.Errorf("%+v", lines)
	}
	if s := lines[2].(VectorSetting); s.Set != "s" || s.M != 8 || s.P50Us <= 0 || s.P99Us < s.P50Us {
		t.Errorf("%+v", s)
	}
	c.Parallel = []int{0}
	if err := RunVectors(t.Context(), c); !errors.Is(err, ErrInput) {
		t.Error(err)
	}
}

func TestRunCold(t *testing.T) {
	dropped, closed, asked, faults := 0, 0, 0, int64(0)
	var lines []any
	c := ColdConfig{Engine: "x", Queries: randomMatrix(1, 30, 2), First: 10, Passes: 2, Report: gather(&lines),
		Drop: func() error { dropped++; return nil },
		Read: func() (int64, error) { faults += 3; return faults, nil },
		Open: func(context.Context) (ColdIndex, error) {
			return ColdIndex{
				Search: func(context.Context, []float32, int) error {
					if asked++; asked%10 == 1 {
						time.Sleep(2 * time.Millisecond)
					}
					return nil
				},
				Close: func() error { closed++; return nil },
			}, nil
		}}
	if err := RunCold(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	l := lines[1].(ColdStart)
	if len(lines) != 2 || dropped != 2 || closed != 2 || asked != 20 || l.Read != 3 || l.FirstMs < 2 || l.P50Us >= 2000 || l.Queries != 10 {
		t.Errorf("%+v, dropped %d, closed %d, asked %d", lines, dropped, closed, asked)
	}
}

func TestRunHybrid(t *testing.T) {
	var lines []any
	c := HybridConfig{Engine: "x", Set: "s", Queries: 4, K: 2, Passes: 1, Threads: 1, Modes: []string{ModeHybrid, ModeVector}, Filters: []string{"", "a = 1"},
		Truth: Matrix[int32]{Dim: 2, Data: []int32{1, 2, 1, 2, 1, 2, 1, 2}}, Report: gather(&lines),
		Search: func(_ context.Context, _ int, _, filter string, dst []int32) ([]int32, error) {
			if filter != "" {
				return append(dst, 9), nil
			}
			return append(dst, 1, 9), nil
		}}
	if err := RunHybrid(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range lines {
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Split(string(b), `,"avg_us"`)[0])
	}
	want := []string{
		`{"kind":"hybrid","engine":"x","set":"s","mode":"hybrid","threads":1,"k":2,"queries":4,"hits":8`,
		`{"kind":"hybrid","engine":"x","set":"s","mode":"hybrid","filter":"a = 1","threads":1,"k":2,"queries":4,"hits":4`,
		`{"kind":"hybrid","engine":"x","set":"s","mode":"vector","threads":1,"k":2,"queries":4,"hits":8,"recall":0.5`,
		`{"kind":"hybrid","engine":"x","set":"s","mode":"vector","filter":"a = 1","threads":1,"k":2,"queries":4,"hits":4`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	c.Queries = 0
	if err := RunHybrid(t.Context(), c); !errors.Is(err, ErrInput) {
		t.Error(err)
	}
}
