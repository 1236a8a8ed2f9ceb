package main

import (
	"fmt"
	"regexp"
	"testing"
)

// encodings are words that the GNU assembler (binutils 2.40) writes, with every
// bit of the register numbers in use.
var encodings = map[string]uint32{
	"sdot v17.4s, v10.16b, v21.16b":   0x4e959551,
	"sdot v17.4s, v10.16b, v21.4b[2]": 0x4f95e951,
	"smull v17.8h, v10.8b, v21.8b":    0x0e35c151,
	"smull2 v17.8h, v10.16b, v21.16b": 0x4e35c151,
	"saddlp v17.8h, v10.16b":          0x4e202951,
	"sadalp v17.4s, v10.8h":           0x4e606951,
	"mla v17.4s, v10.4s, v21.s[3]":    0x6fb50951,
	"fadd v17.4s, v10.4s, v21.4s":     0x4e35d551,
	"fsub v17.4s, v10.4s, v21.4s":     0x4eb5d551,
	"fmul v17.4s, v10.4s, v21.4s":     0x6e35dd51,
	"fdiv v17.4s, v10.4s, v21.4s":     0x6e35fd51,
	"faddp v17.4s, v10.4s, v21.4s":    0x6e35d551,
	"fmax v17.4s, v10.4s, v21.4s":     0x4e35f551,
	"fmin v17.4s, v10.4s, v21.4s":     0x4eb5f551,
	"fmaxnm v17.4s, v10.4s, v21.4s":   0x4e35c551,
	"fminnm v17.4s, v10.4s, v21.4s":   0x4eb5c551,
	"fcmgt v17.4s, v10.4s, v21.4s":    0x6eb5e551,
	"fmul v17.4s, v10.4s, v21.s[1]":   0x4fb59151,
	"fmla v17.4s, v10.4s, v21.s[2]":   0x4f951951,
	"fmaxnmv s17, v10.4s":             0x6e30c951,
	"fminnmv s17, v10.4s":             0x6eb0c951,
	"scvtf v17.4s, v10.4s":            0x4e21d951,
	"fcvtns v17.4s, v10.4s":           0x4e21a951,
	"sqxtun v17.4h, v10.4s":           0x2e612951,
	"sqxtun2 v17.8h, v10.4s":          0x6e612951,
	"uqxtn v17.8b, v10.8h":            0x2e214951,
	"uqxtn2 v17.16b, v10.8h":          0x6e214951,
	"prfm pldl1keep, [x17, x10]":      0xf8aa6a20,
}

func TestEncodings(t *testing.T) {
	p := new(prog)
	for _, i := range []instr{smull, smull2, sdot, fadd, fsub, fmul, fdiv, faddp, fmax, fmin, fmaxnm, fminnm, fcmgt} {
		p.v(i, 17, 10, 21)
	}
	for _, i := range []instr{saddlp, sadalp, fmaxnmv, fminnmv, scvtf, fcvtns, sqxtun, sqxtun2, uqxtn, uqxtn2} {
		p.v(i, 17, 10)
	}
	p.ve(sdotElement, 2, 17, 10, 21)
	p.ve(mlaElement, 3, 17, 10, 21)
	p.ve(fmulElement, 1, 17, 10, 21)
	p.ve(fmlaElement, 2, 17, 10, 21)
	p.prefetchAt(17, 10)
	lines := words(p)
	if len(lines) != len(encodings) {
		t.Errorf("%d instructions, want %d", len(lines), len(encodings))
	}
	for _, l := range lines {
		if want := fmt.Sprintf("%08x", encodings[l.text]); l.word != want {
			t.Errorf("%s: %s, want %s", l.text, l.word, want)
		}
	}
}

// Every kind of word in the kernels stands in the table.
func TestEveryWordIsKnown(t *testing.T) {
	kind := regexp.MustCompile(`\d+([.,\]]|$)|\[\d\]`)
	known := map[string]bool{}
	for text := range encodings {
		known[kind.ReplaceAllString(text, "$1")] = true
	}
	p := new(prog)
	p.kernels()
	all := words(p)
	if len(all) < 1000 {
		t.Errorf("%d words: not the kernels", len(all))
	}
	for _, l := range all {
		if !known[kind.ReplaceAllString(l.text, "$1")] {
			t.Fatalf("no such word in the table: %s", l.text)
		}
	}
}

type encoded struct{ word, text string }

func words(p *prog) (out []encoded) {
	for _, m := range regexp.MustCompile(`WORD \$0x([0-9a-f]{8}) // (.*)\n`).FindAllStringSubmatch(p.asm.String(), -1) {
		out = append(out, encoded{m[1], m[2]})
	}
	return out
}
