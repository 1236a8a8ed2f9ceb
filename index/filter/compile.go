package filter

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quarrysearch/quarry/storage"
)

// A Schema tells the type of a field. A field that only ever held null or
// empty lists is known with type Undeclared: comparisons on it are accepted
// whatever the type of their values, and match nothing.
type Schema func(field string) (Type, bool)

// Compiled is a filter checked against a schema, ready to be evaluated on any
// number of segments by any number of goroutines. The zero Compiled matches
// everything.
//
// However a condition is written, it becomes one form: an ordered list of
// disjoint spans of values. `x in [1, 1]`, `x = 1.0` and `x between 1 and 1`
// are the same span, so they cannot differ in their results (case D04).
type Compiled struct{ root *node }

type nodeKind uint8

const (
	nodeAnd nodeKind = iota
	nodeOr
	nodeNot
	nodeSpans
	nodeExists
	nodeNull
	nodeEmpty
)

type node struct {
	kind  nodeKind
	typ   Type
	field string
	nums  []numSpan // nodeSpans of a number, bool or time
	strs  []strSpan // nodeSpans of a keyword
	kids  []node
}

// A numSpan holds the keys lo to hi, both included, lo ≤ hi.
type numSpan struct{ lo, hi int64 }

// A strSpan holds the keywords from lo, included, to hi, excluded, or without
// upper end. A single keyword s is the span from s to s+"\x00", which is its
// successor in byte order.
type strSpan struct {
	lo, hi string
	noEnd  bool
}

// Compile checks f against the schema and resolves its values to the types of
// their fields. The zero Filter compiles to "everything".
//
// An unknown field, a value of the wrong type, a missing bound and the like
// are ErrInvalid and name the field, what was wanted and what was given; a
// filter beyond MaxDepth or MaxSize is ErrTooLarge. Nothing is ever guessed:
// no error turns into "all" or "none".
//
// Compile takes time proportional to the filter, and n log n for the values of
// an In.
func Compile(f Filter, schema Schema) (Compiled, error) {
	if f.err != nil {
		return Compiled{}, f.err
	}
	if f.IsZero() {
		return Compiled{}, nil
	}
	if _, err := f.measure(1); err != nil {
		return Compiled{}, err
	}
	root := &node{}
	if err := compileNode(root, &f, schema); err != nil {
		return Compiled{}, err
	}
	return Compiled{root: root}, nil
}

// Fields returns the names of the fields the filter asks for, sorted, each
// once.
func (c Compiled) Fields() []string {
	var names []string
	var walk func(n *node)
	walk = func(n *node) {
		if n.kind >= nodeSpans {
			names = append(names, n.field)
		}
		for i := range n.kids {
			walk(&n.kids[i])
		}
	}
	if c.root != nil {
		walk(c.root)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// MatchesAll tells whether the filter is known to match every document: the
// zero Compiled and an And of nothing.
func (c Compiled) MatchesAll() bool {
	return c.root == nil || c.root.kind == nodeAnd && len(c.root.kids) == 0
}

// AppendKey appends a text that filters with different matches never share, and
// those that compile to the same form do.
func (c Compiled) AppendKey(dst []byte) []byte {
	if c.root == nil {
		return dst
	}
	return c.root.appendKey(dst)
}

func (n *node) appendKey(dst []byte) []byte {
	dst = append(dst, byte(n.kind), byte(n.typ))
	dst = storage.AppendUvarint(dst, uint64(len(n.field)))
	dst = append(dst, n.field...)
	dst = storage.AppendUvarint(dst, uint64(len(n.nums)))
	for _, s := range n.nums {
		dst = storage.AppendU64(storage.AppendU64(dst, uint64(s.lo)), uint64(s.hi))
	}
	dst = storage.AppendUvarint(dst, uint64(len(n.strs)))
	for _, s := range n.strs {
		for _, end := range [2]string{s.lo, s.hi} {
			dst = storage.AppendUvarint(dst, uint64(len(end)))
			dst = append(dst, end...)
		}
		end := byte(0)
		if s.noEnd {
			end = 1
		}
		dst = append(dst, end)
	}
	dst = storage.AppendUvarint(dst, uint64(len(n.kids)))
	for i := range n.kids {
		dst = n.kids[i].appendKey(dst)
	}
	return dst
}

func compileNode(n *node, f *Filter, schema Schema) error {
	if f.err != nil {
		return f.err
	}
	switch f.op {
	case opNone:
		return storage.Invalidf("filter: the zero Filter inside another filter")
	case opAnd:
		n.kind = nodeAnd
	case opOr:
		n.kind = nodeOr
	case opNot:
		n.kind = nodeNot
	default:
		return compileLeaf(n, f, schema)
	}
	n.kids = make([]node, len(f.kids))
	for i := range f.kids {
		if err := compileNode(&n.kids[i], &f.kids[i], schema); err != nil {
			return err
		}
	}
	return nil
}

func compileLeaf(n *node, f *Filter, schema Schema) error {
	if err := checkField(f.field); err != nil {
		return err
	}
	typ, ok := schema(f.field)
	if !ok {
		return storage.Invalidf("field %q: unknown field (names are case-sensitive)", f.field)
	}
	n.field, n.typ = f.field, typ
	switch f.op {
	case opExists:
		n.kind = nodeExists
		return nil
	case opNull:
		n.kind = nodeNull
		return nil
	case opEmpty:
		n.kind = nodeEmpty
		return nil
	}
	n.kind = nodeSpans
	if f.op == opAll {
		return compileAll(n, f)
	}
	if typ == Undeclared {
		return nil
	}
	switch f.op {
	case opPrefix:
		return compilePrefix(n, f)
	case opRange:
		return compileRange(n, f)
	}
	for _, v := range f.vals {
		if err := n.addEqual(v); err != nil {
			return err
		}
	}
	n.order()
	return nil
}

// compileAll makes an And of one equality a value.
func compileAll(n *node, f *Filter) error {
	if len(f.vals) == 0 {
		return storage.Invalidf("field %q: contains all without values", f.field)
	}
	kids := make([]node, len(f.vals))
	for i, v := range f.vals {
		kids[i] = node{kind: nodeSpans, field: n.field, typ: n.typ}
		if n.typ == Undeclared {
			continue
		}
		if err := kids[i].addEqual(v); err != nil {
			return err
		}
	}
	*n = node{kind: nodeAnd, kids: kids}
	return nil
}

func (n *node) wrongType(v Value, hint string) error {
	return storage.Invalidf("field %q: want %s, got %s %s%s", n.field, n.typ, v.typ, v, hint)
}

// addEqual adds the span of one value.
func (n *node) addEqual(v Value) error {
	if n.typ.isText() {
		if !v.typ.isText() {
			return n.wrongType(v, quoteHint(v))
		}
		n.strs = append(n.strs, strSpan{lo: v.str, hi: v.str + "\x00"})
		return nil
	}
	lo, hi, err := n.numBounds(v, v, false, false)
	if err != nil {
		return err
	}
	if lo <= hi {
		n.nums = append(n.nums, numSpan{lo, hi})
	}
	return nil
}

// quoteHint reminds of the quotes where a bare word was read as something
// other than a keyword.
func quoteHint(v Value) string {
	if v.typ == Time || v.typ == Bool || v.typ == Int64 || v.typ == Float64 {
		return "; quote it to mean text"
	}
	return ""
}

func compilePrefix(n *node, f *Filter) error {
	p := f.vals[0]
	if n.typ != Keyword {
		return storage.Invalidf("field %q: prefix wants a keyword field, got %s", n.field, n.typ)
	}
	if !p.typ.isText() {
		return n.wrongType(p, quoteHint(p))
	}
	s := strSpan{lo: p.str, noEnd: p.str == ""}
	if p.str != "" {
		// A byte of UTF-8 is below 0xf5, so the last one has a successor.
		last := len(p.str) - 1
		s.hi = p.str[:last] + string([]byte{p.str[last] + 1})
	}
	n.strs = []strSpan{s}
	return nil
}

func compileRange(n *node, f *Filter) error {
	lo, hi := f.vals[0], f.vals[1]
	if n.typ == Bool {
		return storage.Invalidf("field %q: a range wants an ordered type, got %s", n.field, n.typ)
	}
	if !n.typ.isText() {
		a, b, err := n.numBounds(lo, hi, f.loOpen, f.hiOpen)
		if err == nil && a <= b {
			n.nums = []numSpan{{a, b}}
		}
		return err
	}
	s := strSpan{noEnd: true}
	if !lo.IsMissing() {
		if !lo.typ.isText() {
			return n.wrongType(lo, quoteHint(lo))
		}
		if s.lo = lo.str; f.loOpen {
			s.lo += "\x00"
		}
	}
	if !hi.IsMissing() {
		if !hi.typ.isText() {
			return n.wrongType(hi, quoteHint(hi))
		}
		s.noEnd = false
		if s.hi = hi.str; !f.hiOpen {
			s.hi += "\x00"
		}
	}
	if s.noEnd || s.lo < s.hi {
		n.strs = []strSpan{s}
	}
	return nil
}

// numBounds returns the smallest and the largest key within both bounds, a
// missing bound being none; lo > hi when there is no such key.
func (n *node) numBounds(lo, hi Value, loOpen, hiOpen bool) (a, b int64, err error) {
	a, b = math.MinInt64, math.MaxInt64
	if !lo.IsMissing() {
		k, none, err := n.lowest(lo, loOpen)
		if err != nil {
			return 0, 0, err
		}
		if none {
			return 1, 0, nil
		}
		a = k
	}
	if !hi.IsMissing() {
		// What is ≤ hi is all below the lowest that is > hi.
		k, none, err := n.lowest(hi, !hiOpen)
		if err != nil {
			return 0, 0, err
		}
		if !none {
			if k == math.MinInt64 {
				return 1, 0, nil
			}
			b = k - 1
		}
	}
	return a, b, nil
}

// lowest returns the smallest key of the field's type that is ≥ v, or > v when
// open. Bounds are thus moved to a value the field can hold, exactly and once:
// x ≥ 1.5 on integers is x ≥ 2, x > 9007199254740993 on doubles is
// x ≥ 9007199254740994 (cases D05, D06).
func (n *node) lowest(v Value, open bool) (key int64, none bool, err error) {
	switch {
	case n.typ == Int64 && v.typ == Float64:
		return lowestInt(keyFloat(v.num), open)
	case n.typ == Float64 && v.typ == Int64:
		f := float64(v.num) // rounded, so look on which side it fell
		switch compareIntFloat(v.num, f) {
		case -1:
			return floatKey(f), false, nil
		case 1:
			return floatKey(f) + 1, false, nil
		}
		key = floatKey(f)
	case n.typ == Time && v.typ == Keyword:
		if key, err = parseTime(v.str); err != nil {
			return 0, false, n.wrongType(v, fmt.Sprintf(": %v", err))
		}
	case n.typ == v.typ:
		key = v.num
	default:
		return 0, false, n.wrongType(v, "")
	}
	if !open {
		return key, false, nil
	}
	return key + 1, key == math.MaxInt64, nil
}

// lowestInt is lowest for an int64 field and a float64 bound.
func lowestInt(f float64, open bool) (key int64, none bool, err error) {
	if f >= 1<<63 {
		return 0, true, nil
	}
	if f < -1<<63 {
		return math.MinInt64, false, nil
	}
	if open {
		f = math.Floor(f)
		if int64(f) == math.MaxInt64 {
			return 0, true, nil
		}
		return int64(f) + 1, false, nil
	}
	if f = math.Ceil(f); f >= 1<<63 {
		return 0, true, nil
	}
	return int64(f), false, nil
}

// order sorts the spans and joins those that meet.
func (n *node) order() {
	slices.SortFunc(n.nums, func(a, b numSpan) int {
		switch {
		case a.lo < b.lo:
			return -1
		case a.lo > b.lo:
			return 1
		}
		return 0
	})
	nums := n.nums[:0]
	for _, s := range n.nums {
		if last := len(nums) - 1; last >= 0 && (s.lo <= nums[last].hi || s.lo == nums[last].hi+1) {
			nums[last].hi = max(nums[last].hi, s.hi)
			continue
		}
		nums = append(nums, s)
	}
	n.nums = nums
	// Keywords come here as single ones only, so equal ones are all that can
	// meet.
	slices.SortFunc(n.strs, func(a, b strSpan) int { return strings.Compare(a.lo, b.lo) })
	n.strs = slices.Compact(n.strs)
}

// ConditionOp says what a Condition is.
type ConditionOp uint8

// The conditions. And, Or and Not have Kids, the others a Field.
const (
	ConditionAnd    ConditionOp = iota // of nothing: every document
	ConditionOr                        // of nothing: none
	ConditionNot                       // the complement of Kids[0]
	ConditionSpans                     // an element lies in one of Spans
	ConditionExists                    // a value or a list, empty or not
	ConditionNull
	ConditionEmpty
)

// A Condition is a compiled filter as a tree, for an engine that is no Segment.
type Condition struct {
	Op    ConditionOp
	Kids  []Condition
	Field string
	Type  Type
	Spans []KeySpan // disjoint
}

// A KeySpan holds the keys (Value.Keys) from Lo, included, to Hi, excluded, or
// without upper end. One tells that it is the key Lo alone. Hi need not be UTF-8.
type KeySpan struct {
	Lo, Hi string
	NoEnd  bool
	One    bool
}

// Condition returns the filter as a tree; the zero Compiled is an And of nothing.
func (c Compiled) Condition() Condition {
	if c.root == nil {
		return Condition{}
	}
	return c.root.condition()
}

func (n *node) condition() Condition {
	c := Condition{Op: ConditionOp(n.kind), Field: n.field, Type: n.typ}
	for i := range n.kids {
		c.Kids = append(c.Kids, n.kids[i].condition())
	}
	for _, s := range n.strs {
		c.Spans = append(c.Spans, KeySpan{Lo: s.lo, Hi: s.hi, NoEnd: s.noEnd, One: !s.noEnd && s.hi == s.lo+"\x00"})
	}
	for _, s := range n.nums {
		if s.hi-s.lo >= 0 && s.hi-s.lo < maxOnes { // values side by side, as of In
			for k := s.lo; ; k++ {
				c.Spans = append(c.Spans, KeySpan{Lo: numKey(k), Hi: numKey(k) + "\x00", One: true})
				if k == s.hi {
					break
				}
			}
			continue
		}
		span := KeySpan{Lo: numKey(s.lo), NoEnd: s.hi == math.MaxInt64}
		if !span.NoEnd {
			span.Hi = numKey(s.hi + 1)
		}
		c.Spans = append(c.Spans, span)
	}
	return c
}

// maxOnes is the number of neighboring keys that a span is taken apart into.
const maxOnes = 64

// numKey is a number's key as text of the same order.
func numKey(k int64) string { return fmt.Sprintf("%016x", uint64(k)^1<<63) }

// Keys gives the key of each element: text whose byte order is that of values
// of one type. A keyword is its own key; every other type has 16 digits.
func (v Value) Keys() iter.Seq[string] {
	if v.typ.isText() {
		return v.keywords()
	}
	return func(yield func(string) bool) {
		for k := range v.numbers() {
			if !yield(numKey(k)) {
				return
			}
		}
	}
}

// KeyValue returns the value that a key of type t stands for, as a Go value.
func KeyValue(t Type, key string) (any, error) {
	if t.isText() {
		return key, nil
	}
	k, err := strconv.ParseUint(key, 16, 64)
	if err != nil || len(key) != 16 {
		return nil, storage.Invalidf("%q is no key of type %s", shorten(key), t)
	}
	return numberValue(t, int64(k^1<<63)).one(), nil
}
