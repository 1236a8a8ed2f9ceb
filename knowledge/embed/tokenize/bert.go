package tokenize

import (
	_ "embed"
	"slices"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/storage"
)

// bertTab holds what the reference's normalizer and pre-tokenizer do to every
// code point. Its Unicode versions differ from table to table and from those
// of Go, so that the tables are taken from the reference itself; see _gen.
//
//go:embed bert.tab
var bertTab string

// runeClass says what becomes of a source rune in WordPiece.
type runeClass uint16

const (
	plain   runeClass = iota // stays as it is
	removed                  // vanishes
	space                    // ends a word
	punct                    // is a word by itself
	mapped                   // mapped+i: becomes the outputs from first[i] to first[i+1]
)

// An output is a rune made from another one.
type output struct {
	off   uint32 // in text
	size  uint8
	class runeClass // plain, space or punct
}

// runeTable gives the class of every rune under one configuration: BERT's
// cleaning, CJK spacing, canonical decomposition without nonspacing marks,
// lower case and punctuation, all looked up at once.
type runeTable struct {
	ascii   [utf8.RuneSelf]asciiRune
	pages   []uint16 // by rune / 256: where its page starts in classes, / 256
	classes []runeClass
	outputs []output
	first   []uint32
	text    string // of all outputs
}

type asciiRune struct {
	class runeClass // plain, removed, space or punct
	out   byte
}

func (t *runeTable) class(r rune) runeClass {
	return t.classes[int(t.pages[r>>8])<<8|int(r&0xFF)]
}

// bertData is bertTab, decoded.
type bertData struct {
	removed, space, punct, mark, han []span
	decomposed, lower                map[rune]string
}

type span struct{ lo, hi rune } // lo ≤ r < hi

func has(spans []span, r rune) bool {
	_, ok := slices.BinarySearchFunc(spans, r, func(s span, r rune) int {
		switch {
		case s.hi <= r:
			return -1
		case s.lo > r:
			return 1
		}
		return 0
	})
	return ok
}

func loadBert() bertData {
	d := storage.NewDecoder("bert.tab", 0, []byte(bertTab))
	spans := func() []span {
		s := make([]span, d.Count(2))
		at := rune(0)
		for i := range s {
			s[i].lo = at + rune(d.Uvarint())
			s[i].hi = s[i].lo + rune(d.Uvarint())
			at = s[i].hi
		}
		return s
	}
	pairs := func() map[rune]string {
		n := d.Count(2)
		m := make(map[rune]string, n)
		at := rune(0)
		for range n {
			at += rune(d.Uvarint())
			m[at] = d.String()
		}
		return m
	}
	return bertData{spans(), spans(), spans(), spans(), spans(), pairs(), pairs()}
}

// newRuneTable classifies every rune, page by page. Most pages hold one class
// only, which the tables show without a look at each rune.
func newRuneTable(c *WordPieceConfig) *runeTable {
	data := loadBert()
	t := &runeTable{pages: make([]uint16, (utf8.MaxRune+1)>>8), first: []uint32{0}}
	mixed := data.mixedPages()
	seen := map[[256]runeClass]uint16{}
	cur := data.cursors()
	var text []byte
	for p := range t.pages {
		var page [256]runeClass
		page[0] = t.classify(&data, &cur, &text, c, rune(p<<8))
		for i := 1; i < len(page); i++ {
			if mixed[p] {
				page[i] = t.classify(&data, &cur, &text, c, rune(p<<8|i))
			} else {
				page[i] = page[0]
			}
		}
		at, ok := seen[page]
		if !ok {
			at = uint16(len(t.classes) >> 8)
			seen[page] = at
			t.classes = append(t.classes, page[:]...)
		}
		t.pages[p] = at
	}
	t.text = string(text)
	for i := range t.ascii {
		a := asciiRune{t.class(rune(i)), byte(i)}
		if a.class >= mapped {
			// ASCII only ever becomes one ASCII rune: the lower case.
			o := t.outputs[t.first[a.class-mapped]]
			a = asciiRune{o.class, t.text[o.off]}
		}
		t.ascii[i] = a
	}
	return t
}

// mixedPages tells which pages of 256 runes may hold more than one class.
func (d *bertData) mixedPages() []bool {
	mixed := make([]bool, (utf8.MaxRune+1)>>8+1)
	for _, spans := range [][]span{d.removed, d.space, d.punct, d.mark, d.han} {
		for _, s := range spans {
			mixed[s.lo>>8] = mixed[s.lo>>8] || s.lo&0xFF != 0
			mixed[s.hi>>8] = mixed[s.hi>>8] || s.hi&0xFF != 0
		}
	}
	for _, m := range []map[rune]string{d.decomposed, d.lower} {
		for r := range m {
			mixed[r>>8] = true
		}
	}
	for r := rune(hangulFirst); r < hangulFirst+hangulCount+0xFF; r += 0x100 {
		mixed[r>>8] = true
	}
	return mixed
}

// cursors answer membership for ascending runes.
type cursors struct{ removed, space, punct, mark, han []span }

func (d *bertData) cursors() cursors {
	return cursors{d.removed, d.space, d.punct, d.mark, d.han}
}

func reached(spans *[]span, r rune) bool {
	for len(*spans) > 0 && (*spans)[0].hi <= r {
		*spans = (*spans)[1:]
	}
	return len(*spans) > 0 && (*spans)[0].lo <= r
}

// classify runs the reference's steps on one rune.
func (t *runeTable) classify(d *bertData, cur *cursors, text *[]byte, c *WordPieceConfig, r rune) runeClass {
	alone := reached(&cur.han, r) && c.SplitCJK
	_, lower := d.lower[r]
	_, full := d.decomposed[r]
	full = full || r >= hangulFirst && r < hangulFirst+hangulCount
	switch {
	case reached(&cur.removed, r) && c.CleanText, reached(&cur.mark, r) && c.StripAccents:
		return removed
	case lower && c.Lowercase || full && c.StripAccents:
		return t.rewrite(d, text, c, r, alone)
	case reached(&cur.space, r):
		return space
	case reached(&cur.punct, r) || alone:
		return punct // a word by itself is all that punctuation means here
	}
	return plain
}

// rewrite makes the outputs of a rune that changes.
func (t *runeTable) rewrite(d *bertData, text *[]byte, c *WordPieceConfig, r rune, alone bool) runeClass {
	n := len(t.outputs)
	t.decompose(d, c, r, func(r rune) {
		o := output{off: uint32(len(*text)), size: uint8(utf8.RuneLen(r))}
		*text = utf8.AppendRune(*text, r)
		switch {
		case has(d.space, r):
			o.class = space
		case has(d.punct, r) || alone:
			o.class = punct
		}
		t.outputs = append(t.outputs, o)
	})
	if len(t.outputs) == n {
		return removed
	}
	t.first[len(t.first)-1] = uint32(n)
	t.first = append(t.first, uint32(len(t.outputs)))
	return mapped + runeClass(len(t.first)-2)
}

// decompose calls out with the runes that r becomes.
func (t *runeTable) decompose(d *bertData, c *WordPieceConfig, r rune, out func(rune)) {
	lower := func(r rune) {
		l, ok := d.lower[r]
		switch {
		case c.StripAccents && has(d.mark, r):
		case c.Lowercase && ok:
			for _, r := range l {
				out(r)
			}
		default:
			out(r)
		}
	}
	full, ok := d.decomposed[r]
	i := r - hangulFirst
	switch {
	case c.StripAccents && i >= 0 && i < hangulCount:
		lower(0x1100 + i/588)
		lower(0x1161 + i%588/28)
		if i%28 != 0 {
			lower(0x11A7 + i%28)
		}
	case c.StripAccents && ok:
		for _, r := range full {
			lower(r)
		}
	default:
		lower(r)
	}
}

// Hangul syllables are decomposed by arithmetic (The Unicode Standard, 3.12).
const (
	hangulFirst = 0xAC00
	hangulCount = 11172
)
