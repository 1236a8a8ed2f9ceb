package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
)

// view prints results for reading.
type view struct {
	*console.Console
	title   string   // field shown beside the id
	first   int      // rank of the first hit
	facets  []string // in the order asked for
	extra   []string // fields to show below
	explain bool
}

const maxPassages = 2 // shown a hit

func (v view) results(r *index.Results) error {
	var b strings.Builder
	if v.explain && r.Plan != nil {
		plan(&b, r.Plan)
	}
	for i := range r.Hits {
		v.hit(&b, v.first+i, &r.Hits[i])
	}
	hits := len(r.Hits)
	for _, g := range r.Groups {
		fmt.Fprintf(&b, "%s\n", show.Bold(show.Value(g.Value, 80), v.Color))
		for i := range g.Hits {
			v.hit(&b, i+1, &g.Hits[i])
		}
		hits += len(g.Hits)
	}
	for _, name := range v.facets {
		facet(&b, name, r.Facets[name], v.Color)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", show.Line(n, 0))
	}
	if r.Total >= 0 {
		fmt.Fprintf(&b, "%d of %d documents, %s\n", hits, r.Total, show.Elapsed(r.Elapsed))
	} else {
		fmt.Fprintf(&b, "%s, %s\n", console.Count(hits, "document"), show.Elapsed(r.Elapsed))
	}
	if r.Next != "" {
		fmt.Fprintf(&b, "next page: --after %s\n", r.Next)
	}
	return v.Printf("%s", b.String())
}

func (v view) hit(b *strings.Builder, rank int, h *index.Hit) {
	title := ""
	if t, ok := h.Fields[v.title]; ok {
		if title = show.Value(t, 80); title == h.ID {
			title = ""
		}
	}
	fmt.Fprintf(b, "%3d  %.4f  %s", rank, h.Score, show.Line(h.ID, 0))
	if title != "" {
		fmt.Fprintf(b, "  %s", show.Bold(title, v.Color))
	}
	if h.Keyword != nil && h.Vector != nil || h.Kind == index.ScoreRRF || h.Kind == index.ScoreWeighted {
		fmt.Fprintf(b, "  %s", show.Faint(legs(h), v.Color))
	}
	b.WriteByte('\n')
	for _, field := range slices.Sorted(maps.Keys(h.Highlights)) {
		if field == v.title {
			continue
		}
		for i, p := range h.Highlights[field] {
			if i == maxPassages {
				break
			}
			fmt.Fprintf(b, "     %s\n", show.Passage(p, v.Color))
		}
	}
	names := v.extra
	if slices.Contains(names, "*") {
		names = slices.Sorted(maps.Keys(h.Fields))
	}
	for _, name := range names {
		if value, ok := h.Fields[name]; ok && name != v.title {
			fmt.Fprintf(b, "     %s: %s\n", name, show.Value(value, 200))
		}
	}
	if h.Explanation != nil && v.explain {
		show.Tree(b, h.Explanation, "     ")
	}
}

// legs tells what each leg gave.
func legs(h *index.Hit) string {
	leg := func(name string, l *index.Leg) string {
		if l == nil {
			return name + " –"
		}
		return fmt.Sprintf("%s #%d %.3f", name, l.Rank, l.Score)
	}
	out := leg("keyword", h.Keyword) + ", " + leg("vector", h.Vector)
	if h.Sparse != nil {
		out += ", " + leg("sparse", h.Sparse)
	}
	return "(" + out + ")"
}

func facet(b *strings.Builder, name string, counts []index.FacetCount, color bool) {
	fmt.Fprintf(b, "%s\n", show.Bold(show.Line(name, 0), color))
	rows := make([][]string, len(counts))
	for i, c := range counts {
		rows[i] = []string{"  " + show.Value(c.Value, 60), fmt.Sprint(c.Count)}
	}
	b.WriteString(show.Table(rows, []bool{false, true}))
}

func plan(b *strings.Builder, p *index.Plan) {
	fmt.Fprintf(b, "plan: %d of %d documents pass the filter\n", p.Matches, p.Documents)
	for _, s := range p.Segments {
		fmt.Fprintf(b, "  %s: %d of %d", s.Segment, s.Matches, s.Docs)
		if s.Vector != "" {
			fmt.Fprintf(b, ", vectors: %s, ef %d, %d distances, %d hops, %d rescored", s.Vector, s.Ef, s.Distances, s.Hops, s.Rescored)
		}
		for _, way := range []struct {
			name string
			us   float64
		}{{"scan", s.Scan}, {"graph", s.Graph}, {"two-hop", s.TwoHop}} {
			if way.us > 0 {
				fmt.Fprintf(b, ", %s estimated %.0f µs", way.name, way.us)
			}
		}
		b.WriteByte('\n')
	}
}
