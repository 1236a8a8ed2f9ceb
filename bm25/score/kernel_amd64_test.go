//go:build amd64 && !purego

package score

import "testing"

func TestGoAlone(t *testing.T) {
	defer func(b bool) { useAVX2 = b }(useAVX2)
	useAVX2 = false
	TestBatchEqualsOf(t)
	TestCollect(t)
}
