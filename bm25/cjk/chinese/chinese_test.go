package chinese

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
	if got := query(a, "图书馆"); !slices.Equal(got, []string{"图书馆", "图书", "书馆"}) {
		t.Errorf("word %q", got)
	}
	if got := query(a, "陈景润"); !slices.Contains(got, "陈景") || !slices.Contains(got, "景润") {
		t.Errorf("name %q", got)
	}
	long := strings.Repeat("北京大学的学生在图书馆学习", 300) + "ａｂ\x00😀"
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
	set := judge.Set{Folder: "xquad/zh", Judgments: "xquad", Nth: 1}
	base, with := judge.MRR(t, analysis.ForLanguage("zh"), set), judge.MRR(t, a, set)
	t.Logf("MRR@10 on XQuAD zh: pairs %.4f, words %.4f", base, with)
	if with < base-0.005 {
		t.Error("the dictionary is worse than none")
	}
}
