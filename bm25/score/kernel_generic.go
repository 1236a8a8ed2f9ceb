//go:build !amd64 || purego

package score

func kernel([]uint32, []uint32, []float32, float32) int { return 0 }

func kernelCollect(_, _, _ []uint32, _, _ []uint64, _, _ uint32) (int, bool) { return 0, false }
