package shape

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Params are the path and query parameters of a request: fields of a struct
// with the tag path:"name" or query:"name", each a string, a bool, a number, or
// a list of strings, which a query gives by repeating the parameter.
type Params struct{ list []Param }

// A Param is one parameter.
type Param struct {
	Name   string
	InPath bool
	Doc    string

	at   []int // index of the field
	node *node
	r    rules
}

// ParamsOf looks at the parameters of a struct type; embedded structs are
// flattened.
func ParamsOf(t reflect.Type) (*Params, error) {
	p := &Params{}
	for _, f := range reflect.VisibleFields(t) {
		name, inPath := f.Tag.Lookup("path")
		if !inPath {
			var inQuery bool
			if name, inQuery = f.Tag.Lookup("query"); !inQuery {
				continue
			}
		}
		n, err := compile(f.Type, map[reflect.Type]*node{})
		if err != nil {
			return nil, err
		}
		scalar := n
		if n.kind == kindList {
			scalar = n.elem
		}
		if scalar.kind > kindFloat || n.kind == kindList && scalar.kind != kindString {
			return nil, fmt.Errorf("shape: %v.%s: no type of a parameter", t, f.Name)
		}
		r, err := parseRules(f.Tag.Get("shape"))
		if err != nil {
			return nil, fmt.Errorf("%v.%s: %w", t, f.Name, err)
		}
		p.list = append(p.list, Param{Name: name, InPath: inPath, Doc: f.Tag.Get("doc"), at: f.Index, node: n, r: r})
	}
	return p, nil
}

// List gives the parameters, in the order of the struct.
func (p *Params) List() []Param { return p.list }

// Decode reads the parameters of a request into what v points to. path gives a
// path parameter. Unknown and repeated query parameters are errors; every error
// is an *Error.
func (p *Params) Decode(path func(name string) string, rawQuery string, v any) error {
	s := reflect.ValueOf(v).Elem()
	var query url.Values
	if rawQuery != "" {
		var err error
		if query, err = url.ParseQuery(rawQuery); err != nil {
			return reasonf("the query of the URL: %v", err)
		}
		if err := p.unknown(query); err != nil {
			return err
		}
	}
	for i := range p.list {
		q := &p.list[i]
		f := s.FieldByIndex(q.at)
		if q.InPath {
			if err := q.set(q.node, f, path(q.Name)); err != nil {
				return err
			}
			continue
		}
		values := query[q.Name]
		switch {
		case len(values) == 0 && q.r.required:
			return reasonf("is missing").in(q.Name)
		case len(values) == 0:
			continue
		case q.node.kind == kindList:
			if err := q.r.checkItems(len(values)); err != nil {
				return err.in(q.Name)
			}
			f.Set(reflect.MakeSlice(q.node.typ, len(values), len(values)))
			for j, text := range values {
				if err := q.set(q.node.elem, f.Index(j), text); err != nil {
					return err
				}
			}
		case len(values) > 1:
			return reasonf("is there twice").in(q.Name)
		default:
			if err := q.set(q.node, f, values[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Params) unknown(query url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.ContainsFunc(p.list, func(q Param) bool { return !q.InPath && q.Name == name }) {
			return reasonf("no such parameter here").in(shorten(name))
		}
	}
	return nil
}

// set sets a scalar of a parameter's text.
func (q *Param) set(n *node, f reflect.Value, text string) error {
	var err *Error
	switch {
	case !utf8.ValidString(text):
		err = reasonf("is not valid UTF-8")
	case n.kind == kindString:
		err = setString(n, f, text, &q.r)
	case n.kind == kindBool:
		b, perr := strconv.ParseBool(text)
		if perr != nil || text != "true" && text != "false" {
			err = reasonf("%.40q, want true or false", text)
		}
		f.SetBool(b)
	default:
		p := parser{s: text}
		lit, ok := "", false
		if c := p.next(); p.i == 0 && (c == '-' || c >= '0' && c <= '9') {
			lit, ok = p.number()
		}
		if !ok || len(lit) != len(text) {
			err = reasonf("%.40q, want %s", text, wants[n.kind])
		} else {
			err = setNumber(n, f, lit, &q.r)
		}
	}
	if err != nil {
		return err.in(q.Name)
	}
	return nil
}
