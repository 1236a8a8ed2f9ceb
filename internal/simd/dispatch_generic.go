//go:build (!amd64 && !arm64) || purego

package simd

import "unsafe"

// Level names the instruction set in use: "go".
func Level() string { return "go" }

func dotU8S8Gather(q []int8, codes []byte, stride int, ids []uint32, out []int32) {
	dotU8S8GatherRef(q, codes, stride, ids, out)
}

func dotU8S8Scan(q []int8, codes []byte, stride int, out []int32) {
	dotU8S8ScanRef(q, codes, stride, out)
}

func distanceGather(q []int8, f *Form, codes []byte, ids []uint32, out []float32) {
	distanceGatherRef(q, f, codes, ids, out)
}

func distanceScan(q []int8, f *Form, codes []byte, out []float32) {
	distanceScanRef(q, f, codes, out)
}

func nibbleGather(q []int8, f *Affine, codes []byte, ids []uint32, out []float32) {
	nibbleGatherRef(q, f, codes, ids, out)
}

func nibbleScan(q []int8, f *Affine, codes []byte, out []float32) {
	nibbleScanRef(q, f, codes, out)
}

func dotF32Gather(q, base []float32, ids []uint32, out []float32) {
	dotF32GatherRef(q, base, ids, out)
}

func l2F32Gather(q, base []float32, ids []uint32, out []float32) {
	l2F32GatherRef(q, base, ids, out)
}

func unseen(links []uint32, marks []uint8, version uint8, codes []byte, stride int, out []uint32) (count, stop int) {
	return unseenRef(links, marks, version, out)
}

func prefetch(unsafe.Pointer) {}

func sumSquares(v []float32, lanes *[4]float64) { sumSquaresRef(v, lanes) }

func maxMagnitude(v []float32) uint32 { return maxMagnitudeRef(v) }

func codes(dst []byte, v []float32, inv float64) int32 { return codesRef(dst, v, inv) }

func divide(dst, v []float32, by float64) { divideRef(dst, v, by) }
