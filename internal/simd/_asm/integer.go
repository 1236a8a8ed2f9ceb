package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/quarrysearch/quarry/internal/simd/_asm/coef"
)

type mode int

const (
	gather mode = iota
	scan
)

// intRows is the inner part of the integer kernels: 64 bytes of four rows.
type intRows interface {
	intAccumulators() []reg.VecVirtual
	intStep(acc []reg.VecVirtual, query Mem, row []Mem)
	intReduce(acc []reg.VecVirtual) reg.VecVirtual
}

// rowsU8S8 writes a kernel of unsigned rows and one signed query. The sums are
// exact 32-bit integers, so neither lane order nor instruction set matters.
// With distances, they go through a Form; a row is then as long as the query.
func rowsU8S8(k isa, m mode, distances bool) {
	name, params, out := "dotU8S8", "codes *byte, stride int, ", "out *int32"
	if distances {
		name, params, out = "distance", "bias int32, base float32, scale float32, floor float32, codes *byte, ", "out *float32"
	}
	if m == gather {
		name += "Gather"
		params += "ids *uint32, "
	} else {
		name += "Scan"
	}
	TEXT(name+k.suffix(), noSplit, "func(q *int8, n int, "+params+"rows int, "+out+")")
	Doc(name + k.suffix() + " is " + name + "Ref for n a positive multiple of 64 and rows > 0.")
	Pragma("noescape")
	stride := func() Op { return argument("stride") }
	if distances {
		stride = func() Op { return argument("n") }
	}
	intKernel(k, m, distances, stride)
}

func intKernel(k isa, m mode, distances bool, stride func() Op) {
	q := Load(Param("q"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	left := Load(Param("rows"), GP64()).(reg.GPVirtual)
	out := Load(Param("out"), GP64()).(reg.GPVirtual)
	next := GP64() // ids, or rows themselves
	if m == gather {
		Load(Param("ids"), next)
	} else {
		Load(Param("codes"), next)
	}
	rows := newRowSet(m == gather)

	Label("group")
	if m == gather {
		rows.gatherAddresses(next, left, "codes", func(id reg.GPVirtual) { IMULQ(stride(), id) })
		ADDQ(U8(4*group), next)
	} else {
		rows.scanAddresses(next, left, stride)
	}
	acc := k.intAccumulators()
	off := GP64()
	XORQ(off, off)

	Label("chunk")
	row, ahead := rows.at(off, 1)
	for r := range group {
		if m == scan {
			// In address order: lines of one row at a time would look to the
			// hardware like four short streams.
			ahead[r] = at(next, off, 4).Offset(coef.ScanAhead + 64*r)
		}
		PREFETCHT0(ahead[r])
	}
	k.intStep(acc, at(q, off, 1), row)
	ADDQ(U8(64), off)
	CMPQ(off, n)
	JL(LabelRef("chunk"))

	sums := k.intReduce(acc)
	if distances {
		ends, _ := rows.at(n, 1)
		finish(sums, ends)
	}
	if m == scan { // four rows on
		MOVQ(stride(), off)
		LEAQ(at(next, off, 4), next)
	}
	storeGroup(sums, out, left, "done")
	Label("done")
	VZEROUPPER()
	RET()
}

// finish turns four sums into distances as Form says, one operation after the
// other. ends are the addresses behind the rows: scale and norm stand before.
func finish(x reg.VecVirtual, ends []Mem) {
	field := func(name string) reg.VecVirtual {
		v := XMM()
		VBROADCASTSS(argument(name), v)
		return v
	}
	pair := func(a, b Mem) reg.VecVirtual { // scale, norm, scale, norm
		v := XMM()
		VMOVQ(a.Offset(-8), v)
		VMOVHPS(b.Offset(-8), v, v)
		return v
	}
	ab, cd := pair(ends[0], ends[1]), pair(ends[2], ends[3])
	scale, norm := XMM(), XMM()
	VSHUFPS(U8(0x88), cd, ab, scale)
	VSHUFPS(U8(0xdd), cd, ab, norm)
	VPSUBD(field("bias"), x, x)
	VCVTDQ2PS(x, x)
	VMULPS(field("scale"), scale, scale)
	VMULPS(x, scale, x)
	VADDPS(field("base"), norm, norm)
	VSUBPS(x, norm, x)
	VMAXPS(x, field("floor"), x) // x when one is NaN, as the reference does
}

type avx512 struct{}

func (avx512) suffix() string { return "AVX512" }

func (avx512) intAccumulators() []reg.VecVirtual {
	acc := make([]reg.VecVirtual, group)
	for r := range acc {
		acc[r] = ZMM()
		VPXORD(acc[r], acc[r], acc[r])
	}
	return acc
}

// intStep: VPDPBUSD adds four products of unsigned and signed bytes to each
// 32-bit lane, without an intermediate of 16 bits that could saturate.
func (avx512) intStep(acc []reg.VecVirtual, query Mem, row []Mem) {
	zq, zc := ZMM(), ZMM()
	VMOVDQU64(query, zq)
	for r := range acc {
		VMOVDQU64(row[r], zc)
		VPDPBUSD(zq, zc, acc[r])
	}
}

func (avx512) intReduce(acc []reg.VecVirtual) reg.VecVirtual {
	half := YMM()
	folded := make([]reg.VecVirtual, group)
	for r, a := range acc[:group] {
		folded[r] = YMM()
		VEXTRACTI64X4(U8(1), a, half)
		VPADDD(half, a.AsY(), folded[r])
	}
	return intReduceY(folded)
}

type avx2 struct{}

func (avx2) suffix() string { return "AVX2" }

func (avx2) intAccumulators() []reg.VecVirtual {
	acc := make([]reg.VecVirtual, group+1)
	for r := range acc {
		acc[r] = YMM()
		VPXOR(acc[r], acc[r], acc[r])
	}
	// The last register is not a sum: 0x00ff in every word.
	low := acc[group]
	VPCMPEQW(low, low, low)
	VPSRLW(U8(8), low, low)
	return acc
}

// intStep splits bytes into even and odd words: VPMADDUBSW would saturate at
// 2·255·127 > 32,767, VPMADDWD of words of 8 bits cannot. The odd bytes of the
// query are shifted down arithmetically, its even ones up and down; rows are
// unsigned, so a mask and a logical shift do.
func (avx2) intStep(acc []reg.VecVirtual, query Mem, row []Mem) {
	qEven, qOdd, even, odd := YMM(), YMM(), YMM(), YMM()
	low := acc[group]
	for half := 0; half < 64; half += 32 {
		VMOVDQU(query.Offset(half), qOdd)
		VPSLLW(U8(8), qOdd, qEven)
		VPSRAW(U8(8), qEven, qEven)
		VPSRAW(U8(8), qOdd, qOdd)
		for r := range group {
			VMOVDQU(row[r].Offset(half), odd)
			VPAND(odd, low, even)
			VPSRLW(U8(8), odd, odd)
			VPMADDWD(even, qEven, even)
			VPMADDWD(odd, qOdd, odd)
			VPADDD(even, acc[r], acc[r])
			VPADDD(odd, acc[r], acc[r])
		}
	}
}

func (avx2) intReduce(acc []reg.VecVirtual) reg.VecVirtual {
	return intReduceY(acc[:group])
}

// intReduceY gives the four sums of four registers of eight lanes.
func intReduceY(acc []reg.VecVirtual) reg.VecVirtual {
	ab, cd := YMM(), YMM()
	VPHADDD(acc[1], acc[0], ab)
	VPHADDD(acc[3], acc[2], cd)
	VPHADDD(cd, ab, ab) // a b c d of the low half, a b c d of the high half
	high := XMM()
	VEXTRACTI128(U8(1), ab, high)
	VPADDD(high, ab.AsX(), high)
	return high
}
