package shape

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/storage"
)

type inner struct {
	Field string `json:"field" shape:"required,minlen=1,maxlen=8"`
	Limit int    `json:"limit,omitempty" shape:"min=0,max=10"`
}

type base struct {
	Name string `json:"name,omitempty" shape:"enum=|a|b"`
}

type sample struct {
	base
	K      *int               `json:"k,omitempty" shape:"min=1,max=100"`
	Count  uint8              `json:"count,omitempty"`
	Score  float64            `json:"score,omitempty" shape:"min=0,max=1"`
	On     bool               `json:"on,omitempty"`
	Tags   []string           `json:"tags,omitempty" shape:"maxitems=3"`
	Vector []float32          `json:"vector,omitempty" shape:"maxitems=4"`
	Boosts map[string]float64 `json:"boosts,omitempty" shape:"maxitems=2"`
	Inner  *inner             `json:"inner,omitempty"`
	List   []inner            `json:"list,omitempty"`
	When   time.Time          `json:"when,omitzero"`
	Any    any                `json:"any,omitempty"`
	Raw    Raw                `json:"raw,omitempty"`
	Hidden int                `json:"-"`
}

func of(t testing.TB, typ reflect.Type) *Shape {
	t.Helper()
	s, err := Of(typ)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDecode(t *testing.T) {
	s := of(t, reflect.TypeFor[sample]())
	var got sample
	err := s.Decode(` {"name":"b","k":7,"count":255,"score":0.5,"on":true,"tags":["x","\u00e9\ud83d\ude00\n"],"vector":[1,-2.5e-1],
		"boosts":{"t":2},"inner":{"field":"f"},"list":[{"field":"g","limit":10}],"when":"2024-01-31T12:00:00+02:00","any":{"a":[1.0,null,"x"]},"raw": [1, {"x":"\\"}] } `, &got)
	if err != nil {
		t.Fatal(err)
	}
	k := 7
	want := sample{base: base{"b"}, K: &k, Count: 255, Score: 0.5, On: true, Tags: []string{"x", "é😀\n"}, Vector: []float32{1, -0.25}, Boosts: map[string]float64{"t": 2},
		Inner: &inner{Field: "f"}, List: []inner{{"g", 10}}, Any: map[string]any{"a": []any{json.Number("1.0"), nil, "x"}}, Raw: `[1, {"x":"\\"}]`}
	if !got.When.Equal(time.Date(2024, 1, 31, 10, 0, 0, 0, time.UTC)) {
		t.Error(got.When)
	}
	got.When = time.Time{}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(sample{}, base{})); d != "" {
		t.Error(d)
	}
}

func TestDecodeRefuses(t *testing.T) {
	s := of(t, reflect.TypeFor[sample]())
	deep := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	for _, c := range []struct{ text, field, reason string }{
		{``, "", "empty"},
		{` `, "", "empty"},
		{`null`, "", "is null, want an object"},
		{`[]`, "", "is a list, want an object"},
		{`{}x`, "", "more after"},
		{`{} {}`, "", "more after"},
		{`{"k":1`, "", "cut short"},
		{`{"k"`, "", "cut short"},
		{`{"k":`, "k", "cut short"},
		{`{k:1}`, "", "a key"},
		{`{"k":1,}`, "", "a key"},
		{`{"tags":["x",]}`, "tags[1]", "bad JSON"},
		{`{"no":1}`, "no", "no such key"},
		{`{"Hidden":1}`, "Hidden", "no such key"},
		{`{"private":1}`, "private", "no such key"},
		{`{"k":1,"k":1}`, "k", "twice"},
		{`{"k":null}`, "k", "is null, want a whole number"},
		{`{"k":"10"}`, "k", "is a string, want a whole number"},
		{`{"k":1.5}`, "k", "1.5, want a whole number"},
		{`{"k":1e1}`, "k", "want a whole number"},
		{`{"k":0}`, "k", "0, want 1 to 100"},
		{`{"k":-1}`, "k", "-1, want 1 to 100"},
		{`{"k":2147483648}`, "k", "want 1 to 100"},
		{`{"k":9223372036854775807}`, "k", "want 1 to 100"},
		{`{"k":9223372036854775808}`, "k", "want 1 to 100"},
		{`{"k":1e400}`, "k", "whole"},
		{`{"k":NaN}`, "k", "bad JSON"},
		{`{"k":01}`, "k", "bad JSON"},
		{`{"k":- 1}`, "k", "bad JSON"},
		{`{"k":.5}`, "k", "bad JSON"},
		{`{"k":5.}`, "k", "bad JSON"},
		{`{"count":256}`, "count", "beyond"},
		{`{"count":-1}`, "count", "beyond"},
		{`{"score":NaN}`, "score", "bad JSON"},
		{`{"score":Infinity}`, "score", "bad JSON"},
		{`{"score":1e999}`, "score", "beyond"},
		{`{"score":1.01}`, "score", "want 0 to 1"},
		{`{"on":1}`, "on", "is a number, want true or false"},
		{`{"on":"true"}`, "on", "is a string"},
		{`{"on":tru}`, "on", "true or false"},
		{`{"tags":"x"}`, "tags", "is a string, want a list"},
		{`{"tags":["x",1]}`, "tags[1]", "is a number, want a string"},
		{`{"tags":["","","",""]}`, "tags", "more than 3"},
		{`{"vector":[1,null]}`, "vector[1]", "is null"},
		{`{"vector":[1,1e39]}`, "vector[1]", "beyond float32"},
		{`{"vector":[1,NaN]}`, "vector[1]", "bad JSON"},
		{`{"vector":[1,2,3,4,5]}`, "vector", "more than 4"},
		{`{"boosts":{"a":1,"a":2}}`, "boosts.a", "twice"},
		{`{"boosts":{"a":1,"b":2,"c":3}}`, "boosts.c", "more than 2"},
		{`{"inner":{}}`, "inner.field", "is missing"},
		{`{"inner":{"field":""}}`, "inner.field", "at least 1"},
		{`{"inner":{"field":"123456789"}}`, "inner.field", "at most 8"},
		{`{"list":[{"field":"a"},{"field":"b","limit":11}]}`, "list[1].limit", "want 0 to 10"},
		{`{"list":[{"field":"a","x":1}]}`, "list[0].x", "there are field, limit"},
		{`{"name":"c"}`, "name", "none of"},
		{`{"when":"yesterday"}`, "when", "no time"},
		{`{"when":5}`, "when", "want a time"},
		{`{"any":` + deep + `}`, "any", "deeper"},
		{`{"raw":` + deep + `}`, "raw", "deeper"},
		{`{"any":{"x":1,"x":2}}`, "any.x", "twice"},
		{`{"any":1e999}`, "any", "beyond"},
		{`{"raw":}`, "raw", "bad JSON"},
		{`{"raw":[1 2]}`, "raw", "bad JSON"},
		{"{\"name\":\"\xff\"}", "", "UTF-8"},
		{`{"name":"\ud800"}`, "name", "surrogate"},
		{`{"name":"\ud800\u0041"}`, "name", "surrogate"},
		{`{"name":"\x"}`, "name", "no escape"},
		{`{"name":"\u12"}`, "name", "hexadecimal"},
		{"{\"name\":\"a\nb\"}", "name", "control character"},
		{`{"name":"a`, "name", "cut short"},
		{`{"name":"a\`, "name", "cut short"},
		{`{"` + strings.Repeat("é", 100) + `":1}`, strings.Repeat("é", 40) + "…", "no such key"},
	} {
		var v sample
		err := s.Decode(c.text, &v)
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%.60s: %v, want an Error", c.text, err)
			continue
		}
		if !strings.HasPrefix(e.Field, c.field) || c.field == "" && e.Field != "" || !strings.Contains(e.Reason, c.reason) {
			t.Errorf("%.60s: field %q, %q; want field %q, %q", c.text, e.Field, e.Reason, c.field, c.reason)
		}
	}
}

func TestOfRefusesTypes(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[chan int](),
		reflect.TypeFor[map[int]string](),
		reflect.TypeFor[struct {
			A int `json:"a" shape:"least=1"`
		}](),
		reflect.TypeFor[struct {
			A int `json:"a" shape:"min=x"`
		}](),
		reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"a"`}, {Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"a"`}}),
	} {
		if _, err := Of(typ); err == nil {
			t.Errorf("%v: no error", typ)
		}
	}
}

type params struct {
	Collection string   `path:"collection"`
	Limit      int      `query:"limit" shape:"min=1,max=10,default=5" doc:"how many"`
	Score      float64  `query:"score" shape:"min=0"`
	All        bool     `query:"all"`
	Tag        []string `query:"tag" shape:"maxitems=2"`
	Must       string   `query:"must" shape:"required"`
}

func TestParams(t *testing.T) {
	p, err := ParamsOf(reflect.TypeFor[params]())
	if err != nil {
		t.Fatal(err)
	}
	path := func(string) string { return "../x" }
	var got params
	if err := p.Decode(path, "limit=3&tag=a&tag=b%20c&all=true&score=0.5&must=", &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(params{"../x", 3, 0.5, true, []string{"a", "b c"}, ""}, got); d != "" {
		t.Error(d)
	}
	for query, want := range map[string]string{
		"":                       "must: is missing",
		"must=a&limit=0":         "limit: 0, want 1 to 10",
		"must=a&limit=11":        "limit: 11, want",
		"must=a&limit=x":         `limit: "x", want a whole number`,
		"must=a&limit=1x":        `limit: "1x", want`,
		"must=a&limit=%201":      `limit: " 1", want`,
		"must=a&limit=":          `limit: "", want`,
		"must=a&limit=1&limit=2": "limit: is there twice",
		"must=a&all=1":           "all: ",
		"must=a&all=TRUE":        "all: ",
		"must=a&other=1":         "other: no such parameter",
		"must=a&tag=1&tag=2&tag": "tag: more than 2",
		"must=%ff":               "must: is not valid UTF-8",
		"must=%zz":               "the query of the URL",
		"must=a&score=-1":        "score: -1, want 0 or more",
	} {
		var v params
		err := p.Decode(path, query, &v)
		if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", query, err, want)
		}
	}
}

func TestSchema(t *testing.T) {
	s := of(t, reflect.TypeFor[sample]())
	c := NewComponents(s)
	if ref := s.Schema(c); ref["$ref"] != "#/components/schemas/Sample" {
		t.Fatal(ref)
	}
	b, err := json.Marshal(c.Schemas["Sample"])
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{
		"name":   map[string]any{"type": "string", "enum": []any{"", "a", "b"}},
		"k":      map[string]any{"type": "integer", "minimum": 1.0, "maximum": 100.0},
		"count":  map[string]any{"type": "integer", "minimum": 0.0},
		"score":  map[string]any{"type": "number", "minimum": 0.0, "maximum": 1.0},
		"on":     map[string]any{"type": "boolean"},
		"tags":   map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "maxItems": 3.0},
		"vector": map[string]any{"type": "array", "items": map[string]any{"type": "number"}, "maxItems": 4.0},
		"boosts": map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "number"}, "maxProperties": 2.0},
		"inner":  map[string]any{"$ref": "#/components/schemas/Inner"},
		"list":   map[string]any{"type": "array", "items": map[string]any{"$ref": "#/components/schemas/Inner"}},
		"when":   map[string]any{"type": "string", "format": "date-time"},
		"any":    map[string]any{}, "raw": map[string]any{},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if inner := c.Schemas["Inner"].(map[string]any); !cmp.Equal(inner["required"], []string{"field"}) {
		t.Error(inner)
	}
}

func TestDecodeAllocatesLittle(t *testing.T) {
	s := of(t, reflect.TypeFor[sample]())
	n := testing.AllocsPerRun(100, func() {
		var v sample
		if err := s.Decode(`{"name":"a","score":0.5,"on":true,"vector":[1,2,3]}`, &v); err != nil {
			t.Error(err)
		}
	})
	if n > 12 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzDecode holds that what is accepted is JSON, and is read as encoding/json
// reads it.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e3,"\u00e9",{"b":null}]}`, `"x"`, `-0`, `[`, `{"a":1,"a":2}`, `"\ud83d\ude00"`, "\"\xff\"", `1e999`, `[[[[]]]]`} {
		f.Add(seed)
	}
	free, typed := of(f, reflect.TypeFor[any]()), of(f, reflect.TypeFor[sample]())
	f.Fuzz(func(t *testing.T, text string) {
		var v sample
		_ = typed.Decode(text, &v) // does not panic
		var got any
		if free.Decode(text, &got) != nil {
			return
		}
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("%q is accepted, encoding/json says %v", text, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	})
}

// FuzzFloat32 holds that vectors are read as strconv reads them, bit for bit.
func FuzzFloat32(f *testing.F) {
	for _, seed := range []string{"0", "-0", "0.1", "1e5", "16777217", "0.000000059604645", "3.4028236e38", "123456789012345", "1234567890123456", "1.", ".5", "01", "0.0", "00.1", "-", "1.2.3",
		"0.00000000000000000000000000000000000001", "8388608.5", "33554434.0", "5e-324"} {
		f.Add(seed)
	}
	s := of(f, reflect.TypeFor[[]float32]())
	f.Fuzz(func(t *testing.T, lit string) {
		var got []float32
		err := s.Decode("["+lit+"]", &got)
		var n json.Number
		if json.Unmarshal([]byte(lit), &n) != nil || strings.ContainsAny(lit, " \t\r\n\"n") {
			if err == nil && !strings.ContainsAny(lit, ", \t\r\n") && lit != "" {
				t.Errorf("%q is read as %v", lit, got)
			}
			return
		}
		want, perr := strconv.ParseFloat(lit, 32)
		if (perr == nil) != (err == nil) || err == nil && math.Float32bits(got[0]) != math.Float32bits(float32(want)) {
			t.Errorf("%q: %v, %v, want %v, %v", lit, got, err, float32(want), perr)
		}
	})
}

func TestFloat32Rounds(t *testing.T) {
	s := of(t, reflect.TypeFor[[]float32]())
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		var lit string
		switch rng.IntN(4) {
		case 0: // near the middle of two
			f := math.Float32frombits(rng.Uint32())
			g := math.Nextafter32(f, 2*f)
			lit = strconv.FormatFloat((float64(f)+float64(g))/2, 'f', rng.IntN(20), 64)
		case 1:
			lit = strconv.FormatFloat(rng.NormFloat64()/20, 'f', rng.IntN(12), 64)
		case 2:
			lit = strconv.FormatFloat(float64(math.Float32frombits(rng.Uint32())), 'g', -1, 32)
		default:
			lit = strconv.FormatUint(rng.Uint64()>>rng.IntN(64), 10)
		}
		want, perr := strconv.ParseFloat(lit, 32)
		if math.IsNaN(want) || strings.Contains(lit, "Inf") {
			continue
		}
		var got []float32
		err := s.Decode("["+lit+"]", &got)
		if (err == nil) != (perr == nil) || err == nil && math.Float32bits(got[0]) != math.Float32bits(float32(want)) {
			t.Fatalf("%s: %v, %v, want %v, %v", lit, got, err, float32(want), perr)
		}
	}
}

func BenchmarkDecodeVector(b *testing.B) {
	v := make([]float32, 384)
	for i := range v {
		v[i] = float32(math.Sin(float64(i))) / 20
	}
	text, err := json.Marshal(map[string]any{"vector": v})
	if err != nil {
		b.Fatal(err)
	}
	s := of(b, reflect.TypeFor[struct {
		Vector []float32 `json:"vector"`
	}]())
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		var out struct {
			Vector []float32 `json:"vector"`
		}
		if err := s.Decode(string(text), &out); err != nil {
			b.Fatal(err)
		}
	}
}
