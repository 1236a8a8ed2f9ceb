// Package accept holds which docs of a segment pass a filter, in the forms that
// the legs of a query want, and keeps them for the next query with that filter.
//
//	filter ─ key ─► Cache ─► Set ─┬─► Docs   roaring bitmap, for ids and counts
//	                              ├─► Bits   one bit a doc   ┐ for keyword search,
//	                              ├─► List   the docs        ┘ whichever is faster
//	                              └─► Ords   one bit a vector, for vector search
//
// A Cache belongs to a segment with the tombstones of one moment, so what it
// holds never becomes wrong. A Set is immutable and shared: nothing it returns
// may be written. Each form is made when it is first asked for. All methods are
// free for all goroutines.
//
// A Set takes at most an eighth of a byte a doc for each form, and a Cache holds
// MaxSets of them, those asked for last.
package accept

import (
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/hnsw"
)

// MaxSets is the number of filters that a Cache remembers.
const MaxSets = 16

// A Cache remembers Sets by the key of their filter. The zero value is empty.
type Cache struct {
	mu   sync.Mutex
	sets []*Set // the last asked for first
}

// Get returns the Set of a key. A new one holds the docs that find returns, of
// docs in all; they become the Set's.
func (c *Cache) Get(key []byte, docs uint32, find func() (*roaring.Bitmap, error)) (*Set, error) {
	if s := c.look(key); s != nil {
		return s, nil
	}
	found, err := find() // twice when two ask at once
	if err != nil {
		return nil, err
	}
	s := NewSet(found, docs)
	s.key = string(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sets) < MaxSets {
		c.sets = append(c.sets, nil)
	}
	copy(c.sets[1:], c.sets)
	c.sets[0] = s
	return s, nil
}

// look finds a Set and moves it to the front.
func (c *Cache) look(key []byte) *Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range c.sets {
		if s.key == string(key) {
			copy(c.sets[1:i+1], c.sets[:i])
			c.sets[0] = s
			return s
		}
	}
	return nil
}

// A Set is the docs of a segment that pass.
type Set struct {
	Docs  *roaring.Bitmap // read only
	Count int             // of Docs

	key  string
	docs uint32 // of the segment
	bits func() []uint64
	list func() []uint32
	mu   sync.Mutex
	ords map[*hnsw.Field][]uint64
}

// NewSet makes a Set of docs found among docs in all. It takes found over.
func NewSet(found *roaring.Bitmap, docs uint32) *Set {
	s := &Set{Docs: found, Count: int(found.GetCardinality()), docs: docs}
	s.bits = sync.OnceValue(found.ToDense)
	s.list = sync.OnceValue(found.ToArray)
	return s
}

// Few says whether fewer than one doc in so many passes.
func (s *Set) Few(in int) bool { return s.Count*in < int(s.docs) }

// List returns the docs, ascending.
func (s *Set) List() []uint32 { return s.list() }

// Bits returns one bit a doc, as far as the last that passes.
func (s *Set) Bits() []uint64 { return s.bits() }

// Ords returns the ord bitset of a field of the segment.
func (s *Set) Ords(f *hnsw.Field) []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.ords[f]; ok {
		return b
	}
	if s.ords == nil {
		s.ords = map[*hnsw.Field][]uint64{}
	}
	b := f.AcceptDocs(s.Docs, nil)
	s.ords[f] = b
	return b
}
