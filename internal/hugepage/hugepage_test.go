package hugepage

import "testing"

// Advice changes no byte, and asked for at any place it is no fault.
func TestAdvise(t *testing.T) {
	whole := make([]byte, 9<<20)
	for i := range whole {
		whole[i] = byte(i * 7)
	}
	for _, size := range []int{0, 1, 4096, 6 << 20, 8<<20 - 3} {
		for _, at := range []int{0, 1, 4095, 512 << 10} {
			Advise(whole[at : at+size])
		}
	}
	for i := range whole {
		if whole[i] != byte(i*7) {
			t.Fatalf("byte %d is %d", i, whole[i])
		}
	}
}
