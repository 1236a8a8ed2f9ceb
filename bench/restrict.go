package bench

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A Correlation says how a filter of the grid and the queries lie to each other.
type Correlation string

// The correlations of the grid.
const (
	Near Correlation = "+" // what passes lies where the queries are
	None Correlation = "0" // what passes lies anywhere
	Far  Correlation = "-" // what passes lies away from the queries
)

// Shares are those of the grid, in percent.
func Shares() []float64 { return []float64{50, 20, 10, 5, 2, 1, 0.1} }

// A Restriction is a filter: the rows whose value in a column is below a bound.
type Restriction struct {
	Column int // of Grid.Columns
	Below  int
}

// A Grid has columns of numbers for the rows of a base, by which filters of any
// share and correlation can be had: column 0 numbers the rows at random, each
// other one by their distance from an anchor, one of the queries. A column holds
// each number from 0 to rows−1 once, so that "below n" passes n rows.
type Grid struct {
	Columns [][]int32
	near    [][]int // for each anchor, the queries from the nearest on
}

// NewGrid makes a grid with anchors, 1 to as many as there are queries. Equal
// input gives equal grids. Cost: (anchors+1)·rows·log rows, and the
// distances of all rows from each anchor.
func NewGrid(base, queries Matrix[float32], metric Metric, anchors int) (*Grid, error) {
	if anchors < 1 || anchors > queries.Rows() {
		return nil, inputf("grid", "%d anchors, want 1 to the %d queries", anchors, queries.Rows())
	}
	g := &Grid{Columns: [][]int32{make([]int32, base.Rows())}}
	for rank, row := range rand.New(rand.NewPCG(9, 9)).Perm(base.Rows()) {
		g.Columns[0][row] = int32(rank)
	}
	for a := range anchors {
		anchor := queries.Row(a * queries.Rows() / anchors)
		column := make([]int32, base.Rows())
		for rank, row := range rankAll(base, anchor, metric) {
			column[row] = int32(rank)
		}
		g.Columns = append(g.Columns, column)
		list := make([]int, queries.Rows())
		for i, q := range rankAll(queries, anchor, metric) {
			list[i] = int(q)
		}
		g.near = append(g.near, list)
	}
	return g, nil
}

// A restricted is a query with its filter.
type restricted struct {
	query int
	Restriction
}

// cell are n queries of a correlation with the filters that pass below rows,
// spread over the anchors.
func (g *Grid) cell(c Correlation, below, n int) []restricted {
	out := make([]restricted, 0, n)
	for i := range n {
		a := i % len(g.near)
		list, at := g.near[a], i/len(g.near)
		if at >= len(list) {
			break
		}
		switch c {
		case Near:
			out = append(out, restricted{list[at], Restriction{a + 1, below}})
		case Far:
			out = append(out, restricted{list[len(list)-1-at], Restriction{a + 1, below}})
		default:
			out = append(out, restricted{list[at*len(list)/max(1, n/len(g.near))%len(list)], Restriction{0, below}})
		}
	}
	return out
}

// A FilteredSearch answers a query among the rows of a restriction: it appends
// the rows of the k nearest to dst, best first.
type FilteredSearch func(ctx context.Context, query []float32, k int, r Restriction, dst []int32) ([]int32, error)

// A Strategy is one way to search among the rows that pass.
type Strategy struct {
	Name   string
	Search FilteredSearch
}

// A FilteredConfig says what RunFiltered measures. Engine, Grid, Base, Queries,
// Search, Exact and Report are required.
type FilteredConfig struct {
	Engine, Set   string
	Grid          *Grid
	Base, Queries Matrix[float32]
	Metric        Metric
	K             int       // 0 means 10
	Shares        []float64 // percent; nil means Shares()
	PerCell       int       // queries of a cell at most; 0 means 100
	Passes        int       // the fastest of each query counts; 0 means 3

	// Search is the engine's own choice of a way; Exact compares every row that
	// passes.
	Search, Exact FilteredSearch
	// Singles are single ways to compare with, beside Exact.
	Singles []Strategy
	// Chosen tells the way that Search takes, in a pass that is not timed; nil:
	// that is not known.
	Chosen func(ctx context.Context, query []float32, k int, r Restriction) (string, error)
	// Report takes a FilteredCell for every cell.
	Report func(line any) error
}

// A FilteredCell is a cell of the grid. Times are averages of each query's
// fastest pass, in µs.
type FilteredCell struct {
	Kind        string      `json:"kind"` // "filtered"
	Engine      string      `json:"engine"`
	Set         string      `json:"set,omitempty"`
	Share       float64     `json:"share"` // percent of the rows that pass
	Correlation Correlation `json:"correlation"`
	Matches     int         `json:"matches"` // rows that pass
	Queries     int         `json:"queries"`
	K           int         `json:"k"`
	Recall      float64     `json:"recall"` // of min(k, matches)
	Short       int         `json:"short"`  // queries that got fewer hits than min(k, matches)
	AvgUs       float64     `json:"avg_us"`
	P99Us       float64     `json:"p99_us"`
	ExactUs     float64     `json:"exact_us"`
	BestUs      float64     `json:"best_us"` // the fastest single way of recall 0.95 or more
	Best        string      `json:"best"`
	ToBest      float64     `json:"to_best"` // AvgUs as a multiple of BestUs

	Ways   map[string]FilteredWay `json:"ways"`             // the single ways, "exact" among them
	Chosen map[string]int         `json:"chosen,omitempty"` // queries by the way chosen
}

// A FilteredWay is what one way took and found in a cell.
type FilteredWay struct {
	AvgUs  float64 `json:"avg_us"`
	Recall float64 `json:"recall"`
	Short  int     `json:"short"`
}

func (c FilteredCell) String() string {
	var chosen []string
	for _, way := range slices.Sorted(maps.Keys(c.Chosen)) {
		chosen = append(chosen, fmt.Sprintf("%d %s", c.Chosen[way], way))
	}
	return fmt.Sprintf("%s %s %5.1f %% %s recall %.4f avg %.1f us (%s), best single way %s %.1f us (%.2f x), exact %.1f us, short %d of %d", c.Engine, c.Set, c.Share,
		c.Correlation, c.Recall, c.AvgUs, strings.Join(chosen, ", "), c.Best, c.BestUs, c.ToBest, c.ExactUs, c.Short, c.Queries)
}

// RunFiltered measures the grid: every share with every correlation.
func RunFiltered(ctx context.Context, c FilteredConfig) error {
	if c.K == 0 {
		c.K = 10
	}
	if c.Shares == nil {
		c.Shares = Shares()
	}
	if c.PerCell == 0 {
		c.PerCell = 100
	}
	if c.Passes == 0 {
		c.Passes = 3
	}
	for _, share := range c.Shares {
		if !(share > 0 && share <= 100) {
			return inputf("shares", "%v: want more than 0 and at most 100", share)
		}
		for _, correlation := range []Correlation{Near, None, Far} {
			line, err := c.cell(ctx, share, correlation)
			if err != nil {
				return fmt.Errorf("bench: share %v %%, correlation %s: %w", share, correlation, err)
			}
			if err := c.Report(line); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *FilteredConfig) cell(ctx context.Context, share float64, correlation Correlation) (FilteredCell, error) {
	below := max(1, int(share/100*float64(c.Base.Rows())))
	queries := c.Grid.cell(correlation, below, c.PerCell)
	line := FilteredCell{Kind: "filtered", Engine: c.Engine, Set: c.Set, Share: share, Correlation: correlation, Matches: below, Queries: len(queries), K: c.K}
	truth, err := c.truth(ctx, queries)
	if err != nil {
		return line, err
	}
	own, err := c.measure(ctx, c.Search, queries, truth)
	if err != nil {
		return line, err
	}
	line.Recall, line.Short, line.AvgUs, line.P99Us = own.recall, own.short, own.AvgUs, own.P99Us
	line.Ways = make(map[string]FilteredWay, len(c.Singles)+1)
	for _, s := range append([]Strategy{{"exact", c.Exact}}, c.Singles...) {
		m, err := c.measure(ctx, s.Search, queries, truth)
		if err != nil {
			return line, fmt.Errorf("%s: %w", s.Name, err)
		}
		line.Ways[s.Name] = FilteredWay{m.AvgUs, m.recall, m.short}
		if line.Best == "" || m.recall >= 0.95 && m.short == 0 && m.AvgUs < line.BestUs {
			line.Best, line.BestUs = s.Name, m.AvgUs
		}
	}
	line.ExactUs = line.Ways["exact"].AvgUs
	if line.BestUs > 0 {
		line.ToBest = round(line.AvgUs/line.BestUs, 3)
	}
	if c.Chosen == nil {
		return line, nil
	}
	line.Chosen = map[string]int{}
	for _, q := range queries {
		way, err := c.Chosen(ctx, c.Queries.Row(q.query), c.K, q.Restriction)
		if err != nil {
			return line, fmt.Errorf("query %d: %w", q.query, err)
		}
		line.Chosen[way]++
	}
	return line, nil
}

// truth finds the exact answers, one query's at a time: the rows that pass
// differ.
func (c *FilteredConfig) truth(ctx context.Context, queries []restricted) ([][]int32, error) {
	out := make([][]int32, len(queries))
	byFilter := map[Restriction][]int{}
	for i, q := range queries {
		byFilter[q.Restriction] = append(byFilter[q.Restriction], i)
	}
	for r, list := range byFilter {
		rows := make([]int32, 0, r.Below)
		for row, value := range c.Grid.Columns[r.Column] {
			if int(value) < r.Below {
				rows = append(rows, int32(row))
			}
		}
		base := Matrix[float32]{Dim: c.Base.Dim, Data: make([]float32, 0, len(rows)*c.Base.Dim)}
		for _, row := range rows {
			base.Data = append(base.Data, c.Base.Row(int(row))...)
		}
		asked := Matrix[float32]{Dim: c.Queries.Dim}
		for _, i := range list {
			asked.Data = append(asked.Data, c.Queries.Row(queries[i].query)...)
		}
		found, err := Truth(ctx, base, asked, c.Metric, min(c.K, len(rows)))
		if err != nil {
			return nil, err
		}
		for j, i := range list {
			out[i] = slices.Clone(found.Row(j))
			for n, at := range out[i] {
				out[i][n] = rows[at]
			}
		}
	}
	return out, nil
}

// measured is what one way gave in a cell.
type measured struct {
	Latency
	recall float64
	short  int
}

func (c *FilteredConfig) measure(ctx context.Context, search FilteredSearch, queries []restricted, truth [][]int32) (measured, error) {
	var m measured
	found := make([][]int32, len(queries))
	best := make([]time.Duration, len(queries))
	for pass := range c.Passes {
		for i, q := range queries {
			if err := ctx.Err(); err != nil {
				return m, err
			}
			start := time.Now()
			rows, err := search(ctx, c.Queries.Row(q.query), c.K, q.Restriction, found[i][:0])
			took := time.Since(start)
			if err != nil {
				return m, fmt.Errorf("query %d: %w", q.query, err)
			}
			found[i] = rows
			if pass == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	for i := range queries {
		if len(found[i]) < len(truth[i]) {
			m.short++
		}
		m.recall += RecallAt(found[i], truth[i], len(truth[i])) / float64(len(queries))
	}
	m.recall = round(m.recall, 4)
	m.Latency = summarize(best).rounded()
	return m, nil
}
