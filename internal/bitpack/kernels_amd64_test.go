//go:build amd64 && !purego

package bitpack

import "testing"

// The Go code is the reference of the kernels on machines that have them.
func TestKernelsEqualGo(t *testing.T) {
	if !useAVX2 {
		t.Skip("no AVX2 here: the Go code has been tested")
	}
	defer func() { useAVX2 = true }()
	useAVX2 = false
	t.Run("go", func(t *testing.T) {
		TestBlockEqualsReference(t)
		TestBadArguments(t)
		TestRanks(t)
	})
}
