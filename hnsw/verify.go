package hnsw

import (
	"bytes"
	"context"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/storage"
)

// Verify recomputes every invariant of the field from its bytes: each stored
// vector is valid and encodes to its code; docs are a permutation
// that ords inverts, ascending inside a group of duplicates; links are in
// range, without self links, duplicates or holes; every node is reached from
// the entry point over level 0; upper levels name nodes, each once. The error
// matches storage.ErrCorrupt and names section and byte. One pass over
// everything, a bit a node and a doc of memory.
func (f *Field) Verify(ctx context.Context) error {
	for _, check := range []func(context.Context) error{
		f.verifyVectors, f.verifyDocs, f.verifyGroups, f.verifyLinks, f.verifyUpper,
	} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *Field) verifyVectors(ctx context.Context) error {
	stride := f.codec.Stride()
	row := make([]byte, stride)
	for i := range f.n {
		if i%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		v := f.Vector(uint32(i))
		if err := f.metric.Validate(v, f.dim); err != nil {
			return storage.Corruptf(sectionRaw, int64(4*i*f.dim), "vector of doc %d: %v", f.docs[i], err)
		}
		f.codec.Encode(row, v)
		if !bytes.Equal(row, f.codes[i*stride:(i+1)*stride]) {
			return storage.Corruptf(sectionCodes, int64(i*stride), "code of ord %d is not that of its vector", i)
		}
	}
	return nil
}

func (f *Field) verifyDocs(context.Context) error {
	seen := make([]uint64, (int(f.docCount)+63)/64)
	for i, doc := range f.docs {
		switch {
		case doc >= f.docCount:
			return storage.Corruptf(sectionDocs, int64(4*i), "doc %d of %d", doc, f.docCount)
		case seen[doc/64]>>(doc%64)&1 == 1:
			return storage.Corruptf(sectionDocs, int64(4*i), "doc %d occurs twice", doc)
		case f.ordsKind == ordsAscending && i > 0 && doc <= f.docs[i-1]:
			return storage.Corruptf(sectionDocs, int64(4*i), "doc %d after %d", doc, f.docs[i-1])
		}
		seen[doc/64] |= 1 << (doc % 64)
		if ord, ok := f.Ord(doc); !ok || int(ord) != i {
			return storage.Corruptf(sectionOrds, 0, "doc %d leads to ord %d, want %d", doc, ord, i)
		}
	}
	switch f.ordsKind {
	case ordsDense:
		used := 0
		for _, ord := range f.ords {
			if ord != none {
				used++
			}
		}
		if used != f.n {
			return storage.Corruptf(sectionOrds, 0, "%d docs for %d vectors", used, f.n)
		}
	case ordsSorted:
		for i := 1; i < f.n; i++ {
			if f.ords[i] <= f.ords[i-1] {
				return storage.Corruptf(sectionOrds, int64(4*i), "doc %d after %d", f.ords[i], f.ords[i-1])
			}
		}
	}
	return nil
}

// verifyGroups compares codes of 8 bits, those the graph was built on.
func (f *Field) verifyGroups(context.Context) error {
	wide := quant.NewSQ8(f.dim, f.metric)
	code, other := make([]byte, wide.Stride()), make([]byte, wide.Stride())
	next := uint32(f.nodes)
	for i := range f.groupCount {
		node := f.groups[2*i]
		first, end, err := f.groupRange(i)
		if err != nil {
			return err
		}
		if uint64(node) >= uint64(f.nodes) || i > 0 && node <= f.groups[2*i-2] || first != next {
			return storage.Corruptf(sectionGroups, int64(8*i), "group of node %d at %d", node, first)
		}
		wide.Encode(code, f.Vector(node))
		prev := f.docs[node]
		for d := first; d < end; d++ {
			wide.Encode(other, f.Vector(d))
			if f.docs[d] <= prev || !bytes.Equal(code, other) {
				return storage.Corruptf(sectionGroups, int64(8*i), "ord %d is no later duplicate of node %d", d, node)
			}
			prev = f.docs[d]
		}
		next = end
	}
	return nil
}

// verifyRow checks one row of links and calls visit for each.
func verifyRow(section string, t *linkTable, id uint32, base int64, visit func(to uint32)) error {
	row := t.row(id)
	off := base + int64(id)*int64(t.stride)*4
	ended := false
	for i, to := range row {
		if to == none {
			ended = true
			continue
		}
		if ended || uint64(to) >= uint64(t.n) || to == id {
			return storage.Corruptf(section, off+int64(4*i), "node %d of %d links to %d", id, t.n, to)
		}
		for _, other := range row[:i] {
			if other == to {
				return storage.Corruptf(section, off+int64(4*i), "node %d links to %d twice", id, to)
			}
		}
		visit(to)
	}
	return nil
}

func (f *Field) verifyLinks(ctx context.Context) error {
	if !f.graph {
		return nil
	}
	entry := uint32(0)
	if len(f.upper) > 0 {
		entry = f.ordsOf[0]
	}
	if uint64(entry) >= uint64(f.nodes) {
		return f.badUpper(0, entry)
	}
	seen := make([]uint64, (f.nodes+63)/64)
	queue := make([]uint32, 1, f.nodes)
	queue[0] = entry
	seen[entry/64] |= 1 << (entry % 64)
	for i := 0; i < len(queue); i++ {
		if i%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		err := verifyRow(sectionLinks0, &f.base, queue[i], 0, func(to uint32) {
			if seen[to/64]>>(to%64)&1 == 0 {
				seen[to/64] |= 1 << (to % 64)
				queue = append(queue, to)
			}
		})
		if err != nil {
			return err
		}
	}
	if len(queue) != f.nodes {
		return storage.Corruptf(sectionLinks0, 0, "%d of %d nodes are reached", len(queue), f.nodes)
	}
	return nil
}

func (f *Field) verifyUpper(context.Context) error {
	seen := make([]uint64, (f.nodes+63)/64)
	for i, ord := range f.ordsOf {
		if uint64(ord) >= uint64(f.nodes) || seen[ord/64]>>(ord%64)&1 == 1 {
			return storage.Corruptf(sectionUpper, int64(4*i), "position %d is ord %d of %d", i, ord, f.nodes)
		}
		seen[ord/64] |= 1 << (ord % 64)
	}
	base := int64(4 * len(f.ordsOf))
	for l := range f.upper {
		t := &f.upper[l]
		for id := range t.n {
			if err := verifyRow(sectionUpper, t, uint32(id), base, func(uint32) {}); err != nil {
				return err
			}
		}
		base += int64(4 * t.n * t.stride)
	}
	return nil
}
