package shape

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/storage"
)

// Is makes errors.Is(err, storage.ErrInvalid) true.
func (e *Error) Is(target error) bool { return target == storage.ErrInvalid }

// Decode reads text, one JSON value and nothing more, into what v points to,
// which is of the shape's type and is to be its zero value. The error is an
// *Error.
func (s *Shape) Decode(text string, v any) error {
	if !utf8.ValidString(text) {
		return reasonf("the JSON is not valid UTF-8")
	}
	p := parser{s: text}
	if p.next() == 0 && p.i == len(p.s) {
		return reasonf("the body is empty, want JSON")
	}
	if err := p.value(s.root, reflect.ValueOf(v).Elem(), nil); err != nil {
		return err
	}
	if p.next() != 0 || p.i < len(p.s) {
		return reasonf("more after the JSON at byte %d", p.i)
	}
	return nil
}

type parser struct {
	s     string
	i     int
	depth int
}

// next skips white space and returns the byte there, 0 at the end.
func (p *parser) next() byte {
	for ; p.i < len(p.s); p.i++ {
		switch c := p.s[p.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

func (p *parser) take(c byte) bool {
	if p.next() != c {
		return false
	}
	p.i++
	return true
}

// syntax is the error of text that is no JSON.
func (p *parser) syntax(want string) *Error {
	if p.next() == 0 && p.i >= len(p.s) {
		return reasonf("the JSON is cut short: want %s", want)
	}
	rest := p.s[p.i:min(len(p.s), p.i+20)]
	for len(rest) > 0 && !utf8.ValidString(rest) { // cut between two bytes of a character
		rest = rest[:len(rest)-1]
	}
	return reasonf("bad JSON at byte %d: want %s, have %q", p.i, want, rest)
}

// found names the kind of value that stands next, for messages.
func (p *parser) found() string {
	switch c := p.next(); {
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case strings.HasPrefix(p.s[p.i:], "true"), strings.HasPrefix(p.s[p.i:], "false"):
		return "true or false"
	case strings.HasPrefix(p.s[p.i:], "null"):
		return "null"
	case c == '-' || c >= '0' && c <= '9':
		return "a number"
	}
	return ""
}

func (p *parser) wrong(want string) *Error {
	have := p.found()
	if have == "" {
		return p.syntax(want)
	}
	return reasonf("is %s, want %s", have, want)
}

func (p *parser) enter() *Error {
	if p.depth++; p.depth > MaxDepth {
		return reasonf("nested deeper than %d", MaxDepth)
	}
	return nil
}

var wants = [...]string{kindString: "a string", kindBool: "true or false", kindInt: "a whole number", kindUint: "a whole number", kindFloat: "a number",
	kindList: "a list", kindFloats: "a list of numbers", kindMap: "an object", kindStruct: "an object", kindTime: "a time as 2024-01-31T12:00:00Z"}

// value reads what stands next into v. r are the rules of its field, nil for
// none.
func (p *parser) value(n *node, v reflect.Value, r *rules) *Error {
	c := p.next()
	switch n.kind {
	case kindPointer:
		v.Set(reflect.New(n.elem.typ))
		return p.value(n.elem, v.Elem(), r)
	case kindAny:
		x, err := p.any()
		if err == nil && x != nil {
			v.Set(reflect.ValueOf(x))
		}
		return err
	case kindRaw:
		return p.raw(v)
	case kindString, kindTime:
		if c != '"' {
			return p.wrong(wants[n.kind])
		}
		s, err := p.text()
		if err != nil {
			return err
		}
		return setString(n, v, s, r)
	case kindBool:
		return p.bool(v)
	case kindInt, kindUint, kindFloat:
		if c != '-' && (c < '0' || c > '9') {
			return p.wrong(wants[n.kind])
		}
		lit, ok := p.number()
		if !ok {
			return p.syntax("a number")
		}
		return setNumber(n, v, lit, r)
	case kindFloats:
		return p.floats(v, r)
	case kindList:
		return p.list(n, v, r)
	case kindMap:
		return p.object(n, v, r)
	}
	return p.fields(n, v)
}

func (p *parser) bool(v reflect.Value) *Error {
	switch {
	case p.word("true"):
		v.SetBool(true)
	case p.word("false"):
		v.SetBool(false)
	default:
		return p.wrong("true or false")
	}
	return nil
}

// setString sets a string or a time.
func setString(n *node, v reflect.Value, s string, r *rules) *Error {
	if n.kind == kindTime {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return reasonf("%.60q is no time: want one as 2024-01-31T12:00:00Z", s)
		}
		v.Set(reflect.ValueOf(t))
		return nil
	}
	if err := r.checkString(s); err != nil {
		return err
	}
	v.SetString(s)
	return nil
}

func (r *rules) checkString(s string) *Error {
	switch {
	case r == nil:
	case r.minLen != nil && len(s) < *r.minLen:
		return reasonf("%d bytes, want at least %d", len(s), *r.minLen)
	case r.maxLen != nil && len(s) > *r.maxLen:
		return reasonf("%d bytes, want at most %d", len(s), *r.maxLen)
	case len(r.enum) > 0:
		for _, e := range r.enum {
			if e == s {
				return nil
			}
		}
		return reasonf("%.60q is none of %s", s, strings.Join(r.enum, ", "))
	}
	return nil
}

// setNumber sets a number of a JSON literal.
func setNumber(n *node, v reflect.Value, lit string, r *rules) *Error {
	var f float64
	switch n.kind {
	case kindInt:
		i, err := strconv.ParseInt(lit, 10, 64)
		if err != nil || v.OverflowInt(i) {
			return notWhole(lit, r)
		}
		v.SetInt(i)
		f = float64(i)
	case kindUint:
		i, err := strconv.ParseUint(lit, 10, 64)
		if err != nil || v.OverflowUint(i) {
			return notWhole(lit, r)
		}
		v.SetUint(i)
		f = float64(i)
	default:
		var err error
		if f, err = strconv.ParseFloat(lit, 64); err != nil || v.OverflowFloat(f) {
			return reasonf("%.40s is beyond what a number can hold", lit)
		}
		v.SetFloat(f)
	}
	return r.checkNumber(f, lit)
}

func notWhole(lit string, r *rules) *Error {
	if strings.ContainsAny(lit, ".eE") {
		return reasonf("%.40s, want a whole number", lit)
	}
	if f, err := strconv.ParseFloat(lit, 64); err == nil {
		if e := r.checkNumber(f, lit); e != nil {
			return e
		}
	}
	return reasonf("%.40s is beyond what a number can hold", lit)
}

func (r *rules) checkNumber(f float64, lit string) *Error {
	if r == nil || (r.min == nil || f >= *r.min) && (r.max == nil || f <= *r.max) {
		return nil
	}
	switch {
	case r.max == nil:
		return reasonf("%.40s, want %s or more", lit, plain(*r.min))
	case r.min == nil:
		return reasonf("%.40s, want at most %s", lit, plain(*r.max))
	}
	return reasonf("%.40s, want %s to %s", lit, plain(*r.min), plain(*r.max))
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func (r *rules) checkItems(n int) *Error {
	if r != nil && r.maxItems != nil && n > *r.maxItems {
		return reasonf("more than %d", *r.maxItems)
	}
	return nil
}

// elements calls f for each element of a list.
func (p *parser) elements(r *rules, f func(i int) *Error) *Error {
	if p.next() != '[' {
		return p.wrong("a list")
	}
	if err := p.enter(); err != nil {
		return err
	}
	p.i++
	for i := 0; !p.take(']'); i++ {
		if i > 0 && !p.take(',') {
			return p.syntax("a comma or ]")
		}
		if err := r.checkItems(i + 1); err != nil {
			return err
		}
		if err := f(i); err != nil {
			return err
		}
	}
	p.depth--
	return nil
}

func (p *parser) list(n *node, v reflect.Value, r *rules) *Error {
	out := reflect.MakeSlice(n.typ, 0, 4)
	err := p.elements(r, func(i int) *Error {
		out = reflect.Append(out, reflect.Zero(n.elem.typ))
		return p.value(n.elem, out.Index(i), nil).at(i)
	})
	v.Set(out)
	return err
}

// floats reads a vector. Vectors are most of what a server reads, so the list is
// walked by hand.
func (p *parser) floats(v reflect.Value, r *rules) *Error {
	if p.next() != '[' {
		return p.wrong("a list of numbers")
	}
	p.i++
	out := make([]float32, 0, min((len(p.s)-p.i)/8+1, 4096)) // a component takes some ten bytes
	for i := 0; !p.take(']'); i++ {
		if i > 0 && !p.take(',') {
			return p.syntax("a comma or ]")
		}
		if err := r.checkItems(i + 1); err != nil {
			return err
		}
		if c := p.next(); c != '-' && (c < '0' || c > '9') {
			return p.wrong("a number").at(i)
		}
		f, err := p.float32()
		if err != nil {
			return err.at(i)
		}
		out = append(out, f)
	}
	v.Set(reflect.ValueOf(out))
	return nil
}

// members calls f for each key of an object.
func (p *parser) members(f func(key string) *Error) *Error {
	if p.next() != '{' {
		return p.wrong("an object")
	}
	if err := p.enter(); err != nil {
		return err
	}
	p.i++
	for i := 0; !p.take('}'); i++ {
		if i > 0 && !p.take(',') {
			return p.syntax("a comma or }")
		}
		if p.next() != '"' {
			return p.syntax("a key")
		}
		key, err := p.text()
		if err != nil {
			return err
		}
		if !p.take(':') {
			return p.syntax("a colon")
		}
		if err := f(key); err != nil {
			return err.in(shorten(key))
		}
	}
	p.depth--
	return nil
}

// shorten keeps messages short whatever keys a client makes up.
func shorten(key string) string {
	if len(key) <= 80 {
		return key
	}
	cut := 80
	for !utf8.RuneStart(key[cut]) {
		cut--
	}
	return key[:cut] + "…"
}

func (p *parser) object(n *node, v reflect.Value, r *rules) *Error {
	out := reflect.MakeMap(n.typ)
	count := 0
	err := p.members(func(key string) *Error {
		k := reflect.ValueOf(key).Convert(n.typ.Key())
		if out.MapIndex(k).IsValid() {
			return reasonf("is there twice")
		}
		if count++; r != nil {
			if err := r.checkItems(count); err != nil {
				return err
			}
		}
		x := reflect.New(n.elem.typ).Elem()
		if err := p.value(n.elem, x, nil); err != nil {
			return err
		}
		out.SetMapIndex(k, x)
		return nil
	})
	v.Set(out)
	return err
}

func (p *parser) fields(n *node, v reflect.Value) *Error {
	var seen uint64
	err := p.members(func(key string) *Error {
		i, ok := n.byName[key]
		if !ok {
			return reasonf("no such key here%s", n.near(key))
		}
		if seen&(1<<i) != 0 {
			return reasonf("is there twice")
		}
		seen |= 1 << i
		f := &n.fields[i]
		return p.value(f.node, fieldOf(v, f.index), &f.rules)
	})
	if err != nil {
		return err
	}
	for i := range n.fields {
		if n.fields[i].rules.required && seen&(1<<i) == 0 {
			return reasonf("is missing").in(n.fields[i].name)
		}
	}
	return nil
}

// fieldOf is a field of v, embedded pointers made on the way.
func fieldOf(v reflect.Value, index []int) reflect.Value {
	for i, x := range index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(x)
	}
	return v
}

// near lists the keys there are.
func (n *node) near(string) string {
	if len(n.fields) == 0 {
		return ": there are none"
	}
	names := make([]string, len(n.fields))
	for i := range n.fields {
		names[i] = n.fields[i].name
	}
	return ": there are " + strings.Join(names, ", ")
}

// raw keeps the text of a value.
func (p *parser) raw(v reflect.Value) *Error {
	start := p.i
	if err := p.skip(); err != nil {
		return err
	}
	if v.Kind() == reflect.String {
		v.SetString(p.s[start:p.i])
	} else {
		v.SetBytes([]byte(p.s[start:p.i]))
	}
	return nil
}

// skip reads over a value.
func (p *parser) skip() *Error {
	switch p.next() {
	case '{':
		return p.members(func(string) *Error { return p.skip() })
	case '[':
		return p.elements(nil, func(int) *Error { return p.skip() })
	}
	_, err := p.any()
	return err
}

// any reads any value: nil, bool, string, json.Number, []any, map[string]any.
func (p *parser) any() (any, *Error) {
	switch c := p.next(); {
	case c == '"':
		return unerr(p.text())
	case c == '{':
		m := map[string]any{}
		err := p.members(func(key string) *Error {
			if _, twice := m[key]; twice {
				return reasonf("is there twice")
			}
			x, err := p.any()
			m[key] = x
			return err
		})
		return m, err
	case c == '[':
		list := []any{}
		err := p.elements(nil, func(i int) *Error {
			x, err := p.any()
			list = append(list, x)
			return err.at(i)
		})
		return list, err
	case c == '-' || c >= '0' && c <= '9':
		lit, ok := p.number()
		if !ok {
			return nil, p.syntax("a number")
		}
		if f, err := strconv.ParseFloat(lit, 64); err != nil || math.IsInf(f, 0) {
			return nil, reasonf("%.40s is beyond what a number can hold", lit)
		}
		return json.Number(lit), nil
	case p.word("true"):
		return true, nil
	case p.word("false"):
		return false, nil
	case p.word("null"):
		return nil, nil
	}
	return nil, p.syntax("a JSON value")
}

func unerr(s string, err *Error) (any, *Error) { return s, err }

func (p *parser) word(w string) bool {
	if !strings.HasPrefix(p.s[p.i:], w) {
		return false
	}
	p.i += len(w)
	return true
}

// String is the text of a Raw that is a JSON string.
func String(r Raw) (string, error) {
	p := parser{s: string(r)}
	if p.next() != '"' {
		return "", p.wrong("a string")
	}
	s, err := p.text()
	if err != nil {
		return "", err
	}
	return s, nil
}
