package knowledge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/storage"
)

// itemFrom cuts an item out of a document's text.
func itemFrom(doc, text string, chunk, start, end int) Item {
	return Item{Content: text[start:end], Metadata: Metadata{Source: doc, DocumentID: doc, KnowledgeBaseID: "kb", DocumentVersion: 1,
		ChunkIndex: chunk, StartOffset: start, EndOffset: end}}
}

func mustContext(t testing.TB, items []Item, o ContextOptions) Context {
	t.Helper()
	c, err := AssembleContext(items, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestContextMergesNeighbors(t *testing.T) {
	text := "alpha beta gamma delta epsilon zeta"
	items := []Item{
		itemFrom("a", text, 1, 6, 16),  // beta gamma
		itemFrom("b", text, 0, 0, 5),   // of another document
		itemFrom("a", text, 2, 11, 22), // gamma delta, overlaps the first
		itemFrom("a", text, 0, 0, 5),   // alpha, the chunk before
		itemFrom("a", text, 1, 6, 16),  // repeats
		itemFrom("a", text, 9, 31, 35), // zeta, far away
	}
	c := mustContext(t, items, ContextOptions{})
	want := "[1] a\nalpha\n\nbeta gamma delta\n\n[2] b\nalpha\n\n[1] a\nzeta"
	if c.Text != want || len(c.Sources) != 2 || len(c.Parts) != 3 || c.Truncated || c.Runes != utf8.RuneCountInString(want) {
		t.Errorf("%q\n%+v", c.Text, c)
	}
	if p := c.Parts[0]; p.Start != 0 || p.End != 22 || fmt.Sprint(p.Items) != "[3 0 4 2]" {
		t.Errorf("%+v", p)
	}
	if c := mustContext(t, nil, ContextOptions{}); c.Text != "" || mustJSON(t, c.Sources) != "[]" {
		t.Errorf("%+v", c)
	}
	if _, err := AssembleContext(items, ContextOptions{MaxRunes: -1}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// G09: marker n is source n, numbered in the order of appearance.
func TestG09_MarkersAreSources(t *testing.T) {
	text := strings.Repeat("0123456789", 5)
	items := []Item{itemFrom("two", text, 0, 0, 10), itemFrom("one", text, 0, 10, 20), itemFrom("three", text, 0, 20, 30), itemFrom("one", text, 3, 40, 50)}
	items[0].Metadata.Page, items[0].Metadata.PageEnd = 2, 3
	items[1].Metadata.Page = 7
	items[1].Metadata.Source = "a name\n[9] with a marker"
	items[3].Metadata.Source = items[1].Metadata.Source
	c := mustContext(t, items, ContextOptions{})
	for i, want := range []string{"two", "a name\n[9] with a marker", "three"} {
		if s := c.Sources[i]; s.Number != i+1 || s.Source != want {
			t.Errorf("source %d: %+v", i+1, s)
		}
	}
	markers := regexp.MustCompile(`(?m)^\[(\d+)\] (.*)$`).FindAllStringSubmatch(c.Text, -1)
	if len(markers) != 4 {
		t.Fatalf("%q", c.Text)
	}
	for i, m := range markers {
		n, _ := strconv.Atoi(m[1])
		if n != c.Parts[i].Number || !strings.HasPrefix(m[2], strings.Join(strings.Fields(c.Sources[n-1].Source), " ")) {
			t.Errorf("marker %q is not source %+v", m[0], c.Sources[n-1])
		}
	}
	if !strings.Contains(c.Text, "[1] two, pages 2-3\n") || !strings.Contains(c.Text, "marker, page 7\n") || fmt.Sprint(c.Sources[0].Pages) != "[2 3]" {
		t.Errorf("%q %+v", c.Text, c.Sources)
	}
}

// Whatever the budget: it is kept, no rune is cut, nothing comes twice, and what
// is shown is what the document holds.
func TestContextBudget(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	alphabet := []rune("abc déf 😀नम 退款\n")
	for range 300 {
		docs := make([]string, 3)
		for d := range docs {
			var b strings.Builder
			for range 40 + rng.IntN(200) {
				b.WriteRune(alphabet[rng.IntN(len(alphabet))])
			}
			docs[d] = b.String()
		}
		var items []Item
		for range rng.IntN(12) {
			d := rng.IntN(3)
			at := func() int {
				i := rng.IntN(len(docs[d]) + 1)
				for i < len(docs[d]) && !utf8.RuneStart(docs[d][i]) {
					i++
				}
				return i
			}
			a, b := at(), at()
			if a > b {
				a, b = b, a
			}
			items = append(items, itemFrom(strconv.Itoa(d), docs[d], a, a, b)) // chunk numbers that never follow each other by accident matter not
		}
		for i := range items {
			items[i].Metadata.ChunkIndex *= 2
		}
		full := mustContext(t, items, ContextOptions{})
		o := ContextOptions{MaxRunes: rng.IntN(full.Runes + 10), MinRunes: 1 + rng.IntN(20)}
		if rng.IntN(2) == 0 {
			o = ContextOptions{MaxTokens: rng.IntN(full.Tokens + 10), MinRunes: 1}
		}
		c := mustContext(t, items, o)
		if !utf8.ValidString(c.Text) || o.MaxRunes > 0 && c.Runes > o.MaxRunes || o.MaxTokens > 0 && c.Tokens > o.MaxTokens {
			t.Fatalf("budget %+v: %d runes, %d tokens", o, c.Runes, c.Tokens)
		}
		if !c.Truncated && c.Text != full.Text {
			t.Fatal("cut, and does not say so")
		}
		covered := map[string]int{}
		for _, p := range c.Parts {
			s := c.Sources[p.Number-1]
			d, _ := strconv.Atoi(s.DocumentID)
			if docs[d][p.Start:p.End] != p.Text {
				t.Fatalf("part %+v is not %q", p, docs[d][p.Start:p.End])
			}
			for i := p.Start; i < p.End; i++ {
				key := fmt.Sprint(d, " ", i)
				if covered[key]++; covered[key] > 1 {
					t.Fatalf("byte %d of %d comes twice", i, d)
				}
			}
		}
	}
}

func TestContextCutsTheLast(t *testing.T) {
	text := strings.Repeat("é", 100) + strings.Repeat("😀", 100)
	items := []Item{itemFrom("a", text, 0, 0, 200), itemFrom("a", text, 1, 200, 600)}
	c := mustContext(t, items, ContextOptions{MaxRunes: 190})
	if c.Runes != 190 || !c.Truncated || c.Parts[0].End != 200+4*84 {
		t.Errorf("%d runes, %+v", c.Runes, c.Parts[0])
	}
	// Too little of it is left: it is not shown at all.
	if c = mustContext(t, items, ContextOptions{MaxRunes: 150}); c.Runes != 106 || !c.Truncated {
		t.Errorf("%d runes", c.Runes)
	}
	if c = mustContext(t, items, ContextOptions{MaxRunes: 3}); c.Text != "" || !c.Truncated {
		t.Errorf("%q", c.Text)
	}
	words := func(s string) int { return len(strings.Fields(s)) }
	if c = mustContext(t, []Item{itemFrom("a", "one two three four five", 0, 0, 23)}, ContextOptions{MaxTokens: 5, CountTokens: words, MinRunes: 1}); c.Text != "[1] a\none two three" {
		t.Errorf("%q", c.Text)
	}
}
