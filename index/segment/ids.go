package segment

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"unicode/utf8"
	"unsafe"

	"github.com/quarrysearch/quarry/storage"
)

const (
	// MaxID is the longest document id in bytes.
	MaxID = 512

	idGroup  = 1 << 16 // docs that share a 64-bit base, so that offsets fit 32 bits
	idSample = 16      // docs a sample stands for
)

// IDs maps docs to ids and back. Docs are numbered in ascending order of id,
// so the ids are one sorted array of strings: bytes one after the other, an
// offset each, and every 16th id's first eight distinguishing bytes as a
// number, so that a lookup is a binary search over integers and at most a
// handful of string compares (≤ 1 µs in a million ids).
//
// IDs only points into the segment's bytes. It is safe for concurrent use and
// valid as long as the segment is.
type IDs struct {
	docs   uint32
	prefix int      // bytes that all ids share
	bases  []uint64 // first byte of every group of 65,536 docs
	offs   []uint32 // start of a doc's bytes behind its group's base; docs+1 of them
	keys   []uint64 // bytes prefix…prefix+8 of ids 0, 16, 32 …, big endian
	data   []byte
}

// writeIDs writes the sections of n sorted, distinct ids.
func writeIDs(create creator, n int, at func(int) []byte) error {
	prefix := 0
	if n > 0 {
		prefix = sharedPrefix(at(0), at(n-1))
	}
	var bases []uint64
	offs := make([]uint32, 0, n+1)
	keys := make([]uint64, 0, n/idSample+1)
	var pos uint64
	for i := range n {
		id := at(i)
		if i%idGroup == 0 {
			bases = append(bases, pos)
		}
		if i%idSample == 0 {
			keys = append(keys, idKey(id[prefix:]))
		}
		offs = append(offs, uint32(pos-bases[i/idGroup]))
		pos += uint64(len(id))
	}
	if n%idGroup == 0 {
		bases = append(bases, pos)
	}
	offs = append(offs, uint32(pos-bases[n/idGroup]))

	head := storage.AppendU64(nil, uint64(n))
	head = storage.AppendU64(head, uint64(prefix))
	for _, b := range bases {
		head = storage.AppendU64(head, b)
	}
	if err := writeSection(create, "ids/head", head); err != nil {
		return err
	}
	if err := writeSection(create, "ids/offsets", asBytes(offs)); err != nil {
		return err
	}
	if err := writeSection(create, "ids/keys", asBytes(keys)); err != nil {
		return err
	}
	w, err := create("ids/bytes")
	if err != nil {
		return err
	}
	buf := make([]byte, 0, min(pos, 64<<10))
	for i := range n {
		id := at(i)
		if len(buf)+len(id) > 64<<10 {
			if _, err := w.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
		buf = append(buf, id...)
	}
	_, err = w.Write(buf)
	return err
}

// openIDs checks the shape of the sections, in time that does not depend on
// the number of ids, except for one pass over the bases (a byte per 8,192 docs).
func openIDs(section func(string) ([]byte, bool), docs uint32) (*IDs, error) {
	head, _ := section("ids/head")
	d := storage.NewDecoder("ids/head", 0, head)
	n, prefix := d.U64(), d.U64()
	if d.Err() == nil && (n != uint64(docs) || prefix > MaxID) {
		d.Fail("%d ids with a shared prefix of %d bytes in a segment of %d docs", n, prefix, docs)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	x := &IDs{docs: docs, prefix: int(prefix)}
	x.data, _ = section("ids/bytes")
	groups := int(docs)/idGroup + 1
	if d.Len() != 8*groups {
		return nil, storage.Corruptf("ids/head", 16, "%d bytes of bases for %d docs", d.Len(), docs)
	}
	x.bases = make([]uint64, groups)
	for i := range x.bases {
		b := d.U64()
		if b > uint64(len(x.data)) || i > 0 && b < x.bases[i-1] {
			return nil, storage.Corruptf("ids/head", 16+8*int64(i), "base %d of %d bytes", b, len(x.data))
		}
		x.bases[i] = b
	}
	var err error
	if x.offs, err = castSection[uint32](section, "ids/offsets", int(docs)+1); err != nil {
		return nil, err
	}
	if x.keys, err = castSection[uint64](section, "ids/keys", (int(docs)+idSample-1)/idSample); err != nil {
		return nil, err
	}
	return x, nil
}

// Len returns the number of ids.
func (x *IDs) Len() int { return int(x.docs) }

// Bytes returns a doc's id without copying it; nil for a doc out of range or
// damaged offsets.
func (x *IDs) Bytes(doc uint32) []byte {
	if doc >= x.docs {
		return nil
	}
	lo := x.bases[doc/idGroup] + uint64(x.offs[doc])
	hi := x.bases[(doc+1)/idGroup] + uint64(x.offs[doc+1])
	if lo > hi || hi > uint64(len(x.data)) {
		return nil
	}
	return x.data[lo:hi:hi]
}

// String returns a copy of a doc's id.
func (x *IDs) String(doc uint32) string { return string(x.Bytes(doc)) }

// Find returns the doc of an id.
func (x *IDs) Find(id string) (uint32, bool) {
	b := unsafe.Slice(unsafe.StringData(id), len(id))
	doc := x.seek(b)
	return doc, doc < x.docs && bytes.Equal(x.Bytes(doc), b)
}

// Seek returns the first doc whose id is not less than id; Len when there is
// none.
func (x *IDs) Seek(id string) uint32 {
	return x.seek(unsafe.Slice(unsafe.StringData(id), len(id)))
}

func (x *IDs) seek(id []byte) uint32 {
	if x.docs == 0 {
		return 0
	}
	first := x.Bytes(0)
	if len(first) < x.prefix {
		return x.docs // damaged
	}
	n := min(x.prefix, len(id))
	if c := cmp.Or(bytes.Compare(id[:n], first[:n]), cmp.Compare(n, x.prefix)); c != 0 {
		if c < 0 {
			return 0
		}
		return x.docs
	}
	// Every doc before the first sample that is ≥ key is bounded by it, and
	// the answer is not before the last sample that is < key.
	key := idKey(id[x.prefix:])
	lo := lowerBound(x.keys, key)
	hi := lo
	for hi < len(x.keys) && x.keys[hi] == key {
		hi++
		if hi-lo > 8 { // many ids share the key's bytes
			hi = lo + upperBound(x.keys[lo:], key)
			break
		}
	}
	from, to := uint32(max(lo-1, 0)*idSample), min(uint32(hi*idSample), x.docs)
	for from < to {
		mid := from + (to-from)/2
		if bytes.Compare(x.Bytes(mid), id) < 0 {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}

// verify checks that ids are in range, valid and strictly ascending, and that
// prefix and samples are theirs.
func (x *IDs) verify() error {
	var last []byte
	if x.docs > 0 {
		if p := sharedPrefix(x.Bytes(0), x.Bytes(x.docs-1)); p != x.prefix {
			return storage.Corruptf("ids/head", 8, "shared prefix is %d bytes, not %d", p, x.prefix)
		}
	}
	for doc := range x.docs {
		id := x.Bytes(doc)
		if len(id) == 0 || len(id) > MaxID {
			return storage.Corruptf("ids/offsets", 4*int64(doc), "id of doc %d has %d bytes", doc, len(id))
		}
		if doc > 0 && bytes.Compare(last, id) >= 0 {
			return storage.Corruptf("ids/offsets", 4*int64(doc), "id of doc %d is not above the one before", doc)
		}
		if doc%idSample == 0 && x.keys[doc/idSample] != idKey(id[min(x.prefix, len(id)):]) {
			return storage.Corruptf("ids/keys", 8*int64(doc/idSample), "sample of doc %d is not its id's", doc)
		}
		last = id
	}
	if n := len(x.data); x.docs > 0 && x.bases[x.docs/idGroup]+uint64(x.offs[x.docs]) != uint64(n) {
		return storage.Corruptf("ids/bytes", int64(n), "ids end before the section does")
	}
	return nil
}

// idKey is the first eight bytes of b as a number that orders like b does, as
// far as eight bytes reach: a ≤ b implies idKey(a) ≤ idKey(b).
func idKey(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var p [8]byte
	copy(p[:], b)
	return binary.BigEndian.Uint64(p[:])
}

func lowerBound(keys []uint64, key uint64) int {
	lo, hi := 0, len(keys)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if keys[mid] < key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func upperBound(keys []uint64, key uint64) int {
	lo, hi := 0, len(keys)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if keys[mid] <= key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func sharedPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func writeSection(create creator, name string, b []byte) error {
	w, err := create(name)
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

func asBytes[T uint32 | uint64](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// castSection views a section of n little-endian numbers, or copies it where
// it is not aligned (sections of a mapped file always are).
func castSection[T uint32 | uint64](section func(string) ([]byte, bool), name string, n int) ([]T, error) {
	b, ok := section(name)
	size := int(unsafe.Sizeof(T(0)))
	if !ok || len(b)%size != 0 || len(b)/size != n {
		return nil, storage.Corruptf(name, 0, "%d bytes for %d numbers", len(b), n)
	}
	if n == 0 {
		return nil, nil
	}
	if uintptr(unsafe.Pointer(&b[0]))%uintptr(size) != 0 {
		c := make([]T, n)
		copy(asBytes(c), b)
		return c, nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n), nil
}

// CheckID returns ErrInvalid, or ErrTooLarge, for an id that is not 1–512
// bytes of UTF-8.
func CheckID(id string) error {
	switch {
	case id == "":
		return storage.Invalidf("document id is empty")
	case len(id) > MaxID:
		return fmt.Errorf("%w: document id %.40q… has %d bytes, the limit is %d", storage.ErrTooLarge, id, len(id), MaxID)
	case !utf8.ValidString(id):
		return storage.Invalidf("document id %q is not UTF-8", id)
	}
	return nil
}

func f32Bytes(s []float32) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), 4*len(s))
}
