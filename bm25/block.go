package bm25

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/quarrysearch/quarry/internal/bitpack"
)

const (
	blockDocs   = bitpack.Block // docs in a full block
	groupBlocks = 32            // blocks between two group skips
	posRun      = 64            // positions that share a width

	docsBitset  = 0x40 // token of a doc block stored as a bitset
	docsPatched = 0x80 // bit of the token of a doc block with exceptions

	maxPatches = 15 // exceptions of a doc block
	patchBits  = 8  // of an exception above the width

	// smallDocs is the df from which on a list has blocks. Below, headers and
	// impacts would outweigh the postings.
	smallDocs = 64

	blockImpacts = 8  // Pareto pairs kept a block
	groupImpacts = 16 // and for a group or a whole list

	inlinePositions = 4 // greatest tf whose positions lie in the dictionary
)

// A batch is up to a block of postings in the making or undone: the positions
// of all docs lie one after the other, freqs[i] of them for docs[i].
type batch struct {
	n     int
	docs  [blockDocs]uint32
	freqs [blockDocs]uint32
	pos   []uint32
}

// appendDocs appends docs, all at least base, as a token and data: gaps packed
// in token bits each, some of them patched, or the bitset of base … last when
// that is no larger than gaps one bit wider than the widest would be.
func appendDocs(dst []byte, docs []uint32, base uint32) []byte {
	var gaps [blockDocs]uint32
	var count [bitpack.MaxWidth + 1]int
	at := base
	for i, d := range docs {
		gaps[i] = d - at
		count[bits.Len32(gaps[i])]++
		at = d + 1
	}
	n := len(docs)
	width := bitpack.Width(gaps[:n])
	words := int((docs[n-1]-base)/64) + 1
	if width > 0 && 8*words <= bitpack.RunSize(n, width+1) {
		dst = append(dst, docsBitset)
		from := len(dst)
		dst = append(dst, make([]byte, 8*words)...)
		set := dst[from:]
		for _, d := range docs {
			set[(d-base)/8] |= 1 << ((d - base) % 8)
		}
		return dst
	}
	width, patches := patchedWidth(n, width, &count)
	if patches == 0 {
		dst = append(dst, byte(width))
	} else {
		dst = append(dst, byte(docsPatched|width), byte(patches))
		for i, g := range gaps[:n] {
			if g>>width != 0 {
				dst = append(dst, byte(i), byte(g>>width))
			}
		}
	}
	if n == blockDocs {
		return bitpack.Pack(dst, &gaps, width)
	}
	return bitpack.AppendRun(dst, gaps[:n], width)
}

// patchedWidth returns the width, at most top, at which n gaps take the fewest
// bytes, and how many are wider than it; count tells how many there are of each
// width. A patch is charged double, for its time.
func patchedWidth(n, top int, count *[bitpack.MaxWidth + 1]int) (width, patches int) {
	width = top
	size := bitpack.RunSize(n, top)
	more := count[top]
	for w := top - 1; w >= max(top-patchBits, 0) && more <= maxPatches; w-- {
		if s := 1 + 4*more + bitpack.RunSize(n, w); s < size && w+patchBits <= bitpack.MaxWidth {
			width, patches, size = w, more, s
		}
		more += count[w]
	}
	return width, patches
}

// readDocs decodes n docs between base and last into dst and returns the bytes
// read, or -1. Whatever the bytes, a success means strictly ascending docs from
// base up to exactly last.
func readDocs(dst *[blockDocs]uint32, n int, src []byte, base, last uint32) int {
	size := docsSize(src, n, base, last)
	if size < 0 {
		return -1
	}
	token := int(src[0])
	body := src[1:size]
	if token == docsBitset {
		if !readBitset(dst, n, body, base) || dst[n-1] != last {
			return -1
		}
		return size
	}
	width, patches := token&^docsPatched, body[:0]
	if token != width {
		patches, body = body[1:1+2*int(body[0])], body[1+2*int(body[0]):]
	}
	if n == blockDocs {
		bitpack.Unpack(dst, body, width)
	} else {
		bitpack.Run(dst[:n], body, width)
	}
	widest := width
	if len(patches) > 0 {
		widest += patchBits
		for ; len(patches) >= 2; patches = patches[2:] {
			dst[patches[0]] |= uint32(patches[1]) << width
		}
	}
	// Below 24 bits, 256 gaps and their count stay under 2^32: a sum that is
	// right modulo 2^32 is right, and no doc on the way can wrap around.
	if widest >= 24 && !sumsTo(dst[:n], base, last) {
		return -1
	}
	bitpack.PrefixSum(dst[:n], base)
	if dst[n-1] != last {
		return -1
	}
	return size
}

// docsSize returns the bytes of a block of n docs, or -1.
func docsSize(src []byte, n int, base, last uint32) int {
	if len(src) == 0 {
		return -1
	}
	size, token := 1, int(src[0])
	switch {
	case token == docsBitset:
		size += 8 * (int((last-base)/64) + 1)
	case token <= bitpack.MaxWidth:
		size += bitpack.RunSize(n, token)
	case token&^docsPatched > bitpack.MaxWidth-patchBits || token&docsPatched == 0 || len(src) < 2:
		return -1
	default:
		size += 1 + 2*int(src[1]) + bitpack.RunSize(n, token&^docsPatched)
	}
	if size > len(src) {
		return -1
	}
	return size
}

// sumsTo tells whether the gaps lead from base to last without overflow.
func sumsTo(gaps []uint32, base, last uint32) bool {
	sum := uint64(base) + uint64(len(gaps)) - 1
	for _, g := range gaps {
		sum += uint64(g)
	}
	return sum == uint64(last)
}

// readBitset lists the set bits of src, which must be exactly n.
func readBitset(dst *[blockDocs]uint32, n int, src []byte, base uint32) bool {
	k := 0
	for len(src) >= 8 {
		w := binary.LittleEndian.Uint64(src)
		src = src[8:]
		if k+bits.OnesCount64(w) > n {
			return false
		}
		for w != 0 {
			dst[k&(blockDocs-1)] = base + uint32(bits.TrailingZeros64(w))
			k++
			w &= w - 1
		}
		base += 64
	}
	return k == n
}

// appendFreqs appends frequencies, from 1 to 2^31, as patched packed values
// (PFOR): one byte of width and exception count, the exceptions as an index
// and the byte above the width each, then freq−1 packed.
func appendFreqs(dst []byte, freqs []uint32) []byte {
	n := len(freqs)
	if slices.Max(freqs) == 1 {
		return append(dst, 0)
	}
	var values [blockDocs]uint32
	var count [32]int
	for i, f := range freqs {
		values[i] = f - 1
		count[bits.Len32(f-1)&31]++
	}
	top := 31
	for top > 0 && count[top] == 0 {
		top--
	}
	width, except, size := top, 0, bitpack.RunSize(n, top)
	for w, e := top-1, count[top]; w >= max(top-8, 0) && e <= 7; w-- {
		if s := bitpack.RunSize(n, w) + 2*e; s < size {
			width, except, size = w, e, s
		}
		e += count[w]
	}
	dst = append(dst, byte(width|except<<5))
	for i, v := range values[:n] {
		if v>>width != 0 {
			dst = append(dst, byte(i), byte(v>>width))
		}
	}
	if n == blockDocs {
		return bitpack.Pack(dst, &values, width)
	}
	return bitpack.AppendRun(dst, values[:n], width)
}

// readFreqs decodes n frequencies and returns the bytes read, or -1.
func readFreqs(dst *[blockDocs]uint32, n int, src []byte) int {
	if len(src) == 0 {
		return -1
	}
	width, except := int(src[0]&31), int(src[0]>>5)
	patches := src[1:]
	size := bitpack.RunSize(n, width)
	if len(patches) < 2*except+size {
		return -1
	}
	patches, src = patches[:2*except], patches[2*except:]
	if n == blockDocs {
		bitpack.UnpackPlus1(dst, src, width)
	} else {
		bitpack.Run(dst[:n], src, width)
		for i := range dst[:n] {
			dst[i]++
		}
	}
	for len(patches) >= 2 {
		dst[patches[0]] += uint32(patches[1]) << width
		patches = patches[2:]
	}
	return 1 + 2*except + size
}

// readFreq decodes frequency i of n, or returns 0 for bad bytes.
func readFreq(src []byte, n, i int) uint32 {
	if len(src) == 0 {
		return 0
	}
	width, except := int(src[0]&31), int(src[0]>>5)
	patches := src[1:]
	if len(patches) < 2*except {
		return 0
	}
	patches, src = patches[:2*except], patches[2*except:]
	var v uint32
	if width > 0 {
		var ok bool
		if n == blockDocs {
			v, ok = bitpack.At(src, i, width)
		} else {
			v, ok = bitpack.RunAt(src, n, i, width)
		}
		if !ok {
			return 0
		}
	}
	for ; len(patches) >= 2; patches = patches[2:] {
		if int(patches[0]) == i {
			v |= uint32(patches[1]) << width
		}
	}
	return v + 1
}

// A bitset is a block of docs stored as one, asked without decoding it.
type bitset struct {
	words []byte
	base  uint32                            // doc of bit 0
	ranks [4 * (bitpack.MaxWidth + 1)]uint8 // docs before each word
}

// open takes a block of n docs from base up to last. It reports false when the
// block is stored otherwise or is not sound: then readDocs decides.
func (b *bitset) open(src []byte, n int, base, last uint32) bool {
	words := int((last-base)/64) + 1
	if len(src) < 1+8*words || src[0] != docsBitset || words > len(b.ranks) {
		return false
	}
	b.words, b.base = src[1:1+8*words], base
	count, w := 0, uint64(0)
	for i := range words {
		b.ranks[i] = uint8(count)
		w = binary.LittleEndian.Uint64(b.words[8*i:])
		count += bits.OnesCount64(w)
	}
	return count == n && 63-bits.LeadingZeros64(w) == int((last-base)%64)
}

// seek returns the first doc ≥ doc, which must not exceed the last one, and
// its number in the block.
func (b *bitset) seek(doc uint32) (uint32, int) {
	at := doc - b.base
	i := int(at / 64)
	w := binary.LittleEndian.Uint64(b.words[8*i:])
	above := w >> (at % 64) << (at % 64)
	for above == 0 && 8*i+16 <= len(b.words) {
		i++
		w = binary.LittleEndian.Uint64(b.words[8*i:])
		above = w
	}
	bit := bits.TrailingZeros64(above)
	return b.base + uint32(64*i+bit), int(b.ranks[i]) + bits.OnesCount64(w&(1<<bit-1))
}

// orInto adds the docs to the bits of a window that starts at from.
func (b *bitset) orInto(set *[windowWords]uint64, from uint32) {
	at := int64(b.base) - int64(from)
	for src := b.words; len(src) >= 8 && at < windowDocs; src, at = src[8:], at+64 {
		w := binary.LittleEndian.Uint64(src)
		i, shift := int(at>>6), uint(at&63)
		if i >= 0 {
			set[i&(windowWords-1)] |= w << shift
		}
		if i >= -1 && i+1 < windowWords {
			set[(i+1)&(windowWords-1)] |= w >> (64 - shift)
		}
	}
}

// appendPositions appends the positions of a block of docs: one width for
// every run of 64 values, then the runs, packed. A doc's first position is a
// value as it is, the others are gaps less one.
func appendPositions(dst []byte, freqs, pos []uint32) []byte {
	head := len(dst)
	runs := (len(pos) + posRun - 1) / posRun
	for range runs {
		dst = append(dst, 0)
	}
	var run [posRun]uint32
	left := uint32(0) // positions left of the current doc
	doc, prev, fill, r := 0, uint32(0), 0, 0
	for i, p := range pos {
		if left == 0 {
			left = freqs[doc]
			doc++
			run[fill] = p
		} else {
			run[fill] = p - prev - 1
		}
		prev = p
		left--
		fill++
		if fill == posRun || i == len(pos)-1 {
			width := bitpack.Width(run[:fill])
			dst[head+r] = byte(width)
			dst = bitpack.AppendRun(dst, run[:fill], width)
			fill = 0
			r++
		}
	}
	return dst
}

// readPositions decodes the positions of one doc of a block into dst, whose
// length is the doc's tf. src holds the block's total positions; the doc's are
// numbers from … from+len(dst)−1. Only the widths of the runs before them are
// read. It reports false on bad bytes; a success means ascending positions.
func readPositions(dst []uint32, src []byte, from, total uint64) bool {
	runs := (total + posRun - 1) / posRun
	if runs > uint64(len(src)) || from+uint64(len(dst)) > total {
		return false
	}
	widths, data := src[:runs], src[runs:]
	r := int(from / posRun)
	off := 0
	for _, w := range widths[:r] {
		off += posRun / 8 * int(w)
	}
	at := int(from % posRun)
	for out := dst; len(out) > 0; r++ {
		n := min(posRun-at, len(out))
		if r >= len(widths) || off > len(data) {
			return false
		}
		if !bitpack.RunFrom(out[:n], data[off:], at, int(widths[r])) {
			return false
		}
		off += posRun / 8 * int(widths[r])
		out = out[n:]
		at = 0
	}
	for i := 1; i < len(dst); i++ {
		dst[i] += dst[i-1] + 1
		if dst[i] <= dst[i-1] {
			return false
		}
	}
	return true
}

// readAllPositions decodes the positions of all docs of a block into dst,
// grown when too small. It reports false on bad bytes.
func readAllPositions(dst []uint32, src []byte, freqs []uint32) ([]uint32, bool) {
	total := uint64(0)
	for _, f := range freqs {
		total += uint64(f)
	}
	runs := (total + posRun - 1) / posRun
	if runs > uint64(len(src)) {
		return dst[:0], false
	}
	dst = grow(dst, int(total))
	data := src[runs:]
	for out, r := dst, 0; len(out) > 0; r++ {
		n := min(posRun, len(out))
		if !bitpack.Run(out[:n], data, int(src[r])) {
			return dst[:0], false
		}
		data = data[bitpack.RunSize(n, int(src[r])):]
		out = out[n:]
	}
	rest := dst
	for _, f := range freqs {
		doc := rest[:f]
		rest = rest[f:]
		for i := 1; i < len(doc); i++ {
			if doc[i] += doc[i-1] + 1; doc[i] <= doc[i-1] {
				return dst[:0], false
			}
		}
	}
	return dst, true
}

// An impact is a pair no posting of a block beats: none has both a freq of at
// least this and a norm below it, save those under other pairs of the set.
type impact struct {
	freq uint32
	norm byte
}

// An impactSet collects the Pareto set of (freq up, norm down).
type impactSet struct {
	best   [256]uint32 // greatest freq of each norm
	lo, hi int         // norms from lo up to hi, exclusive, may have one
	out    []impact
}

func (s *impactSet) add(freqs, docs []uint32, norms []byte) {
	lo, hi := s.lo, s.hi
	if hi == 0 {
		lo = len(s.best)
	}
	for i, d := range docs {
		n := norms[d]
		s.best[n] = max(s.best[n], freqs[i])
		lo, hi = min(lo, int(n)), max(hi, int(n)+1)
	}
	s.lo, s.hi = lo, hi
}

func (s *impactSet) addAll(o *impactSet) {
	if o.hi == 0 {
		return
	}
	if s.hi == 0 {
		s.lo = o.lo
	}
	s.lo, s.hi = min(s.lo, o.lo), max(s.hi, o.hi)
	for i, f := range o.best[o.lo:o.hi] {
		s.best[o.lo+i] = max(s.best[o.lo+i], f)
	}
}

// take returns the Pareto set in ascending order of freq and norm, at most
// limit pairs, and empties s. Above the limit the two neighbors nearest in
// norm are replaced by the pair that bounds both.
func (s *impactSet) take(limit int) []impact {
	out := s.out[:0]
	high := uint32(0)
	best := s.best[s.lo:s.hi]
	for n, f := range best {
		if f > high {
			out = append(out, impact{f, byte(s.lo + n)})
			high = f
		}
	}
	for len(out) > limit {
		near := 0
		for i := 1; i+1 < len(out); i++ {
			if out[i+1].norm-out[i].norm < out[near+1].norm-out[near].norm {
				near = i
			}
		}
		out[near].freq = out[near+1].freq
		out = append(out[:near+1], out[near+2:]...)
	}
	s.out = out
	clear(best)
	s.lo, s.hi = 0, 0
	return out
}

// appendImpacts appends the byte length and the pairs: the gap of freq less
// one, shifted left for a bit that says whether the gap of norm is more than
// one, then that gap less one as a byte.
func appendImpacts(dst []byte, pairs []impact) []byte {
	var buf [groupImpacts * 6]byte
	b := buf[:0]
	prev := impact{}
	for _, p := range pairs {
		f, n := uint64(p.freq-prev.freq-1), p.norm-prev.norm-1
		if n == 0 {
			b = binary.AppendUvarint(b, f<<1)
		} else {
			b = append(binary.AppendUvarint(b, f<<1|1), n)
		}
		prev = p
	}
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// nextImpact decodes the pair after prev and returns what follows, or ok =
// false at the end or at bad bytes.
func nextImpact(src []byte, prev impact) (p impact, rest []byte, ok bool) {
	v, n := binary.Uvarint(src)
	if n <= 0 {
		return p, nil, false
	}
	src = src[n:]
	p.freq = prev.freq + uint32(v>>1) + 1
	p.norm = prev.norm + 1
	if v&1 != 0 {
		if len(src) == 0 {
			return p, nil, false
		}
		p.norm += src[0]
		src = src[1:]
	}
	return p, src, true
}

// impactBound returns the greatest contribution under a set of impacts.
func impactBound(src []byte, w float32, inv *[256]float32) uint32 {
	var bound uint32
	var p impact
	ok := true
	for len(src) > 0 {
		if p, src, ok = nextImpact(src, p); !ok {
			break
		}
		bound = max(bound, contribution(w, p.freq, inv[p.norm]))
	}
	return bound
}

// positionsSize returns the bytes of a block of total positions, or -1.
func positionsSize(src []byte, total uint64) int {
	runs := (total + posRun - 1) / posRun
	if runs > uint64(len(src)) {
		return -1
	}
	size := int(runs)
	for i, w := range src[:runs] {
		n := posRun
		if i == int(runs)-1 {
			n = int(total - uint64(i)*posRun)
		}
		size += bitpack.RunSize(n, int(w))
	}
	return size
}
