package main

import "fmt"

// floatSum is the first of four registers a row: sixteen lanes. The query stands
// in V0–V3, rows and their products in V4–V11.
const floatSum vec = 16

// floatRows writes the gather kernel of a float distance: products (or squared
// differences) are rounded, then added, in 16 lanes; see sumLanes for the end.
// Lanes past the last component add +0, which changes no sum: a lane starts at
// +0 and rounding to nearest never makes it −0.
func (p *prog) floatRows(name string, l2 bool) {
	name += "Gather"
	p.kernel(name+"NEON", "q *float32, base *float32, dim int, ids *uint32, rows int, out *float32", "",
		name+"NEON is "+name+"Ref for dim > 0 and rows > 0.")
	p.param("q", query)
	p.param("dim", length)
	p.param("rows", left)
	p.param("out", out)
	p.param("ids", next)
	p.param("base", base)
	p.op("LSL", imm(2), length, stride)
	p.op("AND", imm(15), length, tail)
	p.op("BIC", imm(63), stride, full)
	p.loop("group")
	p.gatherAddresses()
	for i := range vec(4 * group) {
		p.clear(floatSum + i)
	}
	p.op("MOVD", query, q)
	p.op("MOVD", imm(0), off)
	p.op("CBZ", full, "tail")
	p.loop("chunk")
	for r := range group {
		p.prefetchAt(ahead(r), off)
	}
	p.load(q, 0, 4)
	for r := range group {
		x := vec(4 + r%2*4)
		p.load(row(r), x, 4)
		for i := range vec(4) {
			p.floatProduct(x+i, i, l2)
		}
		for i := range vec(4) {
			p.floatAdd(r, i, x+i)
		}
	}
	p.op("ADD", imm(64), off)
	p.op("CMP", full, off)
	p.op("BLT", "chunk")
	p.label("tail")
	p.op("CBZ", tail, "sum")
	p.floatTail(l2)
	p.label("sum")
	p.storeGroup(p.floatReduce())
}

// floatProduct sets x to q·x, or (q−x)².
func (p *prog) floatProduct(x, q vec, l2 bool) {
	if l2 {
		p.v(fsub, x, q, x)
		q = x
	}
	p.v(fmul, x, q, x)
}

// floatAdd adds x to lanes 4·part and on of row r.
func (p *prog) floatAdd(r int, part, x vec) {
	sum := floatSum + vec(4*r) + part
	p.v(fadd, sum, sum, x)
}

// floatTail adds the last 1 to 15 components: four at a time, then what is left
// with zeros behind it.
func (p *prog) floatTail(l2 bool) {
	x := func(r int) vec { return 4 + vec(r) }
	loadAll := func(load func(base gpr, dst vec)) {
		load(q, 0)
		for r := range group {
			load(row(r), x(r))
		}
	}
	products := func() {
		for r := range group {
			p.floatProduct(x(r), 0, l2)
		}
	}
	add := func(part int) {
		for r := range group {
			p.floatAdd(r, vec(part), x(r))
		}
	}
	for part := range 3 {
		p.op("CMP", imm(4*(part+1)), tail)
		p.op("BLT", "rest")
		loadAll(func(base gpr, dst vec) { p.load(base, dst, 1) })
		products()
		add(part)
	}
	p.label("rest")
	p.op("ANDS", imm(3), tail, tmp)
	p.op("BEQ", "sum")
	p.op("CMP", imm(2), tmp)
	p.op("BLT", "one")
	loadAll(func(base gpr, dst vec) { p.op("FMOVD.P", mem(base, 8), dst.scalar()) })
	p.op("BEQ", "product")
	loadAll(func(base gpr, dst vec) { p.op("VLD1", mem(base, 0), dst.lane(2)) })
	p.op("B", "product")
	p.label("one")
	loadAll(func(base gpr, dst vec) { p.op("FMOVS", mem(base, 0), dst.scalar()) })
	p.label("product")
	products()
	for part := range 4 {
		label := fmt.Sprintf("part%d", part)
		if part < 3 {
			p.op("CMP", imm(4*(part+1)), tail)
			p.op("BGE", label)
		}
		add(part)
		if part < 3 {
			p.op("B", "sum")
			p.label(label)
		}
	}
}

// floatReduce adds the upper half of the lanes to the lower half until one is
// left, and gives the sums of the four rows.
func (p *prog) floatReduce() vec {
	for r := range vec(group) {
		s := floatSum + 4*r
		p.v(fadd, s, s, s+2)
		p.v(fadd, s+1, s+1, s+3)
		p.v(fadd, s, s, s+1)
	}
	// pair(a, b) = a0+a2, a1+a3, b0+b2, b1+b3.
	pair := func(a, b vec) {
		p.low64(0, a, b)
		p.high64(1, a, b)
		p.v(fadd, a, 0, 1)
	}
	pair(floatSum, floatSum+4)
	pair(floatSum+8, floatSum+12)
	p.v(faddp, floatSum, floatSum, floatSum+8)
	return floatSum
}
