package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// unseen writes the kernel that picks from a row of links those not seen yet.
// Whether one was cannot be predicted, so there is no branch on it: every id is
// written, and the next one over it when it was.
func unseen() {
	TEXT("unseenAsm", noSplit, "func(links *uint32, n int, marks *uint8, nodes int, version uint64, codes *byte, stride int, out *uint32) (count int, stop int)")
	Doc("unseenAsm is unseenRef for n > 0, and asks for the first lines of the rows of codes.")
	Pragma("noescape")
	arg := func(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }
	links, n, marks, nodes := arg("links"), arg("n"), arg("marks"), arg("nodes")
	version, codes, stride, out := arg("version"), arg("codes"), arg("stride"), arg("out")
	i, m, id, seen, more := GP64(), GP64(), GP64(), GP64(), GP64()
	XORQ(i, i)
	XORQ(m, m)
	Label("link")
	MOVL(at(links, i, 4), id.As32())
	CMPQ(id, nodes)
	JAE(LabelRef("done"))
	MOVL(id.As32(), at(out, m, 4))
	MOVBQZX(at(marks, id, 1), seen)
	MOVB(version.As8(), at(marks, id, 1))
	IMULQ(stride, id)
	PREFETCHT0(at(codes, id, 1))
	XORQ(more, more)
	CMPQ(seen, version)
	SETNE(more.As8())
	ADDQ(more, m)
	INCQ(i)
	CMPQ(i, n)
	JL(LabelRef("link"))
	Label("done")
	Store(m, Return("count"))
	Store(i, Return("stop"))
	RET()
}
