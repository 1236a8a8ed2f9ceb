package tokenize

import "unicode/utf8"

// WordPieceConfig says how a WordPiece tokenizer treats text. The zero value
// is not useful; DefaultWordPiece gives BERT's.
type WordPieceConfig struct {
	CleanText    bool // remove control characters, U+0000 and U+FFFD
	SplitCJK     bool // a CJK ideograph is a word by itself
	StripAccents bool // decompose, and remove nonspacing marks
	Lowercase    bool
	Prefix       string // of pieces that go on a word; BERT: "##"
	MaxWordRunes int    // longer words become the unknown token; BERT: 100
	// CLS, SEP, PAD and UNK name the special pieces. UNK must be in the
	// vocabulary; the others may be missing.
	CLS, SEP, PAD, UNK string
	Added              []AddedToken
}

// DefaultWordPiece returns the configuration of BERT: uncased with lowercase,
// cased without. It adds no tokens.
func DefaultWordPiece(lowercase bool) WordPieceConfig {
	return WordPieceConfig{
		CleanText: true, SplitCJK: true, StripAccents: lowercase, Lowercase: lowercase,
		Prefix: "##", MaxWordRunes: 100, CLS: "[CLS]", SEP: "[SEP]", PAD: "[PAD]", UNK: "[UNK]",
	}
}

// A WordPiece tokenizer cuts text into words at white space, punctuation and
// CJK ideographs, and each word, from its start, into the longest pieces the
// vocabulary has (Schuster and Nakajima, Japanese and Korean voice search,
// 2012; Devlin et al., BERT, 2018). A word that cannot be cut so is one
// unknown token.
type WordPiece struct {
	header
	runes    *runeTable
	trie     trie
	next     uint32 // trie node of the prefix of pieces that go on a word
	hasNext  bool   // the vocabulary has such pieces
	maxRunes int
}

// Tokenize implements Tokenizer.
func (w *WordPiece) Tokenize(dst []Token, text string) []Token { return w.tokenize(w, dst, text) }

// A word is one under construction in scratch.buf.
type word struct {
	runes int
	from  int // source of the first byte
	end   int // source after the last rune
	// direct: byte i of buf was made from text[from+i], so that nothing is
	// written to scratch.start and end.
	direct bool
}

// segment tokenizes text[at:].
func (w *WordPiece) segment(dst []Token, s *scratch, text string, at int) []Token {
	s.reset()
	wd := word{direct: true}
	for i := at; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			a := w.runes.ascii[c]
			switch a.class {
			case plain:
				if wd.direct && wd.runes < w.maxRunes && (wd.runes == 0 || wd.end == i && wd.from+len(s.buf) == i) {
					if wd.runes == 0 {
						wd.from = i
					}
					s.buf = append(s.buf, a.out)
					wd.runes++
					wd.end = i + 1
				} else {
					w.add(s, &wd, asciiText[a.out:a.out+1], i, i+1)
				}
			case space:
				dst = w.flush(dst, s, &wd)
			case punct:
				dst = w.flush(dst, s, &wd)
				w.add(s, &wd, asciiText[a.out:a.out+1], i, i+1)
				dst = w.flush(dst, s, &wd)
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		dst = w.rune(dst, s, &wd, r, text[i:i+size], i, i+size)
		i += size
	}
	return w.flush(dst, s, &wd)
}

// asciiText[c:c+1] is the string of the byte c.
const asciiText = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f" +
	" !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~\x7f"

// rune takes one source rune beyond ASCII; out is its own text.
func (w *WordPiece) rune(dst []Token, s *scratch, wd *word, r rune, out string, start, end int) []Token {
	class := w.runes.class(r)
	if class < mapped {
		return w.take(dst, s, wd, class, out, start, end)
	}
	t := w.runes
	for _, o := range t.outputs[t.first[class-mapped]:t.first[class-mapped+1]] {
		dst = w.take(dst, s, wd, o.class, t.text[o.off:o.off+uint32(o.size)], start, end)
	}
	return dst
}

func (w *WordPiece) take(dst []Token, s *scratch, wd *word, class runeClass, out string, start, end int) []Token {
	switch class {
	case plain:
		w.add(s, wd, out, start, end)
	case space:
		dst = w.flush(dst, s, wd)
	case punct:
		dst = w.flush(dst, s, wd)
		w.add(s, wd, out, start, end)
		dst = w.flush(dst, s, wd)
	}
	return dst
}

// add adds one rune to the word. Of a word that is too long only the end is
// kept up to date.
func (w *WordPiece) add(s *scratch, wd *word, out string, start, end int) {
	if wd.runes == 0 {
		wd.from = start
	}
	wd.runes++
	wd.end = end
	if wd.runes > w.maxRunes {
		return
	}
	if wd.direct {
		if start == wd.from+len(s.buf) && end == start+len(out) {
			s.buf = append(s.buf, out...)
			return
		}
		wd.direct = false
		for i := range s.buf {
			s.start = append(s.start, int32(wd.from+i))
			s.end = append(s.end, int32(wd.from+i+1))
		}
	}
	s.push(out, start, end)
}

// flush cuts the word into pieces and makes it empty.
func (w *WordPiece) flush(dst []Token, s *scratch, wd *word) []Token {
	if wd.runes == 0 {
		return dst
	}
	mark := len(dst)
	ok := wd.runes <= w.maxRunes
	for at := 0; ok && at < len(s.buf); {
		id, n := w.longest(s.buf, at)
		if ok = n > 0; !ok {
			break
		}
		t := Token{ID: id, Start: wd.from + at, End: wd.from + at + n}
		if !wd.direct {
			t.Start, t.End = int(s.start[at]), int(s.end[at+n-1])
		}
		dst = append(dst, t)
		at += n
	}
	if !ok {
		dst = append(dst[:mark], Token{w.special.UNK, wd.from, wd.end})
	}
	s.reset()
	*wd = word{direct: true}
	return dst
}

// longest finds the longest piece at buf[at:]; n = 0 when there is none.
func (w *WordPiece) longest(buf []byte, at int) (id int32, n int) {
	node := uint32(0)
	if at > 0 {
		if !w.hasNext {
			return 0, 0
		}
		node = w.next
	}
	units := w.trie.units
	for i, c := range buf[at:] {
		m := units[node].base&^hasValue ^ uint32(c)
		if units[m].parent != node {
			break
		}
		node = m
		if units[m].base&hasValue != 0 {
			id, n = w.trie.values[m], i+1
		}
	}
	return id, n
}
