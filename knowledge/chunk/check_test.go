package chunk

import (
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// clusterBorders is the plain way to find where text may be cut. An invalid
// byte counts as a letter: the library takes one near the end of the text, and
// what follows, for a rune that goes on.
func clusterBorders(text string) map[int]bool {
	if !utf8.ValidString(text) {
		b := []byte(text)
		for i := 0; i < len(b); {
			r, w := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && w == 1 {
				b[i] = 'x'
			}
			i += w
		}
		text = string(b)
	}
	m := map[int]bool{0: true, len(text): true}
	for it := graphemes.FromString(text); it.Next(); {
		m[it.End()] = true
	}
	return m
}

// blankAround reports whether a blank rune touches pos.
func blankAround(text string, pos int) bool {
	a, _ := utf8.DecodeLastRuneInString(text[:pos])
	b, _ := utf8.DecodeRuneInString(text[pos:])
	return isBlank(a) || isBlank(b)
}

// checkChunks checks what holds for any options and any text.
func checkChunks(t testing.TB, text string, s *settings, chunks []Chunk) {
	t.Helper()
	borders := clusterBorders(text)
	long := false // a cluster that may be cut
	for i, c := range chunks {
		if c.Start < 0 || c.End > len(text) || c.Start >= c.End || c.Text != text[c.Start:c.End] || c.Index != i {
			t.Fatalf("chunk %d: [%d, %d) of %d bytes, index %d", i, c.Start, c.End, len(text), c.Index)
		}
		if i > 0 && (c.Start <= chunks[i-1].Start || c.End <= chunks[i-1].End) {
			t.Fatalf("chunk %d: [%d, %d) after [%d, %d)", i, c.Start, c.End, chunks[i-1].Start, chunks[i-1].End)
		}
		if a, b := trim(text, c.Start, c.End); a != c.Start || b != c.End {
			t.Fatalf("chunk %d: %q has blank ends", i, c.Text)
		}
		for _, pos := range []int{c.Start, c.End} {
			if !borders[pos] && !blankAround(text, pos) {
				long = true
				if s.limit > 64 {
					t.Fatalf("chunk %d: cut inside a cluster at %d", i, pos)
				}
			}
			if pos < len(text) && utf8.ValidString(text) && !utf8.RuneStart(text[pos]) {
				t.Fatalf("chunk %d: cut inside a rune at %d", i, pos)
			}
		}
		if c.Parent.Start > c.Start || c.Parent.End < c.End {
			t.Fatalf("chunk %d: parent %v of [%d, %d)", i, c.Parent, c.Start, c.End)
		}
		if len(text) < 5000 {
			want := [4]int{utf8.RuneCountInString(text[:c.Start]), utf8.RuneCountInString(text[:c.End]),
				len(utf16.Encode([]rune(text[:c.Start]))), len(utf16.Encode([]rune(text[:c.End])))}
			if got := [4]int{c.RuneStart, c.RuneEnd, c.UTF16Start, c.UTF16End}; got != want {
				t.Fatalf("chunk %d: offsets %v, want %v", i, got, want)
			}
		}
	}
	if s.unit == Custom && !long {
		return // separators are not covered
	}
	checkCovered(t, text, chunks, s.unit == Custom)
}

// checkCovered checks that every byte that is not blank lies in a chunk.
func checkCovered(t testing.TB, text string, chunks []Chunk, custom bool) {
	t.Helper()
	if custom {
		return
	}
	at := 0
	for _, c := range append(chunks, Chunk{Start: len(text), End: len(text)}) {
		if c.Start > at {
			if i := skipBlank(text, at, c.Start); i < c.Start {
				t.Fatalf("byte %d (%q) is in no chunk", i, text[i:min(i+20, len(text))])
			}
		}
		at = max(at, c.End)
	}
}
