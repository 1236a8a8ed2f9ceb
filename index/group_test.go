package index

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// plainGroups makes the groups from the list of all hits.
func plainGroups(hits []Hit, tags map[string][]string, k, size int) map[string][]string {
	out := map[string][]string{}
	for _, h := range hits {
		for _, v := range tags[h.ID] {
			if _, ok := out[v]; !ok && len(out) == k {
				continue
			}
			if len(out[v]) < size {
				out[v] = append(out[v], h.ID)
			}
		}
	}
	return out
}

// TestGroupsEqualThoseOfTheWholeList holds groups against the list of every
// hit, for each kind of leg, many shapes and values of very different size.
func TestGroupsEqualThoseOfTheWholeList(t *testing.T) {
	const n = 700
	r := rand.New(rand.NewPCG(5, 9))
	ix := mustOpen(t, storage.NewMemFS(), func(o *Options) { o.MutableBytes = 64 << 10 })
	tags := map[string][]string{}
	for at := 0; at < n; {
		b := NewBatch()
		for range 1 + r.IntN(300) {
			d := searchDocument(r, at)
			at++
			var of []string
			for range []int{0, 1, 1, 1, 1, 3}[r.IntN(6)] {
				of = append(of, fmt.Sprintf("t%02d", int(40*r.Float64()*r.Float64()*r.Float64())))
			}
			slices.Sort(of)
			of = slices.Compact(of)
			tags[d.ID] = of
			switch {
			case len(of) == 1:
				d.Meta["tag"] = of[0]
			case of != nil:
				d.Meta["tag"] = of
			case r.IntN(2) == 0:
				d.Meta["tag"] = nil
			}
			b.Put(d)
		}
		if err := ix.Apply(bg, b); err != nil {
			t.Fatal(err)
		}
	}
	for name, q := range queries() {
		q.Facets, q.Count, q.Fields = nil, false, nil
		q.K, q.Depth = MaxK, MaxK
		all := mustSearch(t, ix, q).Hits
		for _, shape := range [][2]int{{1, 1}, {1, 40}, {3, 2}, {10, 3}, {60, 5}} {
			q.K, q.Group = shape[0], &GroupRequest{Field: "tag", Size: shape[1]}
			got := mustSearch(t, ix, q)
			ids := map[string][]string{}
			for i, g := range got.Groups {
				for _, h := range g.Hits {
					ids[g.Value.(string)] = append(ids[g.Value.(string)], h.ID)
				}
				if i > 0 {
					before := got.Groups[i-1]
					if order := cmp.Or(cmp.Compare(before.Hits[0].Score, g.Hits[0].Score)*-1,
						cmp.Compare(before.Hits[0].ID, g.Hits[0].ID), cmp.Compare(before.Value.(string), g.Value.(string))); order >= 0 {
						t.Errorf("%s: groups %v and %v are out of order", name, before.Value, g.Value)
					}
				}
			}
			if d := gocmp.Diff(plainGroups(all, tags, shape[0], shape[1]), ids); d != "" {
				t.Errorf("%s: %d groups of %d:\n%s", name, shape[0], shape[1], d)
			}
		}
		q.Group = nil
	}
}

func TestGroupMinScoreAndRanks(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	b := NewBatch()
	for i := range 40 {
		text := "river"
		if i%2 == 1 {
			text = "a long text that mentions the river only once, in passing"
		}
		b.Put(Document{ID: fmt.Sprintf("d%02d", i), Text: map[string]string{"body": text}, Meta: map[string]any{"n": i % 4}})
	}
	if err := ix.Apply(bg, b); err != nil {
		t.Fatal(err)
	}
	q := Query{K: 10, Text: &TextQuery{Text: "river"}, Group: &GroupRequest{Field: "n", Size: 2}}
	all := mustSearch(t, ix, q)
	if len(all.Groups) != 4 || all.Groups[0].Value != int64(0) || all.Groups[3].Value != int64(3) {
		t.Fatalf("groups %v", all.Groups)
	}
	if h := all.Groups[3].Hits[1]; h.Keyword.Rank != 2 || h.ID != "d07" {
		t.Errorf("second hit of the last group: %+v", h)
	}
	q.MinScore = all.Groups[0].Hits[0].Score
	if r := mustSearch(t, ix, q); len(r.Groups) != 2 || len(r.Groups[1].Hits) != 2 || len(r.Hits) != 0 {
		t.Errorf("with a minimum score: %+v", r.Groups)
	}
	q.Filter, q.MinScore, q.Count = filter.Gte("n", 2), 0, true
	if r := mustSearch(t, ix, q); len(r.Groups) != 2 || r.Total != 20 || r.Groups[0].Value != int64(2) {
		t.Errorf("filtered: %+v", r)
	}
}

func TestGroupBadRequests(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), func(o *Options) { o.Schema.Meta["price"] = filter.Float64 })
	for name, q := range map[string]Query{
		"unknown":   {K: 1, Group: &GroupRequest{Field: "nothing"}},
		"text":      {K: 1, Group: &GroupRequest{Field: "body"}},
		"fractions": {K: 1, Group: &GroupRequest{Field: "price"}},
		"offset":    {K: 1, Offset: 1, Group: &GroupRequest{Field: "lang"}},
		"negative":  {K: 1, Group: &GroupRequest{Field: "lang", Size: -1}},
		"too many":  {K: 5000, Group: &GroupRequest{Field: "lang", Size: 3}},
	} {
		if _, err := ix.Search(bg, q); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
