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

// maxRows is the number of rows handed to one assembly call: assembly is not
// preempted, and the garbage collector must be able to stop us within some
// ten microseconds.
const maxRows = 256

func dotU8S8(code []byte, q []int8) int32 {
	var out [1]int32
	n := len(q) &^ (Block - 1)
	if n > 0 {
		dotU8S8Scan(q[:n], code[:n], n, out[:])
	}
	return out[0] + dotU8S8Ref(code[n:], q[n:])
}

func dotU8S8Gather(q []int8, codes []byte, stride int, ids []uint32, out []int32) {
	if len(q) == 0 || len(q)%Block != 0 || !useAVX2 {
		dotU8S8GatherRef(q, codes, stride, ids, out)
		return
	}
	c := unsafe.SliceData(codes)
	for len(ids) > 0 {
		n := min(len(ids), maxRows)
		if useAVX512 {
			dotU8S8GatherAVX512(&q[0], len(q), c, stride, &ids[0], n, &out[0])
		} else {
			dotU8S8GatherAVX2(&q[0], len(q), c, stride, &ids[0], n, &out[0])
		}
		ids, out = ids[n:], out[n:]
	}
}

func dotU8S8Scan(q []int8, codes []byte, stride int, out []int32) {
	if len(q) == 0 || len(q)%Block != 0 || !useAVX2 {
		dotU8S8ScanRef(q, codes, stride, out)
		return
	}
	for len(out) > 0 {
		n := min(len(out), maxRows)
		c := unsafe.SliceData(codes)
		if useAVX512 {
			dotU8S8ScanAVX512(&q[0], len(q), c, stride, n, &out[0])
		} else {
			dotU8S8ScanAVX2(&q[0], len(q), c, stride, n, &out[0])
		}
		codes, out = codes[n*stride:], out[n:]
	}
}

func distanceGather(q []int8, f *Form, codes []byte, ids []uint32, out []float32) {
	if len(q) == 0 || len(q)%Block != 0 || !useAVX2 {
		distanceGatherRef(q, f, codes, ids, out)
		return
	}
	c := unsafe.SliceData(codes)
	for len(ids) > 0 {
		n := min(len(ids), maxRows)
		if useAVX512 {
			distanceGatherAVX512(&q[0], len(q), f.Bias, f.Base, f.Scale, f.Floor, c, &ids[0], n, &out[0])
		} else {
			distanceGatherAVX2(&q[0], len(q), f.Bias, f.Base, f.Scale, f.Floor, c, &ids[0], n, &out[0])
		}
		ids, out = ids[n:], out[n:]
	}
}

func distanceScan(q []int8, f *Form, codes []byte, out []float32) {
	if len(q) == 0 || len(q)%Block != 0 || !useAVX2 {
		distanceScanRef(q, f, codes, out)
		return
	}
	for len(out) > 0 {
		n := min(len(out), maxRows)
		c := unsafe.SliceData(codes)
		if useAVX512 {
			distanceScanAVX512(&q[0], len(q), f.Bias, f.Base, f.Scale, f.Floor, c, n, &out[0])
		} else {
			distanceScanAVX2(&q[0], len(q), f.Bias, f.Base, f.Scale, f.Floor, c, n, &out[0])
		}
		codes, out = codes[n*len(q):], out[n:]
	}
}

func dotF32(a, b []float32) float32 {
	var out [1]float32
	if len(a) > 0 {
		dotF32Gather(a, b, firstRow[:], out[:])
	}
	return out[0]
}

func l2F32(a, b []float32) float32 {
	var out [1]float32
	if len(a) > 0 {
		l2F32Gather(a, b, firstRow[:], out[:])
	}
	return out[0]
}

// firstRow is the list of ids of a gather of one row.
var firstRow [1]uint32

func dotF32Gather(q, base []float32, ids []uint32, out []float32) {
	if len(q) == 0 || !useAVX2 {
		dotF32GatherRef(q, base, ids, out)
		return
	}
	b := unsafe.SliceData(base)
	for len(ids) > 0 {
		n := min(len(ids), maxRows)
		if useAVX512 {
			dotF32GatherAVX512(&q[0], b, len(q), &ids[0], n, &out[0])
		} else {
			dotF32GatherAVX2(&q[0], b, len(q), &ids[0], n, &out[0])
		}
		ids, out = ids[n:], out[n:]
	}
}

func l2F32Gather(q, base []float32, ids []uint32, out []float32) {
	if len(q) == 0 || !useAVX2 {
		l2F32GatherRef(q, base, ids, out)
		return
	}
	b := unsafe.SliceData(base)
	for len(ids) > 0 {
		n := min(len(ids), maxRows)
		if useAVX512 {
			l2F32GatherAVX512(&q[0], b, len(q), &ids[0], n, &out[0])
		} else {
			l2F32GatherAVX2(&q[0], b, len(q), &ids[0], n, &out[0])
		}
		ids, out = ids[n:], out[n:]
	}
}

func prefetch(p unsafe.Pointer) { prefetchAsm((*byte)(p)) }
