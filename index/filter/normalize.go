package filter

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/storage"
)

// Normalize turns a Go value, as a program or encoding/json gives it, into a
// Value of type want, or of its own type when want is Undeclared.
//
// Accepted: string, bool, every integer and float type, json.Number,
// time.Time, Value, types defined from these, slices and arrays of them,
// []any of them, and nil, which is null. A nil slice is an empty list. A
// []byte is refused.
//
// The own type of an integer is int64, of a json.Number int64 when written
// without point and exponent and float64 otherwise, of a string keyword.
//
// Rules of conversion, the same in documents, in filters and for each element
// of a list:
//   - An integer becomes a float64, and a float64 an int64, only when the
//     number stays exactly the same: 42.0 is the int64 42, 42.5 is an error,
//     2^53+1 is no float64. No rounding ever happens.
//   - A string becomes a time when it is RFC 3339 with an offset ("Z",
//     "+02:00" or "+0200"), or a date "2006-01-02", which is its midnight in
//     UTC. A time without offset is refused, for it names no instant.
//   - Nothing else converts: a string is never a number or a bool, a number
//     never a time.
//   - NaN, the infinities and integers that do not fit are refused.
//   - Without a declared type the elements of a list must all be of one type.
//     Null and lists within a list are refused.
//
// Errors match ErrInvalid and name the type wanted and the type and value
// got, or ErrTooLarge for a keyword over MaxKeywordSize or a list over
// MaxListValues. The caller adds the name of the field.
func Normalize(v any, want Type) (Value, error) {
	if want >= typeEnd {
		return Value{}, storage.Invalidf("%s", want)
	}
	if v == nil {
		return Null(want), nil
	}
	if val, ok := v.(Value); ok {
		return normalizeValue(val, want)
	}
	one, wide, err := scalar(v)
	if err == nil {
		if wide && want != Float64 {
			return Value{}, storage.Invalidf("want %s, got integer %v, which does not fit", orInt(want), v)
		}
		return convert(one, want)
	}
	if _, ok := v.([]byte); ok {
		return Value{}, err
	}
	rv := reflect.ValueOf(v)
	if k := rv.Kind(); k != reflect.Slice && k != reflect.Array {
		return Value{}, err
	}
	return normalizeList(rv, want)
}

func orInt(t Type) Type {
	if t == Undeclared {
		return Int64
	}
	return t
}

// normalizeValue converts a Value to another type, element by element.
func normalizeValue(v Value, want Type) (Value, error) {
	if want == Undeclared || want == v.typ || v.form == formMissing {
		return v, nil
	}
	switch {
	case v.form == formNull:
		return Null(want), nil
	case v.form == formOne:
		return convert(v, want)
	}
	var l listBuilder
	for e := range v.Elements() {
		if err := l.add(e, want); err != nil {
			return Value{}, err
		}
	}
	return l.finish(want), nil
}

func normalizeList(rv reflect.Value, want Type) (Value, error) {
	n := rv.Len()
	if n > MaxListValues {
		return Value{}, fmt.Errorf("%w: list of %d values, at most %d are allowed", storage.ErrTooLarge, n, MaxListValues)
	}
	var l listBuilder
	for i := range n {
		e := rv.Index(i).Interface()
		one, wide, err := scalar(e)
		if wide && want != Float64 {
			err = storage.Invalidf("want %s, got integer %v, which does not fit", orInt(want), e)
		}
		if err == nil {
			err = l.add(one, want)
		}
		if err != nil {
			return Value{}, fmt.Errorf("%w (element %d of the list)", err, i)
		}
	}
	if n == 0 && want == Undeclared {
		want = elementType(rv.Type().Elem())
	}
	return l.finish(want), nil
}

// elementType is the type an empty slice shows by its Go type.
func elementType(t reflect.Type) Type {
	if t == reflect.TypeFor[time.Time]() {
		return Time
	}
	if t == reflect.TypeFor[json.Number]() {
		return Undeclared
	}
	switch k := t.Kind(); {
	case k == reflect.String:
		return Keyword
	case k == reflect.Bool:
		return Bool
	case k >= reflect.Int && k <= reflect.Uint64:
		return Int64
	case k == reflect.Float32 || k == reflect.Float64:
		return Float64
	}
	return Undeclared
}

// A listBuilder packs the values of a list. The zero one is empty.
type listBuilder struct {
	typ    Type
	n      int64
	packed []byte
}

// add converts v to want, or checks it against the elements before it.
func (l *listBuilder) add(v Value, want Type) error {
	v, err := convert(v, want)
	if err != nil {
		return err
	}
	if l.n == 0 {
		l.typ = v.typ
	} else if l.typ != v.typ {
		return storage.Invalidf("mixed list: want %s as the first element, got %s %s", l.typ, v.typ, v)
	}
	l.n++
	if v.typ.isText() {
		l.packed = storage.AppendBytes(l.packed, v.str)
	} else {
		l.packed = storage.AppendU64(l.packed, uint64(v.num))
	}
	return nil
}

func (l *listBuilder) finish(want Type) Value {
	if l.n == 0 {
		l.typ = want
	}
	return Value{typ: l.typ, form: formList, num: l.n, str: string(l.packed)}
}

// scalar returns one Go value as a Value of its own type. wide tells that it
// was an integer beyond int64 that happens to be a float64 exactly.
func scalar(v any) (_ Value, wide bool, _ error) {
	switch x := v.(type) {
	case string:
		return keywordValue(x), false, checkKeyword(x)
	case json.Number:
		return number(string(x))
	case time.Time:
		return timeValue(x)
	case Value:
		if x.form == formOne {
			return x, false, nil
		}
		return Value{}, false, storage.Invalidf("want one value, got %s", x)
	case nil:
		return Value{}, false, storage.Invalidf("want one value, got null")
	}
	rv := reflect.ValueOf(v)
	switch k := rv.Kind(); {
	case k == reflect.String:
		return keywordValue(rv.String()), false, checkKeyword(rv.String())
	case k == reflect.Bool:
		if rv.Bool() {
			return numberValue(Bool, 1), false, nil
		}
		return numberValue(Bool, 0), false, nil
	case k >= reflect.Int && k <= reflect.Int64:
		return numberValue(Int64, rv.Int()), false, nil
	case k >= reflect.Uint && k <= reflect.Uintptr:
		return unsigned(rv.Uint())
	case k == reflect.Float32 || k == reflect.Float64:
		return float(rv.Float())
	}
	return Value{}, false, storage.Invalidf("want a string, number, bool, time or list of them, got Go type %T", v)
}

func unsigned(u uint64) (Value, bool, error) {
	if u <= math.MaxInt64 {
		return numberValue(Int64, int64(u)), false, nil
	}
	f := float64(u)
	if f < 1<<64 && uint64(f) == u {
		return numberValue(Float64, floatKey(f)), true, nil
	}
	return Value{}, false, storage.Invalidf("want int64 or float64, got integer %d, which fits neither exactly", u)
}

func float(f float64) (Value, bool, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}, false, storage.Invalidf("want a finite float64, got %v", f)
	}
	return numberValue(Float64, floatKey(f)), false, nil
}

func timeValue(t time.Time) (Value, bool, error) {
	if s := t.Unix(); s < -maxSeconds || s >= maxSeconds {
		return Value{}, false, storage.Invalidf("want a time within 290,000 years of 1970, got second %d", s)
	}
	return numberValue(Time, t.UnixMicro()), false, nil
}

// number reads a number as JSON writes it. Digits alone are an integer and
// stay exact; anything else is the nearest float64.
func number(s string) (_ Value, wide bool, _ error) {
	n, integer := scanNumber(s)
	if n != len(s) || n == 0 {
		return Value{}, false, storage.Invalidf("want a number, got %q", shorten(s))
	}
	if !integer {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return Value{}, false, storage.Invalidf("want a finite float64, got %s", shorten(s))
		}
		return float(f)
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return numberValue(Int64, i), false, nil
	}
	// Beyond int64: accepted only as a float64 that has just these digits.
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || strconv.FormatFloat(f, 'f', -1, 64) != s && strconv.FormatFloat(f, 'f', 0, 64) != s {
		return Value{}, false, storage.Invalidf("want int64 or float64, got integer %s, which fits neither exactly", shorten(s))
	}
	return numberValue(Float64, floatKey(f)), true, nil
}

// scanNumber returns the length of the JSON number that s starts with, 0 for
// none, and whether it has neither point nor exponent.
func scanNumber(s string) (n int, integer bool) {
	digits := func(i int) int {
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i
	}
	i := 0
	if i < len(s) && s[i] == '-' {
		i++
	}
	end := digits(i)
	if end == i || s[i] == '0' && end > i+1 {
		return 0, false
	}
	integer = true
	if end < len(s) && s[end] == '.' {
		frac := digits(end + 1)
		if frac == end+1 {
			return 0, false
		}
		end, integer = frac, false
	}
	if end < len(s) && (s[end] == 'e' || s[end] == 'E') {
		j := end + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		exp := digits(j)
		if exp == j {
			return 0, false
		}
		end, integer = exp, false
	}
	return end, integer
}

func checkKeyword(s string) error {
	if len(s) > MaxKeywordSize {
		return fmt.Errorf("%w: keyword of %d bytes, at most %d are allowed", storage.ErrTooLarge, len(s), MaxKeywordSize)
	}
	if !utf8.ValidString(s) {
		return storage.Invalidf("keyword %q is not UTF-8", shorten(s))
	}
	return nil
}

// convert turns a single value into type want by the rules of Normalize.
func convert(v Value, want Type) (Value, error) {
	switch {
	case want == v.typ || want == Undeclared:
		return v, nil
	case want == Float64 && v.typ == Int64:
		if f := float64(v.num); compareIntFloat(v.num, f) == 0 {
			return numberValue(Float64, floatKey(f)), nil
		}
	case want == Int64 && v.typ == Float64:
		f := keyFloat(v.num)
		if f >= -1<<63 && f < 1<<63 && compareIntFloat(int64(f), f) == 0 {
			return numberValue(Int64, int64(f)), nil
		}
	case want == Time && v.typ == Keyword:
		us, err := parseTime(v.str)
		if err == nil {
			return numberValue(Time, us), nil
		}
		return Value{}, storage.Invalidf("want time, got %s %s: %v", v.typ, v, err)
	}
	return Value{}, storage.Invalidf("want %s, got %s %s", want, v.typ, v)
}

// compareIntFloat compares an int64 with a finite float64 as real numbers.
// Converting the integer would round it beyond 2^53 (case D06), so the float
// is split into its integer part, which is exact, and the rest.
func compareIntFloat(i int64, f float64) int {
	switch {
	case f >= 1<<63:
		return -1
	case f < -1<<63:
		return 1
	}
	t := int64(math.Floor(f))
	switch {
	case i < t:
		return -1
	case i > t:
		return 1
	case math.Floor(f) < f:
		return -1
	}
	return 0
}
