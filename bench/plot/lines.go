package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
)

// A line is one line of a measurement, of any kind.
type line struct {
	Kind   string `json:"kind"`
	Engine string `json:"engine"`
	Set    string `json:"set"`
	M      int    `json:"m"`

	EF     int     `json:"ef"` // curve
	Recall float64 `json:"recall"`
	QPS    float64 `json:"qps"`
	Net    float64 `json:"net_qps"`

	BuildS  float64 `json:"build_s"` // build
	Threads int     `json:"threads"`
	Bytes   int64   `json:"bytes"`

	Share       float64 `json:"share"` // filtered
	Correlation string  `json:"correlation"`
	AvgUs       float64 `json:"avg_us"`
	BestUs      float64 `json:"best_us"`
	ExactUs     float64 `json:"exact_us"`
	Best        string  `json:"best"`

	Mode    string  `json:"mode"` // text, hybrid
	Filter  string  `json:"filter"`
	Depth   int     `json:"depth"`
	K       int     `json:"k"`
	P50Us   float64 `json:"p50_us"`
	P99Us   float64 `json:"p99_us"`
	IndexS  float64 `json:"index_s"` // text index
	Round   int     `json:"round"`   // churn
	State   string  `json:"state"`
	Ratio   float64 `json:"ratio"`          // parallel
	Each    float64 `json:"bytes_a_vector"` // memory
	OpenMs  float64 `json:"open_ms"`        // open, cold
	FirstMs float64 `json:"first_ms"`
}

// setting is what lines of several runs have in common.
type setting struct {
	kind, engine, set string
	m, ef, threads    int
	share             float64
	correlation       string
	mode, filter      string
	k, depth, round   int
	state             string
}

// read reads files and takes the median of the runs of each setting; the result
// is in an order of its own.
func read(files []string) ([]line, error) {
	runs := map[setting][]line{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for n := 1; lines.Scan(); n++ {
			if len(lines.Bytes()) == 0 {
				continue
			}
			var l line
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				_ = f.Close() // the first error is told
				return nil, fmt.Errorf("%s:%d: %w", name, n, err)
			}
			if l.Kind == "build" && l.BuildS == 0 {
				continue // the index was there already
			}
			if l.Net > 0 {
				l.QPS = l.Net
			}
			key := setting{l.Kind, l.Engine, l.Set, l.M, l.EF, l.Threads, l.Share, l.Correlation, l.Mode, l.Filter, l.K, l.Depth, l.Round, l.State}
			runs[key] = append(runs[key], l)
		}
		if err := cmp.Or(lines.Err(), f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	keys := slices.SortedFunc(maps.Keys(runs), func(a, b setting) int {
		return cmp.Or(cmp.Compare(a.set, b.set), cmp.Compare(a.engine, b.engine), cmp.Compare(a.kind, b.kind), cmp.Compare(a.m, b.m), cmp.Compare(a.ef, b.ef),
			cmp.Compare(a.threads, b.threads), cmp.Compare(b.share, a.share), cmp.Compare(a.correlation, b.correlation), cmp.Compare(a.mode, b.mode),
			cmp.Compare(a.filter, b.filter), cmp.Compare(a.k, b.k), cmp.Compare(a.depth, b.depth), cmp.Compare(a.round, b.round), cmp.Compare(a.state, b.state))
	})
	out := make([]line, len(keys))
	for i, key := range keys {
		out[i] = medians(runs[key])
	}
	return out, nil
}

// medians is a line with the median of each figure.
func medians(runs []line) line {
	out := runs[0]
	median := func(get func(*line) *float64) {
		values := make([]float64, len(runs))
		for i := range runs {
			values[i] = *get(&runs[i])
		}
		slices.Sort(values)
		mid := len(values) / 2
		*get(&out) = values[mid]
		if len(values)%2 == 0 {
			*get(&out) = (values[mid-1] + values[mid]) / 2
		}
	}
	for _, get := range []func(*line) *float64{
		func(l *line) *float64 { return &l.Recall }, func(l *line) *float64 { return &l.QPS }, func(l *line) *float64 { return &l.BuildS },
		func(l *line) *float64 { return &l.AvgUs }, func(l *line) *float64 { return &l.BestUs }, func(l *line) *float64 { return &l.ExactUs }, func(l *line) *float64 { return &l.P50Us },
		func(l *line) *float64 { return &l.P99Us }, func(l *line) *float64 { return &l.IndexS }, func(l *line) *float64 { return &l.Ratio },
		func(l *line) *float64 { return &l.Each }, func(l *line) *float64 { return &l.OpenMs }, func(l *line) *float64 { return &l.FirstMs },
	} {
		median(get)
	}
	return out
}

// sets are the names of the sets with lines of a kind, in order.
func sets(lines []line, kind string) (out []string) {
	for _, l := range lines {
		if l.Kind == kind && !slices.Contains(out, l.Set) {
			out = append(out, l.Set)
		}
	}
	return out
}

// engines are those with lines of a kind in a set, ours first.
func engines(lines []line, kind, set string) (out []string) {
	for _, l := range lines {
		if l.Kind == kind && l.Set == set && !slices.Contains(out, l.Engine) {
			out = append(out, l.Engine)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	return out
}

const ours = "quarry"

func rank(engine string) int {
	if engine == ours {
		return 0
	}
	return 1
}

// A point is a recall and the speed at it.
type point struct{ recall, qps float64 }

// frontier are the points of an engine that no other point of it beats in both,
// by rising recall, over all numbers of links.
func frontier(lines []line, engine, set string) []point {
	var all []point
	for _, l := range lines {
		if l.Kind == "curve" && l.Engine == engine && l.Set == set && l.QPS > 0 {
			all = append(all, point{l.Recall, l.QPS})
		}
	}
	slices.SortFunc(all, func(a, b point) int { return cmp.Or(cmp.Compare(b.recall, a.recall), cmp.Compare(b.qps, a.qps)) })
	var out []point
	for _, p := range all {
		if len(out) == 0 || p.qps > out[len(out)-1].qps {
			out = append(out, p)
		}
	}
	slices.Reverse(out)
	return out
}

// at is the speed of a frontier at a recall, 0 where it does not reach it. Between
// two points the logarithm of the speed is taken to be linear in the recall.
func at(f []point, recall float64) float64 {
	i := slices.IndexFunc(f, func(p point) bool { return p.recall >= recall })
	switch {
	case i < 0:
		return 0
	case i == 0:
		return f[0].qps
	}
	a, b := f[i-1], f[i]
	t := (recall - a.recall) / (b.recall - a.recall)
	return math.Exp(math.Log(a.qps) + t*(math.Log(b.qps)-math.Log(a.qps)))
}

// fastest is the build of an engine with the number of links that is fastest at
// a recall of 0.95, and else the first.
func fastest(lines []line, engine, set string) (out line, ok bool) {
	best := -1.0
	for _, l := range lines {
		if l.Kind != "build" || l.Engine != engine || l.Set != set {
			continue
		}
		var own []line
		for _, c := range lines {
			if c.M == l.M {
				own = append(own, c)
			}
		}
		if qps := at(frontier(own, engine, set), 0.95); qps > best {
			best, out, ok = qps, l, true
		}
	}
	return out, ok
}
