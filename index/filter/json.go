package filter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/quarrysearch/quarry/storage"
)

// jsonOps are the operators of the JSON form. "between" and "range" differ
// only in how the value is written.
var jsonOps = [...]struct {
	name string
	op   op
	not  bool
	side int // of a range with one bound
	open bool
}{
	{name: "eq", op: opEq}, {name: "ne", op: opEq, not: true},
	{name: "in", op: opIn}, {name: "not_in", op: opIn, not: true},
	{name: "gt", op: opRange, side: 0, open: true}, {name: "gte", op: opRange, side: 0},
	{name: "lt", op: opRange, side: 1, open: true}, {name: "lte", op: opRange, side: 1},
	{name: "between", op: opRange}, {name: "range", op: opRange},
	{name: "prefix", op: opPrefix},
	{name: "contains_any", op: opAny}, {name: "contains_all", op: opAll},
	{name: "exists", op: opExists}, {name: "is_null", op: opNull}, {name: "is_empty", op: opEmpty},
}

const jsonOpNames = "eq, ne, in, not_in, gt, gte, lt, lte, between, range, prefix, contains_any, contains_all, exists, is_null or is_empty"

// ParseJSON reads the JSON form. A filter is one of
//
//	{"and": [filter, …]}  {"or": [filter, …]}  {"not": filter}
//	{"field": name, "op": "eq" | "ne" | "gt" | "gte" | "lt" | "lte" | "prefix", "value": scalar}
//	{"field": name, "op": "in" | "not_in" | "contains_any" | "contains_all", "value": [scalar, …]}
//	{"field": name, "op": "between", "value": [low, high]}
//	{"field": name, "op": "range", "value": {"gt" | "gte": low, "lt" | "lte": high}}
//	{"field": name, "op": "exists" | "is_null" | "is_empty"}
//
// A scalar is a string, a number or a bool; integers are exact to 64 bits,
// times are strings. Unknown, repeated and missing keys, null, anything after
// the filter, and bytes that are not UTF-8 are *SyntaxError with the byte
// offset; a filter beyond MaxDepth or MaxSize is ErrTooLarge.
func ParseJSON(data []byte) (Filter, error) {
	if i := invalidUTF8(string(data)); i >= 0 {
		return Filter{}, &SyntaxError{i, "UTF-8", fmt.Sprintf("byte %#02x", data[i])}
	}
	r := jsonReader{dec: json.NewDecoder(bytes.NewReader(data)), budget: MaxSize}
	r.dec.UseNumber()
	f, err := r.filter(1)
	if err != nil {
		return Filter{}, err
	}
	if _, err := r.dec.Token(); err != io.EOF {
		return Filter{}, r.unexpected("the end after the filter", "more")
	}
	_, err = f.measure(1)
	return f, err
}

// A jsonReader walks the tokens of one document, which keeps the depth in
// this package's hands and lets it see repeated keys.
type jsonReader struct {
	dec    *json.Decoder
	budget int
}

func (r *jsonReader) unexpected(want, got string) error {
	return &SyntaxError{int(r.dec.InputOffset()), want, got}
}

func describe(t json.Token) string {
	switch x := t.(type) {
	case nil:
		return "null"
	case string:
		return "string " + quote(shorten(x))
	case json.Delim:
		return strconv.Quote(x.String())
	}
	return shorten(fmt.Sprint(t))
}

func (r *jsonReader) token(want string) (json.Token, error) {
	t, err := r.dec.Token()
	if err == io.EOF {
		return nil, r.unexpected(want, "the end")
	}
	if err != nil {
		return nil, r.unexpected(want, fmt.Sprintf("bad JSON (%v)", err))
	}
	return t, nil
}

func (r *jsonReader) delim(d json.Delim, want string) error {
	t, err := r.token(want)
	if err == nil && t != d {
		err = r.unexpected(want, describe(t))
	}
	return err
}

func (r *jsonReader) text(want string) (string, error) {
	t, err := r.token(want)
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", r.unexpected(want, describe(t))
	}
	return s, nil
}

func (r *jsonReader) spend() error {
	if r.budget--; r.budget < 0 {
		return fmt.Errorf("%w: filter has more than %d nodes and values", storage.ErrTooLarge, MaxSize)
	}
	return nil
}

// condition collects the keys of one object.
type condition struct {
	combined bool // f is an and, or, not
	f        Filter
	field    string
	hasField bool
	op       int // index in jsonOps
	hasOp    bool
	value    any // scalar Value, []Value, or map by bound
	hasValue bool
}

func (r *jsonReader) filter(depth int) (Filter, error) {
	if depth > MaxDepth {
		return Filter{}, fmt.Errorf("%w: filter is nested deeper than %d", storage.ErrTooLarge, MaxDepth)
	}
	if err := r.spend(); err != nil {
		return Filter{}, err
	}
	if err := r.delim('{', "an object"); err != nil {
		return Filter{}, err
	}
	var c condition
	for keys := 0; r.dec.More(); keys++ {
		key, err := r.text("a key")
		if err == nil && c.combined {
			err = r.unexpected("no other key in this object", describe(key))
		}
		if err == nil {
			err = r.member(&c, key, keys, depth)
		}
		if err != nil {
			return Filter{}, err
		}
	}
	if err := r.delim('}', "a key or the end of the object"); err != nil {
		return Filter{}, err
	}
	if c.combined {
		return c.f, nil
	}
	return r.finish(&c)
}

// member reads the value of one key.
func (r *jsonReader) member(c *condition, key string, seen, depth int) (err error) {
	first := false
	switch key {
	case "and", "or", "not":
		if seen > 0 {
			return r.unexpected("no other key in this object", describe(key))
		}
		c.combined = true
		c.f, err = r.combined(key, depth)
		return err
	case "field":
		first, c.hasField = !c.hasField, true
		c.field, err = r.text("the name of a field")
		if err == nil && c.field == "" {
			err = r.unexpected("the name of a field", "an empty string")
		}
	case "op":
		first, c.hasOp = !c.hasOp, true
		c.op, err = r.operator()
	case "value":
		first, c.hasValue = !c.hasValue, true
		c.value, err = r.value()
	default:
		return r.unexpected("field, op, value, and, or or not", describe(key))
	}
	if err == nil && !first {
		err = r.unexpected("every key once", describe(key))
	}
	return err
}

func (r *jsonReader) combined(key string, depth int) (Filter, error) {
	if key == "not" {
		kid, err := r.filter(depth + 1)
		return Not(kid), err
	}
	f := Filter{op: opAnd}
	if key == "or" {
		f.op = opOr
	}
	if err := r.delim('[', "an array of filters"); err != nil {
		return Filter{}, err
	}
	for r.dec.More() {
		kid, err := r.filter(depth + 1)
		if err != nil {
			return Filter{}, err
		}
		f.kids = append(f.kids, kid)
	}
	return f, r.delim(']', "a filter or the end of the array")
}

func (r *jsonReader) operator() (int, error) {
	name, err := r.text("an operator")
	if err != nil {
		return 0, err
	}
	for i := range jsonOps {
		if jsonOps[i].name == name {
			return i, nil
		}
	}
	return 0, r.unexpected("the operator "+jsonOpNames, describe(name))
}

func (r *jsonReader) scalar(t json.Token) (Value, error) {
	const want = "a string, number or bool"
	if err := r.spend(); err != nil {
		return Value{}, err
	}
	if _, ok := t.(json.Delim); ok || t == nil {
		return Value{}, r.unexpected(want, describe(t))
	}
	v, _, err := scalar(t)
	if err != nil {
		return Value{}, r.unexpected(want, fmt.Sprintf("%s (%v)", describe(t), err))
	}
	return v, nil
}

// value reads a scalar, a list or the bounds of a range, whichever stands
// there; finish tells whether it suits the operator.
func (r *jsonReader) value() (any, error) {
	const want = "a string, number, bool, array or object of bounds"
	t, err := r.token(want)
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		list := []Value{}
		for r.dec.More() {
			t, err := r.token(want)
			if err != nil {
				return nil, err
			}
			v, err := r.scalar(t)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, r.delim(']', "a value or the end of the array")
	case json.Delim('{'):
		return r.bounds()
	}
	return r.scalar(t)
}

func (r *jsonReader) bounds() (any, error) {
	var b Bounds
	for r.dec.More() {
		key, err := r.text("a bound")
		if err != nil {
			return nil, err
		}
		t, err := r.token("a value")
		if err != nil {
			return nil, err
		}
		v, err := r.scalar(t)
		if err != nil {
			return nil, err
		}
		bound := map[string]*any{"gt": &b.Gt, "gte": &b.Gte, "lt": &b.Lt, "lte": &b.Lte}[key]
		if bound == nil {
			return nil, r.unexpected("gt, gte, lt or lte", describe(key))
		}
		if *bound != nil {
			return nil, r.unexpected("every key once", describe(key))
		}
		*bound = v
	}
	return b, r.delim('}', "a bound or the end of the object")
}

// finish makes the filter of a field, an operator and a value.
func (r *jsonReader) finish(c *condition) (Filter, error) {
	if !c.hasField || !c.hasOp {
		return Filter{}, r.unexpected("the keys field and op, or one of and, or, not", "an object without them")
	}
	o := &jsonOps[c.op]
	f := Filter{op: o.op, field: c.field}
	if o.op == opExists || o.op == opNull || o.op == opEmpty {
		if c.hasValue {
			return Filter{}, r.unexpected("no value with "+o.name, "one")
		}
		return f, nil
	}
	if !c.hasValue {
		return Filter{}, r.unexpected("a value with "+o.name, "none")
	}
	var err error
	switch {
	case o.name == "range":
		b, ok := c.value.(Bounds)
		if !ok {
			return Filter{}, r.unexpected("an object of bounds with range", fmt.Sprint(c.value))
		}
		f = Range(c.field, b)
		err = f.err
	case o.name == "between":
		list, ok := c.value.([]Value)
		if !ok || len(list) != 2 {
			return Filter{}, r.unexpected("an array of two values with between", fmt.Sprint(c.value))
		}
		f = Between(c.field, list[0], list[1])
	case o.op == opIn || o.op == opAny || o.op == opAll:
		list, ok := c.value.([]Value)
		if !ok || o.op == opAll && len(list) == 0 {
			return Filter{}, r.unexpected("an array of values with "+o.name, fmt.Sprint(c.value))
		}
		if len(list) > 0 {
			f.vals = list
		}
	default:
		v, ok := c.value.(Value)
		if !ok || o.op == opPrefix && v.typ != Keyword {
			return Filter{}, r.unexpected("one value that suits "+o.name, fmt.Sprint(c.value))
		}
		f.vals = []Value{v}
		if o.op == opRange {
			f = half(c.field, v, o.side, o.open)
		}
	}
	if o.not {
		f = Not(f)
	}
	return f, err
}

// MarshalJSON writes the filter as ParseJSON reads it. A time comes back as a
// string, which a time field reads as the same instant; an open range and
// ContainsAny keep their form. The zero Filter and a filter with a bad
// argument cannot be written.
func (f Filter) MarshalJSON() ([]byte, error) {
	if _, err := f.measure(1); err != nil {
		return nil, err
	}
	return f.appendJSON(nil)
}

func (f *Filter) appendJSON(b []byte) ([]byte, error) {
	switch {
	case f.err != nil:
		return nil, f.err
	case f.op == opNone:
		return nil, storage.Invalidf("filter: the zero Filter has no JSON form")
	case f.op == opNot:
		b, err := f.kids[0].appendJSON(append(b, `{"not":`...))
		return append(b, '}'), err
	case f.op == opAnd || f.op == opOr:
		key := `{"and":[`
		if f.op == opOr {
			key = `{"or":[`
		}
		b = append(b, key...)
		for i := range f.kids {
			var err error
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = f.kids[i].appendJSON(b); err != nil {
				return nil, err
			}
		}
		return append(b, "]}"...), nil
	}
	name, value := f.jsonParts()
	object := struct {
		Field string `json:"field"`
		Op    string `json:"op"`
		Value any    `json:"value,omitempty"`
	}{f.field, name, value}
	leaf, err := json.Marshal(object)
	return append(b, leaf...), err
}

// jsonParts returns the operator's name and its value.
func (f *Filter) jsonParts() (name string, value any) {
	switch f.op {
	case opEq:
		return "eq", f.vals[0]
	case opPrefix:
		return "prefix", f.vals[0]
	case opExists:
		return "exists", nil
	case opNull:
		return "is_null", nil
	case opEmpty:
		return "is_empty", nil
	case opAny:
		return "contains_any", append([]Value{}, f.vals...)
	case opAll:
		return "contains_all", append([]Value{}, f.vals...)
	case opIn:
		return "in", append([]Value{}, f.vals...)
	}
	lo, hi := f.vals[0], f.vals[1]
	loName, hiName := "gte", "lte"
	if f.loOpen {
		loName = "gt"
	}
	if f.hiOpen {
		hiName = "lt"
	}
	switch {
	case hi.IsMissing():
		return loName, lo
	case lo.IsMissing():
		return hiName, hi
	case !f.loOpen && !f.hiOpen:
		return "between", f.vals
	}
	return "range", map[string]Value{loName: lo, hiName: hi}
}
