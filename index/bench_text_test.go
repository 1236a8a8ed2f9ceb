package index

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/quarrysearch/quarry/bm25"
	"github.com/quarrysearch/quarry/index/keyword"
	"github.com/quarrysearch/quarry/storage"
)

// textKinds are queries of the pages of tldr, one of each kind.
func textKinds() map[string]*TextQuery {
	one := map[string]float64{"text": 1}
	clause := func(c keyword.Clause) *TextQuery { return &TextQuery{Clause: &c, Fields: one} }
	return map[string]*TextQuery{
		"or":               {Text: "list files in a directory", Fields: one},
		"query string":     {QueryString: "list files in a directory", Fields: one},
		"must and not":     {QueryString: "+list +files -directory", Fields: one},
		"phrase":           {QueryString: `"files in a directory"`, Fields: one},
		"phrase slop":      {QueryString: `"files directory"~4`, Fields: one},
		"fuzzy 1":          clause(keyword.Clause{Fuzzy: "direcotry", Errors: 1}),
		"fuzzy 2":          clause(keyword.Clause{Fuzzy: "diretcoryy", Errors: 2}),
		"fuzzy four words": clause(keyword.Clause{Fuzzy: "lits filse in direcotry"}),
		"prefix":           {QueryString: "direc*", Fields: one},
		"wildcard":         {QueryString: "d?rec*y", Fields: one},
		"wildcard first":   {QueryString: "*ectory", Fields: one},
		"regexp":           clause(keyword.Clause{Regexp: "(direct|fil)[a-z]*"}),
		"constant":         clause(keyword.Clause{Constant: &keyword.Clause{Match: "files directory", Operator: keyword.And}}),
		"filter":           clause(keyword.Clause{Bool: &keyword.Bool{Filter: []keyword.Clause{{Match: "files"}}, Should: []keyword.Clause{{Match: "list directory"}}}}),
		"sum":              {Text: "list files in a directory"},
		"best":             {Text: "list files in a directory", Join: keyword.JoinBest, TieBreaker: .3},
		"together":         {Text: "list files in a directory", Join: keyword.JoinTogether},
	}
}

func openTLDR(t testing.TB) *Index {
	lines := stagedDocs(t, "tldr/docs.jsonl.gz")
	ix := mustOpen(t, storage.NewMemFS(), func(o *Options) { o.Schema = &tldrSchema })
	importTLDR(t, ix, lines)
	return ix
}

// TestRealTextKindsEqualExhaustive holds the hits of each kind of query on a
// real collection against those of the scorer that reads everything.
func TestRealTextKindsEqualExhaustive(t *testing.T) {
	ix := openTLDR(t)
	s, err := ix.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, q := range textKinds() {
		for _, k := range []int{1, 10, 100} {
			sr, err := s.newSearch(bg, Query{K: k, Text: q})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(sr.applyFilter(), sr.text.bind(sr)); err != nil {
				t.Fatal(err)
			}
			var want []string
			for i := range s.segs {
				all, err := sr.text.bound.Exhaustive(i, 1<<30, sr.accept(i, s.segs[i]), 0)
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range all {
					want = append(want, fmt.Sprintf("%020d %s", 1<<60-h.Raw, sr.id(place{uint32(i), h.Doc})))
				}
			}
			slices.Sort(want)
			var got []string
			for _, h := range mustSearch(t, ix, Query{K: k, Text: q}).Hits {
				got = append(got, fmt.Sprintf("%020d %s", 1<<60-int64(h.Keyword.Raw*bm25.Scale), h.ID))
			}
			if len(want) == 0 || !slices.Equal(got, want[:min(k, len(want))]) {
				t.Errorf("%s, k %d: %d of %d hits differ", name, k, len(got), len(want))
			}
		}
	}
}

// BenchmarkTextKinds asks each kind of query of the pages of tldr.
func BenchmarkTextKinds(b *testing.B) {
	ix := openTLDR(b)
	if err := ix.Merge(bg, 1); err != nil {
		b.Fatal(err)
	}
	kinds := textKinds()
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := ix.Search(bg, Query{K: 10, Text: kinds[name]}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("suggest", func(b *testing.B) {
		s, err := ix.Snapshot()
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		for b.Loop() {
			if _, err := s.Suggest(bg, "text", "lits filse in direcotry", 5); err != nil {
				b.Fatal(err)
			}
		}
	})
}
