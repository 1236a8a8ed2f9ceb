package bm25

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/bm25/pattern"
)

// TestPassages holds pruned searches to the exhaustive one over a real corpus:
// QUARRY_PASSAGES is a folder with passages.txt, a text a line, and with the
// queries q_union.txt, q_and.txt and q_phrase.txt, words a line, on which quarry
// bench text is run. Every query is asked in its own way, and every tenth (with
// QUARRY_LONG=1 each) in all the others, at k 10, 100 and 1,000, without a filter
// and with filters of 1, 10 and 50 %, over two segments with the floor carried on.
func TestPassages(t *testing.T) {
	dir := os.Getenv("QUARRY_PASSAGES")
	if dir == "" {
		t.Skip("QUARRY_PASSAGES is not set")
	}
	p := &passages{t: t}
	lines := func(name string) []string { return readLines(t, filepath.Join(dir, name)) }
	p.build(lines("passages.txt"))
	way := func(query func([]string) Query, files ...string) {
		for _, f := range files {
			own := len(files) == 1
			for i, line := range lines(f) {
				words := strings.Fields(line)
				if len(words) == 0 || !own && i%10 != 0 && os.Getenv("QUARRY_LONG") != "1" {
					continue
				}
				if q := query(words); q != nil {
					p.queries = append(p.queries, q)
				}
			}
		}
	}
	f := []FieldBoost{{"t", 1}}
	or := func(w []string) Query { return Terms{Fields: f, Words: Words(w...)} }
	and := func(w []string) Query { return Terms{Fields: f, Words: Words(w...), Operator: And} }
	phrase := func(w []string) Query { return Phrase{Fields: f, Words: PhraseOf(w...)} }
	way(or, "q_union.txt")
	way(and, "q_and.txt")
	way(phrase, "q_phrase.txt")
	all := []string{"q_union.txt", "q_and.txt", "q_phrase.txt"}
	way(or, all[1:]...)
	way(func(w []string) Query { return Terms{Fields: f, Words: Words(w...), MinimumShouldMatch: 2} }, all...)
	way(func(w []string) Query { return Phrase{Fields: f, Words: PhraseOf(w...), Slop: 3} }, all...)
	way(func(w []string) Query {
		last := w[len(w)-1]
		return Phrase{Fields: f, Words: PhraseOf(append(w[:len(w)-1:len(w)-1], last[:min(2, len(last))])...), LastPrefix: true}
	}, all...)
	way(func(w []string) Query { return Prefix{Fields: f, Prefix: [][]byte{[]byte(w[0][:min(3, len(w[0]))])}} }, all...)
	for errs := 1; errs <= 2; errs++ {
		way(func(w []string) Query { return p.fuzzy(f, w[0], errs) }, all...)
	}
	way(func(w []string) Query {
		q := Boolean{Must: []Query{or(w)}, Should: []Query{phrase(w), p.fuzzy(f, w[len(w)-1], 1)}}
		if len(w) > 2 {
			q.MustNot = []Query{and(w[:2])}
		}
		return q
	}, all...)
	way(func(w []string) Query {
		return Boolean{Filter: []Query{or(w[:1])}, Should: []Query{Boost{or(w), 2}, Constant{and(w), 0.5}}}
	}, all...)
	way(func(w []string) Query { return Best{Queries: []Query{and(w), or(w), phrase(w)}, TieBreaker: 0.3} }, all...)
	p.run()
}

func readLines(t *testing.T, name string) (out []string) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		out = append(out, s.Text())
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

type passages struct {
	t       *testing.T
	segs    []SegmentFields
	docs    []uint32
	filters [][]Accept // a segment
	queries []Query

	next, compared, hits atomic.Int64
	mu                   sync.Mutex
	kinds                map[string]int
}

// build indexes the lines as two segments, the second of a third of them.
func (p *passages) build(lines []string) {
	a, err := analysis.New("standard")
	if err != nil {
		p.t.Fatal(err)
	}
	cut := len(lines) * 2 / 3
	for _, part := range [][]string{lines[:cut], lines[cut:]} {
		var s analysis.Scratch
		b := NewBuilder()
		for d, line := range part {
			b.StartDoc(uint32(d))
			a.Tokens(&s, line, func(k *analysis.Token) { b.Token(k.Term, k.Position) })
			b.EndDoc()
		}
		out := sections{}
		if err := WriteAll(out.create, []*Builder{b}, 2); err != nil {
			p.t.Fatal(err)
		}
		n := uint32(len(part))
		p.segs, p.docs = append(p.segs, SegmentFields{"t": openField(p.t, out, n)}), append(p.docs, n)
		accepts := []Accept{{}}
		for _, share := range []uint32{1, 10, 50} {
			words, docs := make([]uint64, (n+63)/64), []uint32(nil)
			for d := range n {
				if d*2654435761>>16%100 < share {
					words[d/64] |= 1 << (d % 64)
					docs = append(docs, d)
				}
			}
			if accepts = append(accepts, AcceptBits(words)); share == 1 {
				accepts = append(accepts, AcceptDocs(docs))
			}
		}
		p.filters = append(p.filters, accepts)
	}
}

func (p *passages) fuzzy(f []FieldBoost, word string, errs int) Query {
	d, err := pattern.Fuzzy(word, errs, 1)
	if err != nil {
		p.t.Fatal(err)
	}
	return Pattern{Fields: f, Match: []*pattern.DFA{d}}
}

// run compares all queries in two goroutines.
func (p *passages) run() {
	p.kinds = map[string]int{}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			var s Scratch
			for i := p.next.Add(1) - 1; i < int64(len(p.queries)) && !p.t.Failed(); i = p.next.Add(1) - 1 {
				if err := p.compare(p.queries[i], &s); err != nil {
					p.t.Errorf("%#v: %v", p.queries[i], err)
				}
			}
		})
	}
	wg.Wait()
	if p.t.Failed() {
		return
	}
	p.t.Logf("%d docs, %d queries (with hits, by kind: %v), %d searches of %d hits, all equal", p.docs[0]+p.docs[1], len(p.queries), p.kinds, p.compared.Load(), p.hits.Load())
}

// compare holds TopK and Count of a query to its exhaustive list.
func (p *passages) compare(q Query, s *Scratch) error {
	b, err := Bind(q, p.segs, nil)
	if err != nil {
		return err
	}
	var lists [2][]Scored
	for seg := range p.segs {
		if lists[seg], err = b.Exhaustive(seg, math.MaxInt, Accept{}, 0); err != nil {
			return err
		}
	}
	if len(lists[0]) > 0 {
		p.mu.Lock()
		p.kinds[q.kind()]++
		p.mu.Unlock()
	}
	var got []Scored
	for a := range p.filters[0] {
		var kept [2][]Scored
		for seg, list := range lists {
			for _, h := range list {
				if p.filters[seg][a].Has(h.Doc) {
					kept[seg] = append(kept[seg], h)
				}
			}
			n, err := b.Count(seg, p.filters[seg][a], s)
			if err != nil || n != len(kept[seg]) {
				return fmt.Errorf("filter %d, segment %d: count %d, want %d: %v", a, seg, n, len(kept[seg]), err)
			}
		}
		for _, k := range []int{10, 100, 1000} {
			floor := Floor(0)
			for seg, want := range kept {
				want = want[:min(k, len(want))]
				if n := slices.IndexFunc(want, func(h Scored) bool { return h.Raw < int64(floor) }); n >= 0 {
					want = want[:n]
				}
				if got, err = b.TopK(seg, k, p.filters[seg][a], floor, s, got[:0]); err != nil || !slices.Equal(got, want) {
					return fmt.Errorf("k %d, filter %d, segment %d, floor %d: %d hits, want %d: %v", k, a, seg, floor, len(got), len(want), err)
				}
				if len(want) == k {
					floor = Floor(want[k-1].Raw)
				}
				p.compared.Add(1)
				p.hits.Add(int64(len(got)))
			}
		}
	}
	return nil
}
