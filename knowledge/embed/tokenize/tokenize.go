package tokenize

import (
	"math"
	"slices"
	"sync"
	"unicode/utf8"
)

// A Token is one piece of a text.
type Token struct {
	ID int32 // in the model's vocabulary
	// Start and End are bytes of the text as the caller gave it, on rune
	// boundaries, 0 ≤ Start ≤ End ≤ len(text): the runes from which the
	// token's first and last rune were made.
	Start, End int
}

// A Tokenizer turns texts into the token ids a model was trained on. Both
// implementations are immutable: any number of goroutines may share one.
type Tokenizer interface {
	// Tokenize appends the tokens of text to dst, without the specials that
	// frame it, and returns the longer slice. Starts never descend. The time
	// is linear in len(text), and nothing is allocated when dst has room,
	// but for a copy of a text with invalid UTF-8, of which each bad byte
	// counts as U+FFFD. Bytes beyond the
	// first 683 MiB are left out.
	Tokenize(dst []Token, text string) []Token
	// Specials returns the ids that frame a text (cls before, sep after), pad
	// a batch and stand for the unknown; −1 where the vocabulary has none.
	Specials() (cls, sep, pad, unk int32)
	// Size returns the number of ids: every id is below it.
	Size() int
	// Name tells the kind, the size and a hash of everything that decides
	// the tokens, like "wordpiece-30522-0123456789abcdef": two tokenizers of
	// one name give the same tokens.
	Name() string
}

// Specials are the ids a model needs around and between texts, −1 = none.
type Specials struct{ CLS, SEP, PAD, UNK int32 }

// An AddedToken is a string found in the text as it stands, before anything
// else is done to it: "[SEP]" or "<mask>". As in the reference, a text that
// spells a special out gets the special's id; a caller who does not want this
// builds the tokenizer without added tokens.
type AddedToken struct {
	Text string
	ID   int32
	// LStrip and RStrip make it take the white space before and after it.
	LStrip, RStrip bool
	// SingleWord keeps it from matching inside a word.
	SingleWord bool
}

const (
	maxPiece   = 512               // bytes of a piece or an added token
	maxText    = math.MaxInt32 / 3 // bytes of a text
	maxScratch = 64 << 20          // bytes of scratch worth keeping in the pool
	maxSize    = 1 << 24           // ids
)

// header is what both kinds of tokenizer have.
type header struct {
	special Specials
	size    int
	name    string
	added   added
	enc     []byte // compact form
	pool    sync.Pool
}

// Specials implements Tokenizer.
func (h *header) Specials() (cls, sep, pad, unk int32) {
	return h.special.CLS, h.special.SEP, h.special.PAD, h.special.UNK
}

// Size implements Tokenizer.
func (h *header) Size() int { return h.size }

// Name implements Tokenizer.
func (h *header) Name() string { return h.name }

func (h *header) compact() []byte { return h.enc }

// A segmenter tokenizes text[at:], which holds no added token.
type segmenter interface {
	segment(dst []Token, s *scratch, text string, at int) []Token
}

// tokenize cuts a text at added tokens, and has by do what lies between.
func (h *header) tokenize(by segmenter, dst []Token, text string) []Token {
	s := h.get()
	text, bad := s.repair(text[:min(len(text), maxText)])
	mark := len(dst)
	at := 0
	for {
		which, start, end := h.added.next(text, at)
		if which < 0 {
			break
		}
		dst = by.segment(dst, s, text[:start], at)
		dst = append(dst, Token{h.added.tokens[which].ID, start, end})
		at = end
	}
	dst = by.segment(dst, s, text, at)
	if bad {
		s.unrepair(dst[mark:])
	}
	h.put(s)
	return dst
}

// scratch is the working memory of one Tokenize call.
type scratch struct {
	buf        []byte  // normalized text, or one word of it
	start, end []int32 // by byte of buf: the source rune it was made from
	words      []int32 // Unigram: where words start in buf
	best       []float64
	back       []step
	ids        []Token
	repaired   []byte  // the text, when it was not valid UTF-8
	bad        []int32 // where the U+FFFD of invalid bytes start in repaired
}

func (h *header) get() *scratch {
	if s, ok := h.pool.Get().(*scratch); ok {
		return s
	}
	return new(scratch)
}

// put gives s back, unless one huge text has made it huge.
func (h *header) put(s *scratch) {
	size := cap(s.buf) + cap(s.repaired) + 4*(cap(s.start)+cap(s.end)+cap(s.words)+cap(s.bad)) + 8*cap(s.best) + 8*cap(s.back) + 24*cap(s.ids)
	if size <= maxScratch {
		h.pool.Put(s)
	}
}

// push appends one rune's bytes, made from text[start:end].
func (s *scratch) push(b string, start, end int) {
	s.buf = append(s.buf, b...)
	lo, hi := int32(start), int32(end)
	switch len(b) {
	case 1:
		s.start, s.end = append(s.start, lo), append(s.end, hi)
	case 2:
		s.start, s.end = append(s.start, lo, lo), append(s.end, hi, hi)
	case 3:
		s.start, s.end = append(s.start, lo, lo, lo), append(s.end, hi, hi, hi)
	default:
		s.start, s.end = append(s.start, lo, lo, lo, lo), append(s.end, hi, hi, hi, hi)
	}
}

func (s *scratch) reset() {
	s.buf, s.start, s.end = s.buf[:0], s.start[:0], s.end[:0]
}

// repair returns text with U+FFFD for every byte that is not valid UTF-8, and
// whether there was any.
func (s *scratch) repair(text string) (string, bool) {
	if utf8.ValidString(text) {
		return text, false
	}
	out, bad := s.repaired[:0], s.bad[:0]
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 {
			bad = append(bad, int32(len(out)))
		}
		out = utf8.AppendRune(out, r)
		i += size
	}
	s.repaired, s.bad = out, bad
	return string(out), true
}

// unrepair turns places in the repaired text into places in the source. A
// U+FFFD is two bytes longer than the byte it stands for.
func (s *scratch) unrepair(tokens []Token) {
	source := func(at int) int {
		n, _ := slices.BinarySearch(s.bad, int32(at))
		return at - 2*n
	}
	for i := range tokens {
		t := &tokens[i]
		t.Start, t.End = source(t.Start), source(t.End)
	}
}
