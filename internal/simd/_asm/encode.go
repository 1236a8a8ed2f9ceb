package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of encoding a vector take a positive multiple of encodeStep
// components, and only AVX-512: a query is encoded once, and Go needs some
// 2.5 ns a component for it.
const encodeStep = 16

func encode() {
	sumSquares()
	maxMagnitude()
	quantizeCodes()
	divide()
}

// encodeLoop calls step for every encodeStep components of v and src, a
// register that points at them and moves on.
func encodeLoop(step func(src reg.Register)) {
	src, n := Load(Param("v"), GP64()), Load(Param("n"), GP64())
	Label("step")
	step(src)
	ADDQ(U8(4*encodeStep), src)
	SUBQ(U8(encodeStep), n)
	JNZ(LabelRef("step"))
}

// sumSquares adds in four lanes of float64, component i in lane i mod 4.
func sumSquares() {
	TEXT("sumSquaresAVX512", noSplit, "func(v *float32, n int, lanes *float64)")
	Doc("sumSquaresAVX512 is the loop of sumSquaresRef, for n a positive multiple of 16: it adds to the four lanes.")
	Pragma("noescape")
	lanes, acc := Load(Param("lanes"), GP64()), YMM()
	VMOVUPD(mem(lanes), acc)
	encodeLoop(func(src reg.Register) {
		for i := 0; i < encodeStep; i += 4 {
			x := YMM()
			VCVTPS2PD(mem(src).Offset(4*i), x)
			VMULPD(x, x, x)
			VADDPD(x, acc, acc)
		}
	})
	VMOVUPD(acc, mem(lanes))
	VZEROUPPER()
	RET()
}

// maxMagnitude compares bits without the sign.
func maxMagnitude() {
	TEXT("maxMagnitudeAVX512", noSplit, "func(v *float32, n int) uint32")
	Doc("maxMagnitudeAVX512 is maxMagnitudeRef for n a positive multiple of 16.")
	Pragma("noescape")
	mask, acc := broadcastBits(math.MaxInt32), ZMM()
	VPXORD(acc, acc, acc)
	encodeLoop(func(src reg.Register) {
		x := ZMM()
		VPANDD(mem(src), mask, x)
		VPMAXUD(x, acc, acc)
	})
	Store(foldLanes(acc, func(a, b Op, to reg.VecVirtual) { VPMAXUD(a, b, to) }), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// quantizeCodes rounds products of float64 to float32, then to integers.
func quantizeCodes() {
	TEXT("codesAVX512", noSplit, "func(dst *byte, v *float32, n int, inv float64) int32")
	Doc("codesAVX512 is codesRef for n a positive multiple of 16.")
	Pragma("noescape")
	dst, inv := Load(Param("dst"), GP64()), ZMM()
	VBROADCASTSD(argument("inv"), inv)
	bias, zero := broadcastBits(math.Float32bits(12582912)), broadcastBits(128)
	acc := ZMM()
	VPXORD(acc, acc, acc)
	encodeLoop(func(src reg.Register) {
		low, high, x, squares := ZMM(), ZMM(), ZMM(), ZMM()
		VCVTPS2PD(mem(src), low)
		VCVTPS2PD(mem(src).Offset(32), high)
		VMULPD(inv, low, low)
		VMULPD(inv, high, high)
		VCVTPD2PS(low, x.AsY())
		VCVTPD2PS(high, high.AsY())
		VINSERTF64X4(U8(1), high.AsY(), x, x)
		VADDPS(bias, x, x)
		VPSUBD(bias, x, x)
		VPMULLD(x, x, squares)
		VPADDD(squares, acc, acc)
		VPADDD(zero, x, x)
		VPMOVDB(x, mem(dst))
		ADDQ(U8(encodeStep), dst)
	})
	Store(foldLanes(acc, func(a, b Op, to reg.VecVirtual) { VPADDD(a, b, to) }), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// divide divides in float64 and rounds to float32.
func divide() {
	TEXT("divideAVX512", noSplit, "func(dst *float32, v *float32, n int, by float64)")
	Doc("divideAVX512 is divideRef for n a positive multiple of 16.")
	Pragma("noescape")
	dst, by := Load(Param("dst"), GP64()), ZMM()
	VBROADCASTSD(argument("by"), by)
	encodeLoop(func(src reg.Register) {
		low, high := ZMM(), ZMM()
		VCVTPS2PD(mem(src), low)
		VCVTPS2PD(mem(src).Offset(32), high)
		VDIVPD(by, low, low)
		VDIVPD(by, high, high)
		VCVTPD2PS(low, low.AsY())
		VCVTPD2PS(high, high.AsY())
		VMOVUPS(low.AsY(), mem(dst))
		VMOVUPS(high.AsY(), mem(dst).Offset(32))
		ADDQ(U8(4*encodeStep), dst)
	})
	VZEROUPPER()
	RET()
}

func broadcastBits(v uint32) reg.VecVirtual {
	z, bits := ZMM(), GP32()
	MOVL(U32(v), bits)
	VPBROADCASTD(bits, z)
	return z
}

// foldLanes joins the sixteen lanes of a register into one.
func foldLanes(z reg.VecVirtual, join func(a, b Op, to reg.VecVirtual)) reg.Register {
	half, x := YMM(), XMM()
	VEXTRACTI64X4(U8(1), z, half)
	join(half, z.AsY(), half)
	VEXTRACTI128(U8(1), half, x)
	join(x, half.AsX(), x)
	other, out := XMM(), GP32()
	for _, order := range []uint64{0x4e, 0xb1} {
		VPSHUFD(Imm(order), x, other)
		join(other, x, x)
	}
	VMOVD(x, out)
	return out
}
