package main

import (
	"bytes"
	"fmt"
	"strings"
)

// A gpr is a general register. R18 and from R27 on belong to the platform and
// to Go.
type gpr uint8

func (r gpr) String() string { return fmt.Sprintf("R%d", uint8(r)) }

// A vec is a vector register. Sixteen bytes, eight words of 16 bits, or four
// words or floats of 32: the lanes.
type vec uint8

func (v vec) String() string { return fmt.Sprintf("V%d", uint8(v)) }

func (v vec) as(shape string) string { return fmt.Sprintf("%v.%s", v, shape) }

func (v vec) lane(i int) string { return fmt.Sprintf("%v.S[%d]", v, i) }

// scalar names the low part of the register, for loads and stores of 4 or 8
// bytes that clear the rest.
func (v vec) scalar() string { return fmt.Sprintf("F%d", uint8(v)) }

// A prog collects the assembly and the Go declarations of kernels. Its methods
// take registers in Arm's order, the destination first; what Go's assembler
// writes is in its own order, the destination last.
type prog struct {
	asm, stubs bytes.Buffer
	args       map[string]int // offsets on the caller's frame
}

// kernel starts a function: params and results are lists as in Go, "x *float32,
// n int". All types have 4 or 8 bytes.
func (p *prog) kernel(name, params, results, doc string) {
	p.args = map[string]int{}
	size := p.place(0, params)
	if results != "" {
		size = p.place((size+7)&^7, results)
	}
	fmt.Fprintf(&p.asm, "\n// func %s(%s)%s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", name, params, resultList(results), name, size)
	fmt.Fprintf(&p.stubs, "\n// %s\n//\n//go:noescape\nfunc %s(%s)%s\n", doc, name, params, resultList(results))
}

func resultList(results string) string {
	if results == "" {
		return ""
	}
	return " (" + results + ")"
}

func (p *prog) place(off int, list string) int {
	for _, field := range strings.Split(list, ", ") {
		name, typ, _ := strings.Cut(field, " ")
		size := 8
		if strings.HasSuffix(typ, "32") && typ[0] != '*' {
			size = 4
		}
		off = (off + size - 1) &^ (size - 1)
		p.args[name] = off
		off += size
	}
	return off
}

// arg is the operand of a parameter or result.
func (p *prog) arg(name string) string {
	off, ok := p.args[name]
	if !ok {
		panic("no parameter " + name)
	}
	return fmt.Sprintf("%s+%d(FP)", name, off)
}

// op writes an instruction in the order of Go's assembler.
func (p *prog) op(name string, args ...any) {
	p.asm.WriteString("\t" + name)
	for i, a := range args {
		if i > 0 {
			p.asm.WriteByte(',')
		}
		fmt.Fprintf(&p.asm, " %v", a)
	}
	p.asm.WriteByte('\n')
}

func (p *prog) label(name string) { fmt.Fprintf(&p.asm, "%s:\n", name) }

// loop is a label that is jumped back to.
func (p *prog) loop(name string) {
	p.op("PCALIGN", "$16")
	p.label(name)
}

func imm(v int) string { return fmt.Sprintf("$%d", v) }

func mem(base gpr, disp int) string {
	if disp == 0 {
		return fmt.Sprintf("(%v)", base)
	}
	return fmt.Sprintf("%d(%v)", disp, base)
}

// param loads an 8-byte parameter.
func (p *prog) param(name string, dst gpr) { p.op("MOVD", p.arg(name), dst) }

// broadcast fills the lanes of dst with a 4-byte parameter. It destroys tmp.
func (p *prog) broadcast(name string, dst vec) {
	p.op("MOVWU", p.arg(name), tmp)
	p.op("VDUP", tmp, dst.as("S4"))
}

// load reads n registers from base on and steps base over them.
func (p *prog) load(base gpr, first vec, n int) { p.op("VLD1.P", mem(base, 16*n), list(first, n)) }

// loadStep reads n registers from base on and steps base by another register.
func (p *prog) loadStep(base, step gpr, first vec, n int) {
	p.op("VLD1.P", fmt.Sprintf("(%v)(%v)", base, step), list(first, n))
}

// loadAt reads n registers and leaves base.
func (p *prog) loadAt(base gpr, first vec, n int) { p.op("VLD1", mem(base, 0), list(first, n)) }

// store writes n registers to base on and steps base over them.
func (p *prog) store(base gpr, first vec, n int) { p.op("VST1.P", list(first, n), mem(base, 16*n)) }

// storeAt writes n registers and leaves base.
func (p *prog) storeAt(base gpr, first vec, n int) { p.op("VST1", list(first, n), mem(base, 0)) }

func list(first vec, n int) string {
	var regs []string
	for i := range n {
		regs = append(regs, (first + vec(i)).as("B16"))
	}
	return "[" + strings.Join(regs, ", ") + "]"
}

// prefetch asks for the cache line at base+disp.
func (p *prog) prefetch(base gpr, disp int) { p.op("PRFM", mem(base, disp), "PLDL1KEEP") }

func (p *prog) clear(regs ...vec) {
	for _, r := range regs {
		p.eor(r, r, r)
	}
}

// The vector instructions that Go's assembler knows.

func (p *prog) three(name, shape string, d, n, m vec) {
	p.op(name, m.as(shape), n.as(shape), d.as(shape))
}

func (p *prog) eor(d, n, m vec)  { p.three("VEOR", "B16", d, n, m) }
func (p *prog) add(d, n, m vec)  { p.three("VADD", "S4", d, n, m) }
func (p *prog) sub(d, n, m vec)  { p.three("VSUB", "S4", d, n, m) }
func (p *prog) addp(d, n, m vec) { p.three("VADDP", "S4", d, n, m) }

// bit copies to d the bits of n that are set in m.
func (p *prog) bit(d, n, m vec) { p.three("VBIT", "B16", d, n, m) }

// low64 and high64 put the lower, or upper, halves of n and m together.
func (p *prog) low64(d, n, m vec)  { p.three("VZIP1", "D2", d, n, m) }
func (p *prog) high64(d, n, m vec) { p.three("VZIP2", "D2", d, n, m) }

// even and odd put the lanes of even, or odd, number of n and m together.
func (p *prog) even(d, n, m vec) { p.three("VUZP1", "S4", d, n, m) }
func (p *prog) odd(d, n, m vec)  { p.three("VUZP2", "S4", d, n, m) }

// rotate moves the lanes of n down by a number of bytes, those below come in
// above.
func (p *prog) rotate(d, n vec, bytes int) {
	p.op("VEXT", imm(bytes), n.as("B16"), n.as("B16"), d.as("B16"))
}
