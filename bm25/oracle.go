package bm25

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quarrysearch/quarry/storage"
)

// Exhaustive is TopK without any pruning: every postings list of the query is
// read from end to end, whole lists are joined, and the result is sorted. It
// is the oracle that TopK is tested against.
func (b *Bound) Exhaustive(seg, k int, accept Accept, floor Floor) ([]Scored, error) {
	if seg < 0 || seg >= b.segs {
		return nil, storage.Invalidf("bm25: segment %d of %d", seg, b.segs)
	}
	all, err := b.list(b.root, seg)
	if err != nil {
		return nil, err
	}
	kept := all[:0]
	for _, h := range all {
		if h.Raw <<= b.shift; h.Raw >= int64(floor) && accept.Has(h.Doc) {
			kept = append(kept, h)
		}
	}
	slices.SortFunc(kept, func(x, y Scored) int {
		return cmp.Or(cmp.Compare(y.Raw, x.Raw), cmp.Compare(x.Doc, y.Doc))
	})
	return append([]Scored(nil), kept[:max(min(k, len(kept)), 0)]...), nil
}

// list returns all docs of a node with their scores, by doc.
func (b *Bound) list(n *node, seg int) ([]Scored, error) {
	if n.op == opLeaf {
		return b.listLeaf(&b.leaves[n.leaf], seg)
	}
	switch n.op {
	case opMax:
		return b.listBest(n, seg)
	case opConst:
		out, err := b.list(n.kids[0], seg)
		for i := range out {
			out[i].Raw = int64(n.raw)
		}
		return out, err
	}
	type tally struct {
		raw                    int64
		must, filter, any, not int
	}
	docs := map[uint32]*tally{}
	at := func(doc uint32) *tally {
		if docs[doc] == nil {
			docs[doc] = &tally{}
		}
		return docs[doc]
	}
	kids, should, least := n.kids, n.should, n.min
	if n.op == opAny {
		kids, should = nil, n.kids
	}
	for _, part := range []struct {
		kids []*node
		add  func(t *tally, raw int64)
	}{
		{kids, func(t *tally, raw int64) { t.must++; t.raw += raw }},
		{n.filter, func(t *tally, raw int64) { t.filter++ }},
		{should, func(t *tally, raw int64) { t.any++; t.raw += raw }},
		{n.not, func(t *tally, _ int64) { t.not++ }},
	} {
		for _, kid := range part.kids {
			hits, err := b.list(kid, seg)
			if err != nil {
				return nil, err
			}
			for _, h := range hits {
				part.add(at(h.Doc), h.Raw)
			}
		}
	}
	var out []Scored
	for doc, t := range docs {
		t.raw += int64(n.raw)
		if t.must == len(kids) && t.filter == len(n.filter) && t.any >= least && t.not == 0 && t.raw > 0 {
			out = append(out, Scored{doc, t.raw})
		}
	}
	slices.SortFunc(out, func(x, y Scored) int { return cmp.Compare(x.Doc, y.Doc) })
	return out, nil
}

// listBest is list for a maximum.
func (b *Bound) listBest(n *node, seg int) ([]Scored, error) {
	scores := map[uint32][]uint64{}
	for _, kid := range n.kids {
		hits, err := b.list(kid, seg)
		if err != nil {
			return nil, err
		}
		for _, h := range hits {
			scores[h.Doc] = append(scores[h.Doc], uint64(h.Raw))
		}
	}
	var out []Scored
	for doc, s := range scores {
		out = append(out, Scored{doc, int64(n.best(s))})
	}
	slices.SortFunc(out, func(x, y Scored) int { return cmp.Compare(x.Doc, y.Doc) })
	return out, nil
}

// listLeaf reads the lists of a leaf from end to end.
func (b *Bound) listLeaf(l *leaf, seg int) ([]Scored, error) {
	type posting struct {
		terms int
		freq  uint32
		pos   [][]uint32
	}
	docs := map[uint32]*posting{}
	var c cursor
	var bt batch
	for i, t := range l.terms {
		e := &b.entries[seg*len(b.terms)+t]
		if e.df == 0 {
			continue
		}
		f, inv := b.fields[b.terms[t].field].perSeg[seg], b.fields[l.field].inv
		if l.kind == leafCombined {
			inv = l.inverses[i]
		}
		c.open(f, e, l.w, inv)
		for {
			ok, err := c.nextBatch(&bt, l.kind == leafPhrase)
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			pos := bt.pos
			for i, d := range bt.docs[:bt.n] {
				p := docs[d]
				if p == nil {
					p = &posting{}
					docs[d] = p
				}
				p.terms++
				if l.kind == leafCombined {
					p.freq += combinedFreq(bt.freqs[i], inv[f.norms[d]], b.present(l, seg))
				} else {
					p.freq += bt.freqs[i]
				}
				if l.kind == leafPhrase {
					p.pos = append(p.pos, slices.Clone(pos[:bt.freqs[i]]))
					pos = pos[bt.freqs[i]:]
				}
			}
		}
	}
	var out []Scored
	var places []int
	for d, p := range docs {
		freq := p.freq
		if l.kind == leafPhrase {
			freq = 0
			if p.terms == len(l.terms) {
				freq = countPhrase(p.pos, l, &places)
			}
		}
		switch {
		case freq == 0:
		case l.kind == leafCombined:
			out = append(out, Scored{d, int64(contribution(l.w, freq, 1/float32(combinedUnit)))})
		default:
			f := &b.fields[l.field]
			out = append(out, Scored{d, int64(contribution(l.w, freq, f.inv[f.perSeg[seg].norms[d]]))})
		}
	}
	slices.SortFunc(out, func(x, y Scored) int { return cmp.Compare(x.Doc, y.Doc) })
	return out, nil
}

// present counts the fields of a segment that have the word of a combined leaf.
func (b *Bound) present(l *leaf, seg int) int {
	n := 0
	for _, t := range l.terms {
		if b.entries[seg*len(b.terms)+t].df > 0 {
			n++
		}
	}
	return n
}

// An Explanation says how a raw score came about. Raw is the sum of the Raw of
// Details, where there are any.
type Explanation struct {
	Description string
	Raw         int64
	Matched     bool
	Details     []Explanation
}

// ScoreDoc returns the raw score of one doc, and whether it matches, by
// seeking every clause. It allocates; meant for explanations and few docs.
func (b *Bound) ScoreDoc(seg int, doc uint32) (raw int64, ok bool, err error) {
	e, err := b.Explain(seg, doc)
	if err != nil {
		return 0, false, err
	}
	return e.Raw, e.Matched, nil
}

// Explain returns the tree of clauses with what each adds to the doc's score.
// Clauses that do not match, and those under a part that does not, add 0.
func (b *Bound) Explain(seg int, doc uint32) (*Explanation, error) {
	if seg < 0 || seg >= b.segs || doc >= b.docs[seg] && b.docs[seg] > 0 {
		return nil, storage.Invalidf("bm25: doc %d of segment %d is out of range", doc, seg)
	}
	e, err := b.explain(b.root, seg, doc)
	e.scale(b.shift)
	return &e, err
}

// scale gives a tree the usual unit of scores.
func (e *Explanation) scale(shift uint) {
	e.Raw <<= shift
	for i := range e.Details {
		e.Details[i].scale(shift)
	}
}

func (b *Bound) explain(n *node, seg int, doc uint32) (Explanation, error) {
	if n.op == opLeaf {
		return b.explainLeaf(&b.leaves[n.leaf], seg, doc)
	}
	if n.op == opMax || n.op == opConst {
		return b.explainBest(n, seg, doc)
	}
	e := Explanation{}
	must, should := n.kids, n.should
	switch n.op {
	case opAny:
		must, should = nil, n.kids
		e.Description = fmt.Sprintf("at least %d of", n.min)
	case opAll:
		e.Description = "all of"
	default:
		e.Description = fmt.Sprintf("%d must, %d filter, at least %d of %d should, %d must not", len(must), len(n.filter), n.min, len(should), len(n.not))
	}
	got := [4]int{}
	for part, kids := range [4][]*node{must, should, n.filter, n.not} {
		for _, k := range kids {
			d, err := b.explain(k, seg, doc)
			if err != nil {
				return e, err
			}
			if d.Matched {
				got[part]++
			}
			if part >= 2 {
				d.clear()
			}
			e.Raw += d.Raw
			e.Details = append(e.Details, d)
		}
	}
	e.Matched = got[0] == len(must) && got[1] >= n.min && got[2] == len(n.filter) && got[3] == 0 && got[0]+got[1]+got[2] > 0
	if n.raw > 0 {
		e.Raw += int64(n.raw)
		e.Details = append(e.Details, Explanation{Description: "the least score, for the filters", Raw: int64(n.raw), Matched: true})
	}
	if !e.Matched {
		e.clear()
	}
	return e, nil
}

// explainBest explains a maximum or a constant: the parts that do not count are
// cleared, and a detail of its own stands for the share of the others.
func (b *Bound) explainBest(n *node, seg int, doc uint32) (Explanation, error) {
	e := Explanation{Description: "the best of"}
	var scores []uint64
	best := -1
	for i, k := range n.kids {
		d, err := b.explain(k, seg, doc)
		if err != nil {
			return e, err
		}
		e.Matched = e.Matched || d.Matched
		scores = append(scores, uint64(d.Raw))
		if best < 0 || d.Raw > e.Details[best].Raw {
			best = i
		}
		e.Details = append(e.Details, d)
	}
	if !e.Matched {
		e.clear()
		return e, nil
	}
	if e.Raw = int64(n.best(scores)); n.op == opConst {
		e.Description, e.Raw, best = "a constant score for", int64(n.raw), -1
	}
	rest := e.Raw
	for i := range e.Details {
		if i != best {
			e.Details[i].clear()
		}
		rest -= e.Details[i].Raw
	}
	if rest > 0 {
		what := fmt.Sprintf("%.4g of the others", float64(n.tie)/tieUnit)
		if n.op == opConst {
			what = "the constant"
		}
		e.Details = append(e.Details, Explanation{Description: what, Raw: rest, Matched: true})
	}
	return e, nil
}

// clear sets the scores of a tree that adds nothing to 0.
func (e *Explanation) clear() {
	e.Raw = 0
	for i := range e.Details {
		e.Details[i].clear()
	}
}

func (b *Bound) explainLeaf(l *leaf, seg int, doc uint32) (Explanation, error) {
	e := Explanation{Description: b.describe(l)}
	pool := make([]cursor, len(l.terms))
	var r leafRun
	if _, ok := r.start(b, seg, l, pool); !ok {
		return e, nil
	}
	var freq uint32
	if l.kind == leafPhrase {
		if r.align(doc) == doc {
			freq = r.phraseFreq(&Scratch{})
		}
	} else {
		for i := range r.cur {
			c := &r.cur[i]
			if c.seek(doc) != doc {
				continue
			}
			if l.kind == leafCombined {
				freq += combinedFreq(c.freq(), c.inv[c.f.norms[doc]], len(r.cur))
			} else {
				freq += c.freq()
			}
		}
	}
	if err := r.err(); err != nil || freq == 0 {
		return e, err
	}
	norm := r.norms[doc]
	e.Raw, e.Matched = int64(contribution(r.w, freq, r.inv[norm])), true
	if l.kind == leafCombined {
		e.Description += fmt.Sprintf(", Σ weight·tf/norm %.6g", float64(freq)/combinedUnit)
		return e, nil
	}
	e.Description += fmt.Sprintf(", freq %d, length %d, average %.4g", freq, decodeNorm(norm), b.fields[l.field].average)
	return e, nil
}

// describe names a leaf and its weight.
func (b *Bound) describe(l *leaf) string {
	f := &b.fields[l.field]
	s := ""
	for i, t := range l.terms {
		if i > 0 {
			s += " "
		}
		if i == 8 {
			s += "…"
			break
		}
		s += fmt.Sprintf("%q", b.terms[t].term)
	}
	df := uint64(0)
	for _, t := range l.terms {
		df = max(df, b.terms[t].df)
	}
	kind := [...]string{"term", "any of", "phrase", "in all fields"}[l.kind]
	return fmt.Sprintf("%s: %s %s, idf %.6g (df %d of %d), weight %.6g", f.name, kind, s, l.idf, df, f.docs, l.idf*l.boost)
}
