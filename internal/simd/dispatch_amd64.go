//go:build amd64 && !purego

package simd

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// The two bools are set once, before any other code of the program runs; only
// tests change them. Branches on them, not function variables: a call through
// a variable makes the caller's slices escape to the heap.
var (
	useAVX2   = cpu.X86.HasAVX2
	useAVX512 = cpu.X86.HasAVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW &&
		cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VNNI
)

// Level names the instruction set in use: "avx512" (F, BW, VL and VNNI),
// "avx2" or "go".
func Level() string {
	switch {
	case useAVX512:
		return "avx512"
	case useAVX2:
		return "avx2"
	}
	return "go"
}

func dotU8S8Gather(q []int8, codes []byte, stride int, ids []uint32, out []int32) {
	c := unsafe.SliceData(codes)
	switch {
	case len(q) == 0 || len(q)%Block != 0 || !useAVX2:
		dotU8S8GatherRef(q, codes, stride, ids, out)
	case useAVX512:
		dotU8S8GatherAVX512(&q[0], len(q), c, stride, &ids[0], len(ids), &out[0])
	default:
		dotU8S8GatherAVX2(&q[0], len(q), c, stride, &ids[0], len(ids), &out[0])
	}
}

func dotU8S8Scan(q []int8, codes []byte, stride int, out []int32) {
	c := unsafe.SliceData(codes)
	switch {
	case len(q) == 0 || len(q)%Block != 0 || !useAVX2:
		dotU8S8ScanRef(q, codes, stride, out)
	case useAVX512:
		dotU8S8ScanAVX512(&q[0], len(q), c, stride, len(out), &out[0])
	default:
		dotU8S8ScanAVX2(&q[0], len(q), c, stride, len(out), &out[0])
	}
}

func distanceGather(q []int8, f *Form, codes []byte, ids []uint32, out []float32) {
	c := unsafe.SliceData(codes)
	switch {
	case len(q) == 0 || len(q)%Block != 0 || !useAVX2:
		distanceGatherRef(q, f, codes, ids, out)
	case useAVX512:
		distanceGatherAVX512(&q[0], len(q), f.Bias, f.Base, f.Scale, f.Floor, c, &ids[0], len(ids), &out[0])
	default:
		distanceGatherAVX2(&q[0], len(q), f.Bias, f.Base, f.Scale, f.Floor, c, &ids[0], len(ids), &out[0])
	}
}

func distanceScan(q []int8, f *Form, codes []byte, out []float32) {
	c := unsafe.SliceData(codes)
	switch {
	case len(q) == 0 || len(q)%Block != 0 || !useAVX2:
		distanceScanRef(q, f, codes, out)
	case useAVX512:
		distanceScanAVX512(&q[0], len(q), f.Bias, f.Base, f.Scale, f.Floor, c, len(out), &out[0])
	default:
		distanceScanAVX2(&q[0], len(q), f.Bias, f.Base, f.Scale, f.Floor, c, len(out), &out[0])
	}
}

func nibbleGather(q []int8, f *Affine, codes []byte, ids []uint32, out []float32) {
	c := unsafe.SliceData(codes)
	switch {
	case len(q) == 0 || len(q)%(2*Block) != 0 || !useAVX2:
		nibbleGatherRef(q, f, codes, ids, out)
	case useAVX512:
		nibbleGatherAVX512(&q[0], len(q)/2, f.Sum, f.Base, f.Scale, f.Floor, c, &ids[0], len(ids), &out[0])
	default:
		nibbleGatherAVX2(&q[0], len(q)/2, f.Sum, f.Base, f.Scale, f.Floor, c, &ids[0], len(ids), &out[0])
	}
}

func nibbleScan(q []int8, f *Affine, codes []byte, out []float32) {
	c := unsafe.SliceData(codes)
	switch {
	case len(q) == 0 || len(q)%(2*Block) != 0 || !useAVX2:
		nibbleScanRef(q, f, codes, out)
	case useAVX512:
		nibbleScanAVX512(&q[0], len(q)/2, f.Sum, f.Base, f.Scale, f.Floor, c, len(out), &out[0])
	default:
		nibbleScanAVX2(&q[0], len(q)/2, f.Sum, f.Base, f.Scale, f.Floor, c, len(out), &out[0])
	}
}

func dotF32Gather(q, base []float32, ids []uint32, out []float32) {
	b := unsafe.SliceData(base)
	switch {
	case len(q) == 0 || !useAVX2:
		dotF32GatherRef(q, base, ids, out)
	case useAVX512:
		dotF32GatherAVX512(&q[0], b, len(q), &ids[0], len(ids), &out[0])
	default:
		dotF32GatherAVX2(&q[0], b, len(q), &ids[0], len(ids), &out[0])
	}
}

func l2F32Gather(q, base []float32, ids []uint32, out []float32) {
	b := unsafe.SliceData(base)
	switch {
	case len(q) == 0 || !useAVX2:
		l2F32GatherRef(q, base, ids, out)
	case useAVX512:
		l2F32GatherAVX512(&q[0], b, len(q), &ids[0], len(ids), &out[0])
	default:
		l2F32GatherAVX2(&q[0], b, len(q), &ids[0], len(ids), &out[0])
	}
}

// unseen needs no vector instructions: no level is without it.
func unseen(links []uint32, marks []uint8, version uint8, codes []byte, stride int, out []uint32) (count, stop int) {
	return unseenAsm(&links[0], len(links), unsafe.SliceData(marks), len(marks), uint64(version), unsafe.SliceData(codes), stride, &out[0])
}

func prefetch(p unsafe.Pointer) { prefetchAsm((*byte)(p)) }

func sumSquares(v []float32, lanes *[4]float64) {
	if !useAVX512 {
		sumSquaresRef(v, lanes)
		return
	}
	sumSquaresAVX512(&v[0], len(v), &lanes[0])
}

func maxMagnitude(v []float32) uint32 {
	if !useAVX512 {
		return maxMagnitudeRef(v)
	}
	return maxMagnitudeAVX512(&v[0], len(v))
}

func codes(dst []byte, v []float32, inv float64) int32 {
	if !useAVX512 {
		return codesRef(dst, v, inv)
	}
	return codesAVX512(&dst[0], &v[0], len(v), inv)
}

func divide(dst, v []float32, by float64) {
	if !useAVX512 {
		divideRef(dst, v, by)
		return
	}
	divideAVX512(&dst[0], &v[0], len(v), by)
}
