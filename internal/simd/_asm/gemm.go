package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	panelCols  = 32            // columns of a panel of packed weights
	panelBytes = 4 * panelCols // a step of four components of them
	gemmUnroll = 4             // steps a turn of the loop: 16 components
)

// gemmHeights are the rows a call computes. Twelve rows of two registers of
// sixteen columns take 24 of the 32 registers of AVX-512: 14 loads for 24
// multiplications, where 8 rows need 10 for 16.
var gemmHeights = []int{12, 8, 4}

// gemmU8S8 writes the matrix kernel of one height: rows of unsigned
// activations against one panel of signed weights.
func gemmU8S8(k isa, rows int) {
	name := fmt.Sprintf("gemmU8S8x%d%s", rows, k.suffix())
	TEXT(name, noSplit, "func(a *byte, k int, w *int8, rowScale *float32, rowZero *int32, sums *int32, colScale *float32, bias *float32, out *float32, stride int)")
	Doc(fmt.Sprintf("%s is gemmPanelRef for %d rows and k a positive multiple of 16; stride is in bytes.", name, rows))
	Pragma("noescape")
	k.gemm(rows)
	VZEROUPPER()
	RET()
}

// rowTriples addresses rows as base, base+stride, base+2·stride, with a base
// for every three rows.
type rowTriples struct {
	base   []reg.GPVirtual
	stride reg.GPVirtual
}

func newRowTriples(stride reg.GPVirtual, rows int) *rowTriples {
	t := &rowTriples{stride: stride}
	for r := 0; r < rows; r += 3 {
		t.base = append(t.base, GP64())
	}
	return t
}

// load sets the addresses from the parameter that points to the first row.
func (t *rowTriples) load(name string) {
	Load(Param(name), t.base[0])
	for i := range t.base[1:] {
		LEAQ(at(t.base[i], t.stride, 2), t.base[i+1])
		ADDQ(t.stride, t.base[i+1])
	}
}

func (t *rowTriples) row(r, disp int) Mem {
	switch r % 3 {
	case 0:
		return mem(t.base[r/3]).Offset(disp)
	case 1:
		return at(t.base[r/3], t.stride, 1).Offset(disp)
	}
	return at(t.base[r/3], t.stride, 2).Offset(disp)
}

func (t *rowTriples) advance(n int) {
	for _, b := range t.base {
		ADDQ(U8(n), b)
	}
}

func (avx512) gemm(rows int) {
	stride := Load(Param("k"), GP64()).(reg.GPVirtual)
	w := Load(Param("w"), GP64()).(reg.GPVirtual)
	left := GP64()
	MOVQ(stride, left)
	act := newRowTriples(stride, rows)
	act.load("a")
	acc := make([][2]reg.VecVirtual, rows)
	for r := range acc {
		for h := range 2 {
			acc[r][h] = ZMM()
			VPXORD(acc[r][h], acc[r][h], acc[r][h])
		}
	}
	w0, w1, x := ZMM(), ZMM(), ZMM()
	Label("step")
	for u := range gemmUnroll {
		VMOVDQU64(mem(w).Offset(panelBytes*u), w0)
		VMOVDQU64(mem(w).Offset(panelBytes*u+64), w1)
		for r := range rows {
			VPBROADCASTD(act.row(r, 4*u), x)
			VPDPBUSD(w0, x, acc[r][0])
			VPDPBUSD(w1, x, acc[r][1])
		}
	}
	ADDQ(U32(panelBytes*gemmUnroll), w)
	act.advance(4 * gemmUnroll)
	SUBQ(U8(4*gemmUnroll), left)
	JNZ(LabelRef("step"))

	for h := range 2 {
		sums := make([]reg.VecVirtual, rows)
		for r := range sums {
			sums[r] = acc[r][h]
		}
		gemmFinish(ZMM, sums, 64*h)
	}
}

// gemmFinish turns the sums of some rows, sixteen or eight columns each at
// offset disp of the panel, into floats and stores them:
//
//	((float32(sum − zero·colsum) · rowScale) · colScale) + bias
func gemmFinish(vec func() reg.VecVirtual, sums []reg.VecVirtual, disp int) {
	p := func(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }
	colsum, scale, bias, x := vec(), vec(), vec(), vec()
	vload(mem(p("sums")).Offset(disp), colsum)
	VMOVUPS(mem(p("colScale")).Offset(disp), scale)
	VMOVUPS(mem(p("bias")).Offset(disp), bias)
	zero, rowScale, out, stride := p("rowZero"), p("rowScale"), p("out"), p("stride")
	for r, sum := range sums {
		VPBROADCASTD(mem(zero).Offset(4*r), x)
		VPMULLD(colsum, x, x)
		VPSUBD(x, sum, sum)
		VCVTDQ2PS(sum, sum)
		VBROADCASTSS(mem(rowScale).Offset(4*r), x)
		VMULPS(x, sum, sum)
		VMULPS(scale, sum, sum)
		VADDPS(bias, sum, sum)
		VMOVUPS(sum, mem(out).Offset(disp))
		if r < len(sums)-1 {
			ADDQ(stride, out)
		}
	}
}

// vload loads integers into a Y or Z register.
func vload(m Mem, dst reg.VecVirtual) {
	if dst.Size() == 64 {
		VMOVDQU64(m, dst)
	} else {
		VMOVDQU(m, dst)
	}
}

// gemm of AVX2 splits bytes into even and odd words, as intStep does, and
// takes half a panel at a time: four rows of sixteen columns.
func (avx2) gemm(rows int) {
	low := YMM()
	VPCMPEQW(low, low, low)
	VPSRLW(U8(8), low, low)
	stride := Load(Param("k"), GP64()).(reg.GPVirtual)
	for half := range 2 {
		step := fmt.Sprintf("step%d", half)
		w := Load(Param("w"), GP64()).(reg.GPVirtual)
		left := GP64()
		MOVQ(stride, left)
		act := newRowTriples(stride, rows)
		act.load("a")
		acc := make([][2]reg.VecVirtual, rows)
		for r := range acc {
			for h := range 2 {
				acc[r][h] = YMM()
				VPXOR(acc[r][h], acc[r][h], acc[r][h])
			}
		}
		wEven, wOdd := [2]reg.VecVirtual{YMM(), YMM()}, [2]reg.VecVirtual{YMM(), YMM()}
		even, odd, x := YMM(), YMM(), YMM()
		Label(step)
		for h := range 2 {
			VMOVDQU(mem(w).Offset(64*half+32*h), wOdd[h])
			VPSLLW(U8(8), wOdd[h], wEven[h])
			VPSRAW(U8(8), wEven[h], wEven[h])
			VPSRAW(U8(8), wOdd[h], wOdd[h])
		}
		for r := range rows {
			VPBROADCASTD(act.row(r, 0), odd)
			VPAND(odd, low, even)
			VPSRLW(U8(8), odd, odd)
			for h := range 2 {
				VPMADDWD(even, wEven[h], x)
				VPADDD(x, acc[r][h], acc[r][h])
				VPMADDWD(odd, wOdd[h], x)
				VPADDD(x, acc[r][h], acc[r][h])
			}
		}
		ADDQ(U32(panelBytes), w)
		act.advance(4)
		SUBQ(U8(4), left)
		JNZ(LabelRef(step))
		for h := range 2 {
			sums := make([]reg.VecVirtual, rows)
			for r := range sums {
				sums[r] = acc[r][h]
			}
			gemmFinish(YMM, sums, 64*half+32*h)
		}
	}
}

// gemmF32 writes the float matrix kernel: rows of a against all columns of b,
// products added in order of the inner index, one sum a column. It is the one
// kernel with fused multiplication and addition, twice as fast here as with the
// two apart; the reference computes the same by fma32.
func gemmF32(k isa, rows int) {
	name := fmt.Sprintf("gemmF32x%d%s", rows, k.suffix())
	TEXT(name, noSplit, "func(a *float32, lda int, b *float32, ldb int, c *float32, ldc int, k int, n int)")
	Doc(fmt.Sprintf("%s is gemmF32Ref for %d rows, k > 0 and n a positive multiple of 16; lda, ldb and ldc are in bytes.", name, rows))
	Pragma("noescape")
	b := Load(Param("b"), GP64()).(reg.GPVirtual)
	c := Load(Param("c"), GP64()).(reg.GPVirtual)
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	lda := Load(Param("lda"), GP64()).(reg.GPVirtual)
	act := newRowTriples(lda, rows)
	block := func(label string, vec func() reg.VecVirtual, regs int) {
		acc := make([][]reg.VecVirtual, rows)
		for r := range acc {
			for range regs {
				v := vec()
				vzero(v)
				acc[r] = append(acc[r], v)
			}
		}
		act.load("a")
		row, left := GP64(), GP64()
		MOVQ(b, row)
		Load(Param("k"), left)
		Label(label)
		var vb []reg.VecVirtual
		for h := range regs {
			v := vec()
			VMOVUPS(mem(row).Offset(int(v.Size())*h), v)
			vb = append(vb, v)
		}
		x := vec()
		for r := range rows {
			VBROADCASTSS(act.row(r, 0), x)
			for h := range regs {
				VFMADD231PS(x, vb[h], acc[r][h])
			}
		}
		ADDQ(argument("ldb"), row)
		act.advance(4)
		DECQ(left)
		JNZ(LabelRef(label))
		out := GP64()
		MOVQ(c, out)
		for r := range rows {
			for h, v := range acc[r] {
				VMOVUPS(v, mem(out).Offset(int(v.Size())*h))
			}
			if r < rows-1 {
				ADDQ(argument("ldc"), out)
			}
		}
	}
	if _, wide := k.(avx512); wide {
		Label("wide")
		CMPQ(n, U8(32))
		JL(LabelRef("narrow"))
		block("wideStep", ZMM, 2)
		ADDQ(U32(128), b)
		ADDQ(U32(128), c)
		SUBQ(U8(32), n)
		JMP(LabelRef("wide"))
		Label("narrow")
		CMPQ(n, U8(16))
		JL(LabelRef("done"))
		block("narrowStep", ZMM, 1)
	} else {
		Label("block")
		block("step", YMM, 2)
		ADDQ(U8(64), b)
		ADDQ(U8(64), c)
		SUBQ(U8(16), n)
		JNZ(LabelRef("block"))
	}
	Label("done")
	VZEROUPPER()
	RET()
}

// vzero clears a Y or Z register.
func vzero(v reg.VecVirtual) {
	if v.Size() == 64 {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
}
