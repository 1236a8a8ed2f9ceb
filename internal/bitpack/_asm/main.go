// Command asm writes the AVX2 kernels of package bitpack.
//
//	cd internal/bitpack/_asm && go run . -out ../unpack_amd64.s -stubs ../unpack_amd64.go -pkg bitpack
//
// Every kernel has frame $0 and NOSPLIT, calls nothing and reads not a byte
// past the block it is given, so a memory fault inside it (a mapped file cut
// short by another process) reaches the Go caller as a panic that recover
// catches under debug.SetPanicOnFault.
package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	rows      = 32 // of eight values in a block
	maxKernel = 24 // greatest width with a kernel; wider ones hardly occur
)

func main() {
	ConstraintExpr("amd64,!purego")
	for width := 1; width <= maxKernel; width++ {
		unpack(width)
	}
	prefixSum()
	ranks()
	Generate()
}

// unpack writes the kernel of a width: eight lanes side by side in a register,
// every value cut out by two shifts at most, straight through.
func unpack(width int) {
	TEXT(fmt.Sprintf("unpack%dAVX2", width), attr.NOSPLIT, "func(dst *uint32, src *byte, bias uint32)")
	Pragma("noescape")
	Doc(fmt.Sprintf("unpack%dAVX2 reads 256 values of %d bits and adds bias to each.", width, width))
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	bias, mask := YMM(), YMM()
	broadcast("bias", bias)
	VPCMPEQD(mask, mask, mask)
	VPSRLD(U8(32-width), mask, mask)
	row, loaded := YMM(), -1
	load := func(k int) {
		if k > loaded {
			row, loaded = YMM(), k
			VMOVDQU(Mem{Base: src, Disp: 32 * k}, row)
		}
	}
	for j := range rows {
		bit := j * width
		shift := bit % 32
		load(bit / 32)
		v := YMM()
		if shift > 0 {
			VPSRLD(U8(shift), row, v)
		} else {
			VMOVDQA(row, v)
		}
		if shift+width > 32 {
			load(bit/32 + 1)
			high := YMM()
			VPSLLD(U8(32-shift), row, high)
			VPOR(high, v, v)
		}
		if shift+width != 32 {
			VPAND(mask, v, v)
		}
		VPADDD(bias, v, v)
		VMOVDQU(v, Mem{Base: dst, Disp: 32 * j})
	}
	VZEROUPPER()
	RET()
}

// broadcast fills a register with a parameter.
func broadcast(param string, to reg.VecVirtual) {
	x := XMM()
	VMOVD(Load(Param(param), GP32()), x)
	VPBROADCASTD(x, to)
}

// prefixSum writes the kernel that turns a block of gaps into docs. Sums inside
// eight values take three steps; the sum of all before them is a chain of one
// addition for eight values.
func prefixSum() {
	TEXT("prefixSumAVX2", attr.NOSPLIT, "func(dst *uint32, base uint32)")
	Pragma("noescape")
	Doc("prefixSumAVX2 replaces 256 gaps by ascending numbers: base + i + the gaps up to i.")
	dst := Load(Param("dst"), GP64())
	carry, ones, last := YMM(), YMM(), YMM()
	broadcast("base", carry)
	VPCMPEQD(ones, ones, ones) // −1 each
	VPADDD(ones, carry, carry) // base − 1
	VPSRLD(U8(29), ones, last) // 7 each: the last value of eight
	left := GP64()
	MOVQ(U32(rows), left)
	Label("eight")
	v := YMM()
	VMOVDQU(Mem{Base: dst}, v)
	VPSUBD(ones, v, v) // gap + 1
	step := func(shift reg.VecVirtual) { VPADDD(shift, v, v) }
	t := YMM()
	VPSLLDQ(U8(4), v, t)
	step(t)
	VPSLLDQ(U8(8), v, t)
	step(t)
	VPSHUFD(U8(0xff), v, t)       // the sum of each half
	VPERM2I128(U8(0x08), t, t, t) // that of the lower half, above
	step(t)
	VPERMD(v, last, t) // the sum of all eight
	VPADDD(carry, v, v)
	VPADDD(t, carry, carry)
	VMOVDQU(v, Mem{Base: dst})
	ADDQ(U8(32), dst)
	DECQ(left)
	JNZ(LabelRef("eight"))
	VZEROUPPER()
	RET()
}

// ranks writes the kernel that finds values in an ascending block. Every
// sixteenth value tells the sixteen to look at; both looks compare all at once,
// without a branch, so that the searches of several values overlap.
func ranks() {
	index := GLOBL("sixteenth", attr.RODATA|attr.NOPTR)
	for i := range 16 {
		DATA(4*i, U32(16*i+15))
	}
	TEXT("ranksAVX2", attr.NOSPLIT, "func(out *uint16, v *uint32, xs *uint32, n int)")
	Pragma("noescape")
	Doc("ranksAVX2 writes how many of 256 ascending values lie below each of n others.")
	out, v, xs, n := Load(Param("out"), GP64()), Load(Param("v"), GP64()), Load(Param("xs"), GP64()), Load(Param("n"), GP64())
	sign := YMM() // comparisons are signed: flip the top bit
	VPCMPEQD(sign, sign, sign)
	VPSLLD(U8(31), sign, sign)
	var samples [2]reg.VecVirtual
	for h := range samples {
		at, mask := YMM(), YMM()
		samples[h] = YMM()
		VMOVDQU(index.Offset(32*h), at)
		VPCMPEQD(mask, mask, mask)
		VPGATHERDD(mask, Mem{Base: v, Index: at, Scale: 4}, samples[h])
		VPXOR(sign, samples[h], samples[h])
	}
	x, t, u := YMM(), YMM(), YMM()
	low, high, group, most := GP32(), GP32(), GP32(), GP32()
	MOVL(U32(15), most)
	count := func() { // of the values in t and u below x
		VPCMPGTD(t, x, t)
		VPCMPGTD(u, x, u)
		VMOVMSKPS(t, low)
		VMOVMSKPS(u, high)
		SHLL(U8(8), high)
		ORL(high, low)
		POPCNTL(low, low)
	}
	Label("value")
	VPBROADCASTD(Mem{Base: xs}, x)
	VPXOR(sign, x, x)
	VMOVDQA(samples[0], t)
	VMOVDQA(samples[1], u)
	count()
	CMPL(low, most)
	CMOVLGT(most, low)
	MOVL(low, group)
	SHLL(U8(4), group)
	VPXOR(Mem{Base: v, Index: group.As64(), Scale: 4}, sign, t)
	VPXOR(Mem{Base: v, Index: group.As64(), Scale: 4, Disp: 32}, sign, u)
	count()
	ADDL(group, low)
	MOVW(low.As16(), Mem{Base: out})
	ADDQ(U8(4), xs)
	ADDQ(U8(2), out)
	DECQ(n)
	JNZ(LabelRef("value"))
	VZEROUPPER()
	RET()
}
