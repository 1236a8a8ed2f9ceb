package hnsw

import (
	"math"
	"unsafe"

	"github.com/quarrysearch/quarry/hnsw/quant"
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
	version  = version1
)

// codecSQ8 is the number of quant.SQ8 in meta; no other exists yet.
const codecSQ8 = 1

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
	seed       uint64
	graph      bool
	m, m0      int
	efc        int
	counts     []int // nodes of level 1, 2, …
	ordsKind   int   // ordsAscending, ordsDense or ordsSorted
	dense      int   // entries of a dense ords
	cal        calibration
}

func (m *meta) append(b []byte) []byte {
	b = append(b, version, codecSQ8, byte(m.metric), byte(m.ordsKind))
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
	b = storage.AppendF32(b, m.cal.oversample)
	b = storage.AppendUvarint(b, uint64(len(m.cal.curve)))
	for _, p := range m.cal.curve {
		b = storage.AppendUvarint(b, uint64(p.ef))
		b = storage.AppendF32(storage.AppendF32(b, p.recall), p.distances)
	}
	return b
}

// decodeMeta reads meta and checks each value against its range and the
// others, so that sizes computed from it cannot overflow.
func decodeMeta(data []byte) (*meta, error) {
	d := storage.NewDecoder(sectionMeta, 0, data)
	if v := d.Byte(); d.Err() == nil && v != version {
		return nil, unknownVersion(v)
	}
	if c := d.Byte(); c != codecSQ8 {
		d.Fail("codec %d is unknown", c)
	}
	m := &meta{metric: quant.Metric(d.Byte()), ordsKind: int(d.Byte()), seed: d.U64()}
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
	m.dense = ranged("ords length", 0, math.MaxUint32)
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
	m.cal.decode(d)
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

func (c *calibration) decode(d *storage.Decoder) {
	c.oversample = d.F32()
	if !(c.oversample >= 1 && c.oversample <= 1000) {
		d.Fail("oversample %v is not in 1..1000", c.oversample)
	}
	n := d.Count(9)
	prev := uint32(0)
	for range n {
		p := curvePoint{ef: uint32(min(d.Uvarint(), maxEf+1)), recall: d.F32(), distances: d.F32()}
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
