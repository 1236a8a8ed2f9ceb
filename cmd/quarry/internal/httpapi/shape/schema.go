package shape

import (
	"reflect"
	"strconv"
	"strings"
)

// Components collects the schemas of named structs, by name, for the part
// components/schemas of an OpenAPI document. Two types of one name are told
// apart by a number.
type Components struct {
	Schemas map[string]any
	names   map[reflect.Type]string
	strict  map[reflect.Type]bool
}

// NewComponents returns an empty collection. strict are the shapes that are
// decoded: objects in them have no other properties than those described. Of the
// others, which are encoded, those properties are required that are always
// there: all without omitempty.
func NewComponents(strict ...*Shape) *Components {
	c := &Components{Schemas: map[string]any{}, names: map[reflect.Type]string{}, strict: map[reflect.Type]bool{}}
	for _, s := range strict {
		c.mark(s.root)
	}
	return c
}

func (c *Components) mark(n *node) {
	if n == nil || c.strict[n.typ] {
		return
	}
	c.strict[n.typ] = true
	c.mark(n.elem)
	for i := range n.fields {
		c.mark(n.fields[i].node)
	}
}

// Schema is the JSON Schema of a shape, its structs as references to
// components.
func (s *Shape) Schema(c *Components) map[string]any { return c.schema(s.root, nil, "") }

// Schema is the JSON Schema of a parameter.
func (q *Param) Schema(c *Components) map[string]any { return c.schema(q.node, &q.r, "") }

// Required tells whether it must be given.
func (q *Param) Required() bool { return q.InPath || q.r.required }

func (c *Components) schema(n *node, r *rules, doc string) map[string]any {
	out := map[string]any{}
	switch n.kind {
	case kindString:
		out["type"] = "string"
	case kindTime:
		out["type"], out["format"] = "string", "date-time"
	case kindBool:
		out["type"] = "boolean"
	case kindInt, kindUint:
		out["type"] = "integer"
		if n.kind == kindUint {
			out["minimum"] = 0
		}
	case kindFloat:
		out["type"] = "number"
	case kindList, kindFloats:
		out["type"], out["items"] = "array", c.schema(n.elem, nil, "")
	case kindMap:
		out["type"], out["additionalProperties"] = "object", c.schema(n.elem, nil, "")
	case kindPointer:
		return c.schema(n.elem, r, doc)
	case kindStruct:
		out["$ref"] = "#/components/schemas/" + c.component(n)
	}
	if doc != "" {
		out["description"] = doc
	}
	r.describe(n, out)
	return out
}

// describe adds what the rules say.
func (r *rules) describe(n *node, out map[string]any) {
	if r == nil {
		return
	}
	set := func(key string, v *int) {
		if v != nil {
			out[key] = *v
		}
	}
	if r.min != nil {
		out["minimum"] = *r.min
	}
	if r.max != nil {
		out["maximum"] = *r.max
	}
	// JSON Schema counts characters, the rule bytes: a text of so many bytes
	// has no more characters, and minlen is 1 wherever it is used.
	set("minLength", r.minLen)
	set("maxLength", r.maxLen)
	if n.kind == kindMap {
		set("maxProperties", r.maxItems)
	} else {
		set("maxItems", r.maxItems)
	}
	if len(r.enum) > 0 {
		out["enum"] = r.enum
	}
	if r.def != "" {
		out["default"] = defaultOf(n, r.def)
	}
}

func defaultOf(n *node, s string) any {
	switch n.kind {
	case kindInt, kindUint, kindFloat:
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return f
		}
	case kindBool:
		return s == "true"
	}
	return s
}

// Add adds a property to the struct that a schema refers to.
func (c *Components) Add(ref map[string]any, name string, property map[string]any) {
	path, _ := ref["$ref"].(string)
	s, ok := c.Schemas[path[strings.LastIndexByte(path, '/')+1:]].(map[string]any)
	if !ok {
		return
	}
	s["properties"].(map[string]any)[name] = property
}

// component describes a struct, once, and gives its name.
func (c *Components) component(n *node) string {
	if name, ok := c.names[n.typ]; ok {
		return name
	}
	base := exported(n.typ.Name())
	name := base
	for i := 2; c.Schemas[name] != nil; i++ {
		name = base + strconv.Itoa(i)
	}
	c.names[n.typ] = name
	properties := map[string]any{}
	out := map[string]any{"type": "object", "properties": properties}
	c.Schemas[name] = out // before its fields: a type may hold itself
	var required []string
	for i := range n.fields {
		f := &n.fields[i]
		properties[f.name] = c.schema(f.node, &f.rules, f.doc)
		if f.rules.required || !c.strict[n.typ] && !f.omits {
			required = append(required, f.name)
		}
	}
	if required != nil {
		out["required"] = required
	}
	if c.strict[n.typ] {
		out["additionalProperties"] = false
	}
	return name
}

func exported(name string) string {
	if name == "" {
		return "Object"
	}
	if c := name[0]; c >= 'a' && c <= 'z' {
		return string(c-'a'+'A') + name[1:]
	}
	return name
}
