package accept

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// The sets asked for last are kept, and an error is not.
func TestCache(t *testing.T) {
	var c Cache
	made := 0
	get := func(key int) *Set {
		s, err := c.Get(fmt.Append(nil, key), 1000, func() (*roaring.Bitmap, error) {
			made++
			return roaring.BitmapOf(uint32(key)), nil
		})
		if err != nil || s.Count != 1 || !s.Docs.Contains(uint32(key)) {
			t.Fatalf("key %d: %+v, %v", key, s, err)
		}
		return s
	}
	for key := range MaxSets {
		get(key)
	}
	if first := get(0); first != get(0) || made != MaxSets {
		t.Fatalf("%d made", made)
	}
	get(MaxSets) // the oldest is key 1 now
	if get(0); made != MaxSets+1 {
		t.Errorf("key 0 is gone: %d made", made)
	}
	if get(1); made != MaxSets+2 || len(c.sets) != MaxSets {
		t.Errorf("key 1 is there still: %d made, %d kept", made, len(c.sets))
	}
	fail := errors.New("fail")
	for range 2 {
		if _, err := c.Get([]byte("bad"), 1, func() (*roaring.Bitmap, error) { return nil, fail }); !errors.Is(err, fail) {
			t.Error(err)
		}
	}
}

// A Set gives the same docs in every form, to all at once.
func TestForms(t *testing.T) {
	s := NewSet(roaring.BitmapOf(3, 64, 70), 100)
	if s.Few(64) {
		t.Error("three of a hundred are fewer than one in 64")
	}
	if !NewSet(roaring.BitmapOf(3), 100).Few(64) {
		t.Error("one of a hundred is not fewer than one in 64")
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if !slices.Equal(s.List(), []uint32{3, 64, 70}) {
				t.Error(s.List())
			}
			bits := s.Bits()
			for doc := range uint32(100) {
				in := int(doc/64) < len(bits) && bits[doc/64]>>(doc%64)&1 == 1
				if in != s.Docs.Contains(doc) {
					t.Error(doc)
				}
			}
		})
	}
	wg.Wait()
}
