package hnsw

import (
	"fmt"
	"slices"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/storage"
)

// A Field is one vector field of one segment, opened for searching. It is
// immutable and holds views of the bytes given to Open, which must outlive it;
// any number of goroutines may search it, each with its own Scratch.
type Field struct {
	meta
	codec    codec
	codes    []byte
	raw      []float32
	base     linkTable   // level 0
	upper    []linkTable // levels 1, 2, …; rows and links are upper positions
	ordsOf   []uint32    // upper position → ord
	docs     []uint32    // ord → doc
	ords     []uint32    // doc → ord, as meta.ordsKind says
	groups   []uint32    // pairs (ord of the node, ord of its first duplicate)
	docCount uint32
}

// A codec is quant.SQ8 or quant.SQ4.
type codec interface {
	Stride() int
	Encode(dst []byte, v []float32)
	Bind(q *quant.Query, v []float32)
	Blur(row []byte, d float32) float32
}

func newCodec(m *meta) codec {
	if m.bits == 4 {
		c := quant.NewSQ4(m.dim, m.metric)
		return &c
	}
	c := quant.NewSQ8(m.dim, m.metric)
	return &c
}

func unknownVersion(v byte) error {
	return fmt.Errorf("%w: vector field has version %d, this build reads %d to %d", storage.ErrVersion, v, version1, version)
}

// Open opens a field whose docs lie below docCount. It reads meta and compares
// the lengths of the other sections with it, nothing more: constant time and
// memory. What is inside the big arrays is checked where it is read, or by
// Verify. A field of an unknown version matches storage.ErrVersion; bytes that
// contradict each other match storage.ErrCorrupt.
func Open(section func(name string) ([]byte, bool), docCount uint32) (*Field, error) {
	if err := storage.CheckMachine(); err != nil {
		return nil, err
	}
	data, ok := section(sectionMeta)
	if !ok {
		return nil, storage.Corruptf(sectionMeta, 0, "section is missing")
	}
	m, err := decodeMeta(data)
	if err != nil {
		return nil, err
	}
	f := &Field{meta: *m, codec: newCodec(m), docCount: docCount}
	if uint64(f.n) > uint64(docCount) {
		return nil, storage.Corruptf(sectionMeta, 0, "%d vectors for %d docs", f.n, docCount)
	}
	o := opener{section: section}
	f.codes = o.bytes(sectionCodes, int64(f.n), f.codec.Stride())
	f.raw = asF32(o.bytes(sectionRaw, int64(f.n), 4*f.dim))
	f.docs = asU32(o.bytes(sectionDocs, int64(f.n), 4))
	switch f.ordsKind {
	case ordsDense:
		f.ords = asU32(o.bytes(sectionOrds, int64(f.dense), 4))
	case ordsSorted:
		f.ords = asU32(o.bytes(sectionOrds, int64(f.n), 8))
	}
	if f.graph {
		f.base = linkTable{links: asU32(o.bytes(sectionLinks0, int64(f.nodes), 4*f.m0)), stride: f.m0, n: f.nodes}
		f.openUpper(&o)
		f.groups = asU32(o.bytes(sectionGroups, int64(f.groupCount), 8))
	}
	if o.err != nil {
		return nil, o.err
	}
	return f, nil
}

// An opener hands out sections of the right length; its first error sticks.
type opener struct {
	section func(string) ([]byte, bool)
	err     error
}

// bytes returns a section of n things of size bytes. The product is one of 64
// bits: an int may be half as long.
func (o *opener) bytes(name string, n int64, size int) []byte {
	b, _ := o.section(name)
	if want := n * int64(size); o.err == nil && int64(len(b)) != want {
		o.err = storage.Corruptf(name, 0, "section of %d bytes, want %d", len(b), want)
	}
	if o.err != nil {
		return nil
	}
	return b[:len(b):len(b)]
}

func (f *Field) openUpper(o *opener) {
	if len(f.counts) == 0 {
		return
	}
	size := int64(f.counts[0])
	for _, c := range f.counts {
		size += int64(c) * int64(f.m)
	}
	all := asU32(o.bytes(sectionUpper, size, 4))
	if all == nil {
		return
	}
	f.ordsOf = all[:f.counts[0]:f.counts[0]]
	all = all[f.counts[0]:]
	for _, c := range f.counts {
		f.upper = append(f.upper, linkTable{links: all[: c*f.m : c*f.m], stride: f.m, n: c})
		all = all[c*f.m:]
	}
}

// Len returns the number of vectors.
func (f *Field) Len() int { return f.n }

// Dim returns the number of components of a vector.
func (f *Field) Dim() int { return f.dim }

// Metric returns the metric the field was built for.
func (f *Field) Metric() quant.Metric { return f.metric }

// HasGraph says whether Search walks a graph; without one it scans.
func (f *Field) HasGraph() bool { return f.graph }

// Old reports whether the field is of an older format than this build writes.
func (f *Field) Old() bool { return f.old }

// Doc returns the doc of an ord below Len.
func (f *Field) Doc(ord uint32) uint32 { return f.docs[ord] }

// Ord returns the ord of a doc, and whether the doc has a vector. Constant
// time where half the docs or more have one, else logarithmic.
func (f *Field) Ord(doc uint32) (uint32, bool) {
	switch f.ordsKind {
	case ordsDense:
		if uint64(doc) >= uint64(len(f.ords)) {
			return 0, false
		}
		ord := f.ords[doc]
		return ord, ord < uint32(f.n)
	case ordsSorted:
		i, ok := slices.BinarySearch(f.ords[:f.n], doc)
		if !ok {
			return 0, false
		}
		ord := f.ords[f.n+i]
		return ord, ord < uint32(f.n)
	}
	i, ok := slices.BinarySearch(f.docs, doc)
	return uint32(i), ok
}

// Vector returns the vector of an ord below Len in the metric's prepared form:
// of unit length under Cosine. It is a view of the file: copy it before it
// leaves the engine.
func (f *Field) Vector(ord uint32) []float32 {
	off := int(ord) * f.dim
	return f.raw[off : off+f.dim : off+f.dim]
}

// Info describes a field for inspection.
type Info struct {
	Vectors, Nodes, Groups int
	Dim                    int
	Metric                 quant.Metric
	Graph                  bool
	M, M0, EfConstruction  int
	Levels                 []int // nodes of level 1, 2, …
	Oversample             float32
	Bits                   int // of a component of a code, 8 or 4
	CodeBytes              int // bytes of a code row
	HotBytes               int // bytes a vector that a walk touches: code and links of level 0
	Curve                  []CurvePoint
}

// A CurvePoint is one calibrated rule of a walk.
type CurvePoint struct {
	Ef        int     // see Params.Ef
	Slack     float32 // candidates farther than (1+Slack)·d of the k-th are not expanded; −1 in old files: all of a beam of Ef are
	Recall    float32 // recall@10
	Distances float32 // mean distances a search
}

// Info returns what meta says.
func (f *Field) Info() Info {
	in := Info{
		Vectors: f.n, Nodes: f.nodes, Groups: f.groupCount, Dim: f.dim, Metric: f.metric,
		Graph: f.graph, M: f.m, M0: f.m0, EfConstruction: f.efc, Levels: slices.Clone(f.counts),
		Oversample: f.cal.oversample, Bits: f.bits, CodeBytes: f.codec.Stride(), HotBytes: f.codec.Stride(),
	}
	if f.graph {
		in.HotBytes += 4 * f.m0
	}
	for _, p := range f.cal.curve {
		in.Curve = append(in.Curve, CurvePoint{Ef: int(p.ef), Slack: p.slack, Recall: p.recall, Distances: p.distances})
	}
	return in
}
