package filter

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quarrysearch/quarry/storage"
)

func TestParse(t *testing.T) {
	day := numberValue(Time, 1704067200000000)
	for text, want := range map[string]Filter{
		`lang = "de" and platform in ["linux", "osx"] and updated >= 2024-01-01 and not (tags contains any ["a"])`: And(
			Eq("lang", "de"), In("platform", "linux", "osx"), Gte("updated", day), Not(ContainsAny("tags", "a"))),
		`a = de-AT`:                     Eq("a", "de-AT"),
		`a=1`:                           Eq("a", 1),
		`a == 1.0`:                      Eq("a", 1.0),
		`a != 'it''s'`:                  {},
		`a = 'it\'s'`:                   Eq("a", "it's"),
		`"a b" < -2.5e3`:                Lt("a b", -2500.0),
		`"not" <= 2`:                    Lte("not", 2),
		`x BETWEEN 1 AND 5 Or y = TRUE`: Or(Between("x", 1, 5), Eq("y", true)),
		`a = 1 or b = 2 and not c = 3`:  Or(Eq("a", 1), And(Eq("b", 2), Not(Eq("c", 3)))),
		`(a = 1 or b = 2) and c = 3`:    And(Or(Eq("a", 1), Eq("b", 2)), Eq("c", 3)),
		`exists x`:                      Exists("x"),
		`x is null`:                     IsNull("x"),
		`x is not empty`:                Not(IsEmpty("x")),
		`x prefix ab`:                   Prefix("x", "ab"),
		`x starts with "ab"`:            Prefix("x", "ab"),
		`x contains all (1, 2)`:         ContainsAll("x", 1, 2),
		`x not in ()`:                   Not(In("x")),
		`x range (1, 2]`:                Range("x", Bounds{Gt: 1, Lte: 2}),
		`and(a = 1)`:                    And(Eq("a", 1)),
		`or(and(), a = 1)`:              Or(And(), Eq("a", 1)),
		"größe/x.y = \"\\u00fc\\ud83d\\ude00\"": Eq("größe/x.y", "ü😀"),
		`t = 2024-01-01T01:00:00+01:00`:         Eq("t", day),
	} {
		got, err := Parse(text)
		if want.IsZero() {
			if err == nil {
				t.Errorf("%s: want an error, got %s", text, got)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// genAnyFilter draws any tree and literal, whether or not a schema fits.
func genAnyFilter(r *rapid.T, depth int) Filter {
	schema := map[string]Type{"k": Keyword, "in": Int64, "f 1": Float64, "b.x": Bool, "ü": Time, "\"": Keyword, "\x00\n": Int64}
	return genFilter(r, schema, depth)
}

// String is turned round by Parse.
func TestStringRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := genAnyFilter(r, 5)
		got, err := Parse(f.String())
		if err != nil {
			r.Fatalf("%s: %v", f, err)
		}
		if !reflect.DeepEqual(got, f) {
			r.Fatalf("%s came back as %s", f, got)
		}
	})
}

// JSON is turned round too, but for times, which come back as text.
func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := genAnyFilter(r, 5)
		b, err := json.Marshal(f)
		if err != nil {
			r.Fatalf("%s: %v", f, err)
		}
		got, err := ParseJSON(b)
		if err != nil {
			r.Fatalf("%s: %v", b, err)
		}
		if want := timesAsText(f); !reflect.DeepEqual(got, want) {
			r.Fatalf("%s came back as %s", want, got)
		}
	})
}

func timesAsText(f Filter) Filter {
	vals, kids := f.vals, f.kids
	f.vals, f.kids = nil, nil
	for _, v := range vals {
		if v.typ == Time {
			v = keywordValue(formatTime(v.num))
		}
		f.vals = append(f.vals, v)
	}
	for _, kid := range kids {
		f.kids = append(f.kids, timesAsText(kid))
	}
	return f
}

func TestParseJSON(t *testing.T) {
	for text, want := range map[string]Filter{
		`{"field":"a","op":"eq","value":"x"}`:                                Eq("a", "x"),
		` {"value":1,"op":"ne","field":"a"} `:                                Not(Eq("a", 1)),
		`{"and":[{"field":"a","op":"gt","value":1.5},{"or":[]}]}`:            And(Gt("a", 1.5), Or()),
		`{"not":{"field":"a","op":"in","value":[]}}`:                         Not(In("a")),
		`{"field":"a","op":"not_in","value":[true]}`:                         Not(In("a", true)),
		`{"field":"a","op":"range","value":{"gt":1,"lte":9007199254740993}}`: Range("a", Bounds{Gt: 1, Lte: int64(9007199254740993)}),
		`{"field":"a","op":"between","value":[1,2]}`:                         Between("a", 1, 2),
		`{"field":"a","op":"lte","value":"2024-01-01"}`:                      Lte("a", "2024-01-01"),
		`{"field":"a","op":"prefix","value":"x"}`:                            Prefix("a", "x"),
		`{"field":"a","op":"contains_all","value":["x"]}`:                    ContainsAll("a", "x"),
		`{"field":"a","op":"exists"}`:                                        Exists("a"),
		`{"field":"a","op":"is_null"}`:                                       IsNull("a"),
		`{"field":"a","op":"is_empty"}`:                                      IsEmpty("a"),
	} {
		got, err := ParseJSON([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		``, `null`, `[]`, `{}`, `{"and":1}`, `{"and":[1]}`, `{"not":[]}`, `{"and":[],"or":[]}`, `{"and":[],"field":"a"}`, `{"field":"a","and":[]}`,
		`{"field":"a","op":"eq"}`, `{"field":"a","value":1}`, `{"op":"eq","value":1}`, `{"field":"","op":"exists"}`, `{"field":1,"op":"exists"}`,
		`{"field":"a","op":"≈","value":1}`, `{"field":"a","op":"EQ","value":1}`, `{"field":"a","op":"eq","value":null}`, `{"field":"a","op":"eq","value":[1]}`,
		`{"field":"a","op":"in","value":1}`, `{"field":"a","op":"in","value":[null]}`, `{"field":"a","op":"in","value":[[1]]}`, `{"field":"a","op":"exists","value":true}`,
		`{"field":"a","op":"eq","value":1,"extra":2}`, `{"field":"a","op":"eq","value":1,"value":2}`, `{"field":"a","op":"eq","value":1} x`, `{"field":"a","op":"eq","value":1}{}`,
		`{"field":"a","op":"eq","value":1e999}`, `{"field":"a","op":"between","value":[1]}`, `{"field":"a","op":"range","value":{}}`, `{"field":"a","op":"range","value":{"gt":1,"gte":2}}`,
		`{"field":"a","op":"range","value":{"gt":1,"gt":2}}`, `{"field":"a","op":"range","value":{"above":1}}`, `{"field":"a","op":"gt","value":{"gt":1}}`,
		`{"field":"a","op":"contains_all","value":[]}`, `{"field":"a","op":"prefix","value":1}`, `{"field":"a","op":"eq","value":1`, "{\"field\":\"\xff\",\"op\":\"exists\"}",
		`{'field':'a'}`, `{"Field":"a","op":"exists"}`, `{"$where":"1"}`,
	} {
		got, err := ParseJSON([]byte(text))
		if !errors.Is(err, storage.ErrInvalid) || !got.IsZero() {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
	if _, err := json.Marshal(Filter{}); err == nil {
		t.Error("the zero Filter has a JSON form")
	}
}

// The limits hold at their borders, in text, in JSON and in values.
func TestLimits(t *testing.T) {
	schema := schemaOf(map[string]Type{"a": Int64})
	for depth, want := range map[int]error{MaxDepth: nil, MaxDepth + 1: storage.ErrTooLarge, 100000: storage.ErrTooLarge} {
		f := Eq("a", 1)
		for range depth - 1 {
			f = Not(f)
		}
		_, compile := Compile(f, schema)
		_, text := Parse(strings.Repeat("not ", depth-1) + "a = 1")
		_, js := ParseJSON([]byte(strings.Repeat(`{"not":`, depth-1) + `{"field":"a","op":"eq","value":1}` + strings.Repeat("}", depth-1)))
		for _, err := range []error{compile, text, js} {
			if !errors.Is(err, want) {
				t.Errorf("depth %d: %v", depth, err)
			}
		}
		_ = f.String()
		_, _ = f.MarshalJSON()
	}
	for size, want := range map[int]error{MaxSize: nil, MaxSize + 1: storage.ErrTooLarge} {
		list := strings.Repeat("1,", size-2) + "1" // size-1 values and one node
		_, compile := Compile(In("a", make([]int, min(size-1, MaxListValues))), schema)
		if size-1 > MaxListValues-1 {
			_, compile = Compile(In("a", make([]int, size-2), 1), schema)
		}
		_, text := Parse("a in [" + list + "]")
		_, js := ParseJSON([]byte(`{"field":"a","op":"in","value":[` + list + `]}`))
		for _, err := range []error{compile, text, js} {
			if !errors.Is(err, want) {
				t.Errorf("size %d: %v", size, err)
			}
		}
	}
	for _, deep := range []string{strings.Repeat("(", 1e6), strings.Repeat("and(", 1e6), strings.Repeat("not ", 1e6)} {
		if _, err := Parse(deep); !errors.Is(err, storage.ErrTooLarge) {
			t.Errorf("%.8s…: %v", deep, err)
		}
	}
	if _, err := ParseJSON([]byte(strings.Repeat(`{"and":[`, 1e5))); !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("deep JSON: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`lang = "de" and not (x in [1, 2.5, 2024-01-01])`, `and(a = 1)`, `'12t3`, `tags =`, `x range (1, 2]`, `a = "\ud83d\ude00"`, `t = +012024-01-01T00:00:00Z`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		if err != nil {
			if !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrTooLarge) {
				t.Fatalf("%v", err)
			}
			return
		}
		again, err := Parse(got.String())
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("%q came back as %s, %v", got, again, err)
		}
		for typ := Undeclared; typ < typeEnd; typ++ {
			_, _ = Compile(got, func(string) (Type, bool) { return typ, true })
		}
	})
}

func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{`{"and":[{"field":"a","op":"eq","value":1},{"not":{"field":"b","op":"in","value":["x",true]}}]}`, `{"field":"a","op":"range","value":{"gt":1,"lte":2.5}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ParseJSON(text)
		if err != nil {
			if !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrTooLarge) {
				t.Fatalf("%v", err)
			}
			return
		}
		b, err := got.MarshalJSON()
		if err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		again, err := ParseJSON(b)
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("%s came back as %s, %v", got, again, err)
		}
	})
}

func ExampleParse() {
	f, _ := Parse(`lang = de and (pages > 10 or not exists pages)`)
	fmt.Println(f)
	_, err := Parse(`lang = `)
	fmt.Println(err)
	// Output:
	// lang = "de" and (pages > 10 or not exists pages)
	// quarry: invalid: filter: at byte 7: want a string, number, time, true or false, got the end
}

func TestCompiledAnswers(t *testing.T) {
	schema := schemaOf(map[string]Type{"a": Int64, "b": Keyword})
	c := must(Compile(parse(t, "a = 1 or not (b = x and exists a)"), schema))(t)
	if got := c.Fields(); !reflect.DeepEqual(got, []string{"a", "b"}) {
		t.Errorf("fields %v", got)
	}
	for text, want := range map[string]bool{"and()": true, "a = 1": false, "or()": false} {
		if got := must(Compile(parse(t, text), schema))(t).MatchesAll(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if !must(Compile(Filter{}, schema))(t).MatchesAll() {
		t.Error("no filter does not match all")
	}
}
