package filter

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/storage"
)

// A SyntaxError tells where a filter's text stopped making sense. It matches
// storage.ErrInvalid.
type SyntaxError struct {
	Offset int    // byte offset in the text, len(text) at its end
	Want   string // what could have stood there
	Got    string // what stands there
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%v: filter: at byte %d: want %s, got %s", storage.ErrInvalid, e.Offset, e.Want, e.Got)
}

// Is makes errors.Is(err, storage.ErrInvalid) true.
func (e *SyntaxError) Is(target error) bool { return target == storage.ErrInvalid }

// Parse reads the text syntax:
//
//	filter    = conj { "or" conj }
//	conj      = term { "and" term }
//	term      = "not" term | "(" filter ")" | call | condition
//	call      = ("and" | "or") "(" [ filter { "," filter } ] ")"
//	condition = "exists" field
//	          | field ("=" | "==" | "!=" | "<" | "<=" | ">" | ">=") value
//	          | field ["not"] "in" list
//	          | field "between" value "and" value
//	          | field "range" ("[" | "(") value "," value ("]" | ")")
//	          | field ("prefix" | "starts" "with") string
//	          | field "contains" ("any" | "all") list
//	          | field "is" ["not"] ("null" | "empty")
//	list      = "[" [ value { "," value } ] "]" | "(" … ")"
//	field     = word | string
//	value     = string | number | time | "true" | "false" | word
//
// "not" binds tighter than "and", "and" tighter than "or". Keywords are in any
// case; fields and values are case-sensitive. A word starts with a letter or
// "_" and goes on with letters, digits and _ - . / : @ +; a word that is a
// keyword must be quoted to be a field or a value. Strings stand in double or
// single quotes with the escapes of JSON and \'. Digits alone are an integer,
// exact to 64 bits; with point or exponent a number is the nearest float64. A
// date or time without quotes (2024-01-01, 2024-01-01T08:00:00+02:00) is a
// time; in quotes it is text, which a time field reads as a time all the same.
// "!=", "not in" and "is not" are the complement, as not(…): they match
// documents without the field.
//
// Blank text is an error, not "everything". Errors are *SyntaxError with the
// byte offset, or ErrTooLarge beyond MaxDepth or MaxSize.
func Parse(text string) (Filter, error) {
	p := parser{text: text, budget: MaxSize}
	if i := invalidUTF8(text); i >= 0 {
		return Filter{}, &SyntaxError{i, "UTF-8", fmt.Sprintf("byte %#02x", text[i])}
	}
	if err := p.next(); err != nil {
		return Filter{}, err
	}
	f, err := p.filter()
	if err == nil && p.tok.kind != tokEnd {
		err = p.unexpected("and, or, or the end")
	}
	if err == nil {
		_, err = f.measure(1)
	}
	if err != nil {
		return Filter{}, err
	}
	return f, nil
}

type tokKind uint8

const (
	tokEnd    tokKind = iota
	tokWord           // text: the word
	tokString         // text: what the quotes hold
	tokValue          // val: number or time
	tokSign           // text: an operator, bracket or comma
)

type token struct {
	kind tokKind
	off  int
	text string
	val  Value
}

// A parser reads one token ahead.
type parser struct {
	text   string
	off    int // of the byte after tok
	tok    token
	depth  int // of "not" and parentheses
	budget int // nodes and values left
}

// next reads the next token into p.tok.
func (p *parser) next() error {
	for p.off < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.off]) >= 0 {
		p.off++
	}
	rest := p.text[p.off:]
	p.tok = token{off: p.off}
	if rest == "" {
		return nil
	}
	switch c := rest[0]; {
	case c == '"' || c == '\'':
		return p.scanString()
	case c >= '0' && c <= '9' || c == '-' || c == '+':
		return p.scanNumber()
	}
	for _, sign := range []string{"<=", ">=", "!=", "==", "<", ">", "=", "(", ")", "[", "]", ","} {
		if strings.HasPrefix(rest, sign) {
			p.tok.kind, p.tok.text = tokSign, sign
			p.off += len(sign)
			return nil
		}
	}
	n := 0
	for i, r := range rest {
		if i == 0 && !wordStart(r) || i > 0 && !wordPart(r) {
			break
		}
		n = i + utf8.RuneLen(r)
	}
	if n == 0 {
		r, _ := utf8.DecodeRuneInString(rest)
		return &SyntaxError{p.off, "a field, value or operator", strconv.QuoteRune(r)}
	}
	p.tok.kind, p.tok.text = tokWord, rest[:n]
	p.off += n
	return nil
}

// scanNumber reads a number or a time; they end where no byte of either can
// follow, so that 12t3 is one bad number and not a number and a word.
func (p *parser) scanNumber() error {
	rest := p.text[p.off:]
	n := 0
	for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] >= 'a' && rest[n] <= 'z' ||
		rest[n] >= 'A' && rest[n] <= 'Z' || strings.IndexByte("+-.:_", rest[n]) >= 0) {
		n++
	}
	word := rest[:n]
	var err error
	if m, _ := scanNumber(word); m == n {
		p.tok.val, _, err = number(word)
	} else if strings.IndexByte(word[1:], '-') >= 3 {
		var us int64
		us, err = parseTime(word)
		p.tok.val = numberValue(Time, us)
	} else {
		return &SyntaxError{p.off, "a number", strconv.Quote(shorten(word))}
	}
	if err != nil {
		return &SyntaxError{p.off, "a number or time", fmt.Sprintf("%q (%v)", shorten(word), err)}
	}
	p.tok.kind, p.tok.text = tokValue, word
	p.off += n
	return nil
}

func (p *parser) scanString() error {
	end := p.text[p.off]
	var b []byte
	for i := p.off + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == end:
			p.tok.kind, p.tok.text = tokString, string(b)
			p.off = i + 1
			return nil
		case c == '\\':
			r, n, ok := unescape(p.text[i:])
			if !ok {
				return &SyntaxError{i, `an escape (\" \' \\ \/ \b \f \n \r \t \u0000)`, strconv.Quote(p.text[i:min(i+2, len(p.text))])}
			}
			b = utf8.AppendRune(b, r)
			i += n - 1
		default:
			b = append(b, c)
		}
	}
	return &SyntaxError{p.off, fmt.Sprintf("a string that ends with %c", end), strconv.Quote(shorten(p.text[p.off:]))}
}

func (p *parser) unexpected(want string) error {
	got := "the end"
	switch p.tok.kind {
	case tokString:
		got = "string " + quote(shorten(p.tok.text))
	case tokWord, tokValue, tokSign:
		got = strconv.Quote(shorten(p.tok.text))
	}
	if p.tok.kind == tokWord && isReserved(p.tok.text) {
		got = "keyword " + got
	}
	return &SyntaxError{p.tok.off, want, got}
}

// isWord tells whether the next token is the keyword w.
func (p *parser) isWord(w string) bool {
	return p.tok.kind == tokWord && strings.EqualFold(p.tok.text, w)
}

// word eats the keyword w if it is next.
func (p *parser) word(w string) (bool, error) {
	if !p.isWord(w) {
		return false, nil
	}
	return true, p.next()
}

func (p *parser) isSign(s string) bool { return p.tok.kind == tokSign && p.tok.text == s }

func (p *parser) expectSign(s string) error {
	if !p.isSign(s) {
		return p.unexpected(strconv.Quote(s))
	}
	return p.next()
}

func (p *parser) spend() error {
	if p.budget--; p.budget < 0 {
		return fmt.Errorf("%w: filter has more than %d nodes and values", storage.ErrTooLarge, MaxSize)
	}
	return nil
}

func (p *parser) filter() (Filter, error) { return p.infix("or", opOr, p.conj) }

func (p *parser) conj() (Filter, error) { return p.infix("and", opAnd, p.term) }

// infix reads one or more parts joined by a word.
func (p *parser) infix(word string, o op, part func() (Filter, error)) (Filter, error) {
	first, err := part()
	if err != nil || !p.isWord(word) {
		return first, err
	}
	kids := []Filter{first}
	for {
		more, err := p.word(word)
		if err != nil {
			return Filter{}, err
		}
		if !more {
			return Filter{op: o, kids: kids}, p.spend()
		}
		kid, err := part()
		if err != nil {
			return Filter{}, err
		}
		kids = append(kids, kid)
	}
}

func (p *parser) term() (Filter, error) {
	if p.depth++; p.depth > MaxDepth {
		return Filter{}, fmt.Errorf("%w: filter is nested deeper than %d", storage.ErrTooLarge, MaxDepth)
	}
	defer func() { p.depth-- }()
	switch {
	case p.isWord("not"):
		if err := p.next(); err != nil {
			return Filter{}, err
		}
		f, err := p.term()
		if err != nil {
			return Filter{}, err
		}
		return Not(f), p.spend()
	case p.isWord("and"):
		return p.call(opAnd)
	case p.isWord("or"):
		return p.call(opOr)
	case p.isSign("("):
		if err := p.next(); err != nil {
			return Filter{}, err
		}
		f, err := p.filter()
		if err != nil {
			return Filter{}, err
		}
		return f, p.expectSign(")")
	}
	return p.condition()
}

// call reads and(…) and or(…), the form for less than two parts.
func (p *parser) call(o op) (Filter, error) {
	const want = `a condition, not or "("`
	start := *p
	if err := p.next(); err != nil {
		return Filter{}, err
	}
	if !p.isSign("(") {
		return Filter{}, start.unexpected(want)
	}
	f := Filter{op: o}
	err := p.list("(", ")", func() error {
		kid, err := p.filter()
		f.kids = append(f.kids, kid)
		return err
	})
	if err != nil {
		return Filter{}, err
	}
	return f, p.spend()
}

// list reads open, parts with commas between them, and end.
func (p *parser) list(open, end string, part func() error) error {
	if err := p.expectSign(open); err != nil {
		return err
	}
	if p.isSign(end) {
		return p.next()
	}
	for {
		if err := part(); err != nil {
			return err
		}
		if p.isSign(end) {
			return p.next()
		}
		if !p.isSign(",") {
			return p.unexpected(fmt.Sprintf(`"," or %q`, end))
		}
		if err := p.next(); err != nil {
			return err
		}
	}
}

func (p *parser) condition() (Filter, error) {
	if err := p.spend(); err != nil {
		return Filter{}, err
	}
	exists, err := p.word("exists")
	if err != nil {
		return Filter{}, err
	}
	field, err := p.field(exists)
	if err != nil {
		return Filter{}, err
	}
	if exists {
		return Exists(field), nil
	}
	return p.operator(field)
}

func (p *parser) field(only bool) (string, error) {
	name := p.tok.text
	if p.tok.kind == tokString && name != "" || p.tok.kind == tokWord && !isReserved(name) {
		return name, p.next()
	}
	if only {
		return "", p.unexpected("a field")
	}
	return "", p.unexpected(`a field, not, exists or "("`)
}

func (p *parser) operator(field string) (Filter, error) {
	if p.tok.kind == tokSign {
		return p.comparison(field)
	}
	not := false
	if p.isWord("not") {
		not = true
		if err := p.next(); err != nil {
			return Filter{}, err
		}
		if !p.isWord("in") {
			return Filter{}, p.unexpected("in")
		}
	}
	word := ""
	if p.tok.kind == tokWord {
		word = strings.ToLower(p.tok.text)
	}
	read, ok := map[string]func(string) (Filter, error){
		"in": p.in, "is": p.is, "between": p.between, "range": p.rangeOf,
		"prefix": p.prefix, "starts": p.prefix, "contains": p.contains,
	}[word]
	if !ok {
		return Filter{}, p.unexpected("=, !=, <, <=, >, >=, in, not in, between, range, prefix, starts with, contains any, contains all, is null or is empty")
	}
	f, err := read(field)
	if err != nil || !not {
		return f, err
	}
	return Not(f), p.spend()
}

func (p *parser) comparison(field string) (Filter, error) {
	sign := p.tok.text
	switch sign {
	case "=", "==", "!=", "<", "<=", ">", ">=":
	default:
		return Filter{}, p.unexpected("=, !=, <, <=, > or >=")
	}
	if err := p.next(); err != nil {
		return Filter{}, err
	}
	v, err := p.value()
	if err != nil {
		return Filter{}, err
	}
	switch sign {
	case "=", "==":
		return Eq(field, v), nil
	case "!=":
		return Not(Eq(field, v)), p.spend()
	case "<":
		return Lt(field, v), nil
	case "<=":
		return Lte(field, v), nil
	case ">":
		return Gt(field, v), nil
	}
	return Gte(field, v), nil
}

func (p *parser) value() (Value, error) {
	const want = "a string, number, time, true or false"
	if err := p.spend(); err != nil {
		return Value{}, err
	}
	v := p.tok.val
	switch {
	case p.tok.kind == tokValue:
	case p.isWord("true"):
		v = numberValue(Bool, 1)
	case p.isWord("false"):
		v = numberValue(Bool, 0)
	case p.isWord("null"):
		return Value{}, p.unexpected(want + " (ask is null)")
	case p.tok.kind == tokString || p.tok.kind == tokWord && !isReserved(p.tok.text):
		if err := checkKeyword(p.tok.text); err != nil {
			return Value{}, err
		}
		v = keywordValue(p.tok.text)
	default:
		return Value{}, p.unexpected(want)
	}
	return v, p.next()
}

// values reads the operator's word and a list of values.
func (p *parser) values(o op, field string) (Filter, error) {
	if err := p.next(); err != nil {
		return Filter{}, err
	}
	open, end := "[", "]"
	if p.isSign("(") {
		open, end = "(", ")"
	}
	f := Filter{op: o, field: field}
	err := p.list(open, end, func() error {
		v, err := p.value()
		f.vals = append(f.vals, v)
		return err
	})
	return f, err
}

func (p *parser) in(field string) (Filter, error) { return p.values(opIn, field) }

func (p *parser) contains(field string) (Filter, error) {
	if err := p.next(); err != nil {
		return Filter{}, err
	}
	switch {
	case p.isWord("any"):
		return p.values(opAny, field)
	case p.isWord("all"):
		at := *p
		f, err := p.values(opAll, field)
		if err == nil && len(f.vals) == 0 {
			return Filter{}, &SyntaxError{at.tok.off, "at least one value for contains all", "none"}
		}
		return f, err
	}
	return Filter{}, p.unexpected("any or all")
}

func (p *parser) is(field string) (Filter, error) {
	if err := p.next(); err != nil {
		return Filter{}, err
	}
	not, err := p.word("not")
	if err != nil {
		return Filter{}, err
	}
	f := IsNull(field)
	switch {
	case p.isWord("null"):
	case p.isWord("empty"):
		f = IsEmpty(field)
	default:
		return Filter{}, p.unexpected("null or empty")
	}
	if err := p.next(); err != nil || !not {
		return f, err
	}
	return Not(f), p.spend()
}

func (p *parser) between(field string) (Filter, error) {
	if err := p.next(); err != nil {
		return Filter{}, err
	}
	lo, err := p.value()
	if err != nil {
		return Filter{}, err
	}
	if !p.isWord("and") {
		return Filter{}, p.unexpected("and")
	}
	if err := p.next(); err != nil {
		return Filter{}, err
	}
	hi, err := p.value()
	return Between(field, lo, hi), err
}

func (p *parser) rangeOf(field string) (Filter, error) {
	if err := p.next(); err != nil {
		return Filter{}, err
	}
	f := Filter{op: opRange, field: field, vals: make([]Value, 2), loOpen: p.isSign("(")}
	if !f.loOpen && !p.isSign("[") {
		return Filter{}, p.unexpected(`"[" or "("`)
	}
	err := p.next()
	if err == nil {
		f.vals[0], err = p.value()
	}
	if err == nil {
		err = p.expectSign(",")
	}
	if err == nil {
		f.vals[1], err = p.value()
	}
	if err != nil {
		return Filter{}, err
	}
	f.hiOpen = p.isSign(")")
	if !f.hiOpen && !p.isSign("]") {
		return Filter{}, p.unexpected(`"]" or ")"`)
	}
	return f, p.next()
}

func (p *parser) prefix(field string) (Filter, error) {
	starts := p.isWord("starts")
	if err := p.next(); err != nil {
		return Filter{}, err
	}
	if starts {
		with, err := p.word("with")
		if err != nil {
			return Filter{}, err
		}
		if !with {
			return Filter{}, p.unexpected("with")
		}
	}
	v, err := p.value()
	if err == nil && v.typ != Keyword {
		return Filter{}, storage.Invalidf("filter: field %q: prefix wants a string, got %s %s", field, v.typ, v)
	}
	return Filter{op: opPrefix, field: field, vals: []Value{v}}, err
}
