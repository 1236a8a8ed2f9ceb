package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/quarrysearch/quarry/internal/simd/_asm/coef"
)

// The row kernels work on one row of floats whose length is a positive
// multiple of 16, in chunks of 16: one Z register, or two Y registers.

// constant is a memory operand of sixteen copies of v.
func constant(v float32) Mem { return word16(math.Float32bits(v)) }

// word16 is a memory operand of sixteen copies of a 32-bit word; equal words
// share one symbol.
func word16(bits uint32) Mem {
	if m, ok := constants[bits]; ok {
		return m
	}
	m := GLOBL("c"+hex8(bits), attr.RODATA|attr.NOPTR)
	for i := range 16 {
		DATA(4*i, U32(bits))
	}
	constants[bits] = m
	return m
}

var constants = map[uint32]Mem{}

func hex8(v uint32) string {
	const digits = "0123456789abcdef"
	b := make([]byte, 8)
	for i := range b {
		b[i] = digits[v>>(28-4*i)&15]
	}
	return string(b)
}

// wide tells the two instruction sets apart: the register and how many of
// them hold sixteen floats.
func wide(k isa) (vec func() reg.VecVirtual, regs int) {
	if _, ok := k.(avx512); ok {
		return ZMM, 1
	}
	return YMM, 2
}

// rowLoop writes a loop over the chunks of a row of n floats.
func rowLoop(n reg.GPVirtual, body func(off reg.GPVirtual)) {
	off := GP64()
	XORQ(off, off)
	Label("chunk")
	body(off)
	ADDQ(U8(16), off)
	CMPQ(off, n)
	JL(LabelRef("chunk"))
}

func param(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

func broadcast(name string, vec func() reg.VecVirtual) reg.VecVirtual {
	v := vec()
	VBROADCASTSS(argument(name), v)
	return v
}

// foldTo8 combines the registers of sixteen lanes into one of eight.
func foldTo8(acc []reg.VecVirtual, op func(a, b, dst Op)) reg.VecVirtual {
	if len(acc) == 2 {
		op(acc[1], acc[0], acc[0])
		return acc[0]
	}
	half, low := YMM(), YMM()
	VEXTRACTF64X4(U8(1), acc[0], half)
	op(half, acc[0].AsY(), low)
	return low
}

// fold combines sixteen lanes: l with l+8, then +4, +2, +1.
func fold(acc []reg.VecVirtual, op func(a, b, dst Op)) reg.VecVirtual {
	y := foldTo8(acc, op)
	x, t := XMM(), XMM()
	VEXTRACTF128(U8(1), y, t)
	op(t, y.AsX(), x)
	VPSHUFD(U8(0x4e), x, t)
	op(t, x, x)
	VPSHUFD(U8(0xb1), x, t)
	op(t, x, x)
	return x
}

func add(a, b, dst Op) { VADDPS(a, b, dst) }

// rowMinMax: the smallest and the largest component.
func rowMinMax(k isa) {
	name := "rowMinMax" + k.suffix()
	TEXT(name, noSplit, "func(x *float32, n int) (lo float32, hi float32)")
	Doc(name + " is rowMinMaxRef for n a positive multiple of 16.")
	Pragma("noescape")
	vec, regs := wide(k)
	x, n := param("x"), param("n")
	var lo, hi []reg.VecVirtual
	for range regs {
		l, h := vec(), vec()
		vzero(l)
		vzero(h)
		lo, hi = append(lo, l), append(hi, h)
	}
	rowLoop(n, func(off reg.GPVirtual) {
		for h := range regs {
			v := vec()
			VMOVUPS(at(x, off, 4).Offset(32*h), v)
			VMINPS(v, lo[h], lo[h])
			VMAXPS(v, hi[h], hi[h])
		}
	})
	Store(fold(lo, func(a, b, dst Op) { VMINPS(a, b, dst) }), ReturnIndex(0))
	Store(fold(hi, func(a, b, dst Op) { VMAXPS(a, b, dst) }), ReturnIndex(1))
	VZEROUPPER()
	RET()
}

// rowMax: the largest component.
func rowMax(k isa) {
	name := "rowMax" + k.suffix()
	TEXT(name, noSplit, "func(x *float32, n int) float32")
	Doc(name + " is rowMaxRef for n a positive multiple of 16.")
	Pragma("noescape")
	vec, regs := wide(k)
	x, n := param("x"), param("n")
	var hi []reg.VecVirtual
	for h := range regs {
		v := vec()
		VMOVUPS(mem(x).Offset(32*h), v)
		hi = append(hi, v)
	}
	rowLoop(n, func(off reg.GPVirtual) {
		for h := range regs {
			VMAXPS(at(x, off, 4).Offset(32*h), hi[h], hi[h])
		}
	})
	Store(fold(hi, func(a, b, dst Op) { VMAXPS(a, b, dst) }), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// rowQuantize: bytes round(x·inv) + zero, kept in 0…255.
func rowQuantize(k isa) {
	name := "rowQuantize" + k.suffix()
	TEXT(name, noSplit, "func(x *float32, n int, inv float32, zero int32, out *byte)")
	Doc(name + " is rowQuantizeRef for n a positive multiple of 16.")
	Pragma("noescape")
	vec, regs := wide(k)
	x, n, out := param("x"), param("n"), param("out")
	inv := broadcast("inv", vec)
	zero := broadcast("zero", vec)
	low := vec()
	vzero(low)
	rowLoop(n, func(off reg.GPVirtual) {
		for h := range regs {
			v := vec()
			VMULPS(at(x, off, 4).Offset(32*h), inv, v)
			VCVTPS2DQ(v, v)
			VPADDD(zero, v, v)
			if regs == 1 {
				VPMAXSD(low, v, v)
				VPMOVUSDB(v, at(out, off, 1))
				continue
			}
			words, high := XMM(), XMM()
			VEXTRACTI128(U8(1), v, high)
			VPACKUSDW(high, v.AsX(), words)
			VPACKUSWB(words, words, words)
			VMOVQ(words, at(out, off, 1).Offset(8*h))
		}
	})
	VZEROUPPER()
	RET()
}

// rowResidual: what a row's codes leave over, x − scale·(code − zero).
func rowResidual(k isa) {
	name := "rowResidual" + k.suffix()
	TEXT(name, noSplit, "func(x *float32, n int, scale float32, zero int32, codes *byte, out *float32)")
	Doc(name + " is rowResidualRef for n a positive multiple of 16.")
	Pragma("noescape")
	vec, regs := wide(k)
	x, n, codes, out := param("x"), param("n"), param("codes"), param("out")
	scale, zero := broadcast("scale", vec), broadcast("zero", vec)
	rowLoop(n, func(off reg.GPVirtual) {
		for h := range regs {
			v, y := vec(), vec()
			VPMOVZXBD(at(codes, off, 1).Offset(8*h), v)
			VPSUBD(zero, v, v)
			VCVTDQ2PS(v, v)
			VMULPS(scale, v, v)
			VMOVUPS(at(x, off, 4).Offset(32*h), y)
			VSUBPS(v, y, y)
			VMOVUPS(y, at(out, off, 4).Offset(32*h))
		}
	})
	VZEROUPPER()
	RET()
}

// rowAddSum: x += y and the sum of the result in 16 lanes.
func rowAddSum(k isa) {
	name := "rowAddSum" + k.suffix()
	TEXT(name, noSplit, "func(x *float32, y *float32, n int) float32")
	Doc(name + " is rowAddSumRef for n a positive multiple of 16.")
	Pragma("noescape")
	vec, regs := wide(k)
	x, y, n := param("x"), param("y"), param("n")
	acc := zeros(vec, regs)
	rowLoop(n, func(off reg.GPVirtual) {
		for h := range regs {
			v := vec()
			VMOVUPS(at(x, off, 4).Offset(32*h), v)
			VADDPS(at(y, off, 4).Offset(32*h), v, v)
			VMOVUPS(v, at(x, off, 4).Offset(32*h))
			VADDPS(v, acc[h], acc[h])
		}
	})
	Store(fold(acc, add), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

func zeros(vec func() reg.VecVirtual, n int) []reg.VecVirtual {
	var acc []reg.VecVirtual
	for range n {
		v := vec()
		vzero(v)
		acc = append(acc, v)
	}
	return acc
}

// rowVarSum: the sum of the squared differences to the mean in 16 lanes.
func rowVarSum(k isa) {
	name := "rowVarSum" + k.suffix()
	TEXT(name, noSplit, "func(x *float32, n int, mean float32) float32")
	Doc(name + " is rowVarSumRef for n a positive multiple of 16.")
	Pragma("noescape")
	vec, regs := wide(k)
	x, n := param("x"), param("n")
	mean := broadcast("mean", vec)
	acc := zeros(vec, regs)
	rowLoop(n, func(off reg.GPVirtual) {
		for h := range regs {
			v := vec()
			VMOVUPS(at(x, off, 4).Offset(32*h), v)
			VSUBPS(mean, v, v)
			VMULPS(v, v, v)
			VADDPS(v, acc[h], acc[h])
		}
	})
	Store(fold(acc, add), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// rowNormalize: x = ((x − mean)·inv)·gamma + beta.
func rowNormalize(k isa) {
	name := "rowNormalize" + k.suffix()
	TEXT(name, noSplit, "func(x *float32, n int, mean float32, inv float32, gamma *float32, beta *float32)")
	Doc(name + " is rowNormalizeRef for n a positive multiple of 16.")
	Pragma("noescape")
	vec, regs := wide(k)
	x, n, gamma, beta := param("x"), param("n"), param("gamma"), param("beta")
	mean, inv := broadcast("mean", vec), broadcast("inv", vec)
	rowLoop(n, func(off reg.GPVirtual) {
		for h := range regs {
			v := vec()
			VMOVUPS(at(x, off, 4).Offset(32*h), v)
			VSUBPS(mean, v, v)
			VMULPS(inv, v, v)
			VMULPS(at(gamma, off, 4).Offset(32*h), v, v)
			VADDPS(at(beta, off, 4).Offset(32*h), v, v)
			VMOVUPS(v, at(x, off, 4).Offset(32*h))
		}
	})
	VZEROUPPER()
	RET()
}

// horner evaluates a polynomial, highest coefficient first.
func horner(x reg.VecVirtual, coefs []float32, vec func() reg.VecVirtual) reg.VecVirtual {
	p := vec()
	VMOVUPS(constant(coefs[0]), p)
	for _, c := range coefs[1:] {
		VMULPS(x, p, p)
		VADDPS(constant(c), p, p)
	}
	return p
}

// rowGELU: x = (0.5·x)·(1 + erf(x/√2)).
func rowGELU(k isa) {
	name := "rowGELU" + k.suffix()
	TEXT(name, noSplit, "func(x *float32, n int)")
	Doc(name + " is rowGELURef for n a positive multiple of 16.")
	Pragma("noescape")
	vec, regs := wide(k)
	x, n := param("x"), param("n")
	rowLoop(n, func(off reg.GPVirtual) {
		for h := range regs {
			at := at(x, off, 4).Offset(32 * h)
			v, t, t2 := vec(), vec(), vec()
			VMOVUPS(at, v)
			VMULPS(constant(math.Sqrt2/2), v, t)
			VMINPS(constant(coef.ErfMax), t, t)
			VMAXPS(constant(-coef.ErfMax), t, t)
			VMULPS(t, t, t2)
			p := horner(t2, coef.ErfNum, vec)
			q := horner(t2, coef.ErfDen, vec)
			VMULPS(t, p, p)
			VDIVPS(q, p, p)
			VADDPS(constant(1), p, p)
			VMULPS(constant(0.5), v, v)
			VMULPS(p, v, v)
			VMOVUPS(v, at)
		}
	})
	VZEROUPPER()
	RET()
}

// rowExp: x = exp(x·scale − top), and the sum in 16 lanes.
func rowExp(k isa) {
	name := "rowExp" + k.suffix()
	TEXT(name, noSplit, "func(x *float32, n int, scale float32, top float32) float32")
	Doc(name + " is rowExpRef for n a positive multiple of 16.")
	Pragma("noescape")
	vec, regs := wide(k)
	x, n := param("x"), param("n")
	scale, top := broadcast("scale", vec), broadcast("top", vec)
	acc := zeros(vec, regs)
	rowLoop(n, func(off reg.GPVirtual) {
		for h := range regs {
			at := at(x, off, 4).Offset(32 * h)
			v, e, f, r := vec(), vec(), vec(), vec()
			VMULPS(at, scale, v)
			VSUBPS(top, v, v)
			VMAXPS(constant(coef.ExpMin), v, v)
			VMULPS(constant(coef.Log2E), v, e)
			VCVTPS2DQ(e, e)
			VCVTDQ2PS(e, f)
			VMULPS(constant(coef.Ln2High), f, r)
			VSUBPS(r, v, r)
			VMULPS(constant(coef.Ln2Low), f, f)
			VSUBPS(f, r, r)
			p := horner(r, coef.ExpPoly, vec)
			VMULPS(r, p, p)
			VMULPS(r, p, p)
			VADDPS(r, p, p)
			VADDPS(constant(1), p, p)
			VPSLLD(U8(23), e, e)
			VPADDD(e, p, p)
			VMOVUPS(p, at)
			VADDPS(p, acc[h], acc[h])
		}
	})
	Store(fold(acc, add), ReturnIndex(0))
	VZEROUPPER()
	RET()
}
