// Command asm writes the amd64 kernels of package simd.
//
//	cd internal/simd/_asm && go run . -out ../kernels_amd64.s -stubs ../stubs_amd64.go -pkg simd
//
// Every kernel has frame $0 and NOSPLIT and calls nothing, so a memory fault
// inside it (a mapped file cut short by another process) reaches the Go caller
// as a panic that recover catches under debug.SetPanicOnFault.
//
// All kernels share one shape, written once in rows.go: four rows at a time
// against one query, a last group of fewer rows repeats its last row and
// stores only what is asked for, so there is no second loop for the remainder.
package main

import (
	. "github.com/mmcloughlin/avo/build"
)

func main() {
	ConstraintExpr("amd64,!purego")
	for _, isa := range []isa{avx2{}, avx512{}} {
		for _, distances := range []bool{false, true} {
			rowsU8S8(isa, gather, distances)
			rowsU8S8(isa, scan, distances)
		}
		rowsU4S8(isa, gather)
		rowsU4S8(isa, scan)
		floatRows(isa, "dotF32", false)
		floatRows(isa, "l2F32", true)
		encoder(isa)
	}
	encode()
	unseen()
	prefetch()
	Generate()
}

// encoder writes the kernels of a transformer encoder.
func encoder(k isa) {
	for _, rows := range gemmHeights {
		if _, narrow := k.(avx2); narrow && rows > 4 {
			continue // 16 registers: four rows of sixteen columns fill them
		}
		gemmU8S8(k, rows)
	}
	for _, rows := range []int{8, 4, 1} {
		if _, narrow := k.(avx2); narrow && rows > 4 {
			continue
		}
		gemmF32(k, rows)
	}
	for _, op := range []func(isa){rowMinMax, rowMax, rowQuantize, rowResidual, rowAddSum, rowVarSum, rowNormalize, rowGELU, rowExp} {
		op(k)
	}
}

// prefetch brings one cache line near.
func prefetch() {
	TEXT("prefetchAsm", noSplit, "func(p *byte)")
	Pragma("noescape")
	Doc("prefetchAsm asks for the cache line at p.")
	PREFETCHT0(mem(Load(Param("p"), GP64())))
	RET()
}
