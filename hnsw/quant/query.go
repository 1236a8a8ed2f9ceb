package quant

import (
	"math"
	"unsafe"

	"github.com/quarrysearch/quarry/internal/simd"
)

// A Query is a vector bound to a codec, ready to be compared with rows. The
// zero value is ready for Bind and BindRow; binding again reuses its memory.
// A Query is used by one goroutine at a time.
type Query struct {
	// form turns the kernel's sums into distances, for every metric:
	//
	//	distance = max(floor, (base + norm) − (scale·row scale)·(sum − bias))
	//
	//	         base   row's norm   scale          floor
	//	cosine   1      0            1/|codes|      0
	//	dot      0      0            |v|/|codes|    none
	//	L2       |v|²   |row|²       2·|v|/|codes|  0
	//
	// bias is 128·Σ codes, what the bias of a row's bytes adds to the sum.
	form  simd.Form
	codes []int8 // stride of them, 0 past the components: pad and meta of a row do not count
	row   []byte // scratch of Bind

	// Of a query of 4-bit rows: distance = max(floor, (base + norm) −
	// scale·(row's step·sum + row's low·Σ codes)), with the same scales.
	nibbles bool
	affine  simd.Affine
	planes  []int8 // codes in the order of simd.NibbleGather
}

// Bind makes v, of Dim() components, the query: it is encoded as a row is, so
// the distance of a query and a row does not depend on which is which.
// Non-finite and overlong vectors are treated as by Encode.
func (c *SQ8) Bind(q *Query, v []float32) {
	if cap(q.row) < c.stride {
		q.row = make([]byte, c.stride)
	}
	q.row = q.row[:c.stride]
	c.Encode(q.row, v)
	c.BindRow(q, q.row)
}

// BindRow makes a stored row the query: the distances are, to the bit, those
// that Bind gives for the vector that the row was encoded from.
func (c *SQ8) BindRow(q *Query, row []byte) {
	if cap(q.codes) < c.stride {
		q.codes = make([]int8, c.stride)
	}
	q.codes = q.codes[:c.stride]
	q.nibbles = false
	scale, norm := rowMeta(row[:c.stride])
	q.form = simd.Form{Scale: scale, Bias: zeroCode * unbias(q.codes, row)}
	switch c.metric {
	case Cosine:
		q.form.Base = 1
	case Dot:
		q.form.Floor = -math.MaxFloat32
	case L2:
		q.form.Base, q.form.Scale = norm, 2*scale
	}
}

// unbias writes the codes of a row, zeros in place of the meta, and returns
// their sum. It works on eight bytes at a time: flipping the top bit of a byte
// subtracts 128 from it, as a signed one.
func unbias(codes []int8, row []byte) int32 {
	words := len(codes)/8 - metaSize/8
	_ = row[8*words-1]
	src := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(row))), words)
	dst := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(codes))), words)
	const pairs, quads = 0x00ff00ff00ff00ff, 0x0000ffff0000ffff
	var sums uint64 // two sums of bytes, of 32 bits each
	for i, w := range src {
		dst[i] = w ^ zeroCodes
		s := w&pairs + w>>8&pairs
		sums += s&quads + s>>16&quads
	}
	clear(codes[8*words:])
	return int32(uint32(sums)+uint32(sums>>32)) - zeroCode*int32(8*words)
}

// Distances sets out[i] to the distance of the query and row ids[i] of codes,
// for every i < len(ids). Lower is nearer: 1 − cos, −dot, or the squared
// Euclidean distance, of what the codes stand for. One kernel call.
//
// The caller has checked that every id is inside codes: (id+1)·Stride() ≤
// len(codes); the kernel does not. out is as long as ids or longer.
func (q *Query) Distances(codes []byte, ids []uint32, out []float32) {
	if q.nibbles {
		simd.NibbleGather(q.planes, &q.affine, codes, ids, out)
		return
	}
	simd.DistanceGather(q.codes, &q.form, codes, ids, out)
}

// Scan sets out[i] to the distance of the query and row first+i of codes, for
// every i < n; it panics when the rows are not all inside codes or out is
// shorter than n. See Distances.
func (q *Query) Scan(codes []byte, first, n int, out []float32) {
	if q.nibbles {
		simd.NibbleScan(q.planes, &q.affine, codes, first, n, out)
		return
	}
	simd.DistanceScan(q.codes, &q.form, codes, first, n, out)
}
