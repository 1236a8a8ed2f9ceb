package hnsw

import (
	"bufio"
	"math"
	"slices"
	"unsafe"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/internal/hugepage"
	"github.com/quarrysearch/quarry/storage"
)

// Sections of a field. The caller prefixes the names. format.md draws them.
const (
	sectionMeta   = "meta"
	sectionCodes  = "codes"
	sectionRaw    = "raw"
	sectionLinks0 = "links0"
	sectionUpper  = "upper"
	sectionDocs   = "docs"
	sectionOrds   = "ords"
	sectionGroups = "groups"
)

// Versions of the format, newest last; numbers are never used again.
const (
	version1 = 1 // 8-bit codes, fixed-stride links
	version2 = 2 // calibration of walks that stop by distance; the reference of merges
	version3 = 3 // slacks below 0
	version  = version3
)

// Numbers of the codecs in meta.
const (
	codecSQ8 = 1
	codecSQ4 = 2 // from version 2 on
)

// How a doc's ord is found.
const (
	ordsAscending = 0 // ords are in doc order: sought in docs, ords is empty
	ordsDense     = 1 // ords[doc] is the ord, or none
	ordsSorted    = 2 // ords is the docs ascending, then their ords
)

const maxLevels = 32

// meta is the section of that name, decoded.
type meta struct {
	dim        int
	n          int // vectors
	nodes      int // vectors that are graph nodes; the others are duplicates
	groupCount int // groups of duplicates
	metric     quant.Metric
	bits       int // of a code, 8 or 4
	seed       uint64
	graph      bool
	m, m0      int
	efc        int
	counts     []int // nodes of level 1, 2, …
	ordsKind   int   // ordsAscending, ordsDense or ordsSorted
	dense      int   // entries of a dense ords
	cal        calibration
	built      reference
	old        bool // of an older version than this build writes
}

func (m *meta) append(b []byte) []byte {
	codec := byte(codecSQ8)
	if m.bits == 4 {
		codec = codecSQ4
	}
	b = append(b, version, codec, byte(m.metric), byte(m.ordsKind))
	b = storage.AppendU64(b, m.seed)
	for _, v := range []int{m.dim, m.n, m.nodes, m.groupCount, m.dense, m.m, m.m0, m.efc} {
		b = storage.AppendUvarint(b, uint64(v))
	}
	if !m.graph {
		b = append(b, 0)
	} else {
		b = storage.AppendUvarint(append(b, 1), uint64(len(m.counts)))
		for _, c := range m.counts {
			b = storage.AppendUvarint(b, uint64(c))
		}
	}
	b = storage.AppendF32(storage.AppendF32(b, m.cal.oversample), m.cal.unit)
	b = storage.AppendUvarint(b, uint64(len(m.cal.curve)))
	for _, p := range m.cal.curve {
		b = storage.AppendUvarint(b, uint64(p.ef))
		b = storage.AppendF32(storage.AppendF32(storage.AppendF32(b, p.slack), p.recall), p.distances)
	}
	b = storage.AppendUvarint(b, uint64(m.built.nodes))
	return storage.AppendF32(b, m.built.recall)
}

// decodeMeta reads meta and checks each value against its range and the
// others, so that sizes computed from it cannot overflow.
func decodeMeta(data []byte) (*meta, error) {
	d := storage.NewDecoder(sectionMeta, 0, data)
	v := d.Byte()
	if d.Err() == nil && (v < version1 || v > version) {
		return nil, unknownVersion(v)
	}
	bits := 8
	if c := d.Byte(); c == codecSQ4 && v >= version2 {
		bits = 4
	} else if c != codecSQ8 {
		d.Fail("codec %d is unknown", c)
	}
	m := &meta{old: v != version, bits: bits, metric: quant.Metric(d.Byte()), ordsKind: int(d.Byte()), seed: d.U64()}
	if !m.metric.Valid() {
		d.Fail("metric %d is unknown", m.metric)
	}
	ranged := func(what string, lo, hi int) int {
		v := d.Uvarint()
		if v < uint64(lo) || v > uint64(hi) {
			d.Fail("%s %d is not in %d..%d", what, v, lo, hi)
			return lo
		}
		return int(v)
	}
	m.dim = ranged("dimension", 1, MaxDim)
	m.n = ranged("count", 0, MaxVectors)
	m.nodes = ranged("node count", 0, m.n)
	m.groupCount = ranged("group count", 0, m.n-m.nodes)
	m.dense = ranged("ords length", 0, math.MaxInt32)
	m.m = ranged("M", 4, maxM)
	m.m0 = ranged("M0", 4, 2*maxM)
	m.efc = ranged("efConstruction", 8, 4096)
	if m.graph = ranged("graph flag", 0, 1) == 1; m.graph {
		m.decodeLevels(d, ranged)
	} else if m.nodes != m.n || m.groupCount != 0 {
		d.Fail("%d nodes and %d groups without a graph", m.nodes, m.groupCount)
	}
	if m.ordsKind > ordsSorted || m.dense != 0 && m.ordsKind != ordsDense {
		d.Fail("ords of kind %d", m.ordsKind)
	}
	m.cal.decode(d, v)
	if v == version1 {
		m.built = m.cal.reference(m.nodes)
	} else {
		m.built = reference{nodes: ranged("reference count", 0, MaxVectors), recall: d.F32()}
		if !(m.built.recall >= 0 && m.built.recall <= 1) {
			d.Fail("reference recall %v is not in 0..1", m.built.recall)
		}
	}
	d.End()
	return m, d.Err()
}

func (m *meta) decodeLevels(d *storage.Decoder, ranged func(string, int, int) int) {
	if m.nodes == 0 {
		d.Fail("graph without nodes")
	}
	above := m.nodes
	for range ranged("level count", 0, maxLevels) {
		above = ranged("level size", 1, above)
		m.counts = append(m.counts, above)
	}
	if (m.groupCount == 0) != (m.nodes == m.n) {
		d.Fail("%d groups for %d duplicates", m.groupCount, m.n-m.nodes)
	}
}

func (c *calibration) decode(d *storage.Decoder, v byte) {
	c.oversample = d.F32()
	if !(c.oversample >= 1 && c.oversample <= 1000) {
		d.Fail("oversample %v is not in 1..1000", c.oversample)
	}
	size := 9 // of a point, at least
	if v >= version2 {
		c.unit = d.F32()
		size = 13
	}
	if !(c.unit >= 0 && c.unit <= math.MaxFloat32) {
		d.Fail("unit %v of the slack", c.unit)
	}
	n := d.Count(size)
	prev := uint32(0)
	for range n {
		p := curvePoint{ef: uint32(min(d.Uvarint(), maxEf+1)), slack: noSlack}
		if v >= version2 {
			if p.slack = d.F32(); !(p.slack > noSlack && p.slack <= 1000) || p.slack < 0 && v < version3 {
				d.Fail("slack %v of a walk", p.slack)
			}
		}
		p.recall, p.distances = d.F32(), d.F32()
		if p.ef <= prev || p.ef > maxEf || !(p.recall >= 0 && p.recall <= 1) || !(p.distances >= 0 && p.distances < 1e12) {
			d.Fail("calibration point {%d %v %v}", p.ef, p.recall, p.distances)
			return
		}
		prev = p.ef
		c.curve = append(c.curve, p)
	}
}

// asU32 views the bytes as little-endian uint32, without a copy when they are
// aligned; len(b) is a multiple of 4.
func asU32(b []byte) []uint32 { return view[uint32](b) }

func asF32(b []byte) []float32 { return view[float32](b) }

func view[T uint32 | float32](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%4 != 0 {
		v := make([]T, len(b)/4)
		copy(asBytes(v), b)
		return v
	}
	return unsafe.Slice((*T)(p), len(b)/4)
}

func asBytes[T uint32 | float32](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}

// hugePages asks for huge pages under memory just made, as far as they fit.
func hugePages(b []byte) {
	from := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (hugepage.Size - 1))
	if size := (len(b) - from) &^ (hugepage.Size - 1); size > 0 {
		hugepage.Advise(b[from : from+size])
	}
}

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
	if b.o.Bits == 4 && b.narrow == nil { // no calibration has made them
		if err := b.encodeNarrow(); err != nil {
			return err
		}
	}
	m := b.meta()
	if err := writeSection(create, sectionMeta, func(w *bufio.Writer) { w.Write(m.append(nil)) }); err != nil {
		return err
	}
	if err := writeSection(create, sectionCodes, func(w *bufio.Writer) {
		for _, r := range byOrd {
			w.Write(b.storedRow(int(r)))
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
		metric: b.o.Metric, bits: 8, seed: b.o.Seed, graph: !b.flat(),
		m: b.o.M, m0: 2 * b.o.M, efc: b.o.EfConstruction, cal: b.cal, built: b.built,
	}
	if b.narrow != nil {
		m.bits = 4
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
