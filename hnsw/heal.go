package hnsw

import (
	"slices"

	"github.com/quarrysearch/quarry/storage"
)

// A reuse is what a merge takes from the graphs of its inputs.
type reuse struct {
	inputs []MergeInput
	at     []mergeRow // input row → where it comes from
	main   int        // the input whose graph is kept
	// ranks of the inputs' nodes, by ord; none for those that are gone. Until
	// place has chosen the ranks, input rows.
	ranks [][]uint32
}

const (
	// seededPart is the part of EfConstruction with which a node is inserted
	// whose old neighbors are known: the walk starts among the nearest. It must
	// find twice the links that the node gets, for the diversity rule to choose.
	seededPart = 2
	// seedsLeast is the number of known neighbors with which a walk may start
	// from them instead of from the entry point.
	seedsLeast = 4
)

// place chooses the ranks of a merge: on each level the nodes kept, which are
// linked already, then those to insert; last the ones held out, drawn from both,
// which count as gone until the calibration. It returns the ranks to insert,
// without those held out, and how many these are.
//
// The nodes inserted get their part of the upper levels, so that the graph's
// top keeps covering what is in it.
func (u *reuse) place(b *builder, dup []uint64) ([]span, int, error) {
	if err := u.standIns(b); err != nil {
		return nil, 0, err
	}
	up, counts, low, err := u.survivors()
	if err != nil {
		return nil, 0, err
	}
	kept := make([]uint64, len(dup))
	for _, rows := range [][]uint32{up, low} {
		for _, i := range rows {
			kept[i/64] |= 1 << (i % 64)
		}
	}
	var news []uint32
	for i := range b.docs {
		if (dup[i/64]|kept[i/64])>>(i%64)&1 == 0 {
			news = append(news, uint32(i))
		}
	}
	shuffleRows(news, b.o.Seed)
	target := levelCounts(b.nodes, b.o.M)
	row := make([]uint32, 0, b.nodes)
	var spans []span
	news0, upNew := len(news), 0
	for l := len(target); l > 0; l-- {
		had, used := 0, len(row)-upNew
		if len(up) > 0 {
			had = 1 // the entry point, on every level
		}
		if l <= len(counts) {
			had = max(had, counts[l-1])
		}
		row = append(row, up[used:max(had, used)]...)
		want := min(max(target[l-1]-had, upNew), news0)
		lo := len(row)
		row = append(row, news[:want-upNew]...)
		news = news[want-upNew:]
		upNew = want
		if len(row) > lo {
			spans = append(spans, span{lo, len(row)})
		}
		target[l-1] = len(row)
	}
	low = append(up[len(row)-upNew:], low...)
	low, news, held := u.holdOut(b, low, news)
	row = append(row, low...)
	if len(news) > 0 {
		spans = append(spans, span{len(row), len(row) + len(news)})
	}
	copy(b.row, append(append(row, news...), held...))
	rank := b.settle()
	for _, ranks := range u.ranks {
		for ord, i := range ranks {
			if i != none {
				ranks[ord] = rank[i]
			}
		}
	}
	b.makeLevels(target)
	return spans, len(held), nil
}

// holdOut draws the nodes for the calibration from those on level 0.
func (u *reuse) holdOut(b *builder, low, news []uint32) (lowLeft, newsLeft, held []uint32) {
	pool := slices.Concat(low, news)
	shuffleRows(pool, ^b.o.Seed)
	held = pool[:min(b.heldOut(), len(pool)/2)]
	out := make([]uint64, (len(b.docs)+63)/64)
	for _, i := range held {
		out[i/64] |= 1 << (i % 64)
	}
	isHeld := func(i uint32) bool { return out[i/64]>>(i%64)&1 == 1 }
	low, news = slices.DeleteFunc(low, isHeld), slices.DeleteFunc(news, isHeld)
	// Vectors that were near in their own graph come one after the other: what
	// one walk has read, the next finds in the cache.
	slices.SortFunc(news, func(x, y uint32) int {
		p, q := u.at[x], u.at[y]
		if p.input != q.input {
			return int(p.input) - int(q.input)
		}
		return int(int64(p.ord) - int64(q.ord))
	})
	return low, news, held
}

// standIns fills u.ranks with the input row of the node that will stand for
// each old node: another one may have the same code and a lower doc, and the
// node itself may be gone but not its duplicates.
func (u *reuse) standIns(b *builder) error {
	rep := make([]uint32, len(b.docs))
	for i := range rep {
		rep[i] = uint32(i)
	}
	for _, g := range b.groups {
		for _, i := range b.row[b.nodes+g.first : b.nodes+g.end] {
			rep[i] = g.rep
		}
	}
	owners := make([][]uint32, len(u.inputs))
	u.ranks = make([][]uint32, len(u.inputs))
	for i, in := range u.inputs {
		var err error
		if owners[i], err = in.Field.owners(); err != nil {
			return err
		}
		u.ranks[i] = slices.Repeat([]uint32{none}, in.Field.nodes)
	}
	for i, r := range u.at {
		ord := r.ord
		if nodes := len(u.ranks[r.input]); uint64(ord) >= uint64(nodes) {
			ord = owners[r.input][int(ord)-nodes]
		}
		u.ranks[r.input][ord] = rep[i]
	}
	return nil
}

// owners gives for each duplicate, from ord nodes on, the ord of its node.
func (f *Field) owners() ([]uint32, error) {
	owner := make([]uint32, f.n-f.nodes)
	for i := range f.groupCount {
		first, end, err := f.groupRange(i)
		if err != nil {
			return nil, err
		}
		node := f.groups[2*i]
		if uint64(node) >= uint64(f.nodes) {
			return nil, storage.Corruptf(sectionGroups, int64(8*i), "node %d of %d", node, f.nodes)
		}
		for d := first; d < end; d++ {
			owner[int(d)-f.nodes] = node
		}
	}
	return owner, nil
}

// survivors lists the input rows that stand for the nodes kept: up those above
// level 0, highest first, with their counts on level 1, 2, …; low the others in
// the order of ords. A row stands for one node only.
func (u *reuse) survivors() (up []uint32, counts []int, low []uint32, err error) {
	f, rows := u.inputs[u.main].Field, u.ranks[u.main]
	seen := make([]uint64, (len(u.at)+63)/64)
	take := func(ord uint32) (uint32, bool) {
		i := rows[ord]
		if i == none {
			return 0, false
		}
		if seen[i/64]>>(i%64)&1 == 1 {
			rows[ord] = none
			return 0, false
		}
		seen[i/64] |= 1 << (i % 64)
		return i, true
	}
	counts = make([]int, len(f.counts))
	above := make([]uint64, (f.nodes+63)/64)
	for pos, ord := range f.ordsOf {
		if uint64(ord) >= uint64(f.nodes) || above[ord/64]>>(ord%64)&1 == 1 {
			return nil, nil, nil, f.badUpper(1, ord)
		}
		above[ord/64] |= 1 << (ord % 64)
		i, ok := take(ord)
		if !ok {
			continue
		}
		up = append(up, i)
		for l, c := range f.counts {
			if pos < c {
				counts[l]++
			}
		}
	}
	for ord := range f.nodes {
		if above[ord/64]>>(ord%64)&1 == 1 {
			continue
		}
		if i, ok := take(uint32(ord)); ok {
			low = append(low, i)
		}
	}
	if len(up) == 0 && len(low) > 0 {
		up, low = low[:1:1], low[1:]
	}
	return up, counts, low, nil
}

// seed puts into w.beam the neighbors that rank r had in its own graph, as far
// as they are linked already, and says whether they are enough to start from.
func (u *reuse) seed(b *builder, w *worker, r, frozen int) (bool, error) {
	at := u.at[b.row[r]]
	f, ranks := u.inputs[at.input].Field, u.ranks[at.input]
	if !f.graph || uint64(at.ord) >= uint64(f.nodes) {
		return false, nil
	}
	w.grow(max(f.m0, cap(w.ids)))
	ids := w.ids[:0]
	for i, to := range f.base.row(at.ord) {
		if to == none {
			break
		}
		if uint64(to) >= uint64(f.nodes) {
			return false, f.badLink(0, int(at.ord)*f.m0+i, to)
		}
		if rank := ranks[to]; rank != none && int(rank) < frozen {
			ids = append(ids, rank)
		}
	}
	if len(ids) < seedsLeast {
		return false, nil
	}
	w.query.Distances(b.codes, ids, w.dists)
	w.beam.reset(b.o.EfConstruction)
	for i, id := range ids {
		if k := makeKey(w.dists[i], id); !slices.Contains(w.beam.keys, k) {
			w.beam.insert(k)
		}
	}
	return true, nil
}

func (f *Field) badLink(l, place int, to uint32) error {
	if l > 0 {
		return f.badUpper(l, to)
	}
	return storage.Corruptf(sectionLinks0, int64(4*place), "link to %d of %d", to, f.nodes)
}

// heal takes over the links among the ranks below kept, on every level, and
// gives nodes that had links to others new ones. It returns how many of them
// were on level 0.
func (b *builder) heal(kept int) (int, error) {
	f, ranks := b.old.inputs[b.old.main].Field, b.old.ranks[b.old.main]
	healed := 0
	for l := range b.levels {
		t, rank := &f.base, ranks
		if l > len(f.upper) {
			break
		}
		if l > 0 {
			t, rank = &f.upper[l-1], make([]uint32, len(f.ordsOf))
			for pos, ord := range f.ordsOf {
				rank[pos] = ranks[ord]
			}
		}
		lv := &b.levels[l]
		h := healer{b: b, f: f, l: l, lv: lv, table: t, rank: rank, kept: uint32(min(kept, lv.n))}
		lost := make([]bool, t.n)
		err := b.parallel(t.n, grain, func(w *worker, id int) error {
			var err error
			lost[id], err = h.node(w, uint32(id))
			return err
		})
		if err != nil {
			return 0, err
		}
		b.pairs = b.pairs[:0]
		for _, w := range b.workers {
			for _, p := range w.gained {
				// The target may have gained the link on its own.
				t := p >> 32
				if !slices.Contains(lv.row(uint32(t))[:lv.degree[t]], uint32(p)) {
					b.pairs = append(b.pairs, p)
				}
			}
			w.gained = w.gained[:0]
		}
		if err := b.linkBack(lv); err != nil {
			return 0, err
		}
		for _, was := range lost {
			if l == 0 && was {
				healed++
			}
		}
	}
	return healed, nil
}

// A healer takes over one level of a graph.
type healer struct {
	b     *builder
	f     *Field
	l     int
	lv    *level
	table *linkTable
	rank  []uint32 // id in table → rank
	kept  uint32   // ranks from here on are gone
}

// node takes over the links of a node, and says whether it had lost any. In the
// place of a neighbor that is gone come those behind it: its own neighbors, and
// where these are few, the neighbors of those that are gone too. The diversity
// rule chooses among them and the links left, as at an insertion, so a healed
// row is as good as a new one however often it is healed.
func (h *healer) node(w *worker, id uint32) (bool, error) {
	r := h.rank[id]
	if r >= h.kept {
		return false, nil
	}
	lv := h.lv
	w.visited.reset(lv.n)
	w.visited.marks[r] = w.visited.version
	w.out, w.gone = w.out[:0], w.gone[:0]
	if err := h.look(w, id); err != nil {
		return false, err
	}
	left := len(w.out)
	if len(w.gone) == 0 {
		copy(lv.row(r), w.out)
		lv.setDegree(int(r), left)
		return false, nil
	}
	ring := len(w.gone)
	for i := 0; i < len(w.gone) && i < healReach; i++ {
		if i >= ring && len(w.out) >= lv.keep {
			break
		}
		if err := h.look(w, w.gone[i]); err != nil {
			return false, err
		}
	}
	old := append([]uint32(nil), w.out[:left]...)
	h.b.reselect(w, lv, int(r), w.out)
	for _, to := range lv.row(r)[:lv.degree[r]] {
		if !slices.Contains(old, to) {
			w.gained = append(w.gained, uint64(to)<<32|uint64(r))
		}
	}
	return true, nil
}

// healReach is the number of nodes that are gone of which healing a row reads
// the links.
const healReach = 64

// look adds the neighbors of id that are new to w.out, as ranks, and those that
// are gone to w.gone, as ids.
func (h *healer) look(w *worker, id uint32) error {
	for i, to := range h.table.row(id) {
		if to == none {
			break
		}
		if uint64(to) >= uint64(h.table.n) {
			return h.f.badLink(h.l, int(id)*h.table.stride+i, to)
		}
		switch r := h.rank[to]; {
		case r >= h.kept:
			if len(w.gone) < healReach && !slices.Contains(w.gone, to) {
				w.gone = append(w.gone, to)
			}
		case w.visited.marks[r] != w.visited.version:
			w.visited.marks[r] = w.visited.version
			w.out = append(w.out, r)
		}
	}
	return nil
}
