package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/quarrysearch/quarry/internal/simd/_asm/coef"
)

const (
	noSplit = attr.NOSPLIT
	group   = 4 // rows computed together
)

// An isa writes the few steps in which instruction sets differ.
type isa interface {
	suffix() string
	intRows
	nibbleRows
	floatKernel
	gemm(rows int)
}

func mem(base reg.Register) Mem { return Mem{Base: base} }

// at is the memory at base + index·scale.
func at(base, index reg.Register, scale uint8) Mem {
	return Mem{Base: base, Index: index, Scale: scale}
}

// argument is the memory of a parameter on the caller's frame: the kernels
// read what they need once a group from there and keep the registers free.
func argument(name string) Op {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// rowSet holds the addresses of the rows of a group and of those prefetched.
type rowSet struct {
	row, ahead [group]reg.GPVirtual
}

func newRowSet(ahead bool) *rowSet {
	s := new(rowSet)
	for r := range s.row {
		s.row[r] = GP64()
		if ahead {
			s.ahead[r] = GP64()
		}
	}
	return s
}

// at gives the memory at offset off·scale of the rows and of those ahead.
func (s *rowSet) at(off reg.Register, scale uint8) (row, ahead []Mem) {
	for r := range group {
		row = append(row, at(s.row[r], off, scale))
		ahead = append(ahead, at(s.ahead[r], off, scale))
	}
	return row, ahead
}

// clampedIndex sets idx to min(want, left−1).
func clampedIndex(idx, last reg.GPVirtual, want int) {
	MOVQ(U32(want), idx)
	CMPQ(last, idx)
	CMOVQLT(last, idx)
}

// gatherAddresses computes the addresses of the rows named by the next ids:
// base + id·step. left counts the rows still to do, at least one.
func (s *rowSet) gatherAddresses(ids, left reg.Register, base string, step func(id reg.GPVirtual)) {
	last, idx := GP64(), GP64()
	LEAQ(Mem{Base: left, Disp: -1}, last)
	address := func(dst reg.GPVirtual, want int) {
		if want == 0 {
			MOVL(mem(ids), dst.As32())
		} else {
			clampedIndex(idx, last, want)
			MOVL(at(ids, idx, 4), dst.As32())
		}
		step(dst)
		ADDQ(argument(base), dst)
	}
	for r := range group {
		address(s.row[r], r)
		address(s.ahead[r], r+coef.PrefetchRows)
	}
}

// scanAddresses computes the addresses of the next rows, one after the other.
func (s *rowSet) scanAddresses(next, left reg.Register, stride func() Op) {
	last, idx := GP64(), GP64()
	LEAQ(Mem{Base: left, Disp: -1}, last)
	MOVQ(next, s.row[0])
	for r := 1; r < group; r++ {
		clampedIndex(idx, last, r)
		IMULQ(stride(), idx)
		LEAQ(at(next, idx, 1), s.row[r])
	}
}

// storeGroup writes the four 32-bit results in x to out, or only the first
// left of them when fewer rows are left, and jumps to done then. Otherwise it
// steps out and left to the next group.
func storeGroup(x reg.VecVirtual, out, left reg.GPVirtual, done string) {
	label := func(r int) string { return fmt.Sprintf("store%d", r) }
	CMPQ(left, U8(group))
	JL(LabelRef(label(1)))
	VMOVDQU(x, mem(out))
	ADDQ(U8(4*group), out)
	SUBQ(U8(group), left)
	JZ(LabelRef(done))
	JMP(LabelRef("group"))
	for r := 1; r < group; r++ {
		Label(label(r))
		if r == 1 {
			VMOVD(x, mem(out))
		} else {
			VPEXTRD(U8(r-1), x, Mem{Base: out, Disp: 4 * (r - 1)})
		}
		if r < group-1 {
			CMPQ(left, U8(r))
			JE(LabelRef(done))
		}
	}
}
