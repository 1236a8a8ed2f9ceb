package main

import (
	"fmt"
	"strings"
)

// Instructions that Go's assembler does not know are written as words. Their
// bits are put together here, by the classes of the Arm Architecture Reference
// Manual (DDI 0487, C4.1, "Data processing: scalar floating-point and advanced
// SIMD"), always for 128-bit registers but where a shape says otherwise.
// TestEncodings holds them against words of the GNU assembler. The comment
// beside a word is the instruction in Arm's syntax, destination first.

// An instr is an instruction with all registers 0. shapes are those of the
// destination and of the sources, for the comment.
type instr struct {
	name   string
	bits   uint32
	shapes string // "4s 16b 16b"
}

const q128 = 1 << 30 // 128-bit registers, or the upper halves of narrow ones

// threeSame: 0 Q U 01110 size 1 Rm opcode 1 Rn Rd.
func threeSame(name string, u, size, opcode uint32, shapes string) instr {
	return instr{name, q128 | u<<29 | 0b01110<<24 | size<<22 | 1<<21 | opcode<<11 | 1<<10, shapes}
}

// threeExtra: 0 Q U 01110 size 0 Rm 1 opcode 1 Rn Rd.
func threeExtra(name string, u, size, opcode uint32, shapes string) instr {
	return instr{name, q128 | u<<29 | 0b01110<<24 | size<<22 | 1<<15 | opcode<<11 | 1<<10, shapes}
}

// threeLong: 0 Q U 01110 size 1 Rm opcode 00 Rn Rd. Q tells which half of the
// sources is meant.
func threeLong(name string, q, u, size, opcode uint32, shapes string) instr {
	return instr{name, q<<30 | u<<29 | 0b01110<<24 | size<<22 | 1<<21 | opcode<<12, shapes}
}

// twoMisc: 0 Q U 01110 size 10000 opcode 10 Rn Rd. Q of the narrowing ones
// tells which half of the destination is written.
func twoMisc(name string, q, u, size, opcode uint32, shapes string) instr {
	return instr{name, q<<30 | u<<29 | 0b01110<<24 | size<<22 | 0b10000<<17 | opcode<<12 | 0b10<<10, shapes}
}

// acrossLanes: 0 Q U 01110 size 11000 opcode 10 Rn Rd.
func acrossLanes(name string, u, size, opcode uint32, shapes string) instr {
	return instr{name, q128 | u<<29 | 0b01110<<24 | size<<22 | 0b11000<<17 | opcode<<12 | 0b10<<10, shapes}
}

// byElement: 0 Q U 01111 size L M Rm opcode H 0 Rn Rd, with the number of the
// element of m in H:L and that of its register in M:Rm.
func byElement(name string, u, size, opcode uint32, shapes string) instr {
	return instr{name, q128 | u<<29 | 0b01111<<24 | size<<22 | opcode<<12, shapes}
}

var (
	// d += Σ of four products of signed bytes, a lane; with one group of four
	// bytes of m against all of n.
	sdot        = threeExtra("sdot", 0, 0b10, 0b0010, "4s 16b 16b")
	sdotElement = byElement("sdot", 0, 0b10, 0b1110, "4s 16b 4b")

	// Products of signed bytes as words of 16 bits: the lower and upper halves.
	smull  = threeLong("smull", 0, 0, 0b00, 0b1100, "8h 8b 8b")
	smull2 = threeLong("smull2", 1, 0, 0b00, 0b1100, "8h 16b 16b")

	// Sums of neighbors: d = bytes to 16 bits, d += words of 16 bits to 32.
	saddlp = twoMisc("saddlp", 1, 0, 0b00, 0b00010, "8h 16b")
	sadalp = twoMisc("sadalp", 1, 0, 0b01, 0b00110, "4s 8h")

	// d += n·element of m, integers.
	mlaElement = byElement("mla", 1, 0b10, 0b0000, "4s 4s s")

	fadd  = threeSame("fadd", 0, 0b00, 0b11010, "4s 4s 4s")
	fsub  = threeSame("fsub", 0, 0b10, 0b11010, "4s 4s 4s")
	fmul  = threeSame("fmul", 1, 0b00, 0b11011, "4s 4s 4s")
	fdiv  = threeSame("fdiv", 1, 0b00, 0b11111, "4s 4s 4s")
	faddp = threeSame("faddp", 1, 0b00, 0b11010, "4s 4s 4s") // sums of neighbors
	// NaN when one is NaN; the nm forms take the other one then.
	fmax   = threeSame("fmax", 0, 0b00, 0b11110, "4s 4s 4s")
	fmin   = threeSame("fmin", 0, 0b10, 0b11110, "4s 4s 4s")
	fmaxnm = threeSame("fmaxnm", 0, 0b00, 0b11000, "4s 4s 4s")
	fminnm = threeSame("fminnm", 0, 0b10, 0b11000, "4s 4s 4s")
	// All bits of a lane where n > m.
	fcmgt = threeSame("fcmgt", 1, 0b10, 0b11100, "4s 4s 4s")

	fmulElement = byElement("fmul", 0, 0b10, 0b1001, "4s 4s s")
	fmlaElement = byElement("fmla", 0, 0b10, 0b0001, "4s 4s s") // one rounding

	fmaxnmv = acrossLanes("fmaxnmv", 1, 0b00, 0b01100, "s 4s")
	fminnmv = acrossLanes("fminnmv", 1, 0b10, 0b01100, "s 4s")

	scvtf  = twoMisc("scvtf", 1, 0, 0b00, 0b11101, "4s 4s")
	fcvtns = twoMisc("fcvtns", 1, 0, 0b00, 0b11010, "4s 4s") // half to even

	// Narrowing with saturation: signed to unsigned 16 bits, those to bytes.
	sqxtun  = twoMisc("sqxtun", 0, 1, 0b01, 0b10010, "4h 4s")
	sqxtun2 = twoMisc("sqxtun2", 1, 1, 0b01, 0b10010, "8h 4s")
	uqxtn   = twoMisc("uqxtn", 0, 1, 0b00, 0b10100, "8b 8h")
	uqxtn2  = twoMisc("uqxtn2", 1, 1, 0b00, 0b10100, "16b 8h")
)

// word encodes i with its registers, the destination first.
func (i instr) word(regs ...vec) uint32 {
	w := i.bits
	for n, r := range regs {
		w |= uint32(r) << [...]int{0, 5, 16}[n]
	}
	return w
}

// element encodes i with element e of the last register.
func (i instr) element(e int, regs ...vec) uint32 {
	return i.word(regs...) | uint32(e&1)<<21 | uint32(e>>1)<<11
}

// text is i in Arm's syntax.
func (i instr) text(regs ...vec) string {
	var ops []string
	for n, shape := range strings.Fields(i.shapes) {
		if shape == "s" && n == 0 {
			ops = append(ops, fmt.Sprintf("s%d", uint8(regs[n])))
			continue
		}
		ops = append(ops, fmt.Sprintf("v%d.%s", uint8(regs[n]), shape))
	}
	return i.name + " " + strings.Join(ops, ", ")
}

func (p *prog) word(w uint32, text string) { fmt.Fprintf(&p.asm, "\tWORD $0x%08x // %s\n", w, text) }

// v writes an instruction, registers in Arm's order.
func (p *prog) v(i instr, regs ...vec) { p.word(i.word(regs...), i.text(regs...)) }

// ve writes one that takes element e of its last register.
func (p *prog) ve(i instr, e int, regs ...vec) {
	p.word(i.element(e, regs...), fmt.Sprintf("%s[%d]", i.text(regs...), e))
}

// prefetchAt asks for the cache line at base+off, a form of PRFM that Go's
// assembler does not know.
func (p *prog) prefetchAt(base, off gpr) {
	p.word(prfm(base, off), fmt.Sprintf("prfm pldl1keep, [x%d, x%d]", uint8(base), uint8(off)))
}

// prfm: 11 111 0 00 10 1 Rm option S 10 Rn Rt, option 011 (64-bit offset), S 0,
// and Rt 0 for PLDL1KEEP.
func prfm(base, off gpr) uint32 {
	return 0b11_111_0_00_10_1<<21 | uint32(off)<<16 | 0b011_0_10<<10 | uint32(base)<<5
}
