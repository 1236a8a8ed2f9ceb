package bitpack

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// Block is the number of values in a full block.
const Block = 256

// MaxWidth is the greatest width in bits.
const MaxWidth = 32

// Width returns the bits that hold every value of v: 0 when all are zero.
func Width(v []uint32) int {
	var or uint32
	for _, x := range v {
		or |= x
	}
	return bits.Len32(or)
}

// Size returns the bytes of a full block of the given width.
func Size(width int) int { return 32 * width }

// Pack appends the 32·width bytes of a full block to dst. Bits above width
// are dropped.
func Pack(dst []byte, src *[Block]uint32, width int) []byte {
	at := len(dst)
	dst = append(dst, zeros[:Size(width)]...)
	out := dst[at:]
	mask := uint32(uint64(1)<<width - 1)
	for i, v := range src {
		v &= mask
		lane, bit := i%8, i/8*width
		o := 32*(bit/32) + 4*lane
		sh := bit % 32
		if width > 0 {
			or32(out[o:], v<<sh)
		}
		if sh+width > 32 {
			or32(out[o+32:], v>>(32-sh))
		}
	}
	return dst
}

var zeros [32 * MaxWidth]byte

func or32(b []byte, v uint32) {
	binary.LittleEndian.PutUint32(b, binary.LittleEndian.Uint32(b)|v)
}

// Unpack reads a full block of the given width from the front of src. It
// reports false, with dst undefined, when the width is out of range or src is
// shorter than Size(width).
func Unpack(dst *[Block]uint32, src []byte, width int) bool {
	if uint(width) > MaxWidth || len(src) < Size(width) {
		return false
	}
	if width == 0 {
		*dst = [Block]uint32{}
		return true
	}
	if !kernelUnpack(dst, src, width, 0) {
		unpackGo(dst, src, width)
	}
	return true
}

// UnpackPlus1 is Unpack with one added to every value, modulo 2^32.
func UnpackPlus1(dst *[Block]uint32, src []byte, width int) bool {
	if uint(width) > MaxWidth || len(src) < Size(width) {
		return false
	}
	if kernelUnpack(dst, src, width, 1) {
		return true
	}
	if width == 0 {
		*dst = [Block]uint32{}
	} else {
		unpackGo(dst, src, width)
	}
	for i := range dst {
		dst[i]++
	}
	return true
}

// unpackGo reads two values a word: the halves of a little-endian word are two
// neighboring elements of the block.
func unpackGo(dst *[Block]uint32, src []byte, width int) {
	unpack((*[Block / 2]uint64)(unsafe.Pointer(dst)), src, width)
}

// At reads value i of a full block of the given width. It reports false when
// the width or i is out of range or src too short.
func At(src []byte, i, width int) (uint32, bool) {
	if uint(width) > MaxWidth || len(src) < Size(width) || uint(i) >= Block {
		return 0, false
	}
	if width == 0 {
		return 0, true
	}
	lane, bit := i%8, i/8*width
	o := 32*(bit/32) + 4*lane
	sh := bit % 32
	v := uint64(binary.LittleEndian.Uint32(src[o:])) >> sh
	if sh+width > 32 {
		v |= uint64(binary.LittleEndian.Uint32(src[o+32:])) << (32 - sh)
	}
	return uint32(v & (1<<width - 1)), true
}

// PrefixSum replaces gaps by ascending numbers: v[i] = base + i + (sum of gaps
// 0…i), modulo 2^32.
func PrefixSum(v []uint32, base uint32) {
	if len(v) == Block && kernelPrefixSum((*[Block]uint32)(v), base) {
		return
	}
	base--
	for len(v) >= 8 {
		w := v[:8:8]
		// Sums of pairs first: the chain from one group of eight to the next
		// is then two additions long, not eight.
		a1 := w[0] + w[1] + 2
		a2 := w[2] + w[3] + 2
		a3 := w[4] + w[5] + 2
		a4 := w[6] + w[7] + 2
		b2 := a1 + a2
		b3 := b2 + a3
		b4 := b2 + (a3 + a4)
		w[0] += base + 1
		w[2] += base + a1 + 1
		w[4] += base + b2 + 1
		w[6] += base + b3 + 1
		w[1] = base + a1
		w[3] = base + b2
		w[5] = base + b3
		base += b4
		w[7] = base
		v = v[8:]
	}
	for i, x := range v {
		base += x + 1
		v[i] = base
	}
}

// Ranks writes to out, for each of up to Block values of xs, how many of the
// ascending values of v lie below it.
func Ranks(out []uint16, v *[Block]uint32, xs []uint32) {
	xs = xs[:min(len(xs), Block)]
	out = out[:len(xs)]
	if len(xs) == 0 || kernelRanks(out, v, xs) {
		return
	}
	for i, x := range xs {
		at := 0
		for half := Block / 2; half > 0; half /= 2 {
			if v[(at+half-1)&(Block-1)] < x {
				at += half
			}
		}
		if v[at&(Block-1)] < x {
			at++
		}
		out[i] = uint16(at)
	}
}

// RunSize returns the bytes of a run of n values of the given width.
func RunSize(n, width int) int { return (n*width + 7) / 8 }

// AppendRun appends the ⌈n·width/8⌉ bytes of a run of any length to dst. Bits
// above width are dropped.
func AppendRun(dst []byte, src []uint32, width int) []byte {
	mask := uint64(1)<<width - 1
	var acc uint64
	var have int
	for _, v := range src {
		acc |= uint64(v) & mask << have
		have += width
		for have >= 8 {
			dst = append(dst, byte(acc))
			acc >>= 8
			have -= 8
		}
	}
	if have > 0 {
		dst = append(dst, byte(acc))
	}
	return dst
}

// Run reads len(dst) values from the front of src. It reports false when the
// width is out of range or src is too short.
func Run(dst []uint32, src []byte, width int) bool {
	if uint(width) > MaxWidth || len(src) < RunSize(len(dst), width) {
		return false
	}
	mask := uint64(1)<<width - 1
	bit := 0
	i := 0
	for ; i < len(dst) && bit>>3+8 <= len(src); i++ {
		dst[i] = uint32(binary.LittleEndian.Uint64(src[bit>>3:]) >> (bit & 7) & mask)
		bit += width
	}
	for ; i < len(dst); i++ {
		dst[i] = uint32(tail64(src, bit>>3) >> (bit & 7) & mask)
		bit += width
	}
	return true
}

// RunAt reads value i of a run of n. It reports false as Run does, or when i is
// out of range.
func RunAt(src []byte, n, i, width int) (uint32, bool) {
	if uint(width) > MaxWidth || uint(i) >= uint(n) || len(src) < RunSize(n, width) {
		return 0, false
	}
	bit := i * width
	var w uint64
	if bit>>3+8 <= len(src) {
		w = binary.LittleEndian.Uint64(src[bit>>3:])
	} else {
		w = tail64(src, bit>>3)
	}
	return uint32(w >> (bit & 7) & (1<<width - 1)), true
}

// RunFrom reads len(dst) values of a run, the first of them value number i.
// It reports false when the width is out of range or src is too short.
func RunFrom(dst []uint32, src []byte, i, width int) bool {
	if uint(width) > MaxWidth || i < 0 || width > 0 && i > 8*len(src) || len(src) < RunSize(i+len(dst), width) {
		return false
	}
	mask := uint64(1)<<width - 1
	bit := i * width
	for j := range dst {
		var w uint64
		if bit>>3+8 <= len(src) {
			w = binary.LittleEndian.Uint64(src[bit>>3:])
		} else {
			w = tail64(src, bit>>3)
		}
		dst[j] = uint32(w >> (bit & 7) & mask)
		bit += width
	}
	return true
}

// tail64 reads up to eight bytes at off, zeros after the end.
func tail64(src []byte, off int) uint64 {
	var w uint64
	for k := len(src) - 1; k >= off; k-- {
		w = w<<8 | uint64(src[k])
	}
	return w
}

func unpack(dst *[Block / 2]uint64, src []byte, width int) {
	if width <= 16 {
		unpackLow(dst, src, width)
		return
	}
	unpackHigh(dst, src, width)
}

func unpackLow(dst *[Block / 2]uint64, src []byte, width int) {
	switch width {
	case 1:
		unpack1(dst, src)
	case 2:
		unpack2(dst, src)
	case 3:
		unpack3(dst, src)
	case 4:
		unpack4(dst, src)
	case 5:
		unpack5(dst, src)
	case 6:
		unpack6(dst, src)
	case 7:
		unpack7(dst, src)
	case 8:
		unpack8(dst, src)
	case 9:
		unpack9(dst, src)
	case 10:
		unpack10(dst, src)
	case 11:
		unpack11(dst, src)
	case 12:
		unpack12(dst, src)
	case 13:
		unpack13(dst, src)
	case 14:
		unpack14(dst, src)
	case 15:
		unpack15(dst, src)
	case 16:
		unpack16(dst, src)
	}
}

func unpackHigh(dst *[Block / 2]uint64, src []byte, width int) {
	switch width {
	case 17:
		unpack17(dst, src)
	case 18:
		unpack18(dst, src)
	case 19:
		unpack19(dst, src)
	case 20:
		unpack20(dst, src)
	case 21:
		unpack21(dst, src)
	case 22:
		unpack22(dst, src)
	case 23:
		unpack23(dst, src)
	case 24:
		unpack24(dst, src)
	case 25:
		unpack25(dst, src)
	case 26:
		unpack26(dst, src)
	case 27:
		unpack27(dst, src)
	case 28:
		unpack28(dst, src)
	case 29:
		unpack29(dst, src)
	case 30:
		unpack30(dst, src)
	case 31:
		unpack31(dst, src)
	case 32:
		unpack32(dst, src)
	}
}
