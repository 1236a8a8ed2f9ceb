package tokenize

import "unicode/utf8"

// Prepend says before which words of a text Unigram puts the word mark U+2581
// that stands for the space between words.
type Prepend uint8

// The schemes of the hub's Metaspace.
const (
	PrependAlways Prepend = iota // each text, and each part between added tokens
	PrependFirst                 // the text only
	PrependNever
)

// UnigramConfig says how a Unigram tokenizer treats text. The zero value is
// not useful; DefaultUnigram gives XLM-RoBERTa's.
type UnigramConfig struct {
	// Charsmap is the precompiled normalizer as the hub's files hold it
	// (decoded from base64). Nil is SentencePiece's nmt_nfkc of 2019, that of
	// XLM-RoBERTa, unless NoCharsmap is set.
	Charsmap   []byte
	NoCharsmap bool
	// Collapse makes a run of spaces one, StripRight removes those at the end.
	Collapse, StripRight bool
	// SplitSpace cuts at white space first and drops it, so that every word
	// gets its mark whatever stands between them. Without it spaces become
	// marks.
	SplitSpace bool
	Prepend    Prepend
	// Whole finds the best path over the whole text. Without it every mark
	// starts a word, and paths do not cross words.
	Whole bool
	// Specials are ids of pieces; UNK must be there.
	Specials Specials
	Added    []AddedToken
}

// DefaultUnigram returns the configuration of XLM-RoBERTa and multilingual-e5
// with their first four pieces. It adds no tokens.
func DefaultUnigram() UnigramConfig {
	return UnigramConfig{Collapse: true, Specials: Specials{CLS: 0, PAD: 1, SEP: 2, UNK: 3}}
}

// A Unigram tokenizer normalizes the text, cuts it into words, and cuts each
// word into the pieces whose scores add up highest (Kudo, Subword
// regularization, 2018; SentencePiece). A rune that no piece covers is
// unknown, at 10 below the lowest score; unknown runes in a row are one token.
type Unigram struct {
	header
	chars      *charsmap // nil = none
	trie       trie
	scores     []float64 // by id
	unkScore   float64
	collapse   bool
	stripRight bool
	splitSpace bool
	whole      bool
	prepend    Prepend
}

const wordMark = "\u2581"

// unkPenalty is how far below the lowest score an unknown rune is.
const unkPenalty = 10

// Tokenize implements Tokenizer. Where the reference (Hugging Face tokenizers)
// loses count of the source, in a text that starts with characters the
// charsmap removes, its offsets are late by as many; these are right.
func (u *Unigram) Tokenize(dst []Token, text string) []Token { return u.tokenize(u, dst, text) }

// segment tokenizes text[at:].
func (u *Unigram) segment(dst []Token, s *scratch, text string, at int) []Token {
	if at == len(text) {
		return dst
	}
	u.normalize(s, text, at)
	for i, lo := range s.words {
		hi := len(s.buf)
		if i+1 < len(s.words) {
			hi = int(s.words[i+1])
		}
		dst = u.path(dst, s, int(lo), hi)
	}
	return dst
}

// normal is the state of normalize.
type normal struct {
	inserted  bool // the last rune pushed had no source rune of its own
	lastSpace bool // the last rune pushed was a space
	cut       bool // SplitSpace: white space since the last rune
	keep      int  // len(buf) after the last rune that was no white space
	last      int  // where the last rune pushed starts in buf, −1 = dropped
}

// normalize fills scratch with the normalized text[at:], word marks included,
// with the source of each byte and the starts of words. Sources are those of
// the reference: of a cluster that becomes another text, output rune i comes
// from source rune i, and what is over on either side from or to the last.
func (u *Unigram) normalize(s *scratch, text string, at int) {
	s.reset()
	s.words = s.words[:0]
	st := normal{last: -1}
	for i := at; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf && c != '\r' && (i+1 == len(text) || text[i+1] < utf8.RuneSelf) {
			// One ASCII rune that is a cluster: the most frequent case.
			if u.chars == nil || u.chars.ascii[c] < 0 {
				if c > ' ' && len(s.buf) > 0 && !st.cut {
					st = normal{last: len(s.buf), keep: len(s.buf) + 1}
					s.buf = append(s.buf, c)
					s.start = append(s.start, int32(i))
					s.end = append(s.end, int32(i+1))
				} else {
					u.emit(s, &st, text[i:i+1], at, i, i+1, false)
				}
			} else {
				u.replace(s, &st, &u.chars.outs[u.chars.ascii[c]], text, at, i, i+1)
			}
			i++
			continue
		}
		i = u.cluster(s, &st, text, at, i)
	}
	if u.stripRight {
		s.truncate(st.keep)
	}
}

// cluster normalizes the grapheme cluster at text[i:] and returns its end.
func (u *Unigram) cluster(s *scratch, st *normal, text string, at, i int) int {
	size := clusterLen(text[i:])
	end := i + size
	if u.chars != nil && size <= maxKey {
		if o := u.chars.lookup(text[i:end]); o != nil {
			u.replace(s, st, o, text, at, i, end)
			return end
		}
	}
	for i < end {
		_, n := utf8.DecodeRuneInString(text[i:])
		var o *charsmapOut
		if u.chars != nil && size > n {
			o = u.chars.lookup(text[i : i+n])
		}
		if o != nil {
			u.replace(s, st, o, text, at, i, i+n)
		} else {
			u.emit(s, st, text[i:i+n], at, i, i+n, false)
		}
		i += n
	}
	return end
}

// replace emits o in place of text[start:end].
func (u *Unigram) replace(s *scratch, st *normal, o *charsmapOut, text string, at, start, end int) {
	_, n := utf8.DecodeRuneInString(text[start:end])
	if o.runes == 0 {
		// The reference counts a removed rune to the one before it.
		if st.inserted && st.last >= 0 {
			s.source(st.last, start, start+n)
		}
		st.inserted = false
		return
	}
	inserted := false
	for i := 0; i < len(o.text); {
		size := runeSize(o.text[i])
		u.emit(s, st, o.text[i:i+size], at, start, start+n, inserted)
		i += size
		if start+n < end {
			start += n
			_, n = utf8.DecodeRuneInString(text[start:end])
		} else {
			inserted = true
		}
	}
}

// emit adds the normalized rune out, made from text[start:end] of the segment
// that starts at at.
func (u *Unigram) emit(s *scratch, st *normal, out string, at, start, end int, inserted bool) {
	st.inserted = inserted
	blank := isBlank(out)
	switch {
	case u.splitSpace && blank:
		st.cut, st.last, st.lastSpace = true, -1, false
		return
	case out == " ":
		if u.collapse && st.lastSpace {
			s.source(st.last, start, end)
			return
		}
		s.word(len(s.buf) == 0 || !u.whole)
		st.lastSpace = true
		out = wordMark
	case out == wordMark:
		s.word(len(s.buf) == 0 || st.cut || !u.whole)
		st.lastSpace, st.cut = false, false
	default:
		if len(s.buf) == 0 || st.cut {
			s.word(true)
			first := at == 0
			if u.splitSpace {
				first = start == 0
			}
			if u.prepend == PrependAlways || u.prepend == PrependFirst && first {
				s.push(wordMark, start, end)
			}
		}
		st.lastSpace, st.cut = false, false
	}
	st.last = len(s.buf)
	s.push(out, start, end)
	if !blank {
		st.keep = len(s.buf)
	}
}

func isBlank(out string) bool {
	if out[0] < utf8.RuneSelf {
		return out[0] == ' ' || out[0] >= '\t' && out[0] <= '\r'
	}
	r, _ := utf8.DecodeRuneInString(out)
	return isSpace(r)
}

// source says that the rune at buf[at:] to the end was made from
// text[start:end].
func (s *scratch) source(at, start, end int) {
	for i := at; i < len(s.buf); i++ {
		s.start[i], s.end[i] = int32(start), int32(end)
	}
}

// word starts a word if start.
func (s *scratch) word(start bool) {
	if start {
		s.words = append(s.words, int32(len(s.buf)))
	}
}

// truncate cuts the normalized text.
func (s *scratch) truncate(n int) {
	s.buf, s.start, s.end = s.buf[:n], s.start[:n], s.end[:n]
	for len(s.words) > 0 && int(s.words[len(s.words)-1]) >= n {
		s.words = s.words[:len(s.words)-1]
	}
}

// A step is the last piece of the best path to a byte of a word.
type step struct{ from, id int32 } // from −1 = no path yet

// path appends the pieces of buf[lo:hi] on its best path. Scores are added
// from the left in float64 and the first of equals stays, as in the
// reference. Pieces are at most maxPiece bytes, so that the time is linear.
func (u *Unigram) path(dst []Token, s *scratch, lo, hi int) []Token {
	word := s.buf[lo:hi]
	u.forward(s, word)
	unk := u.special.UNK
	ids := s.ids[:0]
	for end := len(word); end > 0; {
		b := s.back[end]
		t := Token{b.id, int(s.start[lo+int(b.from)]), int(s.end[lo+end-1])}
		if n := len(ids); b.id == unk && n > 0 && ids[n-1].ID == unk {
			ids[n-1].Start = t.Start
		} else {
			ids = append(ids, t)
		}
		end = int(b.from)
	}
	for i := len(ids) - 1; i >= 0; i-- {
		dst = append(dst, ids[i])
	}
	s.ids = ids
	return dst
}

// forward fills back with the last piece of the best path to every rune.
func (u *Unigram) forward(s *scratch, word []byte) {
	n := len(word) + 1
	if cap(s.best) < n {
		s.best, s.back = make([]float64, n+n/2), make([]step, n+n/2)
	}
	best, back := s.best[:n], s.back[:n]
	for i := range back {
		back[i].from = -1
	}
	best[0] = 0
	units := u.trie.units
	for i := 0; i < len(word); {
		size := runeSize(word[i])
		sofar, single := best[i], false
		node := uint32(0)
		for j := i; j < len(word); {
			m := units[node].base&^hasValue ^ uint32(word[j])
			if units[m].parent != node {
				break
			}
			node = m
			j++
			if units[m].base&hasValue == 0 {
				continue
			}
			id := u.trie.values[m]
			if score := u.scores[id] + sofar; back[j].from < 0 || score > best[j] {
				best[j], back[j] = score, step{int32(i), id}
			}
			single = single || j == i+size
		}
		if j := i + size; !single {
			if score := u.unkScore + sofar; back[j].from < 0 || score > best[j] {
				best[j], back[j] = score, step{int32(i), u.special.UNK}
			}
		}
		i += size
	}
}

// runeSize returns the length of the UTF-8 sequence that starts with c, in
// valid text.
func runeSize(c byte) int {
	switch {
	case c < 0x80:
		return 1
	case c < 0xE0:
		return 2
	case c < 0xF0:
		return 3
	}
	return 4
}
