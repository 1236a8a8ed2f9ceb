package workflow

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quarrysearch/quarry/knowledge/embed/service"
)

// An object reads the keys of a JSON object, each at most once, and remembers
// the first that is wrong: decoders read straight down and check once, at end.
type object struct {
	t     *jsonText
	path  string
	v     *jsonValue
	asked []string
	err   *ConfigError
}

// reader makes a reader of a value, which must be an object. A nil value, a
// key that is missing, reads like an empty object.
func (t *jsonText) reader(path string, v *jsonValue) *object {
	o := &object{t: t, path: path, v: v}
	if v != nil && v.kind != kindObject {
		o.err = t.errorAt(v.off, path, "want an object, got %s", v.kind)
	}
	return o
}

// end returns the first error. A key that nobody asked for goes before all
// others: a key that seems missing may be there, misspelled.
func (o *object) end() error {
	if o.v != nil && o.v.kind == kindObject {
		for _, f := range o.v.fields {
			if !slices.Contains(o.asked, f.key) {
				return o.t.errorAt(f.off, join(o.path, f.key), "unknown key, want one of %s", strings.Join(o.asked, ", "))
			}
		}
	}
	if o.err != nil {
		return o.err
	}
	return nil
}

// take returns the value of a key, nil when it is missing.
func (o *object) take(key string) *jsonValue {
	if !slices.Contains(o.asked, key) {
		o.asked = append(o.asked, key)
	}
	if o.v == nil {
		return nil
	}
	for _, f := range o.v.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// takeAll takes all keys, for a config that is not looked at.
func (o *object) takeAll() {
	if o.v != nil {
		for _, f := range o.v.fields {
			o.take(f.key)
		}
	}
}

// fail remembers an error of a key, failItem one of an item of its array.
func (o *object) fail(key string, v *jsonValue, format string, args ...any) {
	o.failPath(join(o.path, key), v, format, args...)
}

func (o *object) failItem(key string, i int, v *jsonValue, format string, args ...any) {
	o.failPath(fmt.Sprintf("%s[%d]", join(o.path, key), i), v, format, args...)
}

func (o *object) failPath(path string, v *jsonValue, format string, args ...any) {
	if o.err != nil {
		return
	}
	off := 0
	switch {
	case v != nil:
		off = v.off
	case o.v != nil:
		off = o.v.off
	}
	o.err = o.t.errorAt(off, path, format, args...)
}

// want takes a value of one kind.
func (o *object) want(key, kind string) *jsonValue {
	v := o.take(key)
	if v != nil && v.kind != kind {
		o.fail(key, v, "want %s, got %s", kind, v.kind)
		return nil
	}
	return v
}

func (o *object) required(key, kind string) *jsonValue {
	v := o.want(key, kind)
	if v == nil {
		o.fail(key, nil, "required, want %s", kind)
	}
	return v
}

// text reads a text that is not blank.
func (o *object) text(key, byDefault string) string {
	v := o.want(key, kindText)
	if v == nil {
		return byDefault
	}
	if service.IsBlank(v.text) {
		o.fail(key, v, "is blank")
	}
	return v.text
}

// template reads a template and checks its syntax.
func (o *object) template(key, byDefault string) string {
	v := o.want(key, kindText)
	if v == nil {
		return byDefault
	}
	o.parse(join(o.path, key), v)
	if service.IsBlank(v.text) {
		o.fail(key, v, "is blank")
	}
	return v.text
}

// parse reads a text as a template.
func (o *object) parse(path string, v *jsonValue) *Template {
	t, err := ParseTemplate(v.text)
	if err != nil && o.err == nil {
		o.failPath(path, v, "%v", err)
		o.err.Err = err
	}
	return t
}

// variable reads the name of a variable.
func (o *object) variable(key, byDefault string) string {
	v := o.want(key, kindText)
	if v == nil {
		return byDefault
	}
	if err := checkName(v.text); err != nil {
		o.fail(key, v, "%v", err)
	}
	return v.text
}

// choice reads one of a few texts.
func (o *object) choice(key, byDefault string, of ...string) string {
	v := o.want(key, kindText)
	if v == nil {
		return byDefault
	}
	if !slices.Contains(of, v.text) {
		o.fail(key, v, "is %q, want one of %s", clip(v.text, 40), strings.Join(of, ", "))
	}
	return v.text
}

// integer reads a whole number; 5.0 is one.
func (o *object) integer(key string, byDefault, low, high int) int {
	v := o.want(key, kindNumber)
	if v == nil {
		return byDefault
	}
	x, err := strconv.ParseFloat(v.text, 64)
	if err != nil || x != math.Trunc(x) || x < float64(low) || x > float64(high) {
		o.fail(key, v, "is %s, want a whole number from %d to %d", clip(v.text, 40), low, high)
		return byDefault
	}
	return int(x)
}

// number reads a number.
func (o *object) number(key string, byDefault, low, high float64) float64 {
	v := o.want(key, kindNumber)
	if v == nil {
		return byDefault
	}
	x, err := strconv.ParseFloat(v.text, 64)
	if err != nil || !(x >= low && x <= high) {
		o.fail(key, v, "is %s, want a number from %g to %g", clip(v.text, 40), low, high)
		return byDefault
	}
	return x
}

func (o *object) boolean(key string, byDefault bool) bool {
	if v := o.want(key, kindBoolean); v != nil {
		return v.truth
	}
	return byDefault
}

// A selector is [node, variable, …], as another system writes a path.
type selector struct {
	o     *object
	key   string
	value *jsonValue
	parts []string
}

// selector reads a selector; nil when the key is missing.
func (o *object) selector(key string) *selector {
	v := o.want(key, kindArray)
	if v == nil {
		return nil
	}
	s := &selector{o, key, v, o.texts(key)}
	for i := range s.parts {
		if s.parts[i] = strings.TrimSpace(s.parts[i]); checkName(s.parts[i]) != nil {
			o.failItem(key, i, v.items[i], "is no name")
		}
	}
	if n := len(s.parts); n < 2 || n > 10 {
		o.fail(key, v, "%d parts, want 2 to 10", n)
	}
	return s
}

// path resolves a selector: its node must run before. ["sys", name] leads into
// the variable sys.
func (s *selector) path(upstream map[string]*node) ([]string, error) {
	id := s.parts[0]
	n := upstream[id]
	switch {
	case id == "sys":
		return s.parts, nil
	case n == nil:
		return nil, s.o.t.errorAt(s.value.off, join(s.o.path, s.key), "no node %q runs before this one", clip(id, 40))
	case n.output != "":
		return append([]string{n.output}, s.parts[1:]...), nil
	}
	return s.parts[1:], nil
}

// texts reads a list of texts; nil when the key is missing.
func (o *object) texts(key string) []string {
	v := o.want(key, kindArray)
	if v == nil {
		return nil
	}
	out := make([]string, len(v.items))
	for i, item := range v.items {
		if item.kind != kindText {
			o.failItem(key, i, item, "want text, got %s", item.kind)
		}
		out[i] = item.text
	}
	return out
}
