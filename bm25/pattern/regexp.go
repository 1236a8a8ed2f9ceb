package pattern

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"

	"github.com/quarrysearch/quarry/storage"
)

// maxProgram bounds the instructions of a regular expression with its repeats
// written out.
const maxProgram = 10_000

// Regexp returns the automaton of a regular expression in the syntax of package
// regexp (RE2). It has to match a whole term, without regard to case; ^ and $
// are allowed where they mean that. fold, unless nil, is applied to literal
// text, so that it is written as index terms are.
// Errors: ErrInvalid for bad syntax and for \b and \B, ErrTooLarge.
func Regexp(expr string, fold func(string) string) (*DFA, error) {
	if len(expr) > MaxExpression {
		return nil, fmt.Errorf("%w: regular expression of %d bytes, the limit is %d", storage.ErrTooLarge, len(expr), MaxExpression)
	}
	re, err := syntax.Parse(expr, syntax.Perl|syntax.FoldCase|syntax.DotNL)
	if err != nil {
		return nil, storage.Invalidf("regular expression %q: %v", expr, err)
	}
	return compile(expr, re, fold)
}

func compile(name string, re *syntax.Regexp, fold func(string) string) (*DFA, error) {
	if size(re) > maxProgram {
		return nil, fmt.Errorf("%w: regular expression %q has more than %d parts, repeats written out", storage.ErrTooLarge, name, maxProgram)
	}
	if fold != nil {
		foldLiterals(re, fold)
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, storage.Invalidf("regular expression %q: %v", name, err)
	}
	for _, in := range prog.Inst {
		if op := syntax.EmptyOp(in.Arg); in.Op == syntax.InstEmptyWidth && op&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0 {
			return nil, storage.Invalidf("regular expression %q: borders of words (\\b, \\B) mean nothing within a term", name)
		}
	}
	return build(name, &program{prog: prog, mark: make([]uint32, len(prog.Inst))})
}

// size counts the instructions that an expression takes.
func size(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += size(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, maxProgram+1)
}

func foldLiterals(re *syntax.Regexp, fold func(string) string) {
	if re.Op == syntax.OpLiteral {
		if s := fold(string(re.Rune)); s != "" {
			re.Rune = []rune(s)
		}
	}
	for _, sub := range re.Sub {
		foldLiterals(sub, fold)
	}
}

// Wildcard returns the automaton of a pattern in which * stands for any
// characters, also none, and ? for one; \ takes the meaning from the character
// after it. fold is applied to the text between.
// Errors: ErrTooLarge.
func Wildcard(s string, fold func(string) string) (*DFA, error) {
	if len(s) > MaxExpression {
		return nil, fmt.Errorf("%w: wildcard pattern of %d bytes, the limit is %d", storage.ErrTooLarge, len(s), MaxExpression)
	}
	re := &syntax.Regexp{Op: syntax.OpConcat}
	var text []rune
	flush := func() {
		if len(text) > 0 {
			re.Sub = append(re.Sub, &syntax.Regexp{Op: syntax.OpLiteral, Rune: text, Flags: syntax.FoldCase})
			text = nil
		}
	}
	escaped := false
	stars := false
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		any := &syntax.Regexp{Op: syntax.OpAnyChar}
		switch {
		case escaped:
			escaped = false
			text = append(text, r)
		case r == '\\':
			escaped = true
			continue
		case r == '*':
			flush()
			if !stars {
				re.Sub = append(re.Sub, &syntax.Regexp{Op: syntax.OpStar, Sub: []*syntax.Regexp{any}})
			}
			stars = true
			continue
		case r == '?':
			flush()
			re.Sub = append(re.Sub, any)
		default:
			text = append(text, r)
		}
		stars = false
	}
	if escaped {
		text = append(text, '\\')
	}
	flush()
	d, err := compile(s, re, fold)
	if err == nil && strings.HasPrefix(s, "*") {
		d.tail = tailOf(re)
	}
	return d, err
}

// tailOf is the text at the end of an expression, folded by now, in lower case;
// nil where it is not of letters and digits of ASCII alone.
func tailOf(re *syntax.Regexp) []byte {
	last := re.Sub[len(re.Sub)-1]
	if last.Op != syntax.OpLiteral {
		return nil
	}
	tail := []byte(strings.ToLower(string(last.Rune)))
	for _, c := range tail {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return nil
		}
	}
	return tail
}

// A program is a compiled expression as an nfa. Its states are the instructions
// that read a character, and the last one; ^ is taken at the start only, $ kept
// as a state that may accept.
type program struct {
	prog  *syntax.Prog
	mark  []uint32
	round uint32
	stack []uint32
}

// closure appends to dst what is reached from a list of instructions without
// reading.
func (p *program) closure(from []uint32, dst []uint32, allowed syntax.EmptyOp) []uint32 {
	p.round++
	p.stack = append(p.stack[:0], from...)
	for len(p.stack) > 0 {
		pc := p.stack[len(p.stack)-1]
		p.stack = p.stack[:len(p.stack)-1]
		if p.mark[pc] == p.round {
			continue
		}
		p.mark[pc] = p.round
		in := &p.prog.Inst[pc]
		switch in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			p.stack = append(p.stack, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			p.stack = append(p.stack, in.Out)
		case syntax.InstEmptyWidth:
			if op := syntax.EmptyOp(in.Arg); op&^allowed == 0 {
				p.stack = append(p.stack, in.Out)
			} else if op&^ends == 0 {
				dst = append(dst, pc)
			}
		case syntax.InstFail:
		default:
			dst = append(dst, pc)
		}
	}
	slices.Sort(dst)
	return dst
}

const (
	begins = syntax.EmptyBeginText | syntax.EmptyBeginLine
	ends   = syntax.EmptyEndText | syntax.EmptyEndLine
)

func (p *program) start() []uint32 {
	return p.closure([]uint32{uint32(p.prog.Start)}, nil, begins)
}

func (p *program) accept(set []uint32) int8 {
	for _, pc := range p.closure(set, nil, ends) {
		if p.prog.Inst[pc].Op == syntax.InstMatch {
			return 0
		}
	}
	return dead
}

func (p *program) ranges(set []uint32, cuts []rune) []rune {
	for _, pc := range set {
		in := &p.prog.Inst[pc]
		switch in.Op {
		case syntax.InstRuneAny:
			cuts = append(cuts, 0)
		case syntax.InstRuneAnyNotNL:
			cuts = append(cuts, 0, '\n', '\n'+1)
		case syntax.InstRune1:
			cuts = append(cuts, in.Rune[0], in.Rune[0]+1)
		case syntax.InstRune:
			if len(in.Rune) == 1 {
				r := in.Rune[0]
				cuts = append(cuts, r, r+1)
				for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
					cuts = append(cuts, o, o+1)
				}
				continue
			}
			for i := 0; i+1 < len(in.Rune); i += 2 {
				cuts = append(cuts, in.Rune[i], in.Rune[i+1]+1)
			}
		}
	}
	return cuts
}

func (p *program) next(set []uint32, r rune, dst []uint32) []uint32 {
	from := make([]uint32, 0, len(set))
	for _, pc := range set {
		switch in := &p.prog.Inst[pc]; in.Op {
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if in.MatchRune(r) {
				from = append(from, in.Out)
			}
		}
	}
	return p.closure(from, dst, 0)
}
