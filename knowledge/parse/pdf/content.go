package pdf

import (
	"bytes"
	"math"
	"time"
)

type matrix [6]float64

// mul is a applied first, then b.
func (a matrix) mul(b matrix) matrix {
	return matrix{
		a[0]*b[0] + a[1]*b[2], a[0]*b[1] + a[1]*b[3],
		a[2]*b[0] + a[3]*b[2], a[2]*b[1] + a[3]*b[3],
		a[4]*b[0] + a[5]*b[2] + b[4], a[4]*b[1] + a[5]*b[3] + b[5],
	}
}

var identity = matrix{1, 0, 0, 1, 0, 0}

type state struct {
	ctm                              matrix
	font                             *font
	size, char, word, zoom, lead, up float64
}

// interpreter runs the content of one page for its text.
type interpreter struct {
	f      *file
	out    *layout
	fonts  map[ref]*font // of the file
	state  state
	stack  []state
	tm, lm matrix // text matrix, line matrix
	args   []any
	ops    int
	ticks  int // calls of spend
	until  time.Time
	cut    string // why the page was cut
	images bool
	forms  int // nesting
	actual []string
	marks  []bool // open marked content, true where it replaces its text
	hidden int    // open marked content that replaces
}

func (in *interpreter) run(b []byte, res dict) {
	l := lexer{b: b}
	base := len(in.stack)
	for in.cut == "" {
		o, ok := l.next()
		if !ok {
			break
		}
		word, isOp := o.(op)
		if !isOp {
			// No operator takes more than 33 numbers; what precedes is junk.
			if in.args = append(in.args, o); len(in.args) > 64 {
				in.args = append(in.args[:0], in.args[32:]...)
			}
			continue
		}
		if in.spend(1); word == "BI" {
			skipImage(&l)
			in.images = true
		} else {
			in.op(word, res)
		}
		in.args = in.args[:0]
	}
	in.stack = in.stack[:min(base, len(in.stack))]
}

// spend counts operations; their number and the clock cut a page.
func (in *interpreter) spend(n int) {
	in.ops += n
	in.ticks++
	switch {
	case in.ops > in.f.limits.PageOps:
		in.cut = "too many operations"
	case in.f.stop != nil:
		in.cut = "the file's budget is spent"
	case in.ticks&255 == 0 && time.Now().After(in.until):
		in.cut = "out of time"
	case in.ticks&255 == 0 && in.f.over():
		in.cut = in.f.stop.Error()
	}
}

func (in *interpreter) num(i int) float64 {
	if i < len(in.args) {
		return number(in.args[i])
	}
	return 0
}

func (in *interpreter) matrix() (m matrix, ok bool) {
	if len(in.args) < 6 {
		return identity, false
	}
	for i := range m {
		m[i] = number(in.args[len(in.args)-6+i])
	}
	return m, true
}

func (in *interpreter) op(word op, res dict) {
	s := &in.state
	switch word {
	case "q":
		if len(in.stack) < 512 {
			in.stack = append(in.stack, *s)
		}
	case "Q":
		if n := len(in.stack); n > 0 {
			*s, in.stack = in.stack[n-1], in.stack[:n-1]
		}
	case "cm":
		if m, ok := in.matrix(); ok {
			s.ctm = m.mul(s.ctm)
		}
	case "BT":
		in.tm, in.lm = identity, identity
	case "Tc":
		s.char = in.num(0)
	case "Tw":
		s.word = in.num(0)
	case "Tz":
		s.zoom = in.num(0) / 100
	case "TL":
		s.lead = in.num(0)
	case "Ts":
		s.up = in.num(0)
	case "Tf":
		if len(in.args) >= 2 {
			n, _ := in.args[0].(name)
			s.font, s.size = in.fontNamed(res, n), in.num(1)
		}
	case "gs":
		in.extState(res)
	case "Td":
		in.move(in.num(0), in.num(1))
	case "TD":
		s.lead = -in.num(1)
		in.move(in.num(0), in.num(1))
	case "Tm":
		if m, ok := in.matrix(); ok {
			in.tm, in.lm = m, m
		}
	case "T*":
		in.move(0, -s.lead)
	case "Tj", "TJ", "'", "\"":
		in.showOp(word)
	case "Do":
		in.xobject(res)
	case "BDC", "BMC":
		in.begin(res)
	case "EMC":
		in.end()
	}
}

func (in *interpreter) showOp(word op) {
	if word == "'" || word == "\"" {
		if word == "\"" && len(in.args) >= 3 {
			in.state.word, in.state.char = in.num(0), in.num(1)
		}
		in.move(0, -in.state.lead)
	}
	if len(in.args) == 0 {
		return
	}
	switch o := in.args[len(in.args)-1].(type) {
	case str:
		in.show(o)
	case array:
		for _, e := range o {
			switch e := e.(type) {
			case str:
				in.show(e)
			case int, float64:
				in.advance(-number(e) / 1000 * in.state.size * in.state.zoom)
			}
		}
	}
}

func (in *interpreter) move(x, y float64) {
	in.lm = matrix{1, 0, 0, 1, x, y}.mul(in.lm)
	in.tm = in.lm
}

func (in *interpreter) advance(x float64) {
	in.tm[4] += x * in.tm[0]
	in.tm[5] += x * in.tm[1]
}

func (in *interpreter) show(s str) {
	st := &in.state
	if st.font == nil || len(s) == 0 {
		return
	}
	in.spend(len(s))
	m := in.tm.mul(st.ctm)
	// Along the baseline, and the height of the letters, in device space.
	dir := math.Hypot(m[0], m[1])
	height := math.Hypot(m[2], m[3]) * math.Abs(st.size)
	if dir == 0 || math.IsNaN(dir) || math.IsInf(dir, 0) || height == 0 {
		return
	}
	ux, uy := m[0]/dir, m[1]/dir
	if st.size*st.zoom < 0 {
		ux, uy = -ux, -uy
	}
	st.font.each(s, func(g glyph) {
		extra := st.char
		if g.space {
			extra += st.word
		}
		own := g.width * st.size * st.zoom
		x, y := in.tm[4], in.tm[5]
		px := x*st.ctm[0] + y*st.ctm[2] + st.ctm[4] + st.up*m[2]
		py := x*st.ctm[1] + y*st.ctm[3] + st.ctm[5] + st.up*m[3]
		text := g.text
		if in.hidden > 0 {
			if text = in.takeActual(); text == "" {
				in.out.reach(px*ux+py*uy+math.Abs(own)*dir, py*ux-px*uy)
			}
		}
		in.out.add(text, px*ux+py*uy, py*ux-px*uy, math.Abs(own)*dir, height, ux, uy)
		in.advance(own + extra*st.zoom)
	})
}

// takeActual gives the replacing text once, for the first glyph it replaces.
func (in *interpreter) takeActual() string {
	for i, s := range in.actual {
		if s != "" {
			in.actual[i] = ""
			return s
		}
	}
	return ""
}

func (in *interpreter) begin(res dict) {
	text := ""
	if len(in.args) >= 2 {
		var d dict
		switch p := in.args[len(in.args)-1].(type) {
		case dict:
			d = p
		case name:
			d = in.f.dict(in.f.dict(res["Properties"])[p])
		}
		if s, ok := in.f.resolve(d["ActualText"]).(str); ok {
			text = textString(s)
		}
	}
	if len(in.marks) > 256 {
		return
	}
	in.marks = append(in.marks, text != "")
	if text != "" {
		in.hidden++
		in.actual = append(in.actual, text)
	}
}

func (in *interpreter) end() {
	n := len(in.marks)
	if n == 0 {
		return
	}
	if in.marks[n-1] {
		in.hidden--
		in.actual = in.actual[:len(in.actual)-1]
	}
	in.marks = in.marks[:n-1]
}

func (in *interpreter) fontNamed(res dict, n name) *font {
	o := in.f.dict(res["Font"])[n]
	if o == nil {
		return nil
	}
	return in.fontOf(o)
}

func (in *interpreter) fontOf(o any) *font {
	r, isRef := o.(ref)
	if t := in.fonts[r]; isRef && t != nil {
		return t
	}
	in.spend(100)
	t := in.f.font(o)
	if isRef {
		in.fonts[r] = t
	}
	return t
}

func (in *interpreter) extState(res dict) {
	if len(in.args) == 0 {
		return
	}
	n, _ := in.args[0].(name)
	if a := in.f.array(in.f.dict(in.f.dict(res["ExtGState"])[n])["Font"]); len(a) == 2 {
		in.state.font, in.state.size = in.fontOf(a[0]), in.f.number(a[1])
	}
}

// xobject notes images and runs forms.
func (in *interpreter) xobject(res dict) {
	if len(in.args) == 0 {
		return
	}
	n, _ := in.args[0].(name)
	s, ok := in.f.resolve(in.f.dict(res["XObject"])[n]).(*stream)
	if !ok {
		return
	}
	if in.f.name(s.dict["Subtype"]) == "Image" {
		in.images = true
		return
	}
	if in.forms >= 12 {
		return
	}
	in.spend(100 + len(s.raw)/16)
	b, ok := in.f.decode(s)
	if !ok || in.cut != "" {
		return
	}
	save, args := in.state, in.args
	in.args = nil
	if m := in.f.array(s.dict["Matrix"]); len(m) == 6 {
		var v matrix
		for i := range v {
			v[i] = in.f.number(m[i])
		}
		in.state.ctm = v.mul(in.state.ctm)
	}
	own := in.f.dict(s.dict["Resources"])
	if own == nil {
		own = res
	}
	tm, lm := in.tm, in.lm
	in.forms++
	in.run(b, own)
	in.forms--
	in.state, in.args, in.tm, in.lm = save, args, tm, lm
}

// skipImage moves behind an inline image: past ID, to the EI between white space.
func skipImage(l *lexer) {
	i := bytes.Index(l.b[l.pos:], []byte("ID"))
	if i < 0 {
		l.pos = len(l.b)
		return
	}
	for l.pos += i + 2; l.pos < len(l.b); l.pos += 2 {
		i := bytes.Index(l.b[l.pos:], []byte("EI"))
		if i < 0 {
			break
		}
		l.pos += i
		after := l.pos + 2
		if l.pos > 0 && delimiters[l.b[l.pos-1]] == 1 && (after >= len(l.b) || delimiters[l.b[after]] == 1) {
			l.pos = after
			return
		}
	}
	l.pos = len(l.b)
}
