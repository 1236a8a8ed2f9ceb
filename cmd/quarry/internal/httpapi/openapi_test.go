package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// description is the OpenAPI document of a server, as its clients get it.
func (s *server) description() object_ {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, httptest.NewRequest("GET", "/openapi.json", nil))
	var doc object_
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
		s.t.Fatal(w.Code, err)
	}
	return doc
}

// at follows a path of keys.
func at(doc any, keys ...string) any {
	for _, k := range keys {
		m, _ := doc.(object_)
		doc = m[k]
	}
	return doc
}

// A checker holds values against the schemas of a document. Objects may hold
// nothing that is not described.
type checker struct{ doc object_ }

func (c checker) resolve(schema object_) object_ {
	for {
		ref, ok := schema["$ref"].(string)
		if !ok {
			return schema
		}
		schema, _ = at(c.doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...).(object_)
	}
}

func (c checker) check(where string, schema object_, v any) (out []string) {
	schema = c.resolve(schema)
	if schema == nil {
		return []string{where + ": a reference leads nowhere"}
	}
	wrong := func(format string, args ...any) { out = append(out, where+": "+fmt.Sprintf(format, args...)) }
	kinds := map[string]reflect.Kind{"string": reflect.String, "boolean": reflect.Bool, "integer": reflect.Float64, "number": reflect.Float64, "array": reflect.Slice, "object": reflect.Map}
	want, typed := schema["type"].(string)
	if !typed {
		return nil
	}
	if v == nil || reflect.TypeOf(v).Kind() != kinds[want] {
		return []string{fmt.Sprintf("%s: %v, want %s", where, v, want)}
	}
	if f, ok := v.(float64); ok {
		if lo, ok := schema["minimum"].(float64); ok && f < lo {
			wrong("%v below %v", f, lo)
		}
		if hi, ok := schema["maximum"].(float64); ok && f > hi {
			wrong("%v above %v", f, hi)
		}
		if want == "integer" && f != float64(int64(f)) {
			wrong("%v is not whole", f)
		}
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, v) {
		wrong("%v is none of %v", v, enum)
	}
	switch v := v.(type) {
	case []any:
		for i, x := range v {
			out = append(out, c.check(fmt.Sprintf("%s[%d]", where, i), schema["items"].(object_), x)...)
		}
	case object_:
		out = append(out, c.object(where, schema, v)...)
	}
	return out
}

func (c checker) object(where string, schema, v object_) (out []string) {
	properties, _ := schema["properties"].(object_)
	more, hasMore := schema["additionalProperties"].(object_)
	for _, key := range slices.Sorted(maps.Keys(v)) {
		switch p, ok := properties[key].(object_); {
		case ok:
			out = append(out, c.check(where+"."+key, p, v[key])...)
		case hasMore:
			out = append(out, c.check(where+"."+key, more, v[key])...)
		default:
			out = append(out, where+"."+key+": is not described")
		}
	}
	required, _ := schema["required"].([]any)
	for _, key := range required {
		if _, ok := v[key.(string)]; !ok {
			out = append(out, fmt.Sprintf("%s.%s: is missing", where, key))
		}
	}
	return out
}

// described holds an answer against the document.
func (s *server) described(r *http.Request, w *httptest.ResponseRecorder) {
	s.t.Helper()
	_, pattern := s.mux.Handler(r)
	method, path, _ := strings.Cut(pattern, " ")
	if s.doc == nil {
		s.doc = s.description()
	}
	responses := at(s.doc, "paths", path, strings.ToLower(method), "responses").(object_)
	response, ok := responses[fmt.Sprint(w.Code)].(object_)
	if !ok {
		response = responses["default"].(object_)
	}
	media := w.Header().Get("Content-Type")
	content, ok := at(response, "content", media).(object_)
	if !ok {
		s.t.Errorf("%s: %d of %s is not described", pattern, w.Code, media)
		return
	}
	schema, ok := content["schema"].(object_)
	if !ok {
		return
	}
	var v any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		s.t.Errorf("%s: %v", pattern, err)
	}
	for _, problem := range (checker{s.doc}).check(fmt.Sprintf("%s %d", pattern, w.Code), schema, v) {
		s.t.Error(problem)
	}
}

func TestOpenAPIDescribesEveryRoute(t *testing.T) {
	s := newServer(t, Options{Version: "v9"})
	doc := s.description()
	if doc["openapi"] != "3.1.0" || at(doc, "info", "version") != "v9" {
		t.Error(doc["openapi"], doc["info"])
	}
	described := 0
	ids := map[string]bool{}
	for _, r := range s.api.routes {
		op, _ := at(doc, "paths", r.path, strings.ToLower(r.method)).(object_)
		if op == nil {
			t.Errorf("%s %s is not described", r.method, r.path)
			continue
		}
		described++
		id := op["operationId"].(string)
		if ids[id] || id == "" || op["summary"] == "" {
			t.Errorf("%s %s: operation %q: its id is used twice, or something is empty", r.method, r.path, id)
		}
		ids[id] = true
		params, _ := op["parameters"].([]any)
		for _, part := range strings.Split(r.path, "/") {
			name, isParam := strings.CutPrefix(part, "{")
			name = strings.TrimSuffix(name, "}")
			if isParam && !slices.ContainsFunc(params, func(p any) bool { return at(p, "name") == name && at(p, "in") == "path" }) {
				t.Errorf("%s %s: path parameter %s is not described", r.method, r.path, name)
			}
		}
		for _, p := range params {
			if at(p, "in") == "path" && !strings.Contains(r.path, "{"+at(p, "name").(string)+"}") {
				t.Errorf("%s %s: describes %v, which is not in the path", r.method, r.path, at(p, "name"))
			}
			if at(p, "description") == "" {
				t.Errorf("%s %s: parameter %v has no description", r.method, r.path, at(p, "name"))
			}
		}
		if method := r.method; (method == "POST" || method == "PUT") && op["requestBody"] == nil && !strings.HasSuffix(r.path, "/flush") {
			t.Errorf("%s %s: no body is described", method, r.path)
		}
	}
	operations := 0
	for _, p := range doc["paths"].(object_) {
		operations += len(p.(object_))
	}
	if operations != described {
		t.Errorf("%d operations are described, there are %d routes", operations, described)
	}
	references(t, doc, doc)
}

// references checks that every reference leads somewhere.
func references(t *testing.T, doc object_, v any) {
	t.Helper()
	switch v := v.(type) {
	case object_:
		if ref, ok := v["$ref"].(string); ok {
			if (checker{doc}).resolve(v) == nil {
				t.Errorf("%s leads nowhere", ref)
			}
		}
		for _, x := range v {
			references(t, doc, x)
		}
	case []any:
		for _, x := range v {
			references(t, doc, x)
		}
	}
}

// example makes a value of a schema with every property, and deep down, where a
// schema may hold itself, with those that are required.
func (c checker) example(schema object_, depth int) any {
	schema = c.resolve(schema)
	if enum, ok := schema["enum"].([]any); ok {
		return enum[len(enum)-1]
	}
	switch schema["type"] {
	case "string":
		if schema["format"] == "date-time" {
			return "2024-01-31T12:00:00Z"
		}
		return "x"
	case "boolean":
		return true
	case "integer", "number":
		if lo, ok := schema["minimum"].(float64); ok {
			return lo
		}
		return 1
	case "array":
		if depth > 8 {
			return []any{}
		}
		return []any{c.example(schema["items"].(object_), depth+1)}
	case "object":
		out := object_{}
		required, _ := schema["required"].([]any)
		for key, p := range asObject(schema["properties"]) {
			if depth > 4 && !slices.Contains(required, any(key)) {
				continue
			}
			out[key] = c.example(p.(object_), depth+1)
		}
		if more, ok := schema["additionalProperties"].(object_); ok {
			out["key"] = c.example(more, depth+1)
		}
		return out
	}
	return object_{"any": []any{1, "x", nil}}
}

func asObject(v any) object_ {
	m, _ := v.(object_)
	return m
}

// TestOpenAPIFieldsDecode gives each handler's decoder every field that the
// document promises, and one that it does not.
func TestOpenAPIFieldsDecode(t *testing.T) {
	s := newServer(t, Options{})
	c := checker{s.description()}
	for _, r := range s.api.routes {
		if r.body == nil {
			continue
		}
		schema := at(c.doc, "paths", r.path, strings.ToLower(r.method), "requestBody", "content", "application/json", "schema").(object_)
		example, _ := c.example(schema, 0).(object_)
		if len(example) == 0 && r.id != "createSnapshot" {
			t.Errorf("%s: no fields are described", r.id)
		}
		text, err := json.Marshal(example)
		if err != nil {
			t.Fatal(err)
		}
		into := reflect.New(r.in.Field(r.bodyAt).Type)
		if err := r.body.Decode(string(text), into.Interface()); err != nil {
			t.Errorf("%s: %v: %s", r.id, err, text)
		}
		if c.resolve(schema)["additionalProperties"] != false {
			t.Errorf("%s: the description allows keys that the decoder refuses", r.id)
		}
		example["not_described"] = 1
		if text, err = json.Marshal(example); err != nil {
			t.Fatal(err)
		}
		if err := r.body.Decode(string(text), reflect.New(r.in.Field(r.bodyAt).Type).Interface()); err == nil {
			t.Errorf("%s: takes a key that is not described", r.id)
		}
	}
}
