package analysis

import (
	"unicode"
	"unicode/utf8"
	"unsafe"

	"github.com/blevesearch/snowballstem"
	"github.com/cespare/xxhash/v2"
)

// maxStem is the longest word handed to a stemmer: no language inflects a
// longer one, and some stemmers take quadratic time.
const maxStem = 64

// term folds and stems one word without separators. The result lies in s and
// is valid until the next call.
func (s *Scratch) term(raw string) (term []byte, stop bool) {
	a := s.a
	ascii := isASCII(raw)
	if ascii && a.stem == nil && a.stops == nil {
		if len(raw) > maxTerm {
			raw = raw[:maxTerm]
		}
		s.buf = lowerASCII(s.buf[:0], raw)
		return s.buf, false
	}
	if len(raw) > maxKey {
		return s.makeTerm(raw, ascii)
	}
	if s.cache == nil {
		s.cache = new(wordCache)
	}
	h := xxhash.Sum64String(raw) + uint64(a.id)*0x9e3779b97f4a7c15
	set := &s.cache[h%uint64(len(s.cache))]
	for i := range set {
		e := &set[i]
		if e.id == a.id+1 && int(e.keyLen) == len(raw) && string(e.key[:e.keyLen]) == raw {
			return e.term[:e.termLen&^stopBit], e.termLen&stopBit != 0
		}
	}
	term, stop = s.makeTerm(raw, ascii)
	if len(term) <= len(set[0].term) {
		// The way to overwrite is taken from other bits of the hash, so that
		// two words of one set settle down side by side.
		e := &set[h>>60%cacheWays]
		for i := range set {
			if set[i].id == 0 {
				e = &set[i]
			}
		}
		e.id, e.keyLen, e.termLen = a.id+1, uint8(len(raw)), uint8(len(term))
		copy(e.key[:], raw)
		copy(e.term[:], term)
		if stop {
			e.termLen |= stopBit
		}
	}
	return term, stop
}

// makeTerm is term without the cache.
func (s *Scratch) makeTerm(raw string, ascii bool) (term []byte, stop bool) {
	a := s.a
	// Sixteen source bytes a folded byte are far more than any text needs;
	// the bound keeps a word of a megabyte cheap.
	if len(raw) > 16*maxTerm {
		raw = raw[:16*maxTerm]
	}
	if ascii {
		s.buf = lowerASCII(s.buf[:0], raw)
	} else {
		s.buf = s.fold.foldCase(s.buf[:0], raw, a.foldFlags())
	}
	if a.stops != nil {
		_, stop = a.stops[string(s.buf)]
	}
	if a.stem != nil && len(s.buf) <= maxStem && stemmable(s.buf) {
		s.stem(a.stem)
	}
	if isASCII(s.buf) || a.keepAccents {
		return s.buf, stop
	}
	s.buf2 = s.fold.stripAccents(s.buf2[:0], s.buf)
	return s.buf2, stop
}

// stem replaces s.buf by its stem. Snowball works on strings and makes a new
// one only when it replaces letters, so it is lent the bytes of s.buf: they do
// not change before its result has been copied over them.
func (s *Scratch) stem(f func(*snowballstem.Env) bool) {
	if len(s.buf) == 0 {
		return
	}
	if s.env == nil {
		s.env = snowballstem.NewEnv("")
	}
	s.env.SetCurrent(unsafe.String(&s.buf[0], len(s.buf)))
	f(s.env)
	if out := s.env.Current(); out != "" && utf8.ValidString(out) {
		s.buf = append(s.buf[:0], out...)
	}
	s.env.SetCurrent("")
}

// stemmable tells whether a folded word consists of letters and marks only:
// part numbers and hashes have no endings.
func stemmable(word []byte) bool {
	for i := 0; i < len(word); {
		c := word[i]
		if c < utf8.RuneSelf {
			if asciiClass[c] != asciiLower {
				return false
			}
			i++
			continue
		}
		r, w := utf8.DecodeRune(word[i:])
		if !unicode.IsLetter(r) && !unicode.IsMark(r) {
			return false
		}
		i += w
	}
	return len(word) > 0
}

// The word cache maps source words to their terms. A set that is full loses an
// entry, which costs time and never changes a result.
const (
	cacheSets = 2048
	cacheWays = 4
	maxKey    = 30
	stopBit   = 0x80
)

type wordCache [cacheSets][cacheWays]cacheEntry

// A cacheEntry fills one cache line.
type cacheEntry struct {
	id      uint8 // analyzer plus 1; 0 is empty
	keyLen  uint8
	termLen uint8 // and stopBit
	key     [maxKey]byte
	term    [31]byte
}

// trimSpace returns the bounds of text without the white space around it.
func trimSpace(text string) (start, end int) {
	end = len(text)
	for start < end {
		r, w := utf8.DecodeRuneInString(text[start:])
		if !unicode.IsSpace(r) {
			break
		}
		start += w
	}
	for end > start {
		r, w := utf8.DecodeLastRuneInString(text[start:end])
		if !unicode.IsSpace(r) {
			break
		}
		end -= w
	}
	return start, end
}
