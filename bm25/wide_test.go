package bm25

import (
	"testing"
)

// Gaps of 24 bits and more take the checked way of readDocs.
func TestWideGaps(t *testing.T) {
	for _, n := range []int{1, 2, 200, blockDocs} {
		for _, step := range []uint32{1, 2, 63, 1 << 14, 1<<24 - 1} {
			if uint64(n)*uint64(step) >= 1<<32-100 {
				step = (1<<32 - 100) / uint32(n)
			}
			var docs, got [blockDocs]uint32
			for i := range n {
				docs[i] = 50 + uint32(i)*step
			}
			coded := appendDocs(nil, docs[:n], 3)
			if readDocs(&got, n, coded, 3, docs[n-1]) != len(coded) || !equalPrefix(got[:n], docs[:n]) {
				t.Fatalf("%d docs, step %d", n, step)
			}
			if readDocs(&got, n, coded, 3, docs[n-1]+1) >= 0 {
				t.Fatalf("%d docs, step %d: a wrong end was accepted", n, step)
			}
		}
	}
}
