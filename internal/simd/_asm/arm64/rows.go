package main

import (
	"fmt"

	"github.com/quarrysearch/quarry/internal/simd/_asm/coef"
)

// General registers of the kernels over rows.
const (
	query  gpr = 0
	length gpr = 1 // of a row: bytes, or floats
	left   gpr = 2 // rows still to do, at least one
	out    gpr = 3
	next   gpr = 4 // ids still to do, or the next row
	base   gpr = 5
	stride gpr = 6 // bytes
	row0   gpr = 7
	ahead0 gpr = 11 // rows prefetched; of a scan, one address
	off    gpr = 15 // bytes of the row done
	q      gpr = 16 // query + off
	last   gpr = 17 // left − 1
	tmp    gpr = 19
	full   gpr = 20
	tail   gpr = 21
)

func row(r int) gpr   { return row0 + gpr(r) }
func ahead(r int) gpr { return ahead0 + gpr(r) }

// gatherAddresses computes the addresses of the rows named by the next ids and
// of those prefetched: base + id·stride.
func (p *prog) gatherAddresses() {
	p.op("SUB", imm(1), left, last)
	address := func(dst gpr, want int) {
		if want == 0 {
			p.op("MOVWU", mem(next, 0), dst)
		} else {
			p.clampedIndex(want)
			p.op("MOVWU", fmt.Sprintf("(%v)(%v<<2)", next, tmp), dst)
		}
		p.op("MADD", stride, base, dst, dst)
	}
	for r := range group {
		address(row(r), r)
		address(ahead(r), r+coef.PrefetchRows)
	}
	p.op("ADD", imm(4*group), next)
}

// scanAddresses computes the addresses of the next rows, one after the other,
// and steps next over them.
func (p *prog) scanAddresses() {
	p.op("SUB", imm(1), left, last)
	p.op("MOVD", next, row(0))
	for r := 1; r < group; r++ {
		p.clampedIndex(r)
		p.op("MADD", stride, next, tmp, row(r))
	}
	p.op("ADD", imm(coef.ScanAhead), next, ahead(0))
	p.op("ADD", fmt.Sprintf("%v<<2", stride), next)
}

// clampedIndex sets tmp to min(want, last).
func (p *prog) clampedIndex(want int) {
	p.op("MOVD", imm(want), tmp)
	p.op("CMP", last, tmp)
	p.op("CSEL", "LT", tmp, last, tmp)
}

// storeGroup writes the four 32-bit lanes of x to out, or only the first left of
// them when fewer rows are left, and returns. Otherwise it goes on with the
// next group.
func (p *prog) storeGroup(x vec) {
	p.op("CMP", imm(group), left)
	p.op("BLT", "store")
	p.store(out, x, 1)
	p.op("SUBS", imm(group), left)
	p.op("BNE", "group")
	p.op("RET")
	p.label("store")
	p.op("TBZ", imm(1), left, "store1")
	p.op("FMOVD.P", x.scalar(), mem(out, 8))
	p.rotate(x, x, 8)
	p.label("store1")
	p.op("TBZ", imm(0), left, "done")
	p.op("FMOVS", x.scalar(), mem(out, 0))
	p.label("done")
	p.op("RET")
}
