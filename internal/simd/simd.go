package simd

import (
	"math"
	"unsafe"
)

// Block is the granule of the integer kernels in bytes: rows and queries whose
// length is a multiple of it run in assembly, others in the Go reference.
const Block = 64

// DotU8S8 returns Σ code[i]·q[i] over len(q) bytes, code unsigned and q
// signed. It is exact while len(q) ≤ 65,536 (2^16·255·128 < 2^31). It panics
// when code is shorter than q.
func DotU8S8(code []byte, q []int8) int32 {
	code = code[:len(q)]
	var out [1]int32
	n := len(q) &^ (Block - 1)
	if n > 0 {
		dotU8S8Scan(q[:n], code[:n], n, out[:])
	}
	return out[0] + dotU8S8Ref(code[n:], q[n:])
}

// maxRows is the number of rows handed to one kernel: assembly is not
// preempted, and the garbage collector must be able to stop us within some
// ten microseconds.
const maxRows = 256

// DotU8S8Gather sets out[i] to the dot product of q with the row ids[i] of
// codes, for every i < len(ids). Rows lie stride bytes apart; a row's first
// len(q) bytes are read, so len(q) ≤ stride, both multiples of Block.
//
// The caller has checked that (ids[i]+1)·stride ≤ len(codes) for every i: the
// kernels do not, a wrong id reads outside the array. It panics when out is
// shorter than ids.
func DotU8S8Gather(q []int8, codes []byte, stride int, ids []uint32, out []int32) {
	out = out[:len(ids)]
	for len(ids) > maxRows {
		dotU8S8Gather(q, codes, stride, ids[:maxRows], out[:maxRows])
		ids, out = ids[maxRows:], out[maxRows:]
	}
	if len(ids) > 0 {
		dotU8S8Gather(q, codes, stride, ids, out)
	}
}

// DotU8S8Scan sets out[i] to the dot product of q with row first+i of codes,
// for every i < n. The layout is that of DotU8S8Gather. It panics when the
// rows are not all inside codes or out is shorter than n.
func DotU8S8Scan(q []int8, codes []byte, stride, first, n int, out []int32) {
	out, codes = out[:n], codes[first*stride:(first+n)*stride]
	for len(out) > maxRows {
		dotU8S8Scan(q, codes, stride, out[:maxRows])
		codes, out = codes[maxRows*stride:], out[maxRows:]
	}
	if len(out) > 0 {
		dotU8S8Scan(q, codes, stride, out)
	}
}

// A Form turns sums of DotU8S8 into distances. A row then ends with two
// little-endian float32 of its own, scale and norm, over which the query is 0:
//
//	distance = max(Floor, (Base + norm) − (Scale·scale)·float32(sum − Bias))
//
// Every step is one float32 operation, in this order, at every level.
type Form struct {
	Bias  int32
	Base  float32
	Scale float32
	Floor float32
}

// DistanceGather is DotU8S8Gather with the sums turned into distances, for rows
// as long as the query.
func DistanceGather(q []int8, f *Form, codes []byte, ids []uint32, out []float32) {
	out = out[:len(ids)]
	for len(ids) > maxRows {
		distanceGather(q, f, codes, ids[:maxRows], out[:maxRows])
		ids, out = ids[maxRows:], out[maxRows:]
	}
	if len(ids) > 0 {
		distanceGather(q, f, codes, ids, out)
	}
}

// DistanceScan is DotU8S8Scan with the sums turned into distances, for rows as
// long as the query.
func DistanceScan(q []int8, f *Form, codes []byte, first, n int, out []float32) {
	out, codes = out[:n], codes[first*len(q):(first+n)*len(q)]
	for len(out) > maxRows {
		distanceScan(q, f, codes, out[:maxRows])
		codes, out = codes[maxRows*len(q):], out[maxRows:]
	}
	if len(out) > 0 {
		distanceScan(q, f, codes, out)
	}
}

// An Affine turns sums over rows of 4-bit codes into distances. Byte j of the
// 64 bytes of a chunk of a row holds two codes, 0 to 15: the one in its lower
// half is multiplied with byte 128·chunk + j of the query, the one in its upper
// half with byte 64 further. A row ends with three little-endian float32 of its
// own, step, low and norm, over which the query is 0:
//
//	distance = max(Floor, (Base + norm) − Scale·(step·float32(sum) + low·Sum))
//
// Every step is one float32 operation, in this order, at every level.
type Affine struct {
	Sum   float32 // of the query
	Base  float32
	Scale float32
	Floor float32
}

// NibbleGather sets out[i] to the distance of q and the row ids[i] of codes,
// for every i < len(ids). Rows have half as many bytes as q, whose length is a
// multiple of 2·Block. Row numbers are not checked: see DotU8S8Gather.
func NibbleGather(q []int8, f *Affine, codes []byte, ids []uint32, out []float32) {
	out = out[:len(ids)]
	for len(ids) > maxRows {
		nibbleGather(q, f, codes, ids[:maxRows], out[:maxRows])
		ids, out = ids[maxRows:], out[maxRows:]
	}
	if len(ids) > 0 {
		nibbleGather(q, f, codes, ids, out)
	}
}

// NibbleScan is NibbleGather for the rows first to first+n−1; it panics when
// they are not all inside codes.
func NibbleScan(q []int8, f *Affine, codes []byte, first, n int, out []float32) {
	stride := len(q) / 2
	out, codes = out[:n], codes[first*stride:(first+n)*stride]
	for len(out) > maxRows {
		nibbleScan(q, f, codes, out[:maxRows])
		codes, out = codes[maxRows*stride:], out[maxRows:]
	}
	if len(out) > 0 {
		nibbleScan(q, f, codes, out)
	}
}

// firstRow is the list of ids of a gather of one row.
var firstRow [1]uint32

// DotF32 returns Σ a[i]·b[i] over len(a) components in the order given in the
// package comment. It panics when b is shorter than a.
func DotF32(a, b []float32) float32 {
	var out [1]float32
	if len(a) > 0 {
		dotF32Gather(a, b[:len(a)], firstRow[:], out[:])
	}
	return out[0]
}

// L2F32 returns Σ (a[i]−b[i])² over len(a) components in the order given in
// the package comment. It panics when b is shorter than a.
func L2F32(a, b []float32) float32 {
	var out [1]float32
	if len(a) > 0 {
		l2F32Gather(a, b[:len(a)], firstRow[:], out[:])
	}
	return out[0]
}

// DotF32Gather sets out[i] to DotF32 of q and the row ids[i] of base, rows of
// dim components one after the other; the bits are those of DotF32. It panics
// when q is shorter than dim or out shorter than ids. The caller has checked
// that (ids[i]+1)·dim ≤ len(base).
func DotF32Gather(q, base []float32, dim int, ids []uint32, out []float32) {
	q, out = q[:dim], out[:len(ids)]
	for len(ids) > maxRows {
		dotF32Gather(q, base, ids[:maxRows], out[:maxRows])
		ids, out = ids[maxRows:], out[maxRows:]
	}
	if len(ids) > 0 {
		dotF32Gather(q, base, ids, out)
	}
}

// L2F32Gather is DotF32Gather for L2F32.
func L2F32Gather(q, base []float32, dim int, ids []uint32, out []float32) {
	q, out = q[:dim], out[:len(ids)]
	for len(ids) > maxRows {
		l2F32Gather(q, base, ids[:maxRows], out[:maxRows])
		ids, out = ids[maxRows:], out[maxRows:]
	}
	if len(ids) > 0 {
		l2F32Gather(q, base, ids, out)
	}
}

// SumSquares is Σ v[i]², summed in float64 in four lanes, component i in lane
// i mod 4, the last len(v) mod 4 components in lane 0: ((l0+l1) + (l2+l3)). The
// bits are the same at every level. No finite vector overflows it.
func SumSquares(v []float32) float64 {
	var lanes [4]float64
	n := len(v) &^ (encodeStep - 1)
	if n > 0 {
		sumSquares(v[:n], &lanes)
	}
	sumSquaresRef(v[n:], &lanes)
	return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}

// encodeStep is the number of components that the kernels of SumSquares,
// MaxMagnitude, Codes and Divide take at a time; the rest is left to Go.
const encodeStep = 16

// MaxMagnitude is the largest |v[i]|, 0 of none; +Inf or NaN when v holds one.
func MaxMagnitude(v []float32) float32 {
	n := len(v) &^ (encodeStep - 1)
	m := maxMagnitudeRef(v[n:])
	if n > 0 {
		m = max(m, maxMagnitude(v[:n]))
	}
	return math.Float32frombits(m)
}

// Codes writes the integer nearest to v[i]·inv, ties to even, plus 128, to
// dst[i] and returns the sum of the squares of the integers: for |v[i]|·inv at
// most 127 and no more than 65,536 components. The product is rounded to
// float32 first. It panics when dst is shorter than v.
func Codes(dst []byte, v []float32, inv float64) int32 {
	dst = dst[:len(v)]
	n := len(v) &^ (encodeStep - 1)
	squares := codesRef(dst[n:], v[n:], inv)
	if n > 0 {
		squares += codes(dst[:n], v[:n], inv)
	}
	return squares
}

// Divide sets dst[i] to v[i]/by, computed in float64. dst may be v; it panics
// when dst is shorter.
func Divide(dst, v []float32, by float64) {
	dst = dst[:len(v)]
	n := len(v) &^ (encodeStep - 1)
	if n > 0 {
		divide(dst[:n], v[:n], by)
	}
	divideRef(dst[n:], v[n:], by)
}

// Unseen picks from links the ids that marks does not hold with version, marks
// them, writes them to out and returns their number, and where it stopped: at
// the first link that is not below len(marks), or at len(links). It asks for
// the first cache line of the row of each, rows lying stride bytes apart in
// codes, which holds one for each mark. It panics when out is shorter than
// links.
func Unseen(links []uint32, marks []uint8, version uint8, codes []byte, stride int, out []uint32) (count, stop int) {
	if len(links) == 0 {
		return 0, 0
	}
	out = out[:len(links)]
	return unseen(links, marks, version, codes, stride, out)
}

// Prefetch asks the processor to bring the cache line of 64 bytes at p near. p
// may be any address: a prefetch never faults. A call costs some 1.6 ns, a miss
// that it hides some 100 ns. It does nothing at level go.
func Prefetch(p unsafe.Pointer) {
	prefetch(p)
}
