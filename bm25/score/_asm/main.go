// Command asm writes the AVX2 kernel of package score.
//
//	cd bm25/score/_asm && go run . -out ../kernel_amd64.s -stubs ../stub_amd64.go -pkg score
//
// It has frame $0 and NOSPLIT and calls nothing, as all kernels here.
package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const scale = 1 << 20 // score.Scale

func main() {
	ConstraintExpr("amd64,!purego")
	TEXT("batchAVX2", attr.NOSPLIT, "func(out, freqs *uint32, inv *float32, n int, w float32)")
	Pragma("noescape")
	Doc("batchAVX2 writes n contributions, a multiple of eight; w is below 1024.")
	out, freqs, inv := Load(Param("out"), GP64()), Load(Param("freqs"), GP64()), Load(Param("inv"), GP64())
	n := Load(Param("n"), GP64())
	x := XMM()
	VMOVSS(param("w"), x)
	w, one, unit, least, most := YMM(), YMM(), YMM(), YMM(), YMM()
	VBROADCASTSS(x, w)
	constant(math.Float32bits(1), one)
	constant(math.Float32bits(2*scale), unit)
	constant(1, least)
	constant(math.MaxInt32, most)
	Label("eight")
	v := YMM()
	VPMINUD(mem(freqs), most, v) // 2^31 − 1 and 2^31 are one float32
	VCVTDQ2PS(v, v)
	VMULPS(mem(inv), v, v)
	VADDPS(one, v, v)
	VDIVPS(v, w, v)
	VSUBPS(v, w, v)
	VMULPS(unit, v, v)
	VCVTTPS2DQ(v, v)
	VPADDD(least, v, v)
	VPSRLD(U8(1), v, v)
	VPMAXUD(least, v, v)
	VMOVDQU(v, mem(out))
	for _, p := range []reg.Register{out, freqs, inv} {
		ADDQ(U8(32), p)
	}
	SUBQ(U8(8), n)
	JNZ(LabelRef("eight"))
	VZEROUPPER()
	RET()
	Generate()
}

func mem(base reg.Register) Mem { return Mem{Base: base} }

func param(name string) Op {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

func constant(bits uint32, to reg.VecVirtual) {
	r, x := GP32(), XMM()
	MOVL(U32(bits), r)
	VMOVD(r, x)
	VPBROADCASTD(x, to)
}
