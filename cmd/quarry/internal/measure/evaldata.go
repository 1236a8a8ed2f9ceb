package measure

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
)

// condition is one KEY=VALUE of --only: the metadata under key is the value, or a
// list that holds it, as it prints.
type condition struct{ key, value string }

func conditions(flag string, specs []string) ([]condition, error) {
	out := make([]condition, len(specs))
	for i, spec := range specs {
		key, value, ok := strings.Cut(spec, "=")
		if !ok || key == "" {
			return nil, console.Usagef("%s %q: want KEY=VALUE", flag, spec)
		}
		out[i] = condition{key, value}
	}
	return out, nil
}

func matches(metadata map[string]any, conditions []condition) bool {
	for _, c := range conditions {
		v, ok := metadata[c.key]
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		found := false
		for _, v := range list {
			found = found || fmt.Sprint(v) == c.value
		}
		if !ok || !found {
			return false
		}
	}
	return true
}

// openCollection reads the collection that the flags name.
func (c *Eval) openCollection() (*bench.Collection, []condition, error) {
	only, err := conditions("--only", c.Only)
	if err != nil {
		return nil, nil, err
	}
	onlyQuery, err := conditions("--only-query", c.OnlyQuery)
	if err != nil {
		return nil, nil, err
	}
	if len(onlyQuery) == 0 {
		onlyQuery = only
	}
	collection, err := bench.OpenCollection(c.Data)
	if err != nil {
		return nil, nil, err
	}
	if c.Corpus != "" {
		collection.CorpusFile = inFolder(c.Data, c.Corpus)
	}
	if c.Qrels != "" {
		if collection.Qrels, err = bench.ReadQrels(inFolder(c.Data, c.Qrels)); err != nil {
			return nil, nil, err
		}
	}
	if len(onlyQuery) > 0 {
		queries := collection.Queries[:0]
		for _, q := range collection.Queries {
			if matches(q.Metadata, onlyQuery) {
				queries = append(queries, q)
			}
		}
		collection.Queries = queries
	}
	return collection, only, nil
}

// inFolder is a file as it is named, or else of that name in dir.
func inFolder(dir, name string) string {
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return filepath.Join(dir, name)
	}
	return name
}

// documents are those of the corpus that --only leaves.
func documents(c *bench.Collection, only []condition) iter.Seq2[bench.Document, error] {
	return func(yield func(bench.Document, error) bool) {
		for d, err := range c.Documents() {
			if err == nil && !matches(d.Metadata, only) {
				continue
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// chooseAnalyzer takes the flags, or the folder's name, or the corpus.
func (c *Eval) chooseAnalyzer(collection *bench.Collection, only []condition) (string, error) {
	if c.Lang != "" || c.Analyzer != "auto" {
		name := c.Analyzer
		if c.Lang != "" && name == "auto" {
			name = ""
		}
		return engine.Analyzer(name, c.Lang)
	}
	if code := collection.Name; (len(code) == 2 || len(code) == 3) && !hasQrels(c.Data) {
		return analysis.ForLanguage(code).Name(), nil
	}
	return guessAnalyzer(collection, only)
}

// hasQrels tells whether a folder has judgements of its own.
func hasQrels(dir string) bool {
	for _, pattern := range []string{"qrels.tsv*", filepath.Join("qrels", "test.tsv*")} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

// guessAnalyzer goes by a sample of the corpus, and by the queries where that
// tells nothing: some corpora come with their stop words taken out.
func guessAnalyzer(collection *bench.Collection, only []condition) (string, error) {
	const sample = 200
	var words []string
	n := 0
	for d, err := range documents(collection, only) {
		if err != nil {
			return "", err
		}
		words = append(words, strings.Fields(d.Text)...)
		if n++; n == sample {
			break
		}
	}
	name, err := guessByWords(words)
	if name != "" || err != nil {
		return name, err
	}
	words = words[:0]
	for _, q := range collection.Queries {
		words = append(words, strings.Fields(q.Text)...)
	}
	name, err = guessByWords(words)
	return cmp.Or(name, "standard"), err
}

// guessByWords tells a language: kana is Japanese, other text that is mostly Han
// is Chinese; else it is the one whose stop words are the largest part of the
// words, and "" when none are a tenth.
func guessByWords(words []string) (string, error) {
	if name := guessByScript(words); name != "" {
		return name, nil
	}
	best, most := "", len(words)/10
	for _, name := range analysis.Names() {
		a, err := analysis.New(name)
		if err != nil {
			return "", err
		}
		stops := 0
		for _, w := range words {
			if a.IsStopWord(w) {
				stops++
			}
		}
		if stops > most {
			best, most = name, stops
		}
	}
	return best, nil
}

// guessByScript tells the languages that are written without spaces.
func guessByScript(words []string) string {
	kana, han, letters := 0, 0, 0
	for _, w := range words {
		for _, r := range w {
			switch {
			case unicode.In(r, unicode.Hiragana, unicode.Katakana):
				kana++
			case unicode.Is(unicode.Han, r):
				han++
			case !unicode.IsLetter(r):
				continue
			}
			letters++
		}
	}
	switch {
	case kana*20 > letters:
		return analysis.ForLanguage("ja").Name()
	case han*3 > letters:
		return analysis.ForLanguage("zh").Name()
	}
	return ""
}
