//go:build amd64 && !purego

package bitpack

import "golang.org/x/sys/cpu"

// useAVX2 is set once, before any other code of the program runs; only tests
// change it.
var useAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasPOPCNT

// kernelUnpack reads a full block and adds bias to its values, when there is a
// kernel for its width.
func kernelUnpack(dst *[Block]uint32, src []byte, width int, bias uint32) bool {
	if !useAVX2 || width == 0 || width > 24 {
		return false
	}
	d, s := &dst[0], &src[0]
	switch width {
	case 1:
		unpack1AVX2(d, s, bias)
	case 2:
		unpack2AVX2(d, s, bias)
	case 3:
		unpack3AVX2(d, s, bias)
	case 4:
		unpack4AVX2(d, s, bias)
	case 5:
		unpack5AVX2(d, s, bias)
	case 6:
		unpack6AVX2(d, s, bias)
	case 7:
		unpack7AVX2(d, s, bias)
	case 8:
		unpack8AVX2(d, s, bias)
	case 9:
		unpack9AVX2(d, s, bias)
	case 10:
		unpack10AVX2(d, s, bias)
	case 11:
		unpack11AVX2(d, s, bias)
	case 12:
		unpack12AVX2(d, s, bias)
	case 13:
		unpack13AVX2(d, s, bias)
	case 14:
		unpack14AVX2(d, s, bias)
	case 15:
		unpack15AVX2(d, s, bias)
	case 16:
		unpack16AVX2(d, s, bias)
	case 17:
		unpack17AVX2(d, s, bias)
	case 18:
		unpack18AVX2(d, s, bias)
	case 19:
		unpack19AVX2(d, s, bias)
	case 20:
		unpack20AVX2(d, s, bias)
	case 21:
		unpack21AVX2(d, s, bias)
	case 22:
		unpack22AVX2(d, s, bias)
	case 23:
		unpack23AVX2(d, s, bias)
	case 24:
		unpack24AVX2(d, s, bias)
	}
	return true
}

// kernelPrefixSum is PrefixSum of a full block, when there is a kernel.
func kernelPrefixSum(v *[Block]uint32, base uint32) bool {
	if useAVX2 {
		prefixSumAVX2(&v[0], base)
	}
	return useAVX2
}

// kernelRanks is Ranks of at least one value, when there is a kernel.
func kernelRanks(out []uint16, v *[Block]uint32, xs []uint32) bool {
	if useAVX2 {
		ranksAVX2(&out[0], &v[0], &xs[0], len(xs))
	}
	return useAVX2
}
