package filter

import (
	"encoding/binary"
	"encoding/json"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/quarrysearch/quarry/storage"
)

// Limits of a value. They hold for documents and for filters alike.
const (
	// MaxKeywordSize is the largest keyword in bytes (32 KiB).
	MaxKeywordSize = 32 << 10
	// MaxListValues is the largest number of values in one list.
	MaxListValues = 65536
)

// Type is the type of a metadata field. Every value of a field, alone or in
// lists, has the field's type.
type Type uint8

// The types, by the numbers that files hold; never renumbered.
const (
	// Undeclared is the type of a field that has shown nothing but null and
	// empty lists, and the wish of a caller who has none.
	Undeclared Type = 0
	// Keyword is a string of at most MaxKeywordSize bytes of UTF-8, compared
	// by bytes, case included.
	Keyword Type = 1
	// Int64 is a 64-bit integer, exact over its whole range.
	Int64 Type = 2
	// Float64 is a finite IEEE 754 double; -0 is stored as 0.
	Float64 Type = 3
	// Bool is true or false.
	Bool Type = 4
	// Time is an instant: microseconds since 1970-01-01T00:00:00Z, rounded
	// down, within about 290,000 years of it.
	Time Type = 5

	typeEnd Type = 6
)

// String returns the name that schemas and messages use.
func (t Type) String() string {
	switch t {
	case Undeclared:
		return "undeclared"
	case Keyword:
		return "keyword"
	case Int64:
		return "int64"
	case Float64:
		return "float64"
	case Bool:
		return "bool"
	case Time:
		return "time"
	}
	return "type " + strconv.Itoa(int(t))
}

// ParseType is the inverse of Type.String, for the five declared types.
func ParseType(name string) (Type, error) {
	for t := Keyword; t < typeEnd; t++ {
		if t.String() == name {
			return t, nil
		}
	}
	return Undeclared, storage.Invalidf("type %q: want keyword, int64, float64, bool or time", name)
}

// form tells the three kinds of nothing from a value and a list.
type form uint8

const (
	formMissing form = iota
	formNull
	formOne
	formList
	formEnd
)

// A Value is what one document holds in one metadata field: nothing at all
// (the zero Value, "missing"), null, one value, or a list of values of one
// type, which may be empty. Missing, null and the empty list are three things.
//
// A Value is immutable, holds no memory of the caller's, and is comparable:
// two Values are == exactly when they have the same type and content, lists
// in order.
type Value struct {
	typ  Type
	form form
	// num is the key of a single number (see floatKey; int64, time and bool
	// are their own keys) or the number of values of a list.
	num int64
	// str is a single keyword, or a list packed: 8 bytes little endian a
	// number, varint length and bytes a keyword.
	str string
}

// Null returns the null of a field of type t.
func Null(t Type) Value { return Value{typ: t, form: formNull} }

// Type returns the type, which is Undeclared for a missing value and for a
// null or an empty list that no type was declared for.
func (v Value) Type() Type { return v.typ }

// IsMissing tells whether the document does not hold the field.
func (v Value) IsMissing() bool { return v.form == formMissing }

// IsNull tells whether the document holds the field with null.
func (v Value) IsNull() bool { return v.form == formNull }

// IsList tells whether the value is a list, empty or not.
func (v Value) IsList() bool { return v.form == formList }

// Len returns the number of values: 0 for missing, null and the empty list,
// 1 for a single value.
func (v Value) Len() int {
	switch v.form {
	case formOne:
		return 1
	case formList:
		return int(v.num)
	}
	return 0
}

// SizeHint is about the number of bytes that AppendValue appends.
func (v Value) SizeHint() int { return len(v.str) + 12 }

// isText tells whether values of t lie in a keyword dictionary.
func (t Type) isText() bool { return t == Keyword }

// numbers yields the keys of the values of a numeric, bool or time Value.
func (v Value) numbers() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		if v.form == formOne {
			yield(v.num)
			return
		}
		if v.form != formList {
			return
		}
		for s := v.str; len(s) >= 8; s = s[8:] {
			if !yield(int64(leU64(s))) {
				return
			}
		}
	}
}

// keywords yields the values of a Keyword Value.
func (v Value) keywords() iter.Seq[string] {
	return func(yield func(string) bool) {
		if v.form == formOne {
			yield(v.str)
			return
		}
		if v.form != formList {
			return
		}
		for s := v.str; len(s) > 0; {
			n, w := uvarintString(s)
			if !yield(s[w : w+n]) {
				return
			}
			s = s[w+n:]
		}
	}
}

// Elements yields each value of v as a single Value: a list's in order, none of a
// missing value, null or an empty list.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.typ.isText() {
			for s := range v.keywords() {
				if !yield(keywordValue(s)) {
					return
				}
			}
			return
		}
		for k := range v.numbers() {
			if !yield(numberValue(v.typ, k)) {
				return
			}
		}
	}
}

// leU64 reads eight bytes of a string, little endian.
func leU64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// uvarintString reads a varint that this package packed itself.
func uvarintString(s string) (n, width int) {
	for shift := 0; width < len(s); shift += 7 {
		c := s[width]
		width++
		n |= int(c&0x7f) << shift
		if c < 0x80 {
			break
		}
	}
	return n, width
}

func keywordValue(s string) Value { return Value{typ: Keyword, form: formOne, str: s} }

func numberValue(t Type, key int64) Value { return Value{typ: t, form: formOne, num: key} }

// floatKey maps a finite double to an integer of the same order, so that all
// numeric types are compared, searched and stored as int64 keys: the bits of
// a positive double already ascend, those of a negative one are turned round.
// -0 becomes 0, so equal doubles have equal keys, and the successor of a key
// is the key of the next double.
func floatKey(f float64) int64 {
	if f == 0 {
		return 0
	}
	b := int64(math.Float64bits(f))
	if b < 0 {
		b ^= math.MaxInt64
	}
	return b
}

// keyFloat is the inverse of floatKey.
func keyFloat(k int64) float64 {
	if k < 0 {
		k ^= math.MaxInt64
	}
	return math.Float64frombits(uint64(k))
}

// one returns the single value v as a Go value.
func (v Value) one() any {
	switch v.typ {
	case Keyword:
		return v.str
	case Int64:
		return v.num
	case Float64:
		return keyFloat(v.num)
	case Bool:
		return v.num != 0
	case Time:
		return time.UnixMicro(v.num).UTC()
	}
	return nil
}

// Any returns the value as a Go value: string, int64, float64, bool or
// time.Time (UTC), a slice of one of these ([]any for an empty list of no
// type), or nil for null and missing.
func (v Value) Any() any {
	switch {
	case v.form == formOne:
		return v.one()
	case v.form != formList:
		return nil
	}
	switch v.typ {
	case Keyword:
		return gather(v, func(e Value) string { return e.str })
	case Int64:
		return gather(v, func(e Value) int64 { return e.num })
	case Float64:
		return gather(v, func(e Value) float64 { return keyFloat(e.num) })
	case Bool:
		return gather(v, func(e Value) bool { return e.num != 0 })
	case Time:
		return gather(v, func(e Value) time.Time { return time.UnixMicro(e.num).UTC() })
	}
	return []any{}
}

func gather[T any](v Value, get func(Value) T) []T {
	out := make([]T, 0, v.Len())
	for e := range v.Elements() {
		out = append(out, get(e))
	}
	return out
}

// MarshalJSON writes null for null and missing, numbers with all their digits
// (a float64 always with a point or an exponent, so that it is read back as
// one), times as RFC 3339 strings in UTC.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.form {
	case formOne:
		return appendJSON(nil, v)
	case formList:
		b := []byte{'['}
		for e := range v.Elements() {
			if len(b) > 1 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendJSON(b, e); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	}
	return []byte("null"), nil
}

func appendJSON(b []byte, v Value) ([]byte, error) {
	switch v.typ {
	case Keyword:
		q, err := json.Marshal(v.str)
		return append(b, q...), err
	case Time:
		return append(append(append(b, '"'), formatTime(v.num)...), '"'), nil
	}
	return append(b, v.literal()...), nil
}

// literal returns a single value as the text syntax writes it.
func (v Value) literal() string {
	switch v.typ {
	case Keyword:
		return quote(v.str)
	case Int64:
		return strconv.FormatInt(v.num, 10)
	case Float64:
		return formatFloat(keyFloat(v.num))
	case Bool:
		return strconv.FormatBool(v.num != 0)
	case Time:
		return formatTime(v.num)
	}
	return "null"
}

// formatFloat writes the shortest digits that read back as f, and never
// digits alone, which would read back as an integer.
func formatFloat(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	for i := range len(s) {
		if s[i] == '.' || s[i] == 'e' {
			return s
		}
	}
	return s + ".0"
}

// String returns the value for messages, cut after some 64 bytes.
func (v Value) String() string {
	switch v.form {
	case formMissing:
		return "missing"
	case formNull:
		return "null"
	case formOne:
		return shorten(v.literal())
	}
	s := "["
	for e := range v.Elements() {
		if len(s) > 1 {
			s += ", "
		}
		if s += shorten(e.literal()); len(s) > 64 {
			return s + ", …]"
		}
	}
	return s + "]"
}

// shorten cuts text of the caller's for a message.
func shorten(s string) string {
	if len(s) <= 64 {
		return s
	}
	cut := 60
	for cut > 0 && s[cut]&0xc0 == 0x80 {
		cut--
	}
	return s[:cut] + "…"
}

// AppendValue appends the bytes of v, as DecodeValue reads them (format.md).
func AppendValue(b []byte, v Value) []byte {
	b = append(b, byte(v.typ)<<2|byte(v.form))
	switch v.form {
	case formOne:
		return appendOne(b, v.typ, v.num, v.str)
	case formList:
		b = storage.AppendUvarint(b, uint64(v.num))
		if v.typ.isText() {
			return append(b, v.str...) // packed the same way
		}
		for k := range v.numbers() {
			b = appendOne(b, v.typ, k, "")
		}
	}
	return b
}

func appendOne(b []byte, t Type, num int64, str string) []byte {
	switch t {
	case Keyword:
		return storage.AppendBytes(b, str)
	case Float64:
		return storage.AppendU64(b, math.Float64bits(keyFloat(num)))
	case Bool:
		return append(b, byte(num))
	}
	return binary.AppendVarint(b, num)
}

// DecodeValue reads what AppendValue wrote. On damage the decoder fails with
// a CorruptError and the zero Value is returned; a Value that is returned
// without an error is within every limit.
func DecodeValue(d *storage.Decoder) Value {
	head := d.Byte()
	v := Value{typ: Type(head >> 2), form: form(head & 3)}
	if v.typ >= typeEnd || v.form == formMissing && v.typ != 0 || v.form == formOne && v.typ == 0 {
		d.Fail("bad value head %#x", head)
	}
	switch {
	case d.Err() != nil:
	case v.form == formOne:
		v.num, v.str = decodeOne(d, v.typ)
	case v.form == formList:
		decodeList(d, &v)
	}
	if d.Err() != nil {
		return Value{}
	}
	return v
}

func decodeList(d *storage.Decoder, v *Value) {
	n := d.Count(1)
	if n > MaxListValues || n > 0 && v.typ == 0 {
		d.Fail("bad list of %d values of type %s", n, v.typ)
		return
	}
	var packed []byte
	for range n {
		num, str := decodeOne(d, v.typ)
		if d.Err() != nil {
			return
		}
		if v.typ.isText() {
			packed = storage.AppendBytes(packed, str)
		} else {
			packed = storage.AppendU64(packed, uint64(num))
		}
	}
	v.num, v.str = int64(n), string(packed)
}

func decodeOne(d *storage.Decoder, t Type) (num int64, str string) {
	switch t {
	case Keyword:
		str = d.String()
		if err := checkKeyword(str); err != nil {
			d.Fail("bad keyword: %v", err)
		}
	case Float64:
		f := math.Float64frombits(d.U64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			d.Fail("float64 is not finite")
			return 0, ""
		}
		num = floatKey(f)
	case Bool:
		b := d.Byte()
		if b > 1 {
			d.Fail("bool is %d", b)
		}
		num = int64(b & 1)
	default:
		u := d.Uvarint() // zigzag, as binary.AppendVarint
		num = int64(u>>1) ^ -int64(u&1)
	}
	return num, str
}
