package sparse

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/quarrysearch/quarry/storage"
)

// Limits; one past each is an error.
const (
	MaxWeight       = 65504 // the greatest finite half-precision number
	MaxEntries      = 65536 // of a document
	MaxQueryEntries = 4096
)

// An Entry is a term of a learned vocabulary and its weight.
type Entry struct {
	Term   uint32
	Weight float32
}

// A Vector is a sparse vector: entries with strictly ascending terms and
// weights above 0 up to MaxWeight. In JSON it is an object of weights by term,
// as {"12":0.5}; {"indices":[12],"values":[0.5]} is read too, in any order.
type Vector []Entry

// New makes a vector of terms, in any order, and a weight for each.
// Errors: ErrInvalid for lists of unequal length and what Check finds.
func New(terms []uint32, weights []float32) (Vector, error) {
	if len(terms) != len(weights) {
		return nil, storage.Invalidf("sparse vector: %d indices and %d values", len(terms), len(weights))
	}
	v := make(Vector, len(terms))
	for i, t := range terms {
		v[i] = Entry{t, weights[i]}
	}
	slices.SortFunc(v, func(a, b Entry) int { return cmp.Compare(a.Term, b.Term) })
	return v, v.Check()
}

// Check reports the first broken rule of a vector, but for the number of
// entries. Errors: ErrInvalid.
func (v Vector) Check() error {
	for i, e := range v {
		switch {
		case !(e.Weight > 0) || e.Weight > MaxWeight:
			return storage.Invalidf("sparse vector: weight %v of term %d: want a number above 0, at most %d", e.Weight, e.Term, MaxWeight)
		case i > 0 && e.Term == v[i-1].Term:
			return storage.Invalidf("sparse vector: term %d is given twice", e.Term)
		case i > 0 && e.Term < v[i-1].Term:
			return storage.Invalidf("sparse vector: term %d stands after %d", e.Term, v[i-1].Term)
		}
	}
	return nil
}

// Round returns the vector as it is stored: each weight the nearest
// half-precision number, ties to the even one, at least 2^-24.
func (v Vector) Round() Vector {
	out := make(Vector, len(v))
	for i, e := range v {
		out[i] = Entry{e.Term, decode(encode(e.Weight))}
	}
	return out
}

// Append appends the bytes of a vector (format.md) to b, its weights rounded.
func Append(b []byte, v Vector) []byte {
	b = storage.AppendUvarint(b, uint64(len(v)))
	next := uint32(0)
	for _, e := range v {
		b = storage.AppendUvarint(b, uint64(e.Term-next))
		next = e.Term + 1
		c := encode(e.Weight)
		b = append(b, byte(c), byte(c>>8))
	}
	return b
}

// Read reads what Append wrote; broken rules fail the decoder.
func Read(d *storage.Decoder) Vector {
	n := d.Count(3)
	if n > MaxEntries {
		d.Fail("sparse vector of %d entries", n)
		return nil
	}
	v := make(Vector, 0, n)
	next := uint64(0)
	for range n {
		term, raw := next+d.Uvarint(), d.Raw(2)
		if d.Err() != nil {
			return nil
		}
		code := uint16(raw[0]) | uint16(raw[1])<<8
		if term > math.MaxUint32 || term < next || !validCode(code) {
			d.Fail("entry of sparse vector is out of range")
			return nil
		}
		v = append(v, Entry{uint32(term), decode(code)})
		next = term + 1
	}
	return v
}

// MarshalJSON writes an object of weights by term, in ascending order.
func (v Vector) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, e := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(append(b, '"'), uint64(e.Term), 10)
		b = append(b, '"', ':')
		b = strconv.AppendFloat(b, float64(e.Weight), 'g', -1, 32)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads both shapes. Errors: ErrInvalid.
func (v *Vector) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var lists struct {
		Indices *[]uint32  `json:"indices"`
		Values  *[]float32 `json:"values"`
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&lists); err == nil && lists.Indices != nil && lists.Values != nil {
		out, err := New(*lists.Indices, *lists.Values)
		*v = out
		return err
	}
	out, err := readObject(b)
	if err == nil {
		slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Term, b.Term) })
		err = out.Check()
	}
	*v = out
	return err
}

// readObject reads weights by term. A map would hide a term given twice.
func readObject(b []byte) (Vector, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	wrong := func(err any) error {
		return storage.Invalidf("sparse vector: %v: want {\"term\": weight, …} or {\"indices\": […], \"values\": […]}", err)
	}
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, wrong("not an object")
	}
	var v Vector
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, wrong(err)
		}
		name, _ := key.(string)
		term, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			return nil, wrong("term " + strconv.Quote(name) + " is no number up to 4294967295")
		}
		e := Entry{Term: uint32(term)}
		var weight *float32
		if err := d.Decode(&weight); err != nil || weight == nil {
			return nil, wrong("weight of term " + name + " is no 32-bit number")
		}
		e.Weight = *weight
		v = append(v, e)
	}
	return v, nil
}

// encode rounds a weight of up to MaxWeight to half precision, to the nearest,
// ties to even, and to 2^-24 at least.
func encode(w float32) uint16 {
	if w < 0x1p-14 { // subnormal: multiples of 2^-24
		return max(uint16(math.RoundToEven(float64(w)*0x1p24)), 1)
	}
	b := math.Float32bits(w)
	b += 0xfff + b>>13&1
	return uint16(min(b>>13-112<<10, maxCode))
}

// maxCode is the code of MaxWeight.
const maxCode = 0x7bff

func validCode(c uint16) bool { return c-1 < maxCode }

// decode returns the weight of a code, exactly.
func decode(c uint16) float32 { return math.Float32frombits(uint32(c)<<13) * 0x1p112 }
