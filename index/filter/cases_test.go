package filter

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/storage"
)

// expect fails unless every one of the filters matches exactly want.
func expect(t *testing.T, rows []row, schema map[string]Type, want []uint32, fs ...Filter) {
	t.Helper()
	for _, f := range fs {
		if got := search(t, rows, schema, f); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", f, got, want)
		}
	}
}

func parse(t *testing.T, text string) Filter {
	t.Helper()
	return must(Parse(text))(t)
}

// D01: all ways to say "not" agree, and match the row without the field.
func TestD01(t *testing.T) {
	schema := map[string]Type{"f": Keyword}
	rows := rowsOf(t, schema, map[string]any{"f": "good"}, map[string]any{"f": "bad"}, map[string]any{})
	expect(t, rows, schema, []uint32{0}, In("f", "good"), Eq("f", "good"))
	expect(t, rows, schema, []uint32{1, 2}, Not(In("f", "good")), Not(Eq("f", "good")),
		parse(t, "f not in [good]"), parse(t, "f != good"), parse(t, "not (f = good)"))
	expect(t, rows, schema, []uint32{0, 1}, Exists("f"))
	expect(t, rows, schema, []uint32{2}, Not(Or(Exists("f"), IsNull("f"))))
}

// D04: however it is written, the same rows.
func TestD04(t *testing.T) {
	schema := map[string]Type{"x": Int64}
	rows := rowsOf(t, schema, map[string]any{"x": 1}, map[string]any{"x": 2}, map[string]any{"x": 3}, map[string]any{"x": nil}, map[string]any{})
	expect(t, rows, schema, []uint32{0, 1, 2, 3, 4}, parse(t, "x in [1, 2] or x != 1"), parse(t, "x = 1 or not (x = 1)"))
	expect(t, rows, schema, []uint32{1, 2}, parse(t, "x in [2, 3] and x != 1"), parse(t, "x > 1"), parse(t, "x between 2 and 3.5"), parse(t, "x in [3, 2, 2.0]"))
	expect(t, rows, schema, nil, parse(t, "x > 1 and x <= 1"), parse(t, "x range (1, 1]"), parse(t, "x between 3 and 1"))
}

// D05: a fractional bound on integers is exact; dates are instants.
func TestD05(t *testing.T) {
	schema := map[string]Type{"price": Int64, "at": Time}
	rows := rowsOf(t, schema, map[string]any{"price": 1}, map[string]any{"price": 2})
	expect(t, rows, schema, []uint32{1}, Gte("price", 1.5), Gt("price", 1.0), Gt("price", 1.5))
	expect(t, rows, schema, []uint32{0}, Lt("price", 1.0000001), Lte("price", 1.5), Lt("price", 1.5))
	expect(t, rows, schema, nil, Eq("price", 1.5))

	rows = rowsOf(t, schema, map[string]any{"at": "2031-03-10T23:30:00-02:00"}, map[string]any{"at": "2031-03-11T01:30:00Z"},
		map[string]any{"at": "2031-03-10T23:30:00-0200"}, map[string]any{"at": "2031-03-10"})
	if rows[0]["at"] != rows[1]["at"] || rows[0]["at"] != rows[2]["at"] {
		t.Errorf("one instant read as %v", rows)
	}
	expect(t, rows, schema, []uint32{0, 1, 2}, Gte("at", "2031-03-11T00:00:00Z"), parse(t, "at >= 2031-03-11"),
		Eq("at", "2031-03-11T03:30:00+0200"), Eq("at", time.Date(2031, 3, 11, 1, 30, 0, 999, time.UTC)))
	for _, bad := range []string{"2031-03-10T23:30:00", "2031-3-10", "2031-02-29", "2031-03-10T24:00:00Z", "2031-03-10T23:30:00+99:00", "2031-03-10T23:30:00+02"} {
		if _, err := Normalize(bad, Time); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// D06: integers are exact beyond 2^53, from the API, JSON and text.
func TestD06(t *testing.T) {
	schema := map[string]Type{"n": Int64, "f": Float64}
	const p53 = int64(1) << 53
	rows := rowsOf(t, schema, map[string]any{"n": p53}, map[string]any{"n": p53 + 1}, map[string]any{"n": int64(math.MaxInt64)},
		map[string]any{"n": int64(math.MinInt64)}, map[string]any{"n": 42, "f": 42.0}, map[string]any{"f": float64(p53)})
	fromJSON := must(ParseJSON([]byte(`{"field":"n","op":"eq","value":9007199254740993}`)))(t)
	expect(t, rows, schema, []uint32{1}, Eq("n", p53+1), parse(t, "n = 9007199254740993"), fromJSON)
	expect(t, rows, schema, []uint32{1, 2}, Gt("n", p53), Gt("n", float64(p53)))
	expect(t, rows, schema, []uint32{2}, Eq("n", int64(math.MaxInt64)), Gte("n", int64(math.MaxInt64)))
	expect(t, rows, schema, []uint32{3}, Eq("n", int64(math.MinInt64)), Eq("n", -0x1p63), Lt("n", -0x1.8p62))
	expect(t, rows, schema, nil, Eq("n", 0x1p63), Gt("n", int64(math.MaxInt64)), Gte("n", 0x1p63), Lt("n", int64(math.MinInt64)))
	expect(t, rows, schema, []uint32{4}, Eq("n", 42), Eq("n", 42.0), Eq("f", 42), Eq("f", 42.0), parse(t, "n = 42.0"), parse(t, "f = 42"))
	// 2^53+1 has no float64: nothing equals it, and it lies above 2^53.
	expect(t, rows, schema, nil, Eq("f", p53+1), Gte("f", p53+1))
	expect(t, rows, schema, []uint32{4, 5}, Lt("f", p53+1), Lte("f", p53+1))
	if v, err := Normalize(42.0, Int64); err != nil || v.Any() != int64(42) {
		t.Errorf("42.0 into int64: %v, %v", v, err)
	}
	if _, err := Normalize(p53+1, Float64); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("2^53+1 into float64: %v", err)
	}
}

// D07: a value of the wrong type is an error that names everything.
func TestD07(t *testing.T) {
	schema := map[string]Type{"pages": Int64, "s": Keyword, "l": Keyword}
	for text, names := range map[string][]string{
		`pages = "5"`:           {`"pages"`, "int64", "keyword", `"5"`},
		`pages = true`:          {`"pages"`, "int64", "bool"},
		`pages > 2024-01-01`:    {`"pages"`, "int64", "time"},
		`pages prefix "5"`:      {`"pages"`, "keyword", "int64"},
		`s = 5`:                 {`"s"`, "keyword", "int64", "5"},
		`s between "a" and 2.5`: {`"s"`, "keyword", "float64", "2.5"},
		`pages in [1, two]`:     {`"pages"`, "int64", "keyword", "two"},
		`nope = 1`:              {`"nope"`, "unknown field"},
	} {
		_, err := Compile(parse(t, text), schemaOf(schema))
		if !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, name := range names {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %q does not name %s", text, err, name)
			}
		}
	}
	for _, text := range []string{"pages in 5", "pages ≈ 5"} {
		if _, err := Parse(text); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", text, err)
		}
	}
	rows := rowsOf(t, schema, map[string]any{}, map[string]any{"l": ""}, map[string]any{"l": nil}, map[string]any{"l": []string{}}, map[string]any{"l": []string{""}})
	expect(t, rows, schema, []uint32{3}, IsEmpty("l"))
	expect(t, rows, schema, []uint32{2}, IsNull("l"))
	expect(t, rows, schema, []uint32{1, 4}, Eq("l", ""))
	expect(t, rows, schema, []uint32{1, 3, 4}, Exists("l"))
}

// D08: nothing in the list means nothing found.
func TestD08(t *testing.T) {
	schema := map[string]Type{"f": Keyword, "g": Int64}
	rows := rowsOf(t, schema, map[string]any{"f": "a", "g": 1}, map[string]any{"f": "b", "g": 2}, map[string]any{"g": 1})
	none, all := []uint32(nil), []uint32{0, 1, 2}
	expect(t, rows, schema, none, In("f"), parse(t, "f in []"), parse(t, "f contains any []"), In("f", []string{}), Or(), parse(t, "or()"), And(In("f"), Eq("g", 1)))
	expect(t, rows, schema, all, Not(In("f")), parse(t, "f not in []"), And(), parse(t, "and()"), Filter{})
	expect(t, rows, schema, []uint32{0, 2}, Or(In("f"), Eq("g", 1)))
	for _, f := range []Filter{ContainsAll("f"), And(Filter{}), Or(Eq("g", 2), Filter{}), Not(Filter{}), Range("g", Bounds{}), Eq("f", nil), In("f", "a", nil), Gt("g", nil), Eq("f", []string{"a"})} {
		if _, err := Compile(f, schemaOf(schema)); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: want ErrInvalid, got %v", f, err)
		}
	}
}

// D10: a malformed filter is an error with its position.
func TestD10(t *testing.T) {
	for text, offset := range map[string]int{
		`'12t3`:             0,
		`12t3`:              0,
		`tags =`:            6,
		`$where`:            0,
		``:                  0,
		`  `:                2,
		`a = 1 b = 2`:       6,
		`a = 1 and`:         9,
		`(a = 1`:            6,
		`a = 1)`:            5,
		`a in [1, 2`:        10,
		`a in [1,]`:         8,
		`a ≈ 1`:             2,
		`a = null`:          4,
		`in = 1`:            0,
		`a not b`:           6,
		`a is nothing`:      5,
		`a contains [1]`:    11,
		`a starts "b"`:      9,
		`a = "\q"`:          5,
		`a = 2024-02-30`:    4,
		`a = 1e999`:         4,
		`a range [1, 2`:     13,
		"a = \"\xff\"":      5,
		`a contains all []`: 11,
		`and a = 1`:         0,
	} {
		_, err := Parse(text)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		} else if syntax.Offset != offset || syntax.Want == "" || syntax.Got == "" {
			t.Errorf("%q: %v, want byte %d", text, err, offset)
		}
	}
	schema := schemaOf(map[string]Type{"partycode": Keyword})
	if _, err := Compile(Eq("PartyCode", "x"), schema); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("names are case-sensitive: %v", err)
	}
}

// B16 on heap bytes: results are right and the bytes stay as they were.
// TestB16ReadOnlyMap does the same on a map where a write would fault.
func TestB16(t *testing.T) {
	rows := largeRows(70000, 4)
	s := build(t, rows)
	before := map[string]string{}
	for name, b := range s {
		before[name] = b.String()
	}
	exerciseB16(t, s.open, 70000)
	for name, b := range s {
		if b.String() != before[name] {
			t.Errorf("section %q was changed", name)
		}
	}
}

// exerciseB16 runs everything that reads stored bitmaps, from eight readers.
func exerciseB16(t *testing.T, open func(string) ([]byte, bool), docs uint32) {
	t.Helper()
	seg := must(Open(open, docs))(t)
	schema := schemaOf(map[string]Type{"k": Keyword, "n": Int64, "b": Bool})
	done := make(chan error)
	for range 8 {
		go func() {
			done <- func() error {
				for _, f := range []Filter{Or(Eq("k", "w3"), Eq("k", "w4")), And(Eq("k", "w3"), Not(Eq("b", true))), Not(Eq("b", true)),
					Eq("b", true), Or(Eq("k", "w1"), Eq("k", "w2"), Eq("b", true)), Exists("n"), Lt("n", 900)} {
					c, err := Compile(f, schema)
					if err != nil {
						return err
					}
					got, err := c.Eval(context.Background(), seg, nil, docs)
					if err != nil {
						return err
					}
					n := got.GetCardinality()
					got.Remove(got.Minimum()) // a tombstone set on the result
					got.Or(roaring.BitmapOf(0, 1, 2, 69999))
					again, err := c.Eval(context.Background(), seg, nil, docs)
					if err != nil {
						return err
					}
					if again.GetCardinality() != n {
						return errors.New("the result changed with an earlier one")
					}
					facet := NewFacet("k")
					if err := facet.Add(context.Background(), seg, again); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
