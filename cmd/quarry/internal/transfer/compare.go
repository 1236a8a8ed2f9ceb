package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

// Tolerance is by how much components of vectors of unit length may differ.
const Tolerance = 1e-6

// maxNamed bounds the differences that are named.
const maxNamed = 10

// A Side is what a comparison found in one collection.
type Side struct {
	Documents int    `json:"documents"`
	Checksum  string `json:"checksum"` // 32 hexadecimal digits

	sum [2]uint64
}

func (s *Side) add(h hash) {
	s.Documents++
	s.sum[0] += h[0]
	s.sum[1] += h[1]
}

// A Comparison is how two collections differ.
type Comparison struct {
	From      Side `json:"from"`
	To        Side `json:"to"`
	Missing   int  `json:"missing"`   // there, not here
	Extra     int  `json:"extra"`     // here, not there
	Different int  `json:"different"` // of one id, and not equal
	// First names the first ten differences in order of id.
	First []string `json:"first,omitempty"`
}

// Equal says whether the collections hold the same documents.
func (c *Comparison) Equal() bool {
	return c.Missing+c.Extra+c.Different == 0 && c.From.sum == c.To.sum
}

func (c *Comparison) differs(count *int, what, id string) {
	*count++
	if len(c.First) < maxNamed {
		c.First = append(c.First, fmt.Sprintf("%s: %q", what, id))
	}
}

// Compare walks two collections side by side; step is told how many documents it
// has met.
func Compare(ctx context.Context, from, to collection.Reader, step func(documents int)) (*Comparison, error) {
	schema, err := from.Schema(ctx)
	if err != nil {
		return nil, err
	}
	unit := map[string]bool{}
	for _, f := range schema.Vectors {
		unit[f.Name] = f.Metric.String() == "cosine"
	}
	a, stopA := iter.Pull2(from.Documents(ctx, ""))
	defer stopA()
	b, stopB := iter.Pull2(to.Documents(ctx, ""))
	defer stopB()
	c := &Comparison{}
	left, okLeft, err := next(a)
	if err != nil {
		return nil, err
	}
	right, okRight, err := next(b)
	if err != nil {
		return nil, err
	}
	for okLeft || okRight {
		takeLeft := okLeft && (!okRight || left.ID <= right.ID)
		takeRight := okRight && (!okLeft || right.ID <= left.ID)
		switch {
		case takeLeft && takeRight:
			c.both(left, right, unit)
		case takeLeft:
			c.From.add(hashOf(left))
			c.differs(&c.Missing, "missing", left.ID)
		default:
			c.To.add(hashOf(right))
			c.differs(&c.Extra, "extra", right.ID)
		}
		if takeLeft {
			if left, okLeft, err = next(a); err != nil {
				return nil, err
			}
		}
		if takeRight {
			if right, okRight, err = next(b); err != nil {
				return nil, err
			}
		}
		step(max(c.From.Documents, c.To.Documents))
	}
	for _, s := range []*Side{&c.From, &c.To} {
		s.Checksum = fmt.Sprintf("%016x%016x", s.sum[0], s.sum[1])
	}
	return c, nil
}

func next(pull func() (index.Document, error, bool)) (index.Document, bool, error) {
	d, err, ok := pull()
	return d, ok && err == nil, err
}

func (c *Comparison) both(left, right index.Document, unit map[string]bool) {
	l, r := hashOf(left), hashOf(right)
	if l != r && near(left, right, unit) {
		r = l
	}
	c.From.add(l)
	c.To.add(r)
	if l != r {
		c.differs(&c.Different, "different", left.ID)
	}
}

// near tells whether two documents differ by the rounding of unit vectors only.
func near(a, b index.Document, unit map[string]bool) bool {
	rest := [2]map[string][]float32{{}, {}}
	for i, d := range []index.Document{a, b} {
		for name, v := range d.Vectors {
			if !unit[name] {
				rest[i][name] = v
			}
		}
	}
	for name, v := range a.Vectors {
		w := b.Vectors[name]
		if !unit[name] {
			continue
		}
		if len(v) != len(w) {
			return false
		}
		for i := range v {
			if !(math.Abs(float64(v[i])-float64(w[i])) <= Tolerance) {
				return false
			}
		}
	}
	if len(a.Vectors) != len(b.Vectors) {
		return false
	}
	a.Vectors, b.Vectors = rest[0], rest[1]
	return hashOf(a) == hashOf(b)
}

type hash [2]uint64

// hashOf is the hash of a document's canonical form: each part with its kind and its
// length before it, fields by name.
func hashOf(d index.Document) hash {
	b := appendString(nil, d.ID)
	b = storage.AppendUvarint(b, uint64(len(d.Text)))
	for _, name := range slices.Sorted(maps.Keys(d.Text)) {
		b = appendString(appendString(b, name), d.Text[name])
	}
	b = storage.AppendUvarint(b, uint64(len(d.Vectors)))
	for _, name := range slices.Sorted(maps.Keys(d.Vectors)) {
		b = appendString(b, name)
		b = storage.AppendUvarint(b, uint64(len(d.Vectors[name])))
		for _, x := range d.Vectors[name] {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
	}
	b = storage.AppendUvarint(b, uint64(len(d.Meta)))
	for _, name := range slices.Sorted(maps.Keys(d.Meta)) {
		b = appendValue(appendString(b, name), d.Meta[name])
	}
	sum := sha256.Sum256(b)
	return hash{binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])}
}

func appendString(b []byte, s string) []byte {
	return append(storage.AppendUvarint(b, uint64(len(s))), s...)
}

// appendValue appends a value of metadata as an index gives it back.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, '0')
	case string:
		return appendString(append(b, 's'), v)
	case bool:
		if v {
			return append(b, 't')
		}
		return append(b, 'f')
	case int64:
		return storage.AppendU64(append(b, 'i'), uint64(v))
	case float64:
		return storage.AppendU64(append(b, 'd'), math.Float64bits(v))
	case time.Time:
		return storage.AppendU64(append(b, 'c'), uint64(v.UnixMicro()))
	case []string:
		return appendList(b, v)
	case []bool:
		return appendList(b, v)
	case []int64:
		return appendList(b, v)
	case []float64:
		return appendList(b, v)
	case []time.Time:
		return appendList(b, v)
	case []any:
		return appendList(b, v)
	}
	return appendString(append(b, '?'), fmt.Sprintf("%T %v", v, v))
}

func appendList[T any](b []byte, list []T) []byte {
	b = storage.AppendUvarint(append(b, 'l'), uint64(len(list)))
	for _, v := range list {
		b = appendValue(b, v)
	}
	return b
}
