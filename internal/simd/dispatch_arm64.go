//go:build arm64 && !purego

package simd

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// The two bools are set once, before any other code of the program runs; only
// tests change them. Branches on them, not function variables: a call through
// a variable makes the caller's slices escape to the heap.
var (
	useNEON    = cpu.ARM64.HasASIMD
	useDotProd = cpu.ARM64.HasASIMD && cpu.ARM64.HasASIMDDP
)

// Level names the instruction set in use: "dotprod" (NEON and SDOT), "neon" or
// "go".
func Level() string {
	switch {
	case useDotProd:
		return "dotprod"
	case useNEON:
		return "neon"
	}
	return "go"
}

func dotU8S8Gather(q []int8, codes []byte, stride int, ids []uint32, out []int32) {
	c := unsafe.SliceData(codes)
	switch {
	case len(q) == 0 || len(q)%Block != 0 || !useNEON:
		dotU8S8GatherRef(q, codes, stride, ids, out)
	case useDotProd:
		dotU8S8GatherDotProd(&q[0], len(q), c, stride, &ids[0], len(ids), &out[0])
	default:
		dotU8S8GatherNEON(&q[0], len(q), c, stride, &ids[0], len(ids), &out[0])
	}
}

func dotU8S8Scan(q []int8, codes []byte, stride int, out []int32) {
	c := unsafe.SliceData(codes)
	switch {
	case len(q) == 0 || len(q)%Block != 0 || !useNEON:
		dotU8S8ScanRef(q, codes, stride, out)
	case useDotProd:
		dotU8S8ScanDotProd(&q[0], len(q), c, stride, len(out), &out[0])
	default:
		dotU8S8ScanNEON(&q[0], len(q), c, stride, len(out), &out[0])
	}
}

func distanceGather(q []int8, f *Form, codes []byte, ids []uint32, out []float32) {
	c := unsafe.SliceData(codes)
	switch {
	case len(q) == 0 || len(q)%Block != 0 || !useNEON:
		distanceGatherRef(q, f, codes, ids, out)
	case useDotProd:
		distanceGatherDotProd(&q[0], len(q), f.Bias, f.Base, f.Scale, f.Floor, c, &ids[0], len(ids), &out[0])
	default:
		distanceGatherNEON(&q[0], len(q), f.Bias, f.Base, f.Scale, f.Floor, c, &ids[0], len(ids), &out[0])
	}
}

func distanceScan(q []int8, f *Form, codes []byte, out []float32) {
	c := unsafe.SliceData(codes)
	switch {
	case len(q) == 0 || len(q)%Block != 0 || !useNEON:
		distanceScanRef(q, f, codes, out)
	case useDotProd:
		distanceScanDotProd(&q[0], len(q), f.Bias, f.Base, f.Scale, f.Floor, c, len(out), &out[0])
	default:
		distanceScanNEON(&q[0], len(q), f.Bias, f.Base, f.Scale, f.Floor, c, len(out), &out[0])
	}
}

func nibbleGather(q []int8, f *Affine, codes []byte, ids []uint32, out []float32) {
	c := unsafe.SliceData(codes)
	switch {
	case len(q) == 0 || len(q)%(2*Block) != 0 || !useNEON:
		nibbleGatherRef(q, f, codes, ids, out)
	case useDotProd:
		nibbleGatherDotProd(&q[0], len(q)/2, f.Sum, f.Base, f.Scale, f.Floor, c, &ids[0], len(ids), &out[0])
	default:
		nibbleGatherNEON(&q[0], len(q)/2, f.Sum, f.Base, f.Scale, f.Floor, c, &ids[0], len(ids), &out[0])
	}
}

func nibbleScan(q []int8, f *Affine, codes []byte, out []float32) {
	c := unsafe.SliceData(codes)
	switch {
	case len(q) == 0 || len(q)%(2*Block) != 0 || !useNEON:
		nibbleScanRef(q, f, codes, out)
	case useDotProd:
		nibbleScanDotProd(&q[0], len(q)/2, f.Sum, f.Base, f.Scale, f.Floor, c, len(out), &out[0])
	default:
		nibbleScanNEON(&q[0], len(q)/2, f.Sum, f.Base, f.Scale, f.Floor, c, len(out), &out[0])
	}
}

func dotF32Gather(q, base []float32, ids []uint32, out []float32) {
	if len(q) == 0 || !useNEON {
		dotF32GatherRef(q, base, ids, out)
		return
	}
	dotF32GatherNEON(&q[0], unsafe.SliceData(base), len(q), &ids[0], len(ids), &out[0])
}

func l2F32Gather(q, base []float32, ids []uint32, out []float32) {
	if len(q) == 0 || !useNEON {
		l2F32GatherRef(q, base, ids, out)
		return
	}
	l2F32GatherNEON(&q[0], unsafe.SliceData(base), len(q), &ids[0], len(ids), &out[0])
}

func unseen(links []uint32, marks []uint8, version uint8, codes []byte, stride int, out []uint32) (count, stop int) {
	return unseenRef(links, marks, version, out)
}

func prefetch(p unsafe.Pointer) { prefetchAsm((*byte)(p)) }

func sumSquares(v []float32, lanes *[4]float64) { sumSquaresRef(v, lanes) }

func maxMagnitude(v []float32) uint32 { return maxMagnitudeRef(v) }

func codes(dst []byte, v []float32, inv float64) int32 { return codesRef(dst, v, inv) }

func divide(dst, v []float32, by float64) { divideRef(dst, v, by) }
