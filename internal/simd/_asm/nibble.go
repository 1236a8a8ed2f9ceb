package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/quarrysearch/quarry/internal/simd/_asm/coef"
)

// nibbleRows is the inner part of the kernels of 4-bit rows: 64 bytes of four
// rows, and the 128 bytes of the query that belong to them.
type nibbleRows interface {
	nibbleAccumulators() []reg.VecVirtual
	nibbleStep(acc []reg.VecVirtual, query Mem, row []Mem)
	intReduce(acc []reg.VecVirtual) reg.VecVirtual
}

// rowsU4S8 writes a kernel of rows of unsigned 4-bit codes and one signed query
// of bytes, sums turned into distances as Affine says.
func rowsU4S8(k isa, m mode) {
	name, ids := "nibbleScan", ""
	if m == gather {
		name, ids = "nibbleGather", "ids *uint32, "
	}
	TEXT(name+k.suffix(), noSplit, "func(q *int8, n int, sum float32, base float32, scale float32, floor float32, codes *byte, "+ids+"rows int, out *float32)")
	Doc(name + k.suffix() + " is " + name + "Ref for n, the bytes of a row, a positive multiple of 64 and rows > 0.")
	Pragma("noescape")
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
		rows.gatherAddresses(next, left, "codes", func(id reg.GPVirtual) { IMULQ(n, id) })
		ADDQ(U8(4*group), next)
	} else {
		rows.scanAddresses(next, left, func() Op { return n })
	}
	acc := k.nibbleAccumulators()
	off := GP64()
	XORQ(off, off)

	Label("chunk")
	row, ahead := rows.at(off, 1)
	for r := range group {
		if m == scan { // in address order, as in intKernel
			ahead[r] = at(next, off, 4).Offset(coef.ScanAhead + 64*r)
		}
		PREFETCHT0(ahead[r])
	}
	k.nibbleStep(acc, at(q, off, 2), row)
	ADDQ(U8(64), off)
	CMPQ(off, n)
	JL(LabelRef("chunk"))

	sums := k.intReduce(acc)
	ends, _ := rows.at(n, 1)
	finishAffine(sums, ends)
	if m == scan { // four rows on
		LEAQ(at(next, n, 4), next)
	}
	storeGroup(sums, out, left, "done")
	Label("done")
	VZEROUPPER()
	RET()
}

// finishAffine turns four sums into distances as Affine says, one operation
// after the other. ends are the addresses behind the rows: step, low and norm
// are the last three of the four floats before.
func finishAffine(x reg.VecVirtual, ends []Mem) {
	field := func(name string) reg.VecVirtual {
		v := XMM()
		VBROADCASTSS(argument(name), v)
		return v
	}
	var metas [group]reg.VecVirtual
	for r := range metas {
		metas[r] = XMM()
		VMOVUPS(ends[r].Offset(-16), metas[r])
	}
	steps, lows := [2]reg.VecVirtual{XMM(), XMM()}, [2]reg.VecVirtual{XMM(), XMM()}
	for i := range 2 {
		VUNPCKLPS(metas[2*i+1], metas[2*i], steps[i]) // – – step step
		VUNPCKHPS(metas[2*i+1], metas[2*i], lows[i])  // low low norm norm
	}
	step, low, norm := XMM(), XMM(), XMM()
	VUNPCKHPD(steps[1], steps[0], step)
	VUNPCKLPD(lows[1], lows[0], low)
	VUNPCKHPD(lows[1], lows[0], norm)
	VCVTDQ2PS(x, x)
	VMULPS(x, step, x)
	VMULPS(field("sum"), low, low)
	VADDPS(low, x, x)
	VMULPS(field("scale"), x, x)
	VADDPS(field("base"), norm, norm)
	VSUBPS(x, norm, x)
	VMAXPS(x, field("floor"), x) // x when one is NaN, as the reference does
}

const lowNibbles = 0x0f0f0f0f

func (k avx512) nibbleAccumulators() []reg.VecVirtual {
	mask, bits := ZMM(), GP32()
	MOVL(U32(lowNibbles), bits)
	VPBROADCASTD(bits, mask)
	return append(k.intAccumulators(), mask)
}

func (avx512) nibbleStep(acc []reg.VecVirtual, query Mem, row []Mem) {
	mask := acc[group]
	qLow, qHigh, low, high := ZMM(), ZMM(), ZMM(), ZMM()
	VMOVDQU64(query, qLow)
	VMOVDQU64(query.Offset(64), qHigh)
	for r := range group {
		VMOVDQU64(row[r], high)
		VPANDD(mask, high, low)
		VPSRLW(U8(4), high, high)
		VPANDD(mask, high, high)
		VPDPBUSD(qLow, low, acc[r])
		VPDPBUSD(qHigh, high, acc[r])
	}
}

func (k avx2) nibbleAccumulators() []reg.VecVirtual {
	acc := k.intAccumulators()
	mask, ones := acc[group], YMM()
	// 0x00ff in every word: 0x0f in every byte, and 1 in every word.
	VPSRLW(U8(7), mask, ones)
	VPSRLW(U8(4), mask, mask)
	high := YMM()
	VPSLLW(U8(8), mask, high)
	VPOR(high, mask, mask)
	return append(acc, ones)
}

// nibbleStep: a product of a nibble and a byte has at most 15·128 = 1,920 in
// magnitude, four of them fit 16 bits, so VPMADDUBSW is exact here.
func (avx2) nibbleStep(acc []reg.VecVirtual, query Mem, row []Mem) {
	mask, ones := acc[group], acc[group+1]
	qLow, qHigh, low, high := YMM(), YMM(), YMM(), YMM()
	for half := 0; half < 64; half += 32 {
		VMOVDQU(query.Offset(half), qLow)
		VMOVDQU(query.Offset(64+half), qHigh)
		for r := range group {
			VMOVDQU(row[r].Offset(half), high)
			VPAND(mask, high, low)
			VPSRLW(U8(4), high, high)
			VPAND(mask, high, high)
			VPMADDUBSW(qLow, low, low)
			VPMADDUBSW(qHigh, high, high)
			VPADDW(high, low, low)
			VPMADDWD(ones, low, low)
			VPADDD(low, acc[r], acc[r])
		}
	}
}
