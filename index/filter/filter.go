package filter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/storage"
)

// Limits of a filter, checked by Parse, ParseJSON and Compile (ErrTooLarge).
const (
	// MaxDepth is the largest nesting; a single condition has depth 1.
	MaxDepth = 64
	// MaxSize is the largest number of nodes and values together: `x in [1,
	// 2]` is one node and two values.
	MaxSize = 65536
)

type op uint8

const (
	opNone   op = iota // the zero Filter
	opEq               // vals[0]
	opIn               // any of vals
	opRange            // vals[0] to vals[1], missing = unbounded
	opExists           // no vals
	opNull             // no vals
	opEmpty            // no vals
	opPrefix           // vals[0]
	opAny              // any of vals
	opAll              // all of vals
	opAnd              // kids
	opOr               // kids
	opNot              // kids[0]
)

// A Filter is a condition on the metadata of one document. It is an immutable
// value; make one with the constructors, Parse or ParseJSON.
//
// A comparison (Eq, In, ranges, Prefix, ContainsAny, ContainsAll) never
// matches a document in which the field is missing, null or an empty list. On
// a list it matches when any one element does. Not is the complement among
// the live documents, and so does match those. Names and keywords are
// case-sensitive. Constructors report a bad argument when the filter is
// compiled, not before.
//
// The zero Filter means "no filter" and matches everything; it is refused
// inside another filter. A caller for whom that is dangerous, such as a
// delete, asks IsZero first.
type Filter struct {
	op     op
	loOpen bool // range: vals[0] itself is outside
	hiOpen bool // range: vals[1] itself is outside
	field  string
	vals   []Value
	kids   []Filter
	err    error
}

// IsZero tells whether f is the zero Filter.
func (f Filter) IsZero() bool { return f.op == opNone }

// Eq matches a value equal to v: numbers as real numbers (42 = 42.0, and
// 2^53+1 equals no float64), times as instants, keywords by bytes. Comparing
// with nil or with a list is an error; see IsNull, In and ContainsAll.
func Eq(field string, v any) Filter {
	return compare(opEq, field, v)
}

// In matches a value equal to any of vs. In without values matches nothing. A
// slice among vs stands for its elements.
func In(field string, vs ...any) Filter { return among(opIn, field, vs) }

// ContainsAny is In under the name that reads well for lists.
func ContainsAny(field string, vs ...any) Filter { return among(opAny, field, vs) }

// ContainsAll matches a list in which each of vs is found. Without values it
// is an error: read as "all of nothing" it would match everything.
func ContainsAll(field string, vs ...any) Filter { return among(opAll, field, vs) }

// Prefix matches a keyword that starts with the bytes of prefix; the empty
// prefix matches every keyword.
func Prefix(field, prefix string) Filter { return compare(opPrefix, field, prefix) }

// Bounds limit a range; nil is no limit. At most one of Gt and Gte and one of
// Lt and Lte may be given, and at least one of the four.
type Bounds struct{ Gt, Gte, Lt, Lte any }

// Range matches a value within both bounds. On a list one element must be
// within both, whereas And(Gt, Lt) may be met by two. Keywords are ordered by
// bytes; bool has no order and is refused. A fractional bound on an int64
// field is compared exactly.
func Range(field string, b Bounds) Filter {
	f := Filter{op: opRange, field: field, vals: make([]Value, 2)}
	f.loOpen = f.bound(0, b.Gte, b.Gt)
	f.hiOpen = f.bound(1, b.Lte, b.Lt)
	if f.err == nil && f.vals[0].IsMissing() && f.vals[1].IsMissing() {
		f.err = storage.Invalidf("field %q: range without bounds", field)
	}
	return f
}

// bound sets vals[i] from the closed or the open bound, and tells which.
func (f *Filter) bound(i int, closed, open any) (isOpen bool) {
	v := closed
	switch {
	case closed != nil && open != nil:
		f.err = storage.Invalidf("field %q: range with two bounds on one side", f.field)
		return false
	case closed == nil && open == nil:
		return false
	case open != nil:
		v = open
	}
	var err error
	if f.vals[i], err = literal(f.field, v); err != nil && f.err == nil {
		f.err = err
	}
	return open != nil
}

// Gt matches a value greater than v.
func Gt(field string, v any) Filter { return half(field, v, 0, true) }

// Gte matches a value greater than or equal to v.
func Gte(field string, v any) Filter { return half(field, v, 0, false) }

// Lt matches a value less than v.
func Lt(field string, v any) Filter { return half(field, v, 1, true) }

// Lte matches a value less than or equal to v.
func Lte(field string, v any) Filter { return half(field, v, 1, false) }

// half makes a range with one bound. Unlike Range it refuses nil.
func half(field string, v any, side int, open bool) Filter {
	f := Filter{op: opRange, field: field, vals: make([]Value, 2)}
	f.vals[side], f.err = literal(field, v)
	f.loOpen, f.hiOpen = open && side == 0, open && side == 1
	return f
}

// Between matches a value from lo to hi, both included.
func Between(field string, lo, hi any) Filter {
	f := Filter{op: opRange, field: field, vals: make([]Value, 2)}
	f.vals[0], f.err = literal(field, lo)
	var err error
	if f.vals[1], err = literal(field, hi); f.err == nil {
		f.err = err
	}
	return f
}

// Exists matches a document that holds the field with anything but null: a
// value, a list, or an empty list. A missing field is therefore
// Not(Or(Exists(f), IsNull(f))).
func Exists(field string) Filter { return Filter{op: opExists, field: field} }

// IsNull matches a document that holds the field with null.
func IsNull(field string) Filter { return Filter{op: opNull, field: field} }

// IsEmpty matches a document that holds the field with an empty list. The
// empty keyword is a value like any other: Eq(f, "").
func IsEmpty(field string) Filter { return Filter{op: opEmpty, field: field} }

// And matches when all of fs do; And() matches everything.
func And(fs ...Filter) Filter { return Filter{op: opAnd, kids: cloneKids(fs)} }

// Or matches when any of fs does; Or() matches nothing.
func Or(fs ...Filter) Filter { return Filter{op: opOr, kids: cloneKids(fs)} }

// Not matches the live documents that f does not.
func Not(f Filter) Filter { return Filter{op: opNot, kids: []Filter{f}} }

// cloneKids keeps the caller from changing a filter; nil stays nil, so that
// equal filters are deeply equal.
func cloneKids(fs []Filter) []Filter {
	if len(fs) == 0 {
		return nil
	}
	return slices.Clone(fs)
}

// literal returns a value to compare with, in its own type. Its conversion to
// the field's type waits until Compile knows that.
func literal(field string, v any) (Value, error) {
	if v == nil {
		return Value{}, storage.Invalidf("field %q: null is not comparable; ask is null", field)
	}
	one, _, err := scalar(v)
	if err != nil {
		return Value{}, fmt.Errorf("field %q: %w", field, err)
	}
	return one, nil
}

func compare(o op, field string, v any) Filter {
	f := Filter{op: o, field: field}
	one, err := literal(field, v)
	if err != nil {
		f.err = err
		return f
	}
	f.vals = []Value{one}
	return f
}

func among(o op, field string, vs []any) Filter {
	f := Filter{op: o, field: field}
	for _, v := range vs {
		list, err := Normalize(v, Undeclared)
		if _, wide, e := scalar(v); e == nil && wide {
			list, _, err = scalar(v)
		}
		if err == nil && list.form < formOne {
			_, err = literal(field, nil)
			f.err = err
			return f
		}
		if err != nil {
			f.err = fmt.Errorf("field %q: %w", field, err)
			return f
		}
		for e := range list.Elements() {
			f.vals = append(f.vals, e)
		}
	}
	return f
}

// measure adds up nodes and values and finds the depth, without going deeper
// than the limit.
func (f *Filter) measure(depth int) (size int, err error) {
	if depth > MaxDepth {
		return 0, fmt.Errorf("%w: filter is nested deeper than %d", storage.ErrTooLarge, MaxDepth)
	}
	size = 1 + len(f.vals)
	if f.op == opRange {
		size = 1
		for _, v := range f.vals {
			size += v.Len()
		}
	}
	for i := range f.kids {
		n, err := f.kids[i].measure(depth + 1)
		if err != nil {
			return 0, err
		}
		if size += n; size > MaxSize {
			break
		}
	}
	if size > MaxSize {
		return 0, fmt.Errorf("%w: filter has more than %d nodes and values", storage.ErrTooLarge, MaxSize)
	}
	return size, nil
}

// checkField refuses names that no schema can hold.
func checkField(name string) error {
	if name == "" || !utf8.ValidString(name) {
		return storage.Invalidf("field name %q", shorten(name))
	}
	return nil
}

// String returns the filter in the text syntax. Parse gives back an equal
// filter, except for the zero Filter, which is the empty string, and for one
// with a bad argument, which shows its error in angle brackets.
func (f Filter) String() string { return string(f.append(nil, 0)) }

// append writes f. Above depth MaxDepth, where Parse would refuse it anyway,
// it writes an ellipsis.
func (f *Filter) append(b []byte, depth int) []byte {
	if f.err != nil {
		return fmt.Appendf(b, "<%v>", f.err)
	}
	if depth > MaxDepth {
		return append(b, "…"...)
	}
	switch f.op {
	case opNone:
		return b
	case opAnd, opOr:
		return f.appendKids(b, depth)
	case opNot:
		b = append(b, "not "...)
		return f.kids[0].appendNested(b, depth+1)
	case opExists:
		return appendField(append(b, "exists "...), f.field)
	case opRange:
		return f.appendRange(b)
	}
	b = appendField(b, f.field)
	switch f.op {
	case opNull:
		return append(b, " is null"...)
	case opEmpty:
		return append(b, " is empty"...)
	case opEq:
		return append(append(b, " = "...), f.vals[0].literal()...)
	case opPrefix:
		return append(append(b, " prefix "...), f.vals[0].literal()...)
	case opAny:
		b = append(b, " contains any ["...)
	case opAll:
		b = append(b, " contains all ["...)
	default:
		b = append(b, " in ["...)
	}
	for i, v := range f.vals {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, v.literal()...)
	}
	return append(b, ']')
}

// appendKids writes "a and b", or the form "and(a)" for the counts of
// children that the infix form cannot show.
func (f *Filter) appendKids(b []byte, depth int) []byte {
	word := "and"
	if f.op == opOr {
		word = "or"
	}
	if len(f.kids) < 2 {
		b = append(append(b, word...), '(')
		for i := range f.kids {
			b = f.kids[i].append(b, depth+1)
		}
		return append(b, ')')
	}
	for i := range f.kids {
		if i > 0 {
			b = append(append(append(b, ' '), word...), ' ')
		}
		b = f.kids[i].appendNested(b, depth+1)
	}
	return b
}

// appendNested writes f in parentheses where it has parts of its own.
func (f *Filter) appendNested(b []byte, depth int) []byte {
	if f.err != nil || f.op != opAnd && f.op != opOr || len(f.kids) < 2 {
		return f.append(b, depth)
	}
	return append(f.append(append(b, '('), depth), ')')
}

func (f *Filter) appendRange(b []byte) []byte {
	b = appendField(b, f.field)
	lo, hi := f.vals[0], f.vals[1]
	switch {
	case hi.IsMissing() && f.loOpen:
		b = append(b, " > "...)
	case hi.IsMissing():
		b = append(b, " >= "...)
	case lo.IsMissing() && f.hiOpen:
		b = append(b, " < "...)
	case lo.IsMissing():
		b = append(b, " <= "...)
	case !f.loOpen && !f.hiOpen:
		b = append(append(b, " between "...), lo.literal()...)
		return append(append(b, " and "...), hi.literal()...)
	default:
		open, end := byte('['), byte(']')
		if f.loOpen {
			open = '('
		}
		if f.hiOpen {
			end = ')'
		}
		b = append(append(append(b, " range "...), open), lo.literal()...)
		return append(append(append(b, ", "...), hi.literal()...), end)
	}
	if hi.IsMissing() {
		return append(b, lo.literal()...)
	}
	return append(b, hi.literal()...)
}

func appendField(b []byte, name string) []byte {
	if isBareWord(name) && !isReserved(name) {
		return append(b, name...)
	}
	return append(b, quote(name)...)
}

func invalidUTF8(s string) int {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// reserved are the words that must be quoted to be a field or a value.
const reserved = " and or not in is null empty exists prefix starts with between range contains any all true false "

func isReserved(w string) bool {
	return len(w) <= 8 && !strings.Contains(w, " ") && strings.Contains(reserved, " "+strings.ToLower(w)+" ")
}

func wordStart(r rune) bool { return r == '_' || unicode.IsLetter(r) }

func wordPart(r rune) bool {
	return wordStart(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r < 128 && strings.IndexByte("-./:@+", byte(r)) >= 0
}

func isBareWord(s string) bool {
	for i, r := range s {
		if i == 0 && !wordStart(r) || i > 0 && !wordPart(r) {
			return false
		}
	}
	return s != ""
}

// unescape reads the escape that s starts with.
func unescape(s string) (r rune, n int, ok bool) {
	if len(s) < 2 {
		return 0, 0, false
	}
	if i := strings.IndexByte(`"'\/bfnrt`, s[1]); i >= 0 {
		return rune("\"'\\/\b\f\n\r\t"[i]), 2, true
	}
	hex := func(s string) (rune, bool) {
		if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
			return 0, false
		}
		v, err := strconv.ParseUint(s[2:6], 16, 16)
		return rune(v), err == nil
	}
	if r, ok = hex(s); !ok {
		return 0, 0, false
	}
	if r < 0xd800 || r > 0xdfff {
		return r, 6, true
	}
	low, ok := hex(s[6:])
	if !ok || r > 0xdbff || low < 0xdc00 || low > 0xdfff {
		return 0, 0, false
	}
	return (r-0xd800)<<10 + (low - 0xdc00) + 0x10000, 12, true
}

// quote is the inverse of scanString: JSON's escapes, and nothing escaped that
// need not be.
func quote(s string) string {
	b := []byte{'"'}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20 || c == 0x7f:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}
