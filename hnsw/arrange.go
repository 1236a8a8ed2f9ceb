package hnsw

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// A dupGroup is the vectors whose codes equal those of one graph node. They
// are no nodes of their own: linked to each other at distance 0 they would
// crowd every other link out of their rows.
type dupGroup struct {
	rep   uint32 // rank of the node; its input row is the lowest of the group
	first int    // the others stand at b.row[first:end], ascending
	end   int
}

// group finds the duplicates and puts them at the end of b.row. The groups name
// their nodes by input row until settle; the bitset returned has the rows that
// are duplicates.
func (b *builder) group() ([]uint64, error) {
	n := len(b.docs)
	sums := make([]uint64, n)
	err := b.parallel(n, 256, func(_ *worker, i int) error {
		sums[i] = xxhash.Sum64(b.code(i))
		return nil
	})
	if err != nil {
		return nil, err
	}
	order := make([]uint32, n)
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(x, y uint32) int {
		if c := cmp.Compare(sums[x], sums[y]); c != 0 {
			return c
		}
		return cmp.Compare(x, y)
	})
	dup := make([]uint64, (n+63)/64)
	var dups []uint32
	for i := 0; i < n; {
		j := i + 1
		first := len(dups)
		for ; j < n && sums[order[j]] == sums[order[i]]; j++ {
			// Codes that differ under an equal sum stay nodes.
			if x := order[j]; bytes.Equal(b.code(int(x)), b.code(int(order[i]))) {
				dup[x/64] |= 1 << (x % 64)
				dups = append(dups, x)
			}
		}
		if len(dups) > first {
			b.groups = append(b.groups, dupGroup{rep: order[i], first: first, end: len(dups)})
		}
		i = j
	}
	b.nodes = n - len(dups)
	copy(b.row[b.nodes:], dups)
	return dup, nil
}

// settle turns the rows in b.groups into ranks and brings the codes into the
// order of b.row, of which it returns the inverse.
func (b *builder) settle() []uint32 {
	rank := make([]uint32, len(b.row))
	for r, i := range b.row {
		rank[i] = uint32(r)
	}
	for i := range b.groups {
		g := &b.groups[i]
		g.rep = rank[g.rep]
		g.first += b.nodes
		g.end += b.nodes
	}
	b.permuteCodes()
	return rank
}

// shuffle fills b.row with the input rows that are nodes, in an order drawn
// from the seed, so that the order of docs, which often follows the content,
// does not decide which nodes are early and high.
func (b *builder) shuffle(dup []uint64) {
	row := b.row[:0]
	for i := range b.docs {
		if dup[i/64]>>(i%64)&1 == 0 {
			row = append(row, uint32(i))
		}
	}
	shuffleRows(row, b.o.Seed)
}

func shuffleRows(row []uint32, state uint64) {
	for i := len(row) - 1; i > 0; i-- {
		state += 0x9E3779B97F4A7C15 // splitmix64
		z := (state ^ state>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		j, _ := bits.Mul64(z^z>>31, uint64(i+1))
		row[i], row[j] = row[j], row[i]
	}
}

// permuteCodes moves the codes of input row b.row[r] to place r, cycle by
// cycle, in place.
func (b *builder) permuteCodes() {
	done := make([]uint64, (len(b.row)+63)/64)
	tmp := make([]byte, b.codec.Stride())
	for start := range b.row {
		if done[start/64]>>(start%64)&1 == 1 {
			continue
		}
		copy(tmp, b.code(start))
		at := start
		for {
			done[at/64] |= 1 << (at % 64)
			from := int(b.row[at])
			if from == start {
				copy(b.code(at), tmp)
				break
			}
			copy(b.code(at), b.code(from))
			at = from
		}
	}
}

// trim brings every row of links down to its level's degree.
func (b *builder) trim(count int) error {
	for l := range b.levels {
		lv := &b.levels[l]
		err := b.parallel(min(count, lv.n), grain, func(w *worker, i int) error {
			if int(lv.degree[i]) > lv.keep {
				w.out = append(w.out[:0], lv.row(uint32(i))[:lv.degree[i]]...)
				b.reselect(w, lv, i, w.out)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// arrange finishes the graph and numbers its nodes: trims the rows, attaches
// what the entry point does not reach, then gives ords in breadth-first order
// from the entry point over level 0, so that nodes a walk meets together lie
// together. Duplicates follow the nodes, group by group, docs ascending.
func (b *builder) arrange() error {
	if err := b.trim(b.nodes); err != nil {
		return err
	}
	b.support()
	order, err := b.sweep()
	if err != nil {
		return err
	}
	b.ord = make([]uint32, len(b.docs))
	for i, r := range order {
		b.ord[r] = uint32(i)
	}
	slices.SortFunc(b.groups, func(x, y dupGroup) int { return cmp.Compare(b.ord[x.rep], b.ord[y.rep]) })
	next := uint32(b.nodes)
	for _, g := range b.groups {
		for r := g.first; r < g.end; r++ {
			b.ord[r] = next
			next++
		}
	}
	return nil
}

// minSupport is the number of links to a node below which more are made. A
// far-off node is chosen by few others and pruned by them first; left with one
// link, it is found only by a walk that happens to pass there.
const minSupport = 4

// support gives every node of level 0 minSupport links from the nodes it links
// to itself, nearest first: into a free place, else in place of their last
// link, the farthest of those that only fill the row, if its target can spare
// it. In rank order, so the outcome is the same every time.
func (b *builder) support() {
	lv := &b.levels[0]
	links := make([]uint32, b.nodes)
	for r := range b.nodes {
		for _, to := range lv.row(uint32(r))[:lv.degree[r]] {
			links[to]++
		}
	}
	for r := range b.nodes {
		for _, c := range lv.row(uint32(r))[:lv.degree[r]] {
			if links[r] >= minSupport {
				break
			}
			row, deg := lv.row(c), int(lv.degree[c])
			if slices.Contains(row[:deg], uint32(r)) {
				continue
			}
			if deg < lv.keep {
				row[deg] = uint32(r)
				lv.setDegree(int(c), deg+1)
			} else if last := row[deg-1]; links[last] > minSupport {
				links[last]--
				row[deg-1] = uint32(r)
			} else {
				continue
			}
			links[r]++
		}
	}
}

// sweep returns the nodes in breadth-first order from rank 0 over level 0. A
// node not reached is attached, in rank order, to the nearest node that is
// and has room, and the search goes on from it; when none of the candidates
// has room, it takes over the last link of the nearest one and carries that
// link on itself, so nothing reached is lost.
func (b *builder) sweep() ([]uint32, error) {
	lv := &b.levels[0]
	seen := make([]uint64, (b.nodes+63)/64)
	order := make([]uint32, 0, b.nodes)
	mark := func(r uint32) {
		if seen[r/64]>>(r%64)&1 == 0 {
			seen[r/64] |= 1 << (r % 64)
			order = append(order, r)
		}
	}
	mark(0)
	done := 0
	for r := 0; ; r++ {
		for ; done < len(order); done++ {
			for _, to := range lv.row(order[done])[:lv.degree[order[done]]] {
				mark(to)
			}
		}
		if len(order) == b.nodes {
			return order, nil
		}
		for seen[r/64]>>(r%64)&1 == 1 {
			r++
		}
		if err := b.attach(uint32(r), seen); err != nil {
			return nil, err
		}
		mark(uint32(r))
	}
}

// attach links a node that seen holds to r, which it does not hold.
func (b *builder) attach(r uint32, seen []uint64) error {
	w := b.workers[0]
	b.codec.BindRow(&w.query, b.code(int(r)))
	w.beam.reset(1)
	for l := len(b.levels) - 1; l >= 0; l-- {
		ef := 1
		if l == 0 {
			ef = b.o.EfConstruction
		}
		if err := b.descend(w, l, ef); err != nil {
			return err
		}
	}
	lv := &b.levels[0]
	from, found := uint32(0), false
	for _, k := range w.beam.keys {
		c := keyID(k)
		if c == r || seen[c/64]>>(c%64)&1 == 0 {
			continue
		}
		if !found {
			from, found = c, true
		}
		if int(lv.degree[c]) < lv.keep {
			from = c
			break
		}
	}
	if deg := int(lv.degree[from]); deg < lv.keep {
		lv.row(from)[deg] = r
		lv.setDegree(int(from), deg+1)
		return nil
	}
	last := &lv.row(from)[lv.keep-1]
	own, deg := lv.row(r), int(lv.degree[r])
	switch {
	case slices.Contains(own[:deg], *last):
	case deg < lv.keep:
		own[deg] = *last
		lv.setDegree(int(r), deg+1)
	default:
		own[lv.keep-1] = *last
	}
	*last = r
	return nil
}
