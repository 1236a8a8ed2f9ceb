package filter

import (
	"slices"

	"github.com/quarrysearch/quarry/storage"
)

// A dict reads the keywords of a field: blocks of blockKeywords keywords,
// each but the first of a block written as what differs from the one before.
type dict struct {
	name   string // of the section, for errors
	data   []byte
	blocks []uint64
	n      uint32
}

// A dictCursor walks a dict in order. After an error key stays empty.
type dictCursor struct {
	d    *dict
	dec  *storage.Decoder
	next uint32 // ord that advance will read
	key  []byte // the keyword before it; reused by advance
}

// block returns a cursor before the first keyword of block i.
func (d *dict) block(i int) (dictCursor, error) {
	start, end := d.blocks[i], uint64(len(d.data))
	if i+1 < len(d.blocks) {
		end = d.blocks[i+1]
	}
	if start > end || end > uint64(len(d.data)) {
		return dictCursor{}, storage.Corruptf(d.name, int64(min(start, uint64(len(d.data)))), "keyword block %d out of order", i)
	}
	dec := storage.NewDecoder(d.name, int64(start), d.data[start:end])
	return dictCursor{d: d, dec: dec, next: uint32(i) * blockKeywords}, nil
}

// advance reads the next keyword of the block into c.key.
func (c *dictCursor) advance() error {
	shared := uint64(0)
	if c.next%blockKeywords != 0 {
		if shared = c.dec.Uvarint(); shared > uint64(len(c.key)) {
			c.dec.Fail("keyword shares %d of %d bytes", shared, len(c.key))
		}
	}
	suffix := c.dec.Bytes()
	if c.dec.Err() == nil && shared+uint64(len(suffix)) > MaxKeywordSize {
		c.dec.Fail("keyword of %d bytes", shared+uint64(len(suffix)))
	}
	if err := c.dec.Err(); err != nil {
		c.key = c.key[:0]
		return err
	}
	c.key = append(c.key[:shared], suffix...)
	c.next++
	return nil
}

// seek moves the cursor so that key is the keyword of ord, which must be
// below d.n. Going forward within a block costs only the step.
func (c *dictCursor) seek(ord uint32) error {
	if c.dec == nil || ord < c.next || ord/blockKeywords != (c.next-1)/blockKeywords {
		if c.dec != nil && ord+1 == c.next {
			return nil
		}
		key := c.key
		fresh, err := c.d.block(int(ord / blockKeywords))
		if err != nil {
			return err
		}
		*c = fresh
		c.key = key[:0]
	}
	for c.next <= ord {
		if err := c.advance(); err != nil {
			return err
		}
	}
	return nil
}

// cursor returns a cursor that must be sought before use.
func (d *dict) cursor() dictCursor { return dictCursor{d: d} }

// lowerBound returns the ord of the first keyword ≥ s, d.n when there is none.
func (d *dict) lowerBound(s string) (uint32, error) {
	// The last block whose first keyword is ≤ s, by binary search.
	lo, hi := 0, len(d.blocks)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		c, err := d.block(mid)
		if err == nil {
			err = c.advance()
		}
		if err != nil {
			return 0, err
		}
		if string(c.key) <= s {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return 0, nil
	}
	c, err := d.block(lo - 1)
	if err != nil {
		return 0, err
	}
	end := min(uint32(lo)*blockKeywords, d.n)
	for c.next < end {
		if err := c.advance(); err != nil {
			return 0, err
		}
		if string(c.key) >= s {
			return c.next - 1, nil
		}
	}
	return end, nil
}

// lowerBoundNum returns the ord of the first key ≥ k.
func lowerBoundNum(keys []int64, k int64) uint32 {
	i, _ := slices.BinarySearch(keys, k)
	return uint32(i)
}
