package tokenize

import (
	_ "embed"
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/quarrysearch/quarry/storage"
)

// nmtNFKC is the charsmap of SentencePiece's rule nmt_nfkc as of 2019, the one
// of XLM-RoBERTa: NFKC, and most spaces and format characters as a space.
//
//go:embed nmt_nfkc.tab
var nmtNFKC string

// maxKey is the longest key in bytes a charsmap keeps. The reference looks up
// whole grapheme clusters of less than 6 bytes and, in longer ones, single
// runes; and of the keys that start such a text it takes the shortest.
const (
	maxKey    = 5
	maxOutput = 255 // bytes a key becomes
)

// A charsmap is SentencePiece's precompiled normalizer, reduced to the keys
// that can be found.
type charsmap struct {
	trie  trie // values are indices of outs
	outs  []charsmapOut
	ascii [utf8.RuneSelf]int16 // index of outs for the rune alone, −1 = none
}

type charsmapOut struct {
	text  string
	runes int
}

// lookup finds what text becomes: the output of the shortest key it starts
// with.
func (m *charsmap) lookup(text string) *charsmapOut {
	n := uint32(0)
	for i := range len(text) {
		k, ok := m.trie.step(n, text[i])
		if !ok {
			return nil
		}
		n = k
		if v, ok := m.trie.value(n); ok {
			return &m.outs[v]
		}
	}
	return nil
}

// appendCharsmap appends the compact form of sorted entries.
func appendCharsmap(dst []byte, keys []string, outs map[string]string) []byte {
	dst = storage.AppendUvarint(dst, uint64(len(keys)))
	prev := ""
	for _, k := range keys {
		n := commonPrefix(prev, k)
		dst = storage.AppendUvarint(dst, uint64(n))
		dst = storage.AppendBytes(dst, k[n:])
		dst = storage.AppendBytes(dst, outs[k])
		prev = k
	}
	return dst
}

// parseCharsmap reads the compact form.
func parseCharsmap(d *storage.Decoder) *charsmap {
	n := d.Count(3)
	m := &charsmap{outs: make([]charsmapOut, 0, n)}
	b := newTrieBuilder()
	key := make([]byte, 0, maxKey)
	for i := range n {
		shared, rest := readKey(d, key, maxKey)
		out := d.Bytes()
		if d.Err() != nil {
			return m
		}
		key = append(key[:shared], rest...)
		if !utf8.Valid(key) || !utf8.Valid(out) || len(out) > maxOutput {
			d.Fail("charsmap entry %d is not UTF-8, or too long", i)
			return m
		}
		b.add(shared, rest, int32(i))
		m.outs = append(m.outs, charsmapOut{string(out), utf8.RuneCount(out)})
	}
	m.trie = b.finish()
	for c := range m.ascii {
		m.ascii[c] = -1
		if k, ok := m.trie.step(0, byte(c)); ok {
			if v, ok := m.trie.value(k); ok && v < 1<<15 {
				m.ascii[c] = int16(v)
			}
		}
	}
	return m
}

// hubCharsmap reduces a precompiled charsmap as the hub's files hold it: the
// length of a double array in bytes, the array (darts-clone), and outputs that
// end in NUL, which the array's leaves point into.
func hubCharsmap(data []byte) (keys []string, outs map[string]string, err error) {
	if len(data) < 4 || int64(binary.LittleEndian.Uint32(data)) > int64(len(data)-4) {
		return nil, nil, storage.Invalidf("precompiled_charsmap: cut short")
	}
	size := int(binary.LittleEndian.Uint32(data))
	units, text := data[4:4+size&^3], data[4+size:]
	count := uint32(len(units) / 4)
	if count == 0 {
		return nil, nil, storage.Invalidf("precompiled_charsmap: empty")
	}
	unit := func(i uint32) uint32 { return binary.LittleEndian.Uint32(units[4*i:]) }
	offset := func(u uint32) uint32 { return u >> 10 << (u & (1 << 9) >> 6) }
	type task struct {
		at  uint32
		key string
	}
	outs = map[string]string{}
	stack := []task{{offset(unit(0)), ""}}
	for visits := uint32(0); len(stack) > 0; visits++ {
		if visits > count {
			return nil, nil, storage.Invalidf("precompiled_charsmap: the array is no tree")
		}
		t := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for c := uint32(1); c < 256; c++ {
			at := t.at ^ c
			if at >= count || unit(at)&(1<<31|0xFF) != c {
				continue
			}
			key := t.key + string([]byte{byte(c)})
			next := at ^ offset(unit(at))
			if unit(at)>>8&1 == 0 {
				if len(key) < maxKey {
					stack = append(stack, task{next, key})
				}
				continue
			}
			out, ok := cString(text, next, count, unit)
			if !ok || !utf8.ValidString(key) {
				return nil, nil, storage.Invalidf("precompiled_charsmap: bad entry %q", key)
			}
			outs[key] = out
		}
	}
	for k := range outs {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys, outs, nil
}

func cString(text []byte, leaf, count uint32, unit func(uint32) uint32) (string, bool) {
	if leaf >= count {
		return "", false
	}
	at := int(unit(leaf) &^ (1 << 31))
	if at > len(text) {
		return "", false
	}
	rest := text[at:min(len(text), at+maxOutput+1)]
	if n := slices.Index(rest, 0); n >= 0 {
		rest = rest[:n]
	}
	return string(rest), utf8.Valid(rest) && len(rest) <= maxOutput
}

// clusterLen returns the length in bytes of the grapheme cluster text starts
// with (UAX 29, extended clusters).
func clusterLen(text string) int {
	r, size := utf8.DecodeRuneInString(text)
	if size == len(text) {
		return size
	}
	next, _ := utf8.DecodeRuneInString(text[size:])
	if standsAlone(r) && standsAlone(next) {
		return size
	}
	it := graphemes.FromString(text)
	if !it.Next() {
		return size
	}
	return it.End() - it.Start()
}

// standsAlone reports runes between any two of which a cluster ends. It need
// not know all of them.
func standsAlone(r rune) bool {
	switch {
	case r < 0x300:
		return r != '\r'
	case r < 0x483:
		return r >= 0x370
	case r < 0x591:
		return r >= 0x48A
	case r >= 0x5D0 && r < 0x600, r >= 0x620 && r < 0x64B, r >= 0xE01 && r < 0xE31, r >= 0x904 && r < 0x93A:
		return true
	case r >= 0x1E00 && r < 0x200B, r >= 0x3001 && r < 0x302A, r >= 0x3041 && r < 0x3099, r >= 0x30A0 && r < 0xA000:
		return r != 0x3297 && r != 0x3299
	case r >= 0xFF01 && r < 0xFF9E:
		return true
	}
	return false
}
