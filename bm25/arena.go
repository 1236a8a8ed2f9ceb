package bm25

import (
	"fmt"
	"math"

	"github.com/quarrysearch/quarry/storage"
)

const (
	slabBits = 20
	slabSize = 1 << slabBits
	linkSize = 4 // at the end of a piece: the address of the next
)

// pieceSizes are the sizes of a stream's pieces in turn, link included; the
// last one repeats.
var pieceSizes = [...]uint16{12, 16, 24, 40, 72, 136, 264, 520, 1032, 2056, 4104}

// A stream is an append-only run of bytes in pieces. head and at are addresses
// in the arena.
type stream struct {
	head, at uint32
	left     uint16 // bytes free in the piece
	level    uint8  // 0 = no piece yet, else index in pieceSizes + 1
}

// An arena hands out pieces of large slabs, up to 4 GiB.
type arena struct {
	slabs [][]byte
	used  int64
	err   error
}

func (a *arena) alloc(size uint16) uint32 {
	if a.used&(slabSize-1)+int64(size) > slabSize {
		a.used = (a.used | (slabSize - 1)) + 1 // pieces do not span slabs
	}
	if a.used+int64(size) > math.MaxUint32 {
		if a.err == nil {
			a.err = fmt.Errorf("%w: more than 4 GiB of postings in memory", storage.ErrTooLarge)
		}
		a.used = 0
	}
	if int(a.used>>slabBits) == len(a.slabs) {
		a.slabs = append(a.slabs, make([]byte, slabSize))
	}
	at := uint32(a.used)
	a.used += int64(size)
	return at
}

func (a *arena) appendUvarint(s *stream, v uint64) {
	if v < 0x80 && s.left > 0 {
		a.slabs[s.at>>slabBits][s.at&(slabSize-1)] = byte(v)
		s.at++
		s.left--
		return
	}
	for v >= 0x80 {
		a.appendByte(s, byte(v)|0x80)
		v >>= 7
	}
	a.appendByte(s, byte(v))
}

func (a *arena) appendByte(s *stream, v byte) {
	if s.left == 0 {
		a.extend(s)
	}
	a.slabs[s.at>>slabBits][s.at&(slabSize-1)] = v
	s.at++
	s.left--
}

func (a *arena) extend(s *stream) {
	size := pieceSizes[min(int(s.level), len(pieceSizes)-1)]
	at := a.alloc(size)
	if s.level == 0 {
		s.head = at
	} else {
		link := a.slabs[s.at>>slabBits][s.at&(slabSize-1):]
		link[0], link[1], link[2], link[3] = byte(at), byte(at>>8), byte(at>>16), byte(at>>24)
	}
	s.at, s.left = at, size-linkSize
	s.level = min(s.level+1, uint8(len(pieceSizes)))
}

// A streamReader reads a stream from its head.
type streamReader struct {
	a     *arena
	at    uint32
	left  uint16
	level uint8
}

func (a *arena) read(s stream) streamReader {
	return streamReader{a: a, at: s.head, left: pieceSizes[0] - linkSize, level: 1}
}

func (r *streamReader) uvarint() (v uint64) {
	for shift := 0; ; shift += 7 {
		if r.left == 0 {
			link := r.a.slabs[r.at>>slabBits][r.at&(slabSize-1):]
			r.at = uint32(link[0]) | uint32(link[1])<<8 | uint32(link[2])<<16 | uint32(link[3])<<24
			r.left = pieceSizes[min(int(r.level), len(pieceSizes)-1)] - linkSize
			r.level = min(r.level+1, uint8(len(pieceSizes)))
		}
		c := r.a.slabs[r.at>>slabBits][r.at&(slabSize-1)]
		r.at++
		r.left--
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
}
