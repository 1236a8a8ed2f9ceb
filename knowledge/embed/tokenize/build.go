package tokenize

import (
	"math"
	"slices"

	"github.com/quarrysearch/quarry/storage"
)

// NewWordPiece makes a tokenizer of a vocabulary in the order of its ids. It
// fails with ErrInvalid when a piece is empty, longer than 512 bytes or not
// UTF-8, or when the vocabulary lacks the unknown token.
func NewWordPiece(vocab []string, c WordPieceConfig) (*WordPiece, error) {
	entries := make([]entry, len(vocab))
	for i, v := range vocab {
		entries[i] = entry{v, int32(i)}
	}
	return newWordPiece(entries, c)
}

func newWordPiece(entries []entry, c WordPieceConfig) (*WordPiece, error) {
	size := int64(0)
	sp := Specials{-1, -1, -1, -1}
	for _, e := range entries {
		if e.id < 0 {
			return nil, storage.Invalidf("piece %.64q has id %d", e.text, e.id)
		}
		size = max(size, int64(e.id)+1)
		// One text may have several of the roles.
		for _, role := range []struct {
			name string
			id   *int32
		}{{c.CLS, &sp.CLS}, {c.SEP, &sp.SEP}, {c.PAD, &sp.PAD}, {c.UNK, &sp.UNK}} {
			if e.text == role.name {
				*role.id = e.id
			}
		}
	}
	for _, t := range c.Added {
		size = max(size, int64(t.ID)+1)
		for _, role := range []struct {
			name string
			id   *int32
		}{{c.CLS, &sp.CLS}, {c.SEP, &sp.SEP}, {c.PAD, &sp.PAD}} {
			if *role.id < 0 && t.Text == role.name {
				*role.id = t.ID
			}
		}
	}
	if c.MaxWordRunes < 1 || c.MaxWordRunes > 1<<16 {
		return nil, storage.Invalidf("MaxWordRunes %d, want 1 to 65536", c.MaxWordRunes)
	}
	if len(c.Prefix) > maxPiece {
		return nil, storage.Invalidf("Prefix of %d bytes, want at most %d", len(c.Prefix), maxPiece)
	}
	enc, err := appendHeader(nil, kindWordPiece, size, sp, c.Added)
	if err != nil {
		return nil, err
	}
	enc = append(enc, flags(c.CleanText, c.SplitCJK, c.StripAccents, c.Lowercase))
	enc = storage.AppendBytes(enc, c.Prefix)
	enc = storage.AppendUvarint(enc, uint64(c.MaxWordRunes))
	if enc, err = appendPieces(enc, entries); err != nil {
		return nil, err
	}
	t, err := Parse(enc)
	if err != nil {
		return nil, err
	}
	return t.(*WordPiece), nil
}

// read reads what follows the header.
func (w *WordPiece) read(d *storage.Decoder) {
	var c WordPieceConfig
	readFlags(d, &c.CleanText, &c.SplitCJK, &c.StripAccents, &c.Lowercase)
	prefix := d.String()
	w.maxRunes = int(min(d.Uvarint(), 1<<16+1))
	if w.maxRunes < 1 || w.maxRunes > 1<<16 {
		d.Fail("words of %d runes at most", w.maxRunes)
	}
	w.trie = readPieces(d, w.size)
	if d.Err() != nil {
		return
	}
	w.next, w.hasNext = w.trie.walk(0, prefix)
	w.runes = newRuneTable(&c)
}

// NewUnigram makes a tokenizer of pieces and their scores (natural logarithms
// of probabilities), in the order of their ids. It fails with ErrInvalid when
// a piece is longer than 512 bytes or not UTF-8, a score is not finite, or the
// charsmap is malformed. Empty pieces have an id and are never found.
func NewUnigram(pieces []string, scores []float64, c UnigramConfig) (*Unigram, error) {
	if len(pieces) != len(scores) {
		return nil, storage.Invalidf("%d pieces with %d scores", len(pieces), len(scores))
	}
	if c.Prepend > PrependNever {
		return nil, storage.Invalidf("Prepend %d", c.Prepend)
	}
	entries := make([]entry, 0, len(pieces))
	width := 4
	for i, p := range pieces {
		if p != "" {
			entries = append(entries, entry{p, int32(i)})
		}
		if math.IsNaN(scores[i]) || math.IsInf(scores[i], 0) {
			return nil, storage.Invalidf("score %v of piece %d", scores[i], i)
		}
		if float64(float32(scores[i])) != scores[i] {
			width = 8
		}
	}
	size := int64(len(pieces))
	for _, t := range c.Added {
		size = max(size, int64(t.ID)+1)
	}
	if int(c.Specials.UNK) >= len(pieces) {
		return nil, storage.Invalidf("UNK %d of %d pieces", c.Specials.UNK, len(pieces))
	}
	enc, err := appendHeader(nil, kindUnigram, size, c.Specials, c.Added)
	if err != nil {
		return nil, err
	}
	enc = append(enc, flags(c.Collapse, c.StripRight, c.SplitSpace, c.Whole), byte(c.Prepend))
	if enc, err = appendChars(enc, &c); err != nil {
		return nil, err
	}
	if enc, err = appendPieces(enc, entries); err != nil {
		return nil, err
	}
	enc = storage.AppendUvarint(enc, uint64(len(scores)))
	enc = append(enc, byte(width))
	for _, s := range scores {
		if width == 4 {
			enc = storage.AppendF32(enc, float32(s))
		} else {
			enc = storage.AppendU64(enc, math.Float64bits(s))
		}
	}
	t, err := Parse(enc)
	if err != nil {
		return nil, err
	}
	return t.(*Unigram), nil
}

func appendChars(dst []byte, c *UnigramConfig) ([]byte, error) {
	switch {
	case c.NoCharsmap:
		return append(dst, charsNone), nil
	case c.Charsmap == nil:
		return append(dst, charsNMT), nil
	}
	keys, outs, err := hubCharsmap(c.Charsmap)
	if err != nil {
		return nil, err
	}
	own := appendCharsmap(nil, keys, outs)
	if string(own) == nmtNFKC {
		return append(dst, charsNMT), nil
	}
	return append(append(dst, charsOwn), own...), nil
}

// read reads what follows the header.
func (u *Unigram) read(d *storage.Decoder) {
	readFlags(d, &u.collapse, &u.stripRight, &u.splitSpace, &u.whole)
	if u.prepend = Prepend(d.Byte()); u.prepend > PrependNever {
		d.Fail("unknown way to prepend %d", u.prepend)
	}
	switch chars := d.Byte(); chars {
	case charsNone:
	case charsNMT:
		u.chars = parseCharsmap(storage.NewDecoder("nmt_nfkc.tab", 0, []byte(nmtNFKC)))
	case charsOwn:
		u.chars = parseCharsmap(d)
	default:
		d.Fail("unknown charsmap %d", chars)
	}
	u.trie = readPieces(d, u.size)
	n := d.Count(4)
	width := d.Byte()
	if d.Err() == nil && (width != 4 && width != 8 || n > d.Len()/int(width) || n > u.size || int(u.special.UNK) >= n) {
		d.Fail("%d scores of %d bytes for %d ids", n, width, u.size)
	}
	if d.Err() != nil {
		return
	}
	u.scores = make([]float64, n)
	for i := range u.scores {
		if width == 4 {
			u.scores[i] = float64(d.F32())
		} else {
			u.scores[i] = math.Float64frombits(d.U64())
		}
		if math.IsNaN(u.scores[i]) || math.IsInf(u.scores[i], 0) {
			d.Fail("score %v", u.scores[i])
		}
	}
	u.unkScore = slices.Min(u.scores) - unkPenalty
	for i, v := range u.trie.values {
		if u.trie.units[i].base&hasValue != 0 && int(v) >= n {
			d.Fail("piece with id %d has no score", v)
		}
	}
}
