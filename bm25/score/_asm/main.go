// Command asm writes the AVX2 kernels of package score.
//
//	cd bm25/score/_asm && go run . -out ../kernel_amd64.s -stubs ../stub_amd64.go -pkg score
//
// They have frame $0 and NOSPLIT and call nothing, as all kernels here.
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
	batch()
	collect()
	Generate()
}

func batch() {
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
}

// sparse is the number of docs in a word up to which they are taken one by one.
const sparse = 4

func collect() {
	permutation := unpacked()
	TEXT("collectAVX2", attr.NOSPLIT, "func(docs, scores, acc *uint32, set, keep *uint64, words int, least, from uint32) int")
	Pragma("noescape")
	Doc("collectAVX2 is Collect of at least one word.")
	docs, scores, acc := Load(Param("docs"), GP64()), Load(Param("scores"), GP64()), Load(Param("acc"), GP64())
	set, keep := Load(Param("set"), GP64()), Load(Param("keep"), GP64())
	words := Load(Param("words"), GP64())
	least, from := Load(Param("least"), GP32()), Load(Param("from"), GP32())
	n, w, k := GP64(), GP64(), GP64()
	XORQ(n, n)
	leasts, zero, order, x := YMM(), YMM(), YMM(), XMM()
	VMOVD(least, x)
	VPBROADCASTD(x, leasts)
	VPXOR(zero, zero, zero)
	VMOVDQU(permutation, order)

	Label("word")
	MOVQ(mem(set), w)
	TESTQ(w, w)
	JZ(LabelRef("next"))
	MOVQ(U32(0), mem(set))
	MOVQ(mem(keep), k)
	c := GP64()
	POPCNTQ(w, c)
	CMPQ(c, U8(sparse))
	JBE(LabelRef("sparse"))

	ANDQ(k, w)
	hi, lo := GP64(), GP64()
	reached(acc, 0, leasts, order, lo)
	reached(acc, 128, leasts, order, hi)
	SHLQ(U8(32), hi)
	ORQ(hi, lo)
	ANDQ(lo, w)
	JZ(LabelRef("clear"))
	bit, doc, score := GP64(), GP32(), GP32()
	Label("dense")
	BSFQ(w, bit)
	MOVL(Mem{Base: acc, Index: bit, Scale: 4}, score)
	LEAL(Mem{Base: from, Index: bit, Scale: 1}, doc)
	MOVL(score, Mem{Base: scores, Index: n, Scale: 4})
	MOVL(doc, Mem{Base: docs, Index: n, Scale: 4})
	INCQ(n)
	dropLowest(w)
	JNZ(LabelRef("dense"))
	Label("clear")
	for i := range 8 {
		VMOVDQU(zero, Mem{Base: acc, Disp: 32 * i})
	}
	Label("next")
	ADDQ(U8(8), set)
	ADDQ(U8(8), keep)
	ADDQ(U32(256), acc)
	ADDL(U8(64), from)
	DECQ(words)
	JNZ(LabelRef("word"))
	VZEROUPPER()
	Store(n, ReturnIndex(0))
	RET()

	// Each doc is written, and stays when it counts.
	Label("sparse")
	BSFQ(w, bit)
	MOVL(Mem{Base: acc, Index: bit, Scale: 4}, score)
	MOVL(U32(0), Mem{Base: acc, Index: bit, Scale: 4})
	LEAL(Mem{Base: from, Index: bit, Scale: 1}, doc)
	MOVL(score, Mem{Base: scores, Index: n, Scale: 4})
	MOVL(doc, Mem{Base: docs, Index: n, Scale: 4})
	high := GP64()
	XORQ(high, high)
	CMPL(score, least)
	SETCC(high.As8L())
	BTQ(bit, k)
	SBBQ(score.As64(), score.As64()) // all ones when it is kept
	ANDQ(score.As64(), high)
	ADDQ(high, n)
	dropLowest(w)
	JNZ(LabelRef("sparse"))
	JMP(LabelRef("next"))
}

// reached sets the bits of mask whose scores, 32 from acc on, are at least
// leasts.
func reached(acc reg.Register, at int, leasts, order reg.VecVirtual, mask reg.GPVirtual) {
	v := [4]reg.VecVirtual{YMM(), YMM(), YMM(), YMM()}
	for i, y := range v {
		from := Mem{Base: acc, Disp: at + 32*i}
		VPMAXUD(from, leasts, y)
		VPCMPEQD(from, y, y)
	}
	VPACKSSDW(v[1], v[0], v[0])
	VPACKSSDW(v[3], v[2], v[2])
	VPACKSSWB(v[2], v[0], v[0])
	VPERMD(v[0], order, v[0])
	VPMOVMSKB(v[0], mask.As32())
}

func dropLowest(w reg.GPVirtual) {
	t := GP64()
	LEAQ(Mem{Base: w, Disp: -1}, t)
	ANDQ(t, w)
}

// unpacked is the order that undoes the packs, which work in halves.
func unpacked() Mem {
	m := GLOBL("unpacked", attr.RODATA|attr.NOPTR)
	for i, v := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(v))
	}
	return m
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
