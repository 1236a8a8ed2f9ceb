package shape

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// MaxDepth is how deep JSON may be nested.
const MaxDepth = 64

// maxFields of a struct: those that were seen are bits of a word.
const maxFields = 64

// Raw is any JSON value, as text.
type Raw string

// MarshalJSON gives the text back, and null for none.
func (r Raw) MarshalJSON() ([]byte, error) {
	if r == "" {
		return []byte("null"), nil
	}
	return []byte(r), nil
}

// An Error tells which field is wrong, and how. It matches storage.ErrInvalid.
type Error struct {
	// Field is where, "facets[2].limit" say; empty for the whole.
	Field string
	// Reason says what is wrong, without the field.
	Reason string
}

func (e *Error) Error() string {
	if e.Field == "" {
		return "quarry: invalid: " + e.Reason
	}
	return "quarry: invalid: " + e.Field + ": " + e.Reason
}

func reasonf(format string, args ...any) *Error { return &Error{Reason: fmt.Sprintf(format, args...)} }

// in puts the name of a field, or the index of an element, before the error's.
func (e *Error) in(name string) *Error {
	if e != nil {
		switch {
		case e.Field == "":
			e.Field = name
		case e.Field[0] == '[':
			e.Field = name + e.Field
		default:
			e.Field = name + "." + e.Field
		}
	}
	return e
}

func (e *Error) at(i int) *Error {
	if e != nil {
		return e.in("[" + strconv.Itoa(i) + "]")
	}
	return nil
}

type kind uint8

const (
	kindString kind = iota
	kindBool
	kindInt
	kindUint
	kindFloat
	kindList
	kindFloats // []float32, read in one go
	kindMap
	kindStruct
	kindPointer
	kindTime
	kindAny
	kindRaw
)

// A node is one type.
type node struct {
	kind   kind
	typ    reflect.Type
	elem   *node // of lists, maps and pointers
	fields []field
	byName map[string]int
}

// A field of a struct.
type field struct {
	name  string
	index []int
	node  *node
	doc   string
	rules rules
	omits bool // it is left out where it is empty
}

// rules are what a tag says beside the type.
type rules struct {
	required       bool
	min, max       *float64
	minLen, maxLen *int
	maxItems       *int
	enum           []string
	def            string
}

// A Shape is a type that was looked at.
type Shape struct{ root *node }

// Of looks at a type. An error is a mistake in the type, not in any input.
func Of(t reflect.Type) (*Shape, error) {
	n, err := compile(t, map[reflect.Type]*node{})
	if err != nil {
		return nil, err
	}
	return &Shape{n}, nil
}

func compile(t reflect.Type, seen map[reflect.Type]*node) (*node, error) {
	if n := seen[t]; n != nil {
		return n, nil
	}
	n := &node{typ: t}
	seen[t] = n
	switch t {
	case reflect.TypeFor[time.Time]():
		n.kind = kindTime
		return n, nil
	case reflect.TypeFor[Raw](), reflect.TypeFor[json.RawMessage]():
		n.kind = kindRaw
		return n, nil
	case reflect.TypeFor[[]float32]():
		n.kind = kindFloats
	}
	if t.Kind() != reflect.Pointer && t.Implements(reflect.TypeFor[json.Marshaler]()) { // its JSON is its own affair
		n.kind = kindAny
		return n, nil
	}
	var err error
	switch t.Kind() {
	case reflect.String:
		n.kind = kindString
	case reflect.Bool:
		n.kind = kindBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n.kind = kindInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n.kind = kindUint
	case reflect.Float32, reflect.Float64:
		n.kind = kindFloat
	case reflect.Interface:
		n.kind = kindAny
	case reflect.Slice:
		if n.kind != kindFloats {
			n.kind = kindList
		}
		n.elem, err = compile(t.Elem(), seen)
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return nil, fmt.Errorf("shape: %v: keys must be strings", t)
		}
		n.kind = kindMap
		n.elem, err = compile(t.Elem(), seen)
	case reflect.Pointer:
		n.kind = kindPointer
		n.elem, err = compile(t.Elem(), seen)
	case reflect.Struct:
		n.kind = kindStruct
		n.byName = map[string]int{}
		err = n.addFields(t, nil, seen)
	default:
		err = fmt.Errorf("shape: %v has no JSON form", t)
	}
	return n, err
}

func (n *node) addFields(t reflect.Type, at []int, seen map[reflect.Type]*node) error {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(append([]int(nil), at...), i)
		tag, tagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if f.Anonymous && !tagged {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if err := n.addFields(inner, index, seen); err != nil {
				return err
			}
			continue
		}
		if !tagged || name == "-" || name == "" || !f.IsExported() {
			continue
		}
		child, err := compile(f.Type, seen)
		if err != nil {
			return fmt.Errorf("%v.%s: %w", t, f.Name, err)
		}
		r, err := parseRules(f.Tag.Get("shape"))
		if err != nil {
			return fmt.Errorf("%v.%s: %w", t, f.Name, err)
		}
		if _, twice := n.byName[name]; twice {
			return fmt.Errorf("shape: %v: two fields are named %s", t, name)
		}
		if len(n.fields) == maxFields {
			return fmt.Errorf("shape: %v has more than %d fields", t, maxFields)
		}
		n.byName[name] = len(n.fields)
		n.fields = append(n.fields, field{name, index, child, f.Tag.Get("doc"), r, strings.Contains(options, "omit")})
	}
	return nil
}

func parseRules(tag string) (rules, error) {
	var r rules
	if tag == "" {
		return r, nil
	}
	for part := range strings.SplitSeq(tag, ",") {
		key, value, _ := strings.Cut(part, "=")
		var err error
		switch key {
		case "required":
			r.required = true
		case "min":
			r.min, err = number(value)
		case "max":
			r.max, err = number(value)
		case "minlen":
			r.minLen, err = integer(value)
		case "maxlen":
			r.maxLen, err = integer(value)
		case "maxitems":
			r.maxItems, err = integer(value)
		case "enum":
			r.enum = strings.Split(value, "|")
		case "default":
			r.def = value
		default:
			err = fmt.Errorf("no rule %q", key)
		}
		if err != nil {
			return r, fmt.Errorf("shape: %q: %w", part, err)
		}
	}
	return r, nil
}

func number(s string) (*float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && math.IsNaN(f) {
		err = strconv.ErrSyntax
	}
	return &f, err
}

func integer(s string) (*int, error) {
	i, err := strconv.Atoi(s)
	return &i, err
}
