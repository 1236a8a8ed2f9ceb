//go:build !amd64 || purego

package bitpack

func kernelUnpack(*[Block]uint32, []byte, int, uint32) bool { return false }

func kernelPrefixSum(*[Block]uint32, uint32) bool { return false }

func kernelRanks([]uint16, *[Block]uint32, []uint32) bool { return false }
