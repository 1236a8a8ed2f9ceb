package main

import (
	"math"

	"github.com/quarrysearch/quarry/internal/simd/_asm/coef"
)

// The row kernels work on one row of floats whose length is a positive multiple
// of 16, in chunks of 16: V0–V3.

const (
	xs     gpr = 0
	floats gpr = 1 // floats still to do
	ys     gpr = 2
	zs     gpr = 3
	dst    gpr = 4 // where a kernel in place stores: loads do not wait for it

	laneSum vec = 16 // four registers: sixteen lanes
)

// rowKernel starts a kernel whose parameters begin with a row and its length.
func (p *prog) rowKernel(name, params, results string) {
	p.kernel(name+"NEON", params, results, name+"NEON is "+name+"Ref for n a positive multiple of 16.")
	p.param("x", xs)
	p.param("n", floats)
}

// rowLoop writes a loop over the chunks of a row.
func (p *prog) rowLoop(body func()) {
	p.loop("chunk")
	body()
	p.op("SUBS", imm(16), floats)
	p.op("BNE", "chunk")
}

// each writes instructions for the four registers of a chunk.
func each(f func(i vec)) {
	for i := range vec(4) {
		f(i)
	}
}

// fold combines sixteen lanes in laneSum: l with l+8, then +4, +2, +1.
func (p *prog) fold() {
	s := laneSum
	p.v(fadd, s, s, s+2)
	p.v(fadd, s+1, s+1, s+3)
	p.v(fadd, s, s, s+1)
	p.rotate(s+1, s, 8)
	p.v(fadd, s, s, s+1)
	p.rotate(s+1, s, 4)
	p.v(fadd, s, s, s+1)
}

func (p *prog) result(name string, x vec) { p.op("FMOVS", x.scalar(), p.arg(name)) }

// rowMinMax: the smallest and the largest component. The nm forms pass over a
// NaN, as the reference does.
func (p *prog) rowMinMax() {
	p.rowKernel("rowMinMax", "x *float32, n int", "lo float32, hi float32")
	lo, hi := vec(16), vec(20)
	each(func(i vec) { p.clear(lo+i, hi+i) })
	p.rowLoop(func() {
		p.load(xs, 0, 4)
		each(func(i vec) { p.v(fminnm, lo+i, lo+i, i) })
		each(func(i vec) { p.v(fmaxnm, hi+i, hi+i, i) })
	})
	p.across(fminnm, fminnmv, lo, "lo")
	p.across(fmaxnm, fmaxnmv, hi, "hi")
	p.op("RET")
}

// across combines sixteen lanes in any order.
func (p *prog) across(op, end instr, x vec, result string) {
	p.v(op, x, x, x+1)
	p.v(op, x+2, x+2, x+3)
	p.v(op, x, x, x+2)
	p.v(end, x, x)
	p.result(result, x)
}

// rowMax: the largest component.
func (p *prog) rowMax() {
	p.rowKernel("rowMax", "x *float32, n int", "top float32")
	p.loadAt(xs, laneSum, 4)
	p.rowLoop(func() {
		p.load(xs, 0, 4)
		each(func(i vec) { p.v(fmaxnm, laneSum+i, laneSum+i, i) })
	})
	p.across(fmaxnm, fmaxnmv, laneSum, "top")
	p.op("RET")
}

// rowQuantize: clamp(round(x·inv) + zero, 0, 255).
func (p *prog) rowQuantize() {
	p.rowKernel("rowQuantize", "x *float32, n int, inv float32, zero int32, out *byte", "")
	inv, zero := vec(16), vec(17)
	p.param("out", ys)
	p.broadcast("inv", inv)
	p.broadcast("zero", zero)
	p.rowLoop(func() {
		p.load(xs, 0, 4)
		each(func(i vec) { p.v(fmul, i, i, inv) })
		each(func(i vec) { p.v(fcvtns, i, i) })
		each(func(i vec) { p.add(i, i, zero) })
		p.v(sqxtun, 4, 0)
		p.v(sqxtun2, 4, 1)
		p.v(sqxtun, 5, 2)
		p.v(sqxtun2, 5, 3)
		p.v(uqxtn, 6, 4)
		p.v(uqxtn2, 6, 5)
		p.store(ys, 6, 1)
	})
	p.op("RET")
}

// rowResidual: out = x − scale·(code − zero).
func (p *prog) rowResidual() {
	p.rowKernel("rowResidual", "x *float32, n int, scale float32, zero int32, codes *byte, out *float32", "")
	scale, zero := vec(16), vec(17)
	p.param("codes", ys)
	p.param("out", zs)
	p.broadcast("scale", scale)
	p.broadcast("zero", zero)
	p.rowLoop(func() {
		p.load(xs, 0, 4)
		p.load(ys, 4, 1)
		p.op("VUXTL", vec(4).as("B8"), vec(5).as("H8"))
		p.op("VUXTL2", vec(4).as("B16"), vec(6).as("H8"))
		for i := range vec(2) {
			p.op("VUXTL", (5 + i).as("H4"), (8 + 2*i).as("S4"))
			p.op("VUXTL2", (5 + i).as("H8"), (9 + 2*i).as("S4"))
		}
		each(func(i vec) { p.sub(8+i, 8+i, zero) })
		each(func(i vec) { p.v(scvtf, 8+i, 8+i) })
		each(func(i vec) { p.v(fmul, 8+i, 8+i, scale) })
		each(func(i vec) { p.v(fsub, i, i, 8+i) })
		p.store(zs, 0, 4)
	})
	p.op("RET")
}

// rowAddSum: x += y and the sum of the result in 16 lanes.
func (p *prog) rowAddSum() {
	p.rowKernel("rowAddSum", "x *float32, y *float32, n int", "sum float32")
	p.op("MOVD", xs, dst)
	p.param("y", ys)
	each(func(i vec) { p.clear(laneSum + i) })
	p.rowLoop(func() {
		p.load(xs, 0, 4)
		p.load(ys, 4, 4)
		each(func(i vec) { p.v(fadd, i, i, 4+i) })
		each(func(i vec) { p.v(fadd, laneSum+i, laneSum+i, i) })
		p.store(dst, 0, 4)
	})
	p.fold()
	p.result("sum", laneSum)
	p.op("RET")
}

// rowVarSum: the sum of the squared differences to the mean in 16 lanes.
func (p *prog) rowVarSum() {
	p.rowKernel("rowVarSum", "x *float32, n int, mean float32", "sum float32")
	mean := vec(20)
	p.broadcast("mean", mean)
	each(func(i vec) { p.clear(laneSum + i) })
	p.rowLoop(func() {
		p.load(xs, 0, 4)
		each(func(i vec) { p.v(fsub, i, i, mean) })
		each(func(i vec) { p.v(fmul, i, i, i) })
		each(func(i vec) { p.v(fadd, laneSum+i, laneSum+i, i) })
	})
	p.fold()
	p.result("sum", laneSum)
	p.op("RET")
}

// rowNormalize: x = ((x − mean)·inv)·gamma + beta.
func (p *prog) rowNormalize() {
	p.rowKernel("rowNormalize", "x *float32, n int, mean float32, inv float32, gamma *float32, beta *float32", "")
	p.op("MOVD", xs, dst)
	mean, inv := vec(20), vec(21)
	p.param("gamma", ys)
	p.param("beta", zs)
	p.broadcast("mean", mean)
	p.broadcast("inv", inv)
	p.rowLoop(func() {
		p.load(xs, 0, 4)
		p.load(ys, 4, 4)
		p.load(zs, 8, 4)
		each(func(i vec) { p.v(fsub, i, i, mean) })
		each(func(i vec) { p.v(fmul, i, i, inv) })
		each(func(i vec) { p.v(fmul, i, i, 4+i) })
		each(func(i vec) { p.v(fadd, i, i, 8+i) })
		p.store(dst, 0, 4)
	})
	p.op("RET")
}

// constants loads registers from first on with four copies each of values, and
// returns a function that gives the next of them at every call.
func (p *prog) constants(first vec, values ...float32) func() vec {
	for i, v := range values {
		p.op("MOVD", imm(int(math.Float32bits(v))), tmp)
		p.op("VDUP", tmp, (first + vec(i)).as("S4"))
	}
	return func() vec {
		first++
		return first - 1
	}
}

// pair writes instructions for two registers side by side.
func pair(f func(i vec)) {
	f(0)
	f(1)
}

// horner evaluates a polynomial whose coefficients stand in coef and after,
// highest first, of the two registers from x on.
func (p *prog) horner(dst, x, coef vec, n int) {
	pair(func(i vec) { p.v(fmul, dst+i, coef, x+i) })
	for c := coef + 1; c < coef+vec(n); c++ {
		pair(func(i vec) { p.v(fadd, dst+i, dst+i, c) })
		if c < coef+vec(n)-1 {
			pair(func(i vec) { p.v(fmul, dst+i, dst+i, x+i) })
		}
	}
}

// rowGELU: x = (0.5·x)·(1 + erf(x/√2)), eight floats at a time.
func (p *prog) rowGELU() {
	p.rowKernel("rowGELU", "x *float32, n int", "")
	p.op("MOVD", xs, dst)
	const num, den vec = 10, 17
	p.constants(num, coef.ErfNum...)
	p.constants(den, coef.ErfDen...)
	next := p.constants(den+vec(len(coef.ErfDen)), math.Sqrt2/2, coef.ErfMax, -coef.ErfMax, 1, 0.5)
	root, top, bottom, one, half := next(), next(), next(), next(), next()
	p.loop("chunk")
	const x, t, t2, up, down vec = 0, 2, 4, 6, 8
	p.load(xs, x, 2)
	pair(func(i vec) { p.v(fmul, t+i, x+i, root) })
	pair(func(i vec) { p.v(fmin, t+i, t+i, top) })
	pair(func(i vec) { p.v(fmax, t+i, t+i, bottom) })
	pair(func(i vec) { p.v(fmul, t2+i, t+i, t+i) })
	p.horner(up, t2, num, len(coef.ErfNum))
	p.horner(down, t2, den, len(coef.ErfDen))
	pair(func(i vec) { p.v(fmul, up+i, t+i, up+i) })
	pair(func(i vec) { p.v(fdiv, up+i, up+i, down+i) })
	pair(func(i vec) { p.v(fadd, up+i, up+i, one) })
	pair(func(i vec) { p.v(fmul, x+i, x+i, half) })
	pair(func(i vec) { p.v(fmul, x+i, x+i, up+i) })
	p.store(dst, x, 2)
	p.op("SUBS", imm(8), floats)
	p.op("BNE", "chunk")
	p.op("RET")
}

// rowExp: x = exp(x·scale − top), and the sum in 16 lanes.
func (p *prog) rowExp() {
	p.rowKernel("rowExp", "x *float32, n int, scale float32, top float32", "sum float32")
	p.op("MOVD", xs, dst)
	const poly, scale, top vec = 10, 30, 31
	p.constants(poly, coef.ExpPoly...)
	p.broadcast("scale", scale)
	p.broadcast("top", top)
	next := p.constants(20, coef.ExpMin, coef.Log2E, coef.Ln2High, coef.Ln2Low, 1)
	bottom, log2e, high, low, one := next(), next(), next(), next(), next()
	each(func(i vec) { p.clear(laneSum + i) })
	const x, e, f, r vec = 0, 2, 4, 6
	p.rowLoop(func() {
		for half := range vec(2) {
			p.load(xs, x, 2)
			pair(func(i vec) { p.v(fmul, x+i, x+i, scale) })
			pair(func(i vec) { p.v(fsub, x+i, x+i, top) })
			pair(func(i vec) { p.v(fmax, x+i, x+i, bottom) })
			pair(func(i vec) { p.v(fmul, e+i, x+i, log2e) })
			pair(func(i vec) { p.v(fcvtns, e+i, e+i) })
			pair(func(i vec) { p.v(scvtf, f+i, e+i) })
			pair(func(i vec) { p.v(fmul, r+i, f+i, high) })
			pair(func(i vec) { p.v(fsub, r+i, x+i, r+i) })
			pair(func(i vec) { p.v(fmul, f+i, f+i, low) })
			pair(func(i vec) { p.v(fsub, r+i, r+i, f+i) })
			p.horner(x, r, poly, len(coef.ExpPoly))
			pair(func(i vec) { p.v(fmul, x+i, x+i, r+i) })
			pair(func(i vec) { p.v(fmul, x+i, x+i, r+i) })
			pair(func(i vec) { p.v(fadd, x+i, x+i, r+i) })
			pair(func(i vec) { p.v(fadd, x+i, x+i, one) })
			pair(func(i vec) { p.op("VSHL", imm(23), (e + i).as("S4"), (e + i).as("S4")) })
			pair(func(i vec) { p.add(x+i, x+i, e+i) })
			pair(func(i vec) { p.v(fadd, laneSum+2*half+i, laneSum+2*half+i, x+i) })
			p.store(dst, x, 2)
		}
	})
	p.fold()
	p.result("sum", laneSum)
	p.op("RET")
}
