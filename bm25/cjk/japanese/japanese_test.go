package japanese

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/bm25/cjk/internal/judge"
)

func query(a *analysis.Analyzer, text string) (terms []string) {
	var s analysis.Scratch
	a.QueryTokens(&s, text, func(t *analysis.Token) {
		terms = append(terms, string(t.Term))
		if text[t.Start:t.End] == "" || t.End > len(text) {
			terms = append(terms, "outside")
		}
	})
	return terms
}

func TestWords(t *testing.T) {
	a, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if a.Name() != Name {
		t.Errorf("name %q", a.Name())
	}
	if got := query(a, "図書館"); !slices.Equal(got, []string{"図書館", "図書", "書館"}) {
		t.Errorf("word %q", got)
	}
	if got := query(a, "コンピュータ"); !slices.Contains(got, "コンピュータ") {
		t.Errorf("word %q", got)
	}
	long := strings.Repeat("大学の図書館で本を読みました", 300) + "ｶﾞｷﾞ\x00😀"
	want := query(a, long)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if !slices.Equal(query(a, long), want) {
				t.Error("another answer beside others")
			}
		})
	}
	wg.Wait()
}

// TestQuality compares with the pairs that need no dictionary.
func TestQuality(t *testing.T) {
	a, err := New()
	if err != nil {
		t.Fatal(err)
	}
	set := judge.Set{Folder: "jaquad", Judgments: "jaquad", Nth: 24}
	base, with := judge.MRR(t, analysis.ForLanguage("ja"), set), judge.MRR(t, a, set)
	t.Logf("MRR@10 on JaQuAD, 1 in 24: pairs %.4f, words %.4f", base, with)
	if with < base-0.005 {
		t.Error("the dictionary is worse than none")
	}
}
