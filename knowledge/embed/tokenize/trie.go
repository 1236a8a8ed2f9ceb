package tokenize

import "math/bits"

// A trie maps byte strings to values ≥ 0, as a double array: the child of
// node n by byte c is unit base(n) ^ c, and is a child of n only if it says
// so itself. A step is one dependent load; the trie of 250,000 pieces takes
// some 10 MB. (J. Aoe, An efficient digital search algorithm by using a
// double-array structure, 1989; the blocks are those of S. Yata's darts-clone.)
//
// Invariant: len(units) is a multiple of 256 and every base is below it, so
// that base ^ c is in range for any byte.
type trie struct {
	units  []unit
	values []int32 // by unit; valid where the unit has hasValue set
}

type unit struct {
	base   uint32 // of the children, with hasValue
	parent uint32 // unit of the parent, noParent for the root and free units
}

const (
	hasValue = 1 << 31
	noParent = 1<<32 - 1
	blockLen = 256
)

// step returns the child of node n by byte c. Loops that need the speed write
// these lines themselves.
func (t *trie) step(n uint32, c byte) (uint32, bool) {
	m := t.units[n].base&^hasValue ^ uint32(c)
	return m, t.units[m].parent == n
}

// walk follows key from node n.
func (t *trie) walk(n uint32, key string) (uint32, bool) {
	for i := range len(key) {
		m, ok := t.step(n, key[i])
		if !ok {
			return 0, false
		}
		n = m
	}
	return n, true
}

// value returns the value at node n.
func (t *trie) value(n uint32) (int32, bool) {
	if t.units[n].base&hasValue == 0 {
		return 0, false
	}
	return t.values[n], true
}

// A trieBuilder takes ascending keys, each as the part it shares with the one
// before and the rest, as the compact form gives them: what it holds grows
// with the bytes of the rests and not with those of the keys.
type trieBuilder struct {
	nodes []buildNode
	path  []uint32 // nodes of the last key, the root first
}

type buildNode struct {
	first, last, next uint32 // children and next sibling, 0 = none
	value             int32  // −1 = none
	label             byte
}

func newTrieBuilder() *trieBuilder {
	return &trieBuilder{nodes: []buildNode{{value: -1}}, path: []uint32{0}}
}

// add adds the key made of the first shared bytes of the key before it and of
// rest. The caller has checked that keys ascend.
func (b *trieBuilder) add(shared int, rest []byte, value int32) {
	b.path = b.path[:shared+1]
	for _, c := range rest {
		up := b.path[len(b.path)-1]
		n := uint32(len(b.nodes))
		b.nodes = append(b.nodes, buildNode{value: -1, label: c})
		if p := &b.nodes[up]; p.first == 0 {
			p.first, p.last = n, n
		} else {
			b.nodes[p.last].next = n
			p.last = n
		}
		b.path = append(b.path, n)
	}
	b.nodes[b.path[len(b.path)-1]].value = value
}

// finish lays the nodes out. It takes time and room linear in their number: a
// set of k children fails to fit a block only when at least 256/k of its units
// are taken, and only the last 16 blocks with room are tried.
func (b *trieBuilder) finish() trie {
	// Real vocabularies fill their blocks nearly whole.
	room := (len(b.nodes) + len(b.nodes)/32 + blockLen) &^ (blockLen - 1)
	l := layout{t: trie{units: make([]unit, 0, room), values: make([]int32, 0, room)}}
	l.grow()
	l.take(0, noParent, -1)
	type task struct{ node, unit uint32 }
	stack := []task{{0, 0}}
	labels := make([]byte, 0, blockLen)
	for len(stack) > 0 {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		labels = labels[:0]
		for c := b.nodes[top.node].first; c != 0; c = b.nodes[c].next {
			labels = append(labels, b.nodes[c].label)
		}
		if len(labels) == 0 {
			continue
		}
		base := l.place(labels)
		l.t.units[top.unit].base |= base
		for c := b.nodes[top.node].first; c != 0; c = b.nodes[c].next {
			u := base ^ uint32(b.nodes[c].label)
			l.take(u, top.unit, b.nodes[c].value)
			stack = append(stack, task{c, u})
		}
	}
	return l.t
}

// A layout is a double array under construction.
type layout struct {
	t    trie
	used [][blockLen / 64]uint64 // by block, bit set = unit taken
	open []uint32                // blocks with room still tried, oldest first
}

func (l *layout) grow() {
	l.open = append(l.open, uint32(len(l.used)))
	if len(l.open) > 16 {
		l.open = append(l.open[:0], l.open[1:]...)
	}
	l.used = append(l.used, [blockLen / 64]uint64{})
	for range blockLen {
		l.t.units = append(l.t.units, unit{parent: noParent})
		l.t.values = append(l.t.values, -1)
	}
}

func (l *layout) take(u, parent uint32, value int32) {
	l.t.units[u].parent = parent
	if value >= 0 {
		l.t.units[u].base |= hasValue
		l.t.values[u] = value
	}
	used := &l.used[u/blockLen]
	used[u%blockLen/64] |= 1 << (u % 64)
	if used[0]&used[1]&used[2]&used[3] == 1<<64-1 {
		for i, b := range l.open {
			if b == u/blockLen {
				l.open = append(l.open[:i], l.open[i+1:]...)
				break
			}
		}
	}
}

// place finds a base at which every label's unit is free.
func (l *layout) place(labels []byte) uint32 {
	for _, b := range l.open {
		if base, ok := fit(&l.used[b], labels); ok {
			return b*blockLen | base
		}
	}
	l.grow()
	return uint32(len(l.used)-1) * blockLen
}

// fit finds the base in one block: it tries every free unit for the first
// label.
func fit(used *[blockLen / 64]uint64, labels []byte) (uint32, bool) {
	for w := range used {
	free:
		for free := ^used[w]; free != 0; free &= free - 1 {
			base := uint32(w*64+bits.TrailingZeros64(free)) ^ uint32(labels[0])
			for _, c := range labels[1:] {
				u := base ^ uint32(c)
				if used[u/64]>>(u%64)&1 != 0 {
					continue free
				}
			}
			return base, true
		}
	}
	return 0, false
}
