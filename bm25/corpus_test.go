package bm25

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"
)

// sections is a segment in memory.
type sections map[string]*bytes.Buffer

func (s sections) create(name string) (io.Writer, error) {
	if s[name] != nil {
		return nil, fmt.Errorf("section %q written twice", name)
	}
	s[name] = &bytes.Buffer{}
	return s[name], nil
}

func (s sections) section(name string) ([]byte, bool) {
	b, ok := s[name]
	if !ok {
		return nil, false
	}
	return b.Bytes(), true
}

func (s sections) clone() sections {
	c := sections{}
	for name, b := range s {
		c[name] = bytes.NewBuffer(bytes.Clone(b.Bytes()))
	}
	return c
}

func (s sections) equal(t testing.TB, o sections) {
	t.Helper()
	for _, name := range []string{"meta", "dict", "docs", "pos", "norms"} {
		if !bytes.Equal(s[name].Bytes(), o[name].Bytes()) {
			t.Fatalf("section %s differs: %d and %d bytes", name, s[name].Len(), o[name].Len())
		}
	}
}

// A text is the tokens of a doc; token i stands at position i + i/7, so that
// there are gaps.
type text []string

func buildField(t testing.TB, docs map[uint32]text, n uint32) (sections, *Field) {
	t.Helper()
	b := NewBuilder()
	for d := range n {
		words, ok := docs[d]
		if !ok {
			continue
		}
		b.StartDoc(d)
		for i, w := range words {
			b.Token([]byte(w), uint32(i+i/7))
		}
		b.EndDoc()
	}
	s := sections{}
	if err := b.Write(s.create); err != nil {
		t.Fatal(err)
	}
	return s, openField(t, s, n)
}

func openField(t testing.TB, s sections, n uint32) *Field {
	t.Helper()
	f, err := Open(s.section, n)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// zipf draws ranks 0…n−1 with probability about 1/(rank+shift).
type zipf struct {
	rng   *rand.Rand
	n     float64
	shift float64
}

func (z zipf) next() int {
	// Inverse of the integral of 1/(x+shift).
	u := z.rng.Float64()
	return min(int(z.shift*math.Pow((z.n+z.shift)/z.shift, u)-z.shift), int(z.n)-1)
}

// randomDocs makes docs of a skewed vocabulary; some lack the field, some are
// empty, a few are long.
func randomDocs(rng *rand.Rand, n uint32, vocabulary, length int) map[uint32]text {
	z := zipf{rng, float64(vocabulary), 1.5}
	docs := map[uint32]text{}
	for d := range n {
		if rng.IntN(10) == 0 {
			continue
		}
		l := rng.IntN(2*length + 1)
		if rng.IntN(50) == 0 {
			l *= 10
		}
		words := make(text, l)
		for i := range words {
			words[i] = word(z.next())
			if i > 0 && rng.IntN(12) == 0 {
				words[i] = words[i-1]
			}
		}
		docs[d] = words
	}
	return docs
}

// word names a rank; names do not sort by rank and share prefixes.
func word(rank int) string {
	return fmt.Sprintf("w%03x%c", uint32(rank)*2654435761>>20, 'a'+rune(rank%26)) + fmt.Sprint(rank)
}
