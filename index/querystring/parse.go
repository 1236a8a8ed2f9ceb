package querystring

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/bm25"
	"github.com/quarrysearch/quarry/index/keyword"
)

const (
	// MaxDepth is the greatest nesting of groups that is told apart.
	MaxDepth = 4
	maxNotes = 8
)

// Options of Parse.
type Options struct {
	// Operator joins words side by side; default Or.
	Operator keyword.Operator
	// Field tells whether a name before a colon is a field; nil: never.
	Field func(name string) bool
}

// Parse returns what a text asks for, nil when it asks for nothing, and notes
// on what was no syntax and was taken for text.
func Parse(s string, o Options) (*keyword.Clause, []string) {
	p := &parser{s: s, o: o}
	units := p.group(0)
	c := p.combine(units)
	return c, p.notes
}

type parser struct {
	s     string
	at    int
	o     Options
	notes []string
	over  int // groups open beyond MaxDepth
}

// A unit is a word, phrase or group with what stands before it.
type unit struct {
	clause keyword.Clause
	sign   byte // '+', '-' or 0
	and    bool // joined to the unit before by AND
	or     bool // or by OR
	// A plain word is text in the source and nothing else.
	plain    bool
	from, to int
}

func (p *parser) note(at int, format string, args ...any) {
	if len(p.notes) < maxNotes {
		p.notes = append(p.notes, fmt.Sprintf("query string, byte %d: %s", at, fmt.Sprintf(format, args...)))
	}
}

// peek returns the character at the place, 0 at the end.
func (p *parser) peek() rune {
	if p.at >= len(p.s) {
		return 0
	}
	r, _ := utf8.DecodeRuneInString(p.s[p.at:])
	return r
}

func (p *parser) space() {
	for p.at < len(p.s) {
		r, n := utf8.DecodeRuneInString(p.s[p.at:])
		if !unicode.IsSpace(r) {
			return
		}
		p.at += n
	}
}

// group reads units up to the end of a group.
func (p *parser) group(depth int) []unit {
	var units []unit
	opened := p.at - 1
	next := unit{}
	for {
		p.space()
		from := p.at
		switch c := p.peek(); {
		case p.at >= len(p.s):
			if depth > 0 {
				p.note(opened, "a parenthesis that nothing closes")
			}
			return units
		case c == ')':
			p.at++
			switch {
			case p.over > 0:
				p.over--
			case depth > 0:
				return units
			default:
				p.note(from, "a parenthesis that nothing opens")
			}
			continue
		case p.joint("AND", len(units) > 0 && !next.and && !next.or && next.sign == 0):
			next.and = true
			continue
		case p.joint("OR", len(units) > 0 && !next.and && !next.or && next.sign == 0):
			next.or = true
			continue
		case p.joint("NOT", next.sign == 0):
			next.sign = '-'
			continue
		case c == '+' || c == '-':
			p.at++
			if p.starts() && next.sign == 0 {
				next.sign = byte(c)
			} else if p.starts() || p.at < len(p.s) && !unicode.IsSpace(p.peek()) {
				p.note(from, "a sign %q before nothing", c)
			}
			continue
		}
		if !p.primary(&next, depth, "") {
			continue
		}
		units = append(units, next)
		next = unit{}
	}
}

// starts tells whether a word, phrase or group starts here.
func (p *parser) starts() bool {
	r := p.peek()
	return p.at < len(p.s) && !unicode.IsSpace(r) && r != ')' && r != '+' && r != '-'
}

// joint reads a word in capitals that joins units, if it may stand here and
// something follows it.
func (p *parser) joint(word string, may bool) bool {
	rest, ok := strings.CutPrefix(p.s[p.at:], word)
	if !ok || !may {
		return false
	}
	r, _ := utf8.DecodeRuneInString(rest)
	follows := strings.TrimLeftFunc(rest, unicode.IsSpace)
	if !unicode.IsSpace(r) && r != '(' || follows == "" || follows[0] == ')' {
		return false
	}
	p.at += len(word)
	return true
}

// primary reads a word, phrase or group into u; false when there is none.
func (p *parser) primary(u *unit, depth int, field string) bool {
	from := p.at
	switch p.peek() {
	case '(':
		p.at++
		if depth >= MaxDepth {
			if p.over++; p.over == 1 {
				p.note(from, "groups nested deeper than %d are read as one", MaxDepth)
			}
			return false
		}
		c := p.combine(p.group(depth + 1))
		if c == nil {
			return false
		}
		u.clause = *c
		boost, ok := p.suffix('^')
		if ok && !validBoost(boost) {
			p.note(from, "a boost that is no number up to %d", bm25.MaxBoost)
			boost = 0
		}
		if boost != 0 || field != "" && len(c.Fields) > 0 {
			u.clause = keyword.Clause{Bool: &keyword.Bool{Must: []keyword.Clause{*c}}, Boost: boost}
		}
	case '"':
		text, prefix, ok := p.quoted()
		if !ok {
			return false
		}
		if prefix {
			u.clause.PhrasePrefix = text
		} else {
			u.clause.Phrase = text
		}
		if slop, ok := p.suffix('~'); ok {
			if slop == math.Trunc(slop) && slop <= keyword.MaxSlop {
				u.clause.Slop = int(slop)
			} else {
				p.note(from, "a slop that is no number up to %d", keyword.MaxSlop)
			}
		}
		if boost, ok := p.suffix('^'); ok && validBoost(boost) {
			u.clause.Boost = boost
		}
	default:
		return p.word(u, depth, field)
	}
	if field != "" {
		u.clause.Fields = map[string]float64{field: 1}
	}
	return true
}

// quoted reads the text of a phrase. A star behind its last letter says that the
// last word may go on.
func (p *parser) quoted() (text string, prefix, ok bool) {
	from := p.at
	p.at++
	var b strings.Builder
	star := -1 // the last one that is no text
	for i := p.at; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '"':
			text = b.String()
			if prefix = i-1 == star && i-1 > p.at && !unicode.IsSpace(rune(p.s[i-2])); prefix {
				text = text[:len(text)-1]
			}
			p.at = i + 1
			return text, prefix, strings.TrimSpace(text) != ""
		case c == '\\' && i+1 < len(p.s):
			i++
			b.WriteByte(p.s[i])
		default:
			if c == '*' {
				star = i
			}
			b.WriteByte(c)
		}
	}
	p.note(from, "a quote that nothing closes")
	return "", false, false
}

// suffix reads a sign and the number after it, where they stand.
func (p *parser) suffix(sign byte) (number float64, ok bool) {
	if p.at+1 >= len(p.s) || p.s[p.at] != sign {
		return 0, false
	}
	to := p.at + 1
	for to < len(p.s) && (p.s[to] >= '0' && p.s[to] <= '9' || p.s[to] == '.') {
		to++
	}
	number, err := strconv.ParseFloat(p.s[p.at+1:to], 64)
	if err != nil || to-p.at > 20 {
		return 0, false
	}
	p.at = to
	return number, true
}

func validBoost(x float64) bool { return x > 0 && x <= bm25.MaxBoost }

// combine makes one clause of the units of a group.
func (p *parser) combine(units []unit) *keyword.Clause {
	units = joinAnds(units)
	if p.o.Operator != keyword.And {
		return p.beside(units)
	}
	var sides []keyword.Clause
	for from := 0; from < len(units); {
		to := from + 1
		for to < len(units) && !units[to].or {
			to++
		}
		if c := p.beside(units[from:to]); c != nil {
			sides = append(sides, *c)
		}
		from = to
	}
	switch len(sides) {
	case 0:
		return nil
	case 1:
		return &sides[0]
	}
	return &keyword.Clause{Bool: &keyword.Bool{Should: sides}}
}

// joinAnds makes one unit of those that AND joins.
func joinAnds(units []unit) []unit {
	var out []unit
	for i := 0; i < len(units); {
		j := i + 1
		for j < len(units) && units[j].and {
			j++
		}
		if j == i+1 {
			out = append(out, units[i])
		} else {
			b := &keyword.Bool{}
			for _, u := range units[i:j] {
				if u.sign == '-' {
					b.MustNot = append(b.MustNot, u.clause)
				} else {
					b.Must = append(b.Must, u.clause)
				}
			}
			out = append(out, unit{clause: keyword.Clause{Bool: b}, or: units[i].or})
		}
		i = j
	}
	return out
}

// beside joins units that stand side by side by the operator of the options.
func (p *parser) beside(units []unit) *keyword.Clause {
	b := &keyword.Bool{}
	for i := 0; i < len(units); {
		u := units[i]
		j := i + 1
		for u.plain && j < len(units) && units[j].plain {
			j++
		}
		if j > i+1 { // plain words as they stand, so that the analyzer sees their neighbors
			var words []string
			for _, w := range units[i:j] {
				words = append(words, p.s[w.from:w.to])
			}
			u.clause = keyword.Clause{Match: strings.Join(words, " "), Operator: p.o.Operator}
		}
		switch {
		case u.sign == '-':
			b.MustNot = append(b.MustNot, u.clause)
		case u.sign == '+' || p.o.Operator == keyword.And:
			b.Must = append(b.Must, u.clause)
		default:
			b.Should = append(b.Should, u.clause)
		}
		i = j
	}
	switch {
	case len(b.Must)+len(b.Should)+len(b.MustNot) == 0:
		return nil
	case len(b.MustNot) > 0:
	case len(b.Must) == 1 && len(b.Should) == 0:
		return &b.Must[0]
	case len(b.Should) == 1 && len(b.Must) == 0:
		return &b.Should[0]
	}
	return &keyword.Clause{Bool: b}
}
