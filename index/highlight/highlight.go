package highlight

import (
	"cmp"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/bm25/analysis"
)

// A Span is a half-open range of bytes of the source text.
type Span struct{ Start, End int }

// A Passage is a range of the source text with the matches inside it, in
// bytes of the source text, ascending and disjoint.
type Passage struct {
	Span
	Marks []Span
}

// Options bounds the answer; zero values take the defaults.
type Options struct {
	Size int // bytes of a passage, about; default 200
	Max  int // number of passages; default 3
}

// A Matcher tells which of the query's terms, counted from 0, an indexed term
// is, or a negative number.
type Matcher func(term []byte) int

// match is a stretch of text that query terms cover: one occurrence, or several
// that overlap, as CJK bigrams and the parts of an identifier do.
type match struct {
	Span
	terms []int
}

// Passages returns the passages with the most different query terms, then the
// most matches, in the order of the text. A text without a match has none.
func Passages(a *analysis.Analyzer, s *analysis.Scratch, text string, is Matcher, o Options) []Passage {
	if o.Size <= 0 {
		o.Size = 200
	}
	if o.Max <= 0 {
		o.Max = 3
	}
	found := matches(a, s, text, is)
	var out []Passage
	taken := make([]bool, len(found))
	for len(out) < o.Max {
		i, j := best(found, taken, o.Size)
		if i == j {
			break
		}
		out = append(out, Passage{widen(text, found[i:j], o.Size), marks(found[i:j])})
		for ; i < j; i++ {
			taken[i] = true
		}
	}
	slices.SortFunc(out, func(x, y Passage) int { return cmp.Compare(x.Start, y.Start) })
	return disjoint(out)
}

// matches finds the stretches that query terms cover, in order, disjoint.
func matches(a *analysis.Analyzer, s *analysis.Scratch, text string, is Matcher) []match {
	type occurrence struct {
		Span
		term int
	}
	var found []occurrence
	a.Tokens(s, text, func(t *analysis.Token) {
		if n := is(t.Term); n >= 0 {
			found = append(found, occurrence{Span{t.Start, t.End}, n})
		}
	})
	slices.SortStableFunc(found, func(x, y occurrence) int { return cmp.Compare(x.Start, y.Start) })
	var out []match
	for _, o := range found {
		if n := len(out); n > 0 && o.Start < out[n-1].End {
			out[n-1].End = max(out[n-1].End, o.End)
			out[n-1].terms = append(out[n-1].terms, o.term)
			continue
		}
		out = append(out, match{o.Span, []int{o.term}})
	}
	return out
}

// best returns the half-open range of untaken matches that fits into size
// bytes with the most different terms, then the most matches, then first in
// the text. Two pointers move over the matches, so the cost is linear.
func best(found []match, taken []bool, size int) (from, to int) {
	counts := map[int]int{}
	bestTerms, bestLen, i := 0, 0, 0
	for j := range found {
		if taken[j] {
			clear(counts)
			i = j + 1
			continue
		}
		for _, t := range found[j].terms {
			counts[t]++
		}
		for i < j && found[j].End-found[i].Start > size {
			for _, t := range found[i].terms {
				if counts[t]--; counts[t] == 0 {
					delete(counts, t)
				}
			}
			i++
		}
		if t, n := len(counts), j-i+1; t > bestTerms || t == bestTerms && n > bestLen {
			bestTerms, bestLen, from, to = t, n, i, j+1
		}
	}
	return from, to
}

func marks(found []match) []Span {
	out := make([]Span, len(found))
	for i, m := range found {
		out[i] = m.Span
	}
	return out
}

// widen grows the range of the matches to about size bytes, a third before
// and the rest behind, and moves both ends to a border of words where one is
// near.
func widen(text string, found []match, size int) Span {
	s := Span{found[0].Start, found[len(found)-1].End}
	room := max(size-(s.End-s.Start), 0)
	return Span{
		Start: wordStart(text, max(s.Start-room/3, 0), s.Start),
		End:   wordEnd(text, min(s.End+room-room/3, len(text)), s.End),
	}
}

// wordStart returns the first border of words in text[from:to], or the first
// rune's start where there is none (scripts without spaces).
func wordStart(text string, from, to int) int {
	for from < to && !utf8.RuneStart(text[from]) {
		from++
	}
	if from == 0 {
		return 0
	}
	for i, r := range text[from:to] {
		if unicode.IsSpace(r) {
			return from + i + utf8.RuneLen(r)
		}
	}
	return from
}

// wordEnd is wordStart's mirror: the last border in text[from:to].
func wordEnd(text string, to, from int) int {
	if to == len(text) {
		return to
	}
	for to > from && !utf8.RuneStart(text[to]) {
		to--
	}
	for i := to; i > from; {
		r, n := utf8.DecodeLastRuneInString(text[from:i])
		if unicode.IsSpace(r) {
			return i - n
		}
		i -= n
	}
	return to
}

// disjoint cuts each passage at the end of the one before, so that no text is
// shown twice; marks never overlap, since a match belongs to one passage.
func disjoint(ps []Passage) []Passage {
	for i := 1; i < len(ps); i++ {
		prev, first := &ps[i-1], ps[i].Marks[0].Start
		prev.End = min(prev.End, first)
		ps[i].Start = max(ps[i].Start, prev.End)
	}
	return ps
}
