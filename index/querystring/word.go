package querystring

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/index/keyword"
)

// A letter is a character of a word; escaped ones have no meaning of their own.
type letter struct {
	r       rune
	escaped bool
	at      int
}

// word reads a word, with the field before it and the suffixes behind.
func (p *parser) word(u *unit, depth int, field string) bool {
	from := p.at
	var word []letter
	for p.at < len(p.s) {
		r, n := utf8.DecodeRuneInString(p.s[p.at:])
		if unicode.IsSpace(r) || r == '(' || r == ')' || r == '"' {
			break
		}
		at := p.at
		p.at += n
		if r == '\\' && p.at < len(p.s) {
			if next, n := utf8.DecodeRuneInString(p.s[p.at:]); !unicode.IsSpace(next) {
				p.at += n
				word = append(word, letter{next, true, at})
				continue
			}
		}
		if r == ':' && field == "" && len(word) > 0 {
			if name := text(word); p.field(name, from) {
				return p.primary(u, depth, name)
			}
		}
		word = append(word, letter{r, false, at})
	}
	p.finish(u, word, from)
	if field != "" && !isEmpty(&u.clause) {
		u.plain = false
		u.clause.Fields = map[string]float64{field: 1}
	}
	return !isEmpty(&u.clause)
}

func isEmpty(c *keyword.Clause) bool {
	return c.Match == "" && c.Prefix == "" && c.Wildcard == "" && c.Fuzzy == "" && c.Phrase == "" && c.PhrasePrefix == "" && c.Bool == nil
}

// field tells whether a name before a colon is a field with something behind.
func (p *parser) field(name string, at int) bool {
	r := p.peek()
	if p.at >= len(p.s) || unicode.IsSpace(r) || r == ')' {
		return false
	}
	if p.o.Field != nil && p.o.Field(name) {
		return true
	}
	if first, _ := utf8.DecodeRuneInString(name); unicode.IsLetter(first) {
		p.note(at, "%q is no text field: taken for text", name)
	}
	return false
}

// finish makes the clause of a word.
func (p *parser) finish(u *unit, word []letter, from int) {
	boost, fuzzy, errors := 0.0, false, 0
	if i := last(word, '^'); i > 0 {
		if f, err := strconv.ParseFloat(text(word[i+1:]), 64); err == nil && validBoost(f) {
			boost, word = f, word[:i]
		} else {
			p.note(word[i].at, "a boost that is no number up to 1000: taken for text")
		}
	}
	if i := last(word, '~'); i > 0 {
		switch s := text(word[i+1:]); s {
		case "", "0", "1", "2":
			fuzzy, word = s != "0", word[:i]
			errors, _ = strconv.Atoi(s)
		default:
			p.note(word[i].at, "a number of errors that is not 0, 1 or 2: taken for text")
		}
	}
	stars, marks, letters := 0, 0, 0
	for i, l := range word {
		switch {
		case l.r == '*' && !l.escaped:
			stars++
		case l.r == '?' && !l.escaped && i+1 < len(word): // a last one ends a question
			marks++
		case unicode.IsLetter(l.r) || unicode.IsNumber(l.r) || l.r > unicode.MaxASCII:
			letters++
		}
	}
	plain := text(word)
	switch {
	case len(word) == 0:
	case stars+marks > 0 && letters == 0:
		p.note(from, "%q alone finds nothing", plain)
	case stars == 1 && marks == 0 && last(word, '*') == len(word)-1:
		u.clause.Prefix = text(word[:len(word)-1])
	case stars+marks > 0:
		u.clause.Wildcard = wildcard(word)
	case fuzzy:
		u.clause.Fuzzy, u.clause.Errors = plain, errors
		if errors == 0 {
			u.clause.Errors = keyword.AutoErrors
		}
	default:
		u.clause.Match, u.clause.Operator = plain, p.o.Operator
		u.plain, u.from, u.to = u.sign == 0 && !u.and && !(u.or && p.o.Operator == keyword.And) && boost == 0 && plain == p.s[from:p.at], from, p.at
	}
	if fuzzy && u.clause.Fuzzy == "" {
		p.note(from, "a pattern has no number of errors")
	}
	u.clause.Boost = boost
}

// last returns the place of the last unescaped sign, or -1.
func last(word []letter, sign rune) int {
	for i := len(word) - 1; i >= 0; i-- {
		if word[i].r == sign && !word[i].escaped {
			return i
		}
	}
	return -1
}

func text(word []letter) string {
	var b strings.Builder
	for _, l := range word {
		b.WriteRune(l.r)
	}
	return b.String()
}

// wildcard writes a word as a pattern: what was escaped stays so, and so does a
// question mark at the end.
func wildcard(word []letter) string {
	var b strings.Builder
	for i, l := range word {
		if i == len(word)-1 && l.r == '?' && !l.escaped {
			break
		}
		if l.escaped || l.r == '\\' {
			b.WriteByte('\\')
		}
		b.WriteRune(l.r)
	}
	return b.String()
}
