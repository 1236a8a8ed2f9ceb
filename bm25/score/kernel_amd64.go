//go:build amd64 && !purego

package score

import "golang.org/x/sys/cpu"

// useAVX2 is set once, before any other code of the program runs; only tests
// change it.
var useAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasPOPCNT

// kernel does the first docs of a batch and returns their number. From a
// weight of 1024 on, doubled contributions may exceed a signed integer.
func kernel(out, freqs []uint32, inv []float32, w float32) int {
	n := len(out) &^ 7
	if n == 0 || !useAVX2 || w >= 1024 {
		return 0
	}
	batchAVX2(&out[0], &freqs[0], &inv[0], n, w)
	return n
}

// kernelCollect is Collect of at least one word, when there is a kernel.
func kernelCollect(docs, scores, acc []uint32, set, keep []uint64, least, from uint32) (n int, ok bool) {
	if !useAVX2 {
		return 0, false
	}
	return collectAVX2(&docs[0], &scores[0], &acc[0], &set[0], &keep[0], len(set), least, from), true
}
