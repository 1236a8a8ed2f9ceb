package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// floatKernel is the inner part of the float kernels: 16 components of four
// rows. A sum of sixteen lanes is one Z register, or two Y registers.
type floatKernel interface {
	floatState(dim reg.GPVirtual) *floatState
	floatClear(s *floatState)
	floatStep(s *floatState, l2, tail bool, query Mem, row []Mem)
	floatReduce(s *floatState) reg.VecVirtual
}

// floatState is the registers that live through a kernel.
type floatState struct {
	acc  []reg.VecVirtual // by row; AVX2: low half, high half, by row
	mask []reg.VecVirtual // AVX2: lanes of the last, partial step
	k    reg.OpmaskVirtual
}

// floatRows writes the gather kernel of a float distance: products (or squared
// differences) are rounded, then added, in 16 lanes; see sumLanes for the end.
// Lanes past the last component add +0, which changes no sum: a lane starts at
// +0 and rounding to nearest never makes it −0.
func floatRows(k isa, name string, l2 bool) {
	name += "Gather"
	TEXT(name+k.suffix(), noSplit, "func(q *float32, base *float32, dim int, ids *uint32, rows int, out *float32)")
	Doc(name + k.suffix() + " is " + name + "Ref for dim > 0 and rows > 0.")
	Pragma("noescape")
	q := Load(Param("q"), GP64()).(reg.GPVirtual)
	full := Load(Param("dim"), GP64()).(reg.GPVirtual)
	s := k.floatState(full)
	ANDQ(I8(-16), full)
	left := Load(Param("rows"), GP64()).(reg.GPVirtual)
	out := Load(Param("out"), GP64()).(reg.GPVirtual)
	ids := Load(Param("ids"), GP64()).(reg.GPVirtual)
	rows := newRowSet(true)

	Label("group")
	rows.gatherAddresses(ids, left, "base", func(id reg.GPVirtual) {
		IMULQ(argument("dim"), id)
		SHLQ(U8(2), id)
	})
	ADDQ(U8(4*group), ids)
	k.floatClear(s)
	off := GP64()
	XORQ(off, off)
	CMPQ(off, full)
	JE(LabelRef("tail"))

	Label("chunk")
	row, ahead := rows.at(off, 4)
	for r := range group {
		PREFETCHT0(ahead[r])
	}
	k.floatStep(s, l2, false, at(q, off, 4), row)
	ADDQ(U8(16), off)
	CMPQ(off, full)
	JL(LabelRef("chunk"))

	Label("tail")
	CMPQ(off, argument("dim"))
	JE(LabelRef("sum"))
	k.floatStep(s, l2, true, at(q, off, 4), row)
	Label("sum")
	storeGroup(k.floatReduce(s), out, left, "done")
	Label("done")
	VZEROUPPER()
	RET()
}

func (avx512) floatState(dim reg.GPVirtual) *floatState {
	s := &floatState{k: K()}
	for range group {
		s.acc = append(s.acc, ZMM())
	}
	// Mask of the tail: dim mod 16 ones.
	bits := GP64()
	MOVQ(dim, reg.RCX)
	ANDQ(U8(15), reg.RCX)
	MOVQ(U32(1), bits)
	SHLQ(reg.CL, bits)
	DECQ(bits)
	KMOVW(bits.As32(), s.k)
	return s
}

func (avx512) floatClear(s *floatState) {
	for _, a := range s.acc {
		VPXORD(a, a, a)
	}
}

func (avx512) floatStep(s *floatState, l2, tail bool, query Mem, row []Mem) {
	zq, x := ZMM(), ZMM()
	load := func(m Mem, dst reg.VecVirtual) {
		if tail {
			VMOVUPS_Z(m, s.k, dst)
		} else {
			VMOVUPS(m, dst)
		}
	}
	load(query, zq)
	for r, acc := range s.acc {
		load(row[r], x)
		floatMulAdd(zq, x, acc, l2)
	}
}

// floatMulAdd adds q·x, or (q−x)², to acc. x is destroyed.
func floatMulAdd(q, x, acc reg.VecVirtual, l2 bool) {
	if l2 {
		VSUBPS(x, q, x)
		VMULPS(x, x, x)
	} else {
		VMULPS(x, q, x)
	}
	VADDPS(x, acc, acc)
}

func (avx512) floatReduce(s *floatState) reg.VecVirtual {
	half := YMM()
	y := make([]reg.VecVirtual, group)
	for r, a := range s.acc {
		y[r] = YMM()
		VEXTRACTF64X4(U8(1), a, half)
		VADDPS(half, a.AsY(), y[r])
	}
	return floatReduceY(y)
}

// tailMask is 16 times −1, then 16 times 0: a window of 16 that starts at
// 16 − t holds t times −1. It is written when first asked for.
func tailMask() Mem {
	if tailMaskData == nil {
		table := GLOBL("tailMask", attr.RODATA|attr.NOPTR)
		for i := range 32 {
			v := U32(0)
			if i < 16 {
				v = U32(0xffffffff)
			}
			DATA(4*i, v)
		}
		tailMaskData = &table
	}
	return *tailMaskData
}

var tailMaskData *Mem

func (avx2) floatState(dim reg.GPVirtual) *floatState {
	s := new(floatState)
	for range 2 * group {
		s.acc = append(s.acc, YMM())
	}
	tail, base := GP64(), GP64()
	MOVQ(dim, tail)
	ANDQ(U8(15), tail)
	NEGQ(tail)
	LEAQ(tailMask(), base)
	for h := range 2 {
		m := YMM()
		VMOVDQU(at(base, tail, 4).Offset(64+32*h), m)
		s.mask = append(s.mask, m)
	}
	return s
}

func (avx2) floatClear(s *floatState) {
	for _, a := range s.acc {
		VXORPS(a, a, a)
	}
}

func (avx2) floatStep(s *floatState, l2, tail bool, query Mem, row []Mem) {
	x := YMM()
	yq := []reg.VecVirtual{YMM(), YMM()}
	load := func(m Mem, h int, dst reg.VecVirtual) {
		if tail {
			VMASKMOVPS(m.Offset(32*h), s.mask[h], dst)
		} else {
			VMOVUPS(m.Offset(32*h), dst)
		}
	}
	for h := range 2 {
		load(query, h, yq[h])
	}
	for r := range group {
		for h := range 2 {
			load(row[r], h, x)
			floatMulAdd(yq[h], x, s.acc[2*r+h], l2)
		}
	}
}

func (avx2) floatReduce(s *floatState) reg.VecVirtual {
	y := make([]reg.VecVirtual, group)
	for r := range y {
		y[r] = s.acc[2*r]
		VADDPS(s.acc[2*r+1], y[r], y[r])
	}
	return floatReduceY(y)
}

// floatReduceY gives the sums of four registers of eight lanes, each summed as
// lane l + lane l+4, then l + l+2, then l + l+1.
func floatReduceY(y []reg.VecVirtual) reg.VecVirtual {
	x := make([]reg.VecVirtual, group)
	for r, a := range y {
		x[r] = XMM()
		VEXTRACTF128(U8(1), a, x[r])
		VADDPS(x[r], a.AsX(), x[r])
	}
	// Transpose on the way: pair(a, b) = a0+a2, b0+b2, a1+a3, b1+b3.
	low, high := XMM(), XMM()
	pair := func(a, b reg.VecVirtual) reg.VecVirtual {
		sum := XMM()
		VUNPCKLPS(b, a, low)
		VUNPCKHPS(b, a, high)
		VADDPS(high, low, sum)
		return sum
	}
	ab, cd := pair(x[0], x[1]), pair(x[2], x[3])
	VMOVLHPS(cd, ab, low)
	VMOVHLPS(ab, cd, high) // high half of ab, then of cd
	VADDPS(high, low, low)
	return low
}
