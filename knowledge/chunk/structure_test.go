package chunk

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/storage"
)

func TestStructureHeadings(t *testing.T) {
	const text = "---\ntitle: x\n---\nLead in.\n\n# One\n\n## First\nText a.\n\nText b.\n## Second ##\nText c.\n\nTwo\n===\nText d.\n\nSub\n---\nText e.\n# Three\n# Four\nend\n"
	got := cut(t, text, Options{Strategy: Structure, Unit: Word})
	type item struct {
		Text, Path string
		Parent     string
	}
	var items []item
	for _, c := range got {
		items = append(items, item{c.Text, strings.Join(c.Path, "/"), text[c.Parent.Start:c.Parent.End]})
	}
	equal(t, items, []item{
		{"---\ntitle: x\n---\nLead in.", "", text},
		{"# One\n\n## First\nText a.\n\nText b.", "One/First", "# One\n\n## First\nText a.\n\nText b.\n"},
		{"## Second ##\nText c.", "One/Second", "## Second ##\nText c.\n\n"},
		{"Two\n===\nText d.", "Two", "Two\n===\nText d.\n\nSub\n---\nText e.\n"},
		{"Sub\n---\nText e.", "Two/Sub", "Sub\n---\nText e.\n"},
		{"# Three", "Three", "# Three\n"},
		{"# Four\nend", "Four", "# Four\nend\n"},
	})
}

func TestStructureCutsBetweenBlocks(t *testing.T) {
	const text = "# T\nOne two three four. Five six.\n\nSeven eight nine. Ten eleven twelve.\n\nThirteen."
	equal(t, texts(cut(t, text, Options{Strategy: Structure, Unit: Word, Size: new(9)})),
		[]string{"# T\nOne two three four. Five six.", "Seven eight nine. Ten eleven twelve.\n\nThirteen."})
	equal(t, texts(cut(t, text, Options{Strategy: Structure, Unit: Word, Size: new(5)})),
		[]string{"# T\nOne two three four.", "Five six.\n\nSeven eight nine.", "Ten eleven twelve.\n\nThirteen."})
	equal(t, texts(cut(t, text, Options{Strategy: Structure, Unit: Sentence, Size: new(2)})),
		[]string{"# T\nOne two three four.", "Five six.", "Seven eight nine. Ten eleven twelve.", "Thirteen."})
	// Overlap within a section, never across a heading.
	equal(t, texts(cut(t, "# A\na b c d e\n# B\nf g", Options{Strategy: Structure, Unit: Word, Size: new(3), Overlap: new(1)})),
		[]string{"# A\na b", "b c d", "d e", "# B\nf g"})
}

func TestStructureKeepsBlocks(t *testing.T) {
	for _, block := range []string{
		"```go\nfunc a() { b() }\n\nfunc c() {}\n# no heading\n```", "~~~\na b c d\n```\ne f g h\n~~~",
		"````md\n```\na b c d e f g\n```\n````", "  ```\n  a b c d e f g h\n  ```",
		"| a | b |\n|---|:-:|\n| c d | e f |\n| g h | i j |",
	} {
		text := "# T\nOne two.\n\n" + block + "\n\nThree four."
		got := cut(t, text, Options{Strategy: Structure, Unit: Word, Size: new(6), KeepWhole: 20})
		equal(t, texts(got), []string{"# T\nOne two.", strings.TrimSpace(block), "Three four."})
		// Cut by lines when too long.
		for _, keep := range []int{-1, 3} {
			got = cut(t, text, Options{Strategy: Structure, Unit: Word, Size: new(6), KeepWhole: keep})
			for _, c := range got {
				if strings.Contains(c.Text, block) || !strings.HasPrefix(c.Text, "# T\nOne") && strings.HasPrefix(c.Text, "# T") {
					t.Errorf("%q: %q", block, texts(got))
				}
			}
		}
	}
	table := "| h | k |\n|---|---|\n" + strings.Repeat("| a b | c |\n", 9)
	for _, c := range cut(t, table, Options{Strategy: Structure, Unit: Word, Size: new(7), KeepWhole: -1}) {
		if !strings.HasPrefix(c.Text, "|") || !strings.HasSuffix(c.Text, "|") {
			t.Errorf("row cut: %q", c.Text)
		}
	}
}

func TestStructureOfOtherFormats(t *testing.T) {
	const text = "Intro\nabc. def\nPart\nghi\ncode one two three\nrest"
	doc := Document{Text: text, Sections: []Section{
		{0, len(text), 1, "Intro"}, {15, len(text), 2, "Part"},
	}, Keep: []Span{{24, 42}}}
	equal(t, text[15:19]+text[24:28], "Partcode")
	c, err := New(&Options{Strategy: Structure, Unit: Word, Size: new(3)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Collect(c.Chunks(doc))
	if err != nil {
		t.Fatal(err)
	}
	checkChunks(t, text, &c.s, got)
	equal(t, texts(got), []string{"Intro\nabc. def", "Part\nghi", "code one two three", "rest"})
	equal(t, got[3].Path, []string{"Intro", "Part"})
	// Sections that are known to be none.
	doc = Document{Text: "# a\nb\n# c\nd", Sections: []Section{}}
	got, err = Collect(c.Chunks(doc))
	if err != nil || len(got) != 2 || got[0].Path != nil {
		t.Errorf("%q, %v", texts(got), err)
	}
	// Paths for the other strategies.
	c, err = New(&Options{Unit: Word, Size: new(2), Overlap: new(0)})
	if err != nil {
		t.Fatal(err)
	}
	got, err = Collect(c.Chunks(Document{Text: "a # B\nc d e", Sections: []Section{{2, 11, 1, "B"}}}))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, fmt.Sprint(got[0].Path, got[1].Path, got[1].Parent), "[] [B] {2 11}")
}

func TestSections(t *testing.T) {
	const text = "# A\n## B\n#### C\n## D\n```\n# x\n```\n#\n #notitle\n####### seven\n    # code\n"
	equal(t, Sections(text), []Section{
		{0, 33, 1, "A"}, {4, 16, 2, "B"}, {9, 16, 4, "C"}, {16, 33, 2, "D"}, {33, len(text), 1, ""},
	})
}

func TestDocumentIsChecked(t *testing.T) {
	c, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var deep []Section
	for range maxDepth + 1 {
		deep = append(deep, Section{Start: 0, End: 4})
	}
	for i, doc := range []Document{
		{Text: "text", Sections: []Section{{0, 5, 1, ""}}},
		{Text: "text", Sections: []Section{{2, 4, 1, ""}, {1, 2, 1, ""}}},
		{Text: "text", Sections: []Section{{0, 2, 1, ""}, {1, 3, 1, ""}}},
		{Text: "text", Sections: []Section{{3, 2, 1, ""}}},
		{Text: "text", Sections: []Section{{-1, 2, 1, ""}}},
		{Text: "text", Sections: deep},
		{Text: "text", Pages: []PageSpan{{0, 4, 0}}},
		{Text: "text", Pages: []PageSpan{{0, 3, 1}, {2, 4, 2}}},
		{Text: "text", Keep: []Span{{0, 3}, {2, 4}}},
	} {
		if _, err := Collect(c.Chunks(doc)); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestBadTokenizer(t *testing.T) {
	for i, tok := range []Tokenizer{
		func(text string, emit func(int, int)) { emit(3, 4); emit(2, 4) },
		func(text string, emit func(int, int)) { emit(-1, 4) },
		func(text string, emit func(int, int)) { emit(0, len(text)+1) },
		func(text string, emit func(int, int)) { emit(3, 2) },
	} {
		for _, o := range []Options{{}, {Strategy: Divide}, {Unit: Page, TokenLimit: 2}, {Unit: Word, TokenLimit: 3}, {Strategy: Structure}} {
			o.Tokenizer = tok
			c, err := New(&o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Collect(c.Chunks(Document{Text: "some text to cut"})); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%d, %s %s: %v", i, o.Strategy, o.Unit, err)
			}
		}
	}
	// One that finds nothing, and one that says everything twice.
	for _, tok := range []Tokenizer{
		func(string, func(int, int)) {},
		func(text string, emit func(int, int)) {
			Words(text, func(a, b int) { emit(a, a); emit(a, b) })
		},
	} {
		for _, unit := range []Unit{Token, Word, Page} {
			cut(t, "some text to cut", Options{Unit: unit, Size: new(3), TokenLimit: 4, Tokenizer: tok})
		}
	}
}

// A caller may leave at any chunk.
func TestEarlyStop(t *testing.T) {
	text := strings.Repeat("# A\nSome words here. More words.\n\n```\ncode\n```\n", 50)
	for _, o := range []Options{{Size: new(3)}, {Strategy: Structure, Size: new(4)}, {Unit: Page, TokenLimit: 5}, {Strategy: Divide, Size: new(30)}} {
		c, err := New(&o)
		if err != nil {
			t.Fatal(err)
		}
		for stop := range 20 {
			n := 0
			for _, err := range c.Documents(func(yield func(Document) bool) {
				for more, i := true, 0; more && i < 2; i++ {
					more = yield(Document{Text: text})
				}
			}) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; n > stop {
					break
				}
			}
		}
	}
}
