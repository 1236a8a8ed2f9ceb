package simd

import (
	"encoding/binary"
	"math"
)

// The reference kernels. They are compiled on every platform: the oracle of
// the assembly's tests, and the kernels themselves where there is no assembly.

func dotU8S8Ref(code []byte, q []int8) int32 {
	code = code[:len(q)]
	var s0, s1, s2, s3 int32
	i := 0
	for ; i+4 <= len(q); i += 4 {
		c, v := code[i:i+4:i+4], q[i:i+4:i+4]
		s0 += int32(c[0]) * int32(v[0])
		s1 += int32(c[1]) * int32(v[1])
		s2 += int32(c[2]) * int32(v[2])
		s3 += int32(c[3]) * int32(v[3])
	}
	for ; i < len(q); i++ {
		s0 += int32(code[i]) * int32(q[i])
	}
	return s0 + s1 + s2 + s3
}

func dotU8S8GatherRef(q []int8, codes []byte, stride int, ids []uint32, out []int32) {
	for i, id := range ids {
		out[i] = dotU8S8Ref(codes[int(id)*stride:], q)
	}
}

func dotU8S8ScanRef(q []int8, codes []byte, stride int, out []int32) {
	for i := range out {
		out[i] = dotU8S8Ref(codes[i*stride:], q)
	}
}

func (f *Form) distanceRef(row []byte, q []int8) float32 {
	row = row[:len(q)]
	meta := binary.LittleEndian.Uint64(row[len(row)-8:])
	scale, norm := math.Float32frombits(uint32(meta)), math.Float32frombits(uint32(meta>>32))
	dot := float32(float32(f.Scale*scale) * float32(dotU8S8Ref(row, q)-f.Bias))
	d := float32(f.Base+norm) - dot
	if d < f.Floor {
		d = f.Floor
	}
	return d
}

func distanceGatherRef(q []int8, f *Form, codes []byte, ids []uint32, out []float32) {
	for i, id := range ids {
		out[i] = f.distanceRef(codes[int(id)*len(q):], q)
	}
}

func distanceScanRef(q []int8, f *Form, codes []byte, out []float32) {
	for i := range out {
		out[i] = f.distanceRef(codes[i*len(q):], q)
	}
}

func (f *Affine) distanceRef(row []byte, q []int8) float32 {
	row = row[:len(q)/2]
	var sum int32
	for i, b := range row {
		at := i + i&^(Block-1)
		sum += int32(b&15)*int32(q[at]) + int32(b>>4)*int32(q[at+Block])
	}
	meta := row[len(row)-12:]
	step := math.Float32frombits(binary.LittleEndian.Uint32(meta))
	low := math.Float32frombits(binary.LittleEndian.Uint32(meta[4:]))
	norm := math.Float32frombits(binary.LittleEndian.Uint32(meta[8:]))
	dot := float32(float32(step*float32(sum)) + float32(low*f.Sum))
	d := float32(f.Base+norm) - float32(f.Scale*dot)
	if d < f.Floor {
		d = f.Floor
	}
	return d
}

func nibbleGatherRef(q []int8, f *Affine, codes []byte, ids []uint32, out []float32) {
	for i, id := range ids {
		out[i] = f.distanceRef(codes[int(id)*(len(q)/2):], q)
	}
}

func nibbleScanRef(q []int8, f *Affine, codes []byte, out []float32) {
	for i := range out {
		out[i] = f.distanceRef(codes[i*(len(q)/2):], q)
	}
}

// unseenRef writes every id, and the next one over it when it was seen: a
// branch on it could not be predicted.
func unseenRef(links []uint32, marks []uint8, version uint8, out []uint32) (count, stop int) {
	out = out[:len(links)]
	for i, id := range links {
		if uint64(id) >= uint64(len(marks)) { // int(id) is negative where int has 32 bits
			return count, i
		}
		out[count] = id
		seen := marks[id]
		marks[id] = version
		if seen != version {
			count++
		}
	}
	return count, len(links)
}

// lanes is the number of partial sums of the float kernels: one 512-bit
// register, two 256-bit ones, four of NEON.
const lanes = 16

// dotF32Ref keeps the partial sums in an array, not in variables: it is the
// definition. The conversions float32(x*y) forbid the compiler to fuse the
// multiplication with the addition, which it does on arm64 and others.
func dotF32Ref(a, b []float32) float32 {
	var acc [lanes]float32
	b = b[:len(a)]
	for len(a) >= lanes {
		x, y := (*[lanes]float32)(a), (*[lanes]float32)(b)
		for l := range acc {
			acc[l] += float32(x[l] * y[l])
		}
		a, b = a[lanes:], b[lanes:]
	}
	for l := range a {
		acc[l] += float32(a[l] * b[l])
	}
	return sumLanes(&acc)
}

func l2F32Ref(a, b []float32) float32 {
	var acc [lanes]float32
	b = b[:len(a)]
	for len(a) >= lanes {
		x, y := (*[lanes]float32)(a), (*[lanes]float32)(b)
		for l := range acc {
			d := x[l] - y[l]
			acc[l] += float32(d * d)
		}
		a, b = a[lanes:], b[lanes:]
	}
	for l := range a {
		d := a[l] - b[l]
		acc[l] += float32(d * d)
	}
	return sumLanes(&acc)
}

// sumLanes adds the upper half of the lanes to the lower half until one is
// left: 16, 8, 4, 2, 1.
func sumLanes(acc *[lanes]float32) float32 {
	for half := lanes / 2; half > 0; half /= 2 {
		for l := range half {
			acc[l] += acc[l+half]
		}
	}
	return acc[0]
}

func dotF32GatherRef(q, base []float32, ids []uint32, out []float32) {
	for i, id := range ids {
		out[i] = dotF32Ref(q, base[int(id)*len(q):])
	}
}

func l2F32GatherRef(q, base []float32, ids []uint32, out []float32) {
	for i, id := range ids {
		out[i] = l2F32Ref(q, base[int(id)*len(q):])
	}
}

// sumSquaresRef adds to the lanes. The conversions forbid the compiler to fuse.
func sumSquaresRef(v []float32, lanes *[4]float64) {
	s0, s1, s2, s3 := lanes[0], lanes[1], lanes[2], lanes[3]
	for len(v) >= 4 {
		a, b, c, d := float64(v[0]), float64(v[1]), float64(v[2]), float64(v[3])
		s0 += float64(a * a)
		s1 += float64(b * b)
		s2 += float64(c * c)
		s3 += float64(d * d)
		v = v[4:]
	}
	for _, x := range v {
		s0 += float64(float64(x) * float64(x))
	}
	*lanes = [4]float64{s0, s1, s2, s3}
}

// maxMagnitudeRef gives the bits: without the sign, those of floats are in the
// order of their magnitudes, NaN last.
func maxMagnitudeRef(v []float32) uint32 {
	var m0, m1, m2, m3 uint32 // one maximum would wait for itself
	for len(v) >= 4 {
		m0 = max(m0, math.Float32bits(v[0])&math.MaxInt32)
		m1 = max(m1, math.Float32bits(v[1])&math.MaxInt32)
		m2 = max(m2, math.Float32bits(v[2])&math.MaxInt32)
		m3 = max(m3, math.Float32bits(v[3])&math.MaxInt32)
		v = v[4:]
	}
	for _, x := range v {
		m0 = max(m0, math.Float32bits(x)&math.MaxInt32)
	}
	return max(m0, m1, m2, m3)
}

// roundBias is 1.5·2^23: a float32 of magnitude below 2^22 plus it holds the
// nearest integer, ties to even, in its low bits.
const roundBias = 12582912.0

func codesRef(dst []byte, v []float32, inv float64) (squares int32) {
	for i, x := range v {
		y := float32(float64(x)*inv) + roundBias
		code := int32(math.Float32bits(y)) - int32(math.Float32bits(roundBias))
		squares += code * code
		dst[i] = byte(code + 128)
	}
	return squares
}

func divideRef(dst, v []float32, by float64) {
	for i, x := range v {
		dst[i] = float32(float64(x) / by)
	}
}
