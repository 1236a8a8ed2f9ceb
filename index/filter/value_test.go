package filter

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quarrysearch/quarry/storage"
)

type named string

func TestNormalize(t *testing.T) {
	at := time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.FixedZone("", 3600))
	for _, c := range []struct {
		in   any
		want Type
		typ  Type
		out  any
	}{
		{"a", 0, Keyword, "a"},
		{named("a"), 0, Keyword, "a"},
		{"", Keyword, Keyword, ""},
		{true, 0, Bool, true},
		{int8(-3), 0, Int64, int64(-3)},
		{uint64(math.MaxInt64), 0, Int64, int64(math.MaxInt64)},
		{uint64(1 << 63), Float64, Float64, 0x1p63},
		{float32(0.1), 0, Float64, float64(float32(0.1))},
		{42.0, Int64, Int64, int64(42)},
		{42.0, 0, Float64, 42.0},
		{7, Float64, Float64, 7.0},
		{math.Copysign(0, -1), 0, Float64, 0.0},
		{json.Number("9007199254740993"), 0, Int64, int64(9007199254740993)},
		{json.Number("-1e3"), 0, Float64, -1000.0},
		{json.Number("-1e3"), Int64, Int64, int64(-1000)},
		{json.Number("18446744073709551616"), Float64, Float64, 0x1p64},
		{at, 0, Time, at.UTC().Truncate(time.Microsecond)},
		{time.UnixMicro(-1).Add(-1), 0, Time, time.UnixMicro(-2).UTC()},
		{"2024-05-06T08:08:09.123456789+02:00", Time, Time, time.Date(2024, 5, 6, 6, 8, 9, 123456000, time.UTC)},
		{"2024-05-06T08:08:09-0230", Time, Time, time.Date(2024, 5, 6, 10, 38, 9, 0, time.UTC)},
		{"2024-05-06t08:08:09z", Time, Time, time.Date(2024, 5, 6, 8, 8, 9, 0, time.UTC)},
		{"2024-02-29", Time, Time, time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		{[]string{"b", "a", "b"}, 0, Keyword, []string{"b", "a", "b"}},
		{[2]int{1, 2}, 0, Int64, []int64{1, 2}},
		{[]any{json.Number("1"), 2.5}, Float64, Float64, []float64{1, 2.5}},
		{[]any{1.0, 2}, Int64, Int64, []int64{1, 2}},
		{[]any{"2024-02-29", at}, Time, Time, []time.Time{time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), at.UTC().Truncate(time.Microsecond)}},
		{[]bool{true, false}, 0, Bool, []bool{true, false}},
		{[]string(nil), 0, Keyword, []string{}},
		{[]any{}, 0, Undeclared, []any{}},
		{[]any{}, Time, Time, []time.Time{}},
		{nil, 0, Undeclared, nil},
		{nil, Int64, Int64, nil},
	} {
		v, err := Normalize(c.in, c.want)
		if err != nil {
			t.Errorf("%T %v as %s: %v", c.in, c.in, c.want, err)
		} else if v.Type() != c.typ || !reflect.DeepEqual(v.Any(), c.out) {
			t.Errorf("%T %v as %s: got %s %#v, want %s %#v", c.in, c.in, c.want, v.Type(), v.Any(), c.typ, c.out)
		}
	}
	var missing Value
	if null := Null(0); !missing.IsMissing() || !null.IsNull() || null.IsMissing() || missing == null {
		t.Error("missing and null are two things")
	}
}

func TestNormalizeRefusals(t *testing.T) {
	for _, c := range []struct {
		in    any
		want  Type
		words string // that the message has, by space
	}{
		{42.5, Int64, "int64 float64 42.5"},
		{int64(1<<53 + 1), Float64, "float64 int64 9007199254740993"},
		{"5", Int64, `int64 keyword "5"`},
		{5, Keyword, "keyword int64 5"},
		{1, Bool, "bool int64"},
		{0, Time, "time int64"},
		{true, Int64, "int64 bool"},
		{0x1p63, Int64, "int64 float64"},
		{uint64(1 << 63), 0, "int64 9223372036854775808"},
		{uint64(math.MaxUint64), Float64, "18446744073709551615"},
		{json.Number("9223372036854775809"), Float64, "9223372036854775809"},
		{json.Number("1x"), 0, "number"},
		{json.Number("0x10"), 0, "number"},
		{json.Number("Inf"), Float64, "number"},
		{json.Number("01"), Int64, "number"},
		{json.Number("1e400"), Float64, "finite"},
		{math.NaN(), 0, "finite"},
		{math.Inf(-1), Float64, "finite"},
		{[]any{1, "a"}, 0, "mixed int64 keyword"},
		{[]any{1, 2.5}, 0, "mixed int64 float64"},
		{[]any{1, nil}, 0, "null element 1"},
		{[]any{[]int{1}}, 0, "element 0"},
		{[]string{"1"}, Int64, "int64 keyword element 0"},
		{[]byte("ab"), 0, "Go type []uint8"},
		{map[string]int{}, 0, "Go type map[string]int"},
		{struct{}{}, Keyword, "Go type struct"},
		{new(int), Int64, "Go type *int"},
		{"a\xff", 0, "UTF-8"},
		{time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC), 0, "290,000"},
		{"2024-05-06T08:08:09", Time, "time keyword offset"},
		{"yesterday", Time, "time keyword"},
		{1, Type(9), "type 9"},
	} {
		_, err := Normalize(c.in, c.want)
		if !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%T %v as %s: %v", c.in, c.in, c.want, err)
			continue
		}
		for _, w := range strings.Fields(c.words) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%T %v as %s: %q does not say %q", c.in, c.in, c.want, err, w)
			}
		}
	}
	// At the limits and one beyond.
	for n, want := range map[int]error{MaxKeywordSize: nil, MaxKeywordSize + 1: storage.ErrTooLarge} {
		if _, err := Normalize(strings.Repeat("a", n), 0); !errors.Is(err, want) {
			t.Errorf("keyword of %d bytes: %v", n, err)
		}
	}
	for n, want := range map[int]error{MaxListValues: nil, MaxListValues + 1: storage.ErrTooLarge} {
		if _, err := Normalize(make([]int, n), 0); !errors.Is(err, want) {
			t.Errorf("list of %d: %v", n, err)
		}
	}
}

// parseTime agrees with package time on all that both read, and formatTime
// turns it round over the whole range.
func TestTimes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		us := rapid.Int64Range(-62135596800000000, 253402300799999999).Draw(r, "us")
		zone := rapid.IntRange(-23*60, 23*60).Draw(r, "zone") * 60
		text := time.UnixMicro(us).In(time.FixedZone("", zone)).Format("2006-01-02T15:04:05.999999999Z07:00")
		if got, err := parseTime(text); err == nil && got != us || err != nil && len(text) > 0 && text[0] != '-' && text[4] == '-' {
			r.Fatalf("%s: got %d, %v, want %d", text, got, err, us)
		}
		if got, want := formatTime(us), time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.999999Z07:00"); got != want {
			r.Fatalf("%d: got %s, want %s", us, got, want)
		}
		far := rapid.Int64Range(-maxSeconds*1e6, maxSeconds*1e6-1).Draw(r, "far")
		if got, err := parseTime(formatTime(far)); err != nil || got != far {
			r.Fatalf("%s: got %d, %v, want %d", formatTime(far), got, err, far)
		}
	})
}

// Keys order as the floats do, and go back.
func TestFloatKey(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, b := rapid.Float64().Draw(r, "a"), rapid.Float64().Draw(r, "b")
		if keyFloat(floatKey(a)) != a || (a < b) != (floatKey(a) < floatKey(b)) || (a == b) != (floatKey(a) == floatKey(b)) {
			r.Fatalf("%v and %v", a, b)
		}
	})
}

func TestValueRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		typ := Type(rapid.IntRange(1, 5).Draw(r, "type"))
		v := genValue(typ, true).Draw(r, "value")
		d := storage.NewDecoder("wal", 0, AppendValue(nil, v))
		if got := DecodeValue(d); got != v || d.Err() != nil || d.Len() != 0 {
			r.Fatalf("%v came back as %v, %v", v, got, d.Err())
		}
		if v.IsMissing() {
			return
		}
		if got, err := Normalize(v.Any(), typ); err != nil || got != v {
			r.Fatalf("%v: through Any %v, %v", v, got, err)
		}
		text, err := json.Marshal(v)
		if err != nil {
			r.Fatal(err)
		}
		dec := json.NewDecoder(strings.NewReader(string(text)))
		dec.UseNumber()
		var back any
		if err := dec.Decode(&back); err != nil {
			r.Fatalf("%s: %v", text, err)
		}
		if got, err := Normalize(back, typ); err != nil || got != v {
			r.Fatalf("%v: through JSON %s %v, %v", v, text, got, err)
		}
	})
}

func FuzzDecodeValue(f *testing.F) {
	for _, v := range []any{nil, "a", 1, -1.5, true, time.UnixMicro(1), []string{"a", ""}, []int{1, -2}, []any{}} {
		val, err := Normalize(v, 0)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(AppendValue(nil, val))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := storage.NewDecoder("fuzz", 0, b)
		v := DecodeValue(d)
		if err := d.Err(); err != nil {
			if !errors.Is(err, storage.ErrCorrupt) || v != (Value{}) {
				t.Fatalf("%v, %v", v, err)
			}
			return
		}
		again := DecodeValue(storage.NewDecoder("fuzz", 0, AppendValue(nil, v)))
		if again != v {
			t.Fatalf("%v came back as %v", v, again)
		}
		if n, err := Normalize(v.Any(), v.Type()); !v.IsMissing() && (err != nil || n != v) {
			t.Fatalf("%v is no value that Normalize makes: %v, %v", v, n, err)
		}
		_ = v.String()
	})
}

func ExampleNormalize() {
	v, err := Normalize(42.5, Int64)
	fmt.Println(v, err)
	v, _ = Normalize("2031-03-10T23:30:00-02:00", Time)
	fmt.Println(v)
	// Output:
	// missing quarry: invalid: want int64, got float64 42.5
	// 2031-03-11T01:30:00Z
}

func TestTypes(t *testing.T) {
	for typ := Keyword; typ < typeEnd; typ++ {
		if got, err := ParseType(typ.String()); err != nil || got != typ {
			t.Errorf("%s came back as %s, %v", typ, got, err)
		}
	}
	for _, name := range []string{"", "undeclared", "INT64", "text"} {
		if _, err := ParseType(name); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A Value converts as the Go value it came from.
func TestNormalizeValues(t *testing.T) {
	ints := must(Normalize([]int{1, 2}, 0))(t)
	if v, err := Normalize(ints, Float64); err != nil || !reflect.DeepEqual(v.Any(), []float64{1, 2}) {
		t.Errorf("%v, %v", v, err)
	}
	if v, err := Normalize(numberValue(Int64, 3), Float64); err != nil || v.Any() != 3.0 {
		t.Errorf("%v, %v", v, err)
	}
	if v, err := Normalize(Null(0), Time); err != nil || v != Null(Time) {
		t.Errorf("%v, %v", v, err)
	}
	if v, err := Normalize(Value{}, Time); err != nil || !v.IsMissing() {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := Normalize(ints, Keyword); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("%v", err)
	}
	for in, want := range map[any]Type{&[]int{}: Int64, &[]float32{}: Float64, &[]bool{}: Bool, &[]time.Time{}: Time, &[]json.Number{}: Undeclared} {
		if v, err := Normalize(reflect.ValueOf(in).Elem().Interface(), 0); err != nil || v.Type() != want || v.Len() != 0 || !v.IsList() {
			t.Errorf("%T: %s, %v", in, v.Type(), err)
		}
	}
	if s := must(Normalize(strings.Repeat("ü", 100), 0))(t).String(); len(s) > 70 || !strings.HasSuffix(s, "…") {
		t.Errorf("message of %d bytes: %s", len(s), s)
	}
}
