package tokenize

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/quarrysearch/quarry/storage"
)

// The compact form is described in format.md.
const (
	magic         = "QTOK"
	version       = 1
	kindWordPiece = 1
	kindUnigram   = 2
	formName      = "tokenizer" // names the bytes in errors

	charsNone, charsNMT, charsOwn = 0, 1, 2
)

// Append appends t's compact form, which Parse reads. It fails with
// ErrInvalid for a Tokenizer that is not of this package.
func Append(dst []byte, t Tokenizer) ([]byte, error) {
	c, ok := t.(interface{ compact() []byte })
	if !ok {
		return dst, storage.Invalidf("tokenizer %q has no compact form", t.Name())
	}
	return append(dst, c.compact()...), nil
}

// Parse opens a compact form, of which data must hold nothing but one, and
// must not change afterwards. It fails with ErrCorrupt or ErrVersion. Memory
// and time grow with len(data); XLM-RoBERTa's 250,002 pieces take some 0.1 s.
func Parse(data []byte) (Tokenizer, error) {
	d := storage.NewDecoder(formName, 0, data)
	if m := d.Raw(len(magic)); d.Err() == nil && string(m) != magic {
		return nil, storage.Corruptf(formName, 0, "no tokenizer: it starts with %q", m)
	}
	if v := d.Uvarint(); d.Err() == nil && v != version {
		return nil, &storage.VersionError{File: formName, Have: uint32(min(v, math.MaxUint32)), Min: version, Max: version}
	}
	kind := d.Byte()
	var t interface {
		Tokenizer
		read(d *storage.Decoder)
	}
	var h *header
	var kindName string
	switch kind {
	case kindWordPiece:
		w := new(WordPiece)
		t, h, kindName = w, &w.header, "wordpiece"
	case kindUnigram:
		u := new(Unigram)
		t, h, kindName = u, &u.header, "unigram"
	default:
		d.Fail("unknown kind of tokenizer %d", kind)
		return nil, d.Err()
	}
	h.enc = data
	h.readHeader(d)
	t.read(d)
	d.End()
	if err := d.Err(); err != nil {
		return nil, err
	}
	h.name = fmt.Sprintf("%s-%d-%016x", kindName, h.size, xxhash.Sum64(data))
	return t, nil
}

// An entry is a piece and its id.
type entry struct {
	text string
	id   int32
}

// appendHeader starts a compact form.
func appendHeader(dst []byte, kind byte, size int64, s Specials, tokens []AddedToken) ([]byte, error) {
	dst = append(dst, magic...)
	dst = storage.AppendUvarint(dst, version)
	dst = append(dst, kind)
	if size < 1 || size > maxSize {
		return nil, storage.Invalidf("vocabulary of %d ids, want 1 to %d", size, maxSize)
	}
	dst = storage.AppendUvarint(dst, uint64(size))
	for _, id := range []int32{s.CLS, s.SEP, s.PAD, s.UNK} {
		if id < -1 || int64(id) >= size {
			return nil, storage.Invalidf("special id %d of a vocabulary of %d", id, size)
		}
		dst = storage.AppendUvarint(dst, uint64(id+1))
	}
	if s.UNK < 0 {
		return nil, storage.Invalidf("vocabulary without an unknown token")
	}
	tokens = slices.Clone(tokens)
	slices.SortFunc(tokens, func(a, b AddedToken) int { return strings.Compare(a.Text, b.Text) })
	tokens = slices.CompactFunc(tokens, func(a, b AddedToken) bool { return a.Text == b.Text })
	dst = storage.AppendUvarint(dst, uint64(len(tokens)))
	for _, t := range tokens {
		if err := checkPiece(t.Text); err != nil {
			return nil, err
		}
		if t.ID < 0 || int64(t.ID) >= size {
			return nil, storage.Invalidf("added token %q has id %d of a vocabulary of %d", t.Text, t.ID, size)
		}
		dst = storage.AppendBytes(dst, t.Text)
		dst = storage.AppendUvarint(dst, uint64(t.ID))
		dst = append(dst, flags(t.LStrip, t.RStrip, t.SingleWord))
	}
	return dst, nil
}

func checkPiece(s string) error {
	if s == "" || len(s) > maxPiece || !utf8.ValidString(s) {
		return storage.Invalidf("piece %.64q of %d bytes, want UTF-8 of 1 to %d", s, len(s), maxPiece)
	}
	return nil
}

func flags(bits ...bool) (b byte) {
	for i, set := range bits {
		if set {
			b |= 1 << i
		}
	}
	return b
}

// readFlags reads a byte of n flags into set.
func readFlags(d *storage.Decoder, set ...*bool) {
	b := d.Byte()
	if b>>len(set) != 0 {
		d.Fail("unknown flags %#x", b)
	}
	for i, p := range set {
		*p = b>>i&1 != 0
	}
}

// readHeader reads what both kinds have.
func (h *header) readHeader(d *storage.Decoder) {
	size := d.Uvarint()
	if size < 1 || size > maxSize {
		d.Fail("vocabulary of %d ids", size)
		return
	}
	h.size = int(size)
	for _, p := range []*int32{&h.special.CLS, &h.special.SEP, &h.special.PAD, &h.special.UNK} {
		*p = readID(d, h.size+1) - 1
	}
	if h.special.UNK < 0 {
		d.Fail("no unknown token")
	}
	n := d.Count(3)
	tokens := make([]AddedToken, 0, n)
	b := newTrieBuilder()
	prev := ""
	for i := range n {
		t := AddedToken{Text: d.String(), ID: readID(d, h.size)}
		readFlags(d, &t.LStrip, &t.RStrip, &t.SingleWord)
		if d.Err() == nil && (checkPiece(t.Text) != nil || t.Text <= prev) {
			d.Fail("added token %.64q is out of order, or no text", t.Text)
		}
		if d.Err() != nil {
			return
		}
		shared := commonPrefix(prev, t.Text)
		b.add(shared, []byte(t.Text[shared:]), int32(i))
		tokens = append(tokens, t)
		prev = t.Text
	}
	h.added = newAdded(tokens, b.finish())
}

func readID(d *storage.Decoder, size int) int32 {
	v := d.Uvarint()
	if v >= uint64(size) {
		d.Fail("id %d of %d", v, size)
		return 0
	}
	return int32(v)
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// appendPieces appends a vocabulary. Of two pieces with one text the later
// one in entries counts, as in the reference.
func appendPieces(dst []byte, entries []entry) ([]byte, error) {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b entry) int { return strings.Compare(a.text, b.text) })
	kept := entries[:0]
	for i, e := range entries {
		if i+1 == len(entries) || entries[i+1].text != e.text {
			kept = append(kept, e)
		}
	}
	dst = storage.AppendUvarint(dst, uint64(len(kept)))
	rests, prev := 0, ""
	for _, e := range kept {
		rests += len(e.text) - commonPrefix(prev, e.text)
		prev = e.text
	}
	dst = storage.AppendUvarint(dst, uint64(rests))
	prev = ""
	for _, e := range kept {
		if err := checkPiece(e.text); err != nil {
			return nil, err
		}
		n := commonPrefix(prev, e.text)
		dst = storage.AppendUvarint(dst, uint64(n))
		dst = storage.AppendBytes(dst, e.text[n:])
		dst = storage.AppendUvarint(dst, uint64(e.id))
		prev = e.text
	}
	return dst, nil
}

// readKey reads one prefix-coded key and checks that it comes after prev.
func readKey(d *storage.Decoder, prev []byte, longest int) (shared int, rest []byte) {
	n := d.Uvarint()
	rest = d.Bytes()
	switch {
	case d.Err() != nil:
		return 0, nil
	case n > uint64(len(prev)):
		d.Fail("key shares %d bytes with one of %d", n, len(prev))
	case len(rest) == 0 || int(n)+len(rest) > longest:
		d.Fail("key of %d bytes, want more than it shares and at most %d", int(n)+len(rest), longest)
	case int(n) < len(prev) && rest[0] <= prev[n]:
		d.Fail("keys do not ascend")
	}
	if d.Err() != nil {
		return 0, nil
	}
	return int(n), rest
}

// readPieces reads a vocabulary into a trie.
func readPieces(d *storage.Decoder, size int) trie {
	n := d.Count(4)
	if n > size {
		d.Fail("%d pieces for %d ids", n, size)
		return trie{}
	}
	rests := d.Count(1)
	b := newTrieBuilder()
	b.nodes = slices.Grow(b.nodes, rests)
	key := make([]byte, 0, maxPiece)
	for range n {
		shared, rest := readKey(d, key, maxPiece)
		id := readID(d, size)
		if d.Err() != nil {
			return trie{}
		}
		if key = append(key[:shared], rest...); !utf8.Valid(key) {
			d.Fail("piece %q is not UTF-8", key)
			return trie{}
		}
		b.add(shared, rest, id)
	}
	if len(b.nodes) != rests+1 {
		d.Fail("rests of %d bytes, want %d", len(b.nodes)-1, rests)
		return trie{}
	}
	return b.finish()
}
