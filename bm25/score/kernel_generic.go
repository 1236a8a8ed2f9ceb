//go:build !amd64 || purego

package score

func kernel([]uint32, []uint32, []float32, float32) int { return 0 }
