package hnsw

import (
	"bufio"
	"slices"
)

// writeBuffer is the size of the writes handed to a section.
const writeBuffer = 1 << 18

// write writes every section. Rows are put into ord order on the way out, so
// no second copy of them is made.
func (b *builder) write(create Creator) error {
	n := len(b.docs)
	byOrd := b.row // ord → rank
	if b.ord != nil {
		byOrd = make([]uint32, n)
		for r, ord := range b.ord {
			byOrd[ord] = uint32(r)
		}
	}
	m := b.meta()
	if err := writeSection(create, sectionMeta, func(w *bufio.Writer) { w.Write(m.append(nil)) }); err != nil {
		return err
	}
	if err := writeSection(create, sectionCodes, func(w *bufio.Writer) {
		for _, r := range byOrd {
			w.Write(b.code(int(r)))
		}
	}); err != nil {
		return err
	}
	tmp := b.workers[0].vec
	if err := writeSection(create, sectionRaw, func(w *bufio.Writer) {
		for _, r := range byOrd {
			w.Write(asBytes(b.rows(int(b.row[r]), tmp)))
		}
	}); err != nil {
		return err
	}
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if m.graph {
		if err := b.writeGraph(create, byOrd); err != nil {
			return err
		}
	}
	return b.writeDocs(create, byOrd, m)
}

func writeSection(create Creator, name string, fill func(w *bufio.Writer)) error {
	out, err := create(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(out, writeBuffer)
	fill(w)
	return w.Flush() // a bufio.Writer keeps its first error
}

func (b *builder) meta() *meta {
	m := &meta{
		dim: b.o.Dim, n: len(b.docs), nodes: b.nodes, groupCount: len(b.groups),
		metric: b.o.Metric, seed: b.o.Seed, graph: !b.flat(),
		m: b.o.M, m0: 2 * b.o.M, efc: b.o.EfConstruction, cal: b.cal,
	}
	if m.graph {
		for _, lv := range b.levels[1:] {
			m.counts = append(m.counts, lv.n)
		}
		m.ordsKind = ordsSorted
		if span := int(b.docs[m.n-1]) + 1; span <= 2*m.n {
			m.ordsKind, m.dense = ordsDense, span
		}
	}
	return m
}

func (b *builder) writeGraph(create Creator, byOrd []uint32) error {
	if err := writeSection(create, sectionLinks0, func(w *bufio.Writer) {
		lv := &b.levels[0]
		out := make([]uint32, lv.keep)
		for _, r := range byOrd[:b.nodes] {
			links := lv.row(r)[:lv.degree[r]]
			for i, to := range links {
				out[i] = b.ord[to]
			}
			for i := len(links); i < len(out); i++ {
				out[i] = none
			}
			w.Write(asBytes(out))
		}
	}); err != nil {
		return err
	}
	if err := writeSection(create, sectionUpper, func(w *bufio.Writer) {
		if len(b.levels) == 1 {
			return
		}
		w.Write(asBytes(b.ord[:b.levels[1].n]))
		for _, lv := range b.levels[1:] {
			out := make([]uint32, lv.keep)
			for r := range lv.n {
				used := copy(out, lv.row(uint32(r))[:lv.degree[r]])
				for i := used; i < len(out); i++ {
					out[i] = none
				}
				w.Write(asBytes(out))
			}
		}
	}); err != nil {
		return err
	}
	return writeSection(create, sectionGroups, func(w *bufio.Writer) {
		for _, g := range b.groups {
			w.Write(asBytes([]uint32{b.ord[g.rep], b.ord[g.first]}))
		}
	})
}

func (b *builder) writeDocs(create Creator, byOrd []uint32, m *meta) error {
	docs := make([]uint32, m.n) // ord → doc
	for ord, r := range byOrd {
		docs[ord] = b.docs[b.row[r]]
	}
	if err := writeSection(create, sectionDocs, func(w *bufio.Writer) { w.Write(asBytes(docs)) }); err != nil {
		return err
	}
	var ords []uint32
	switch m.ordsKind {
	case ordsDense:
		ords = slices.Repeat([]uint32{none}, m.dense)
		for ord, doc := range docs {
			ords[doc] = uint32(ord)
		}
	case ordsSorted:
		ords = make([]uint32, 2*m.n)
		copy(ords, b.docs)
		for ord, r := range byOrd {
			ords[m.n+int(b.row[r])] = uint32(ord)
		}
	}
	return writeSection(create, sectionOrds, func(w *bufio.Writer) { w.Write(asBytes(ords)) })
}
