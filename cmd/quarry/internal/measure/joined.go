package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/quarrysearch/quarry/bench"
)

// A joinedRow is a row of a set of vectors with the text it was made of.
type joinedRow struct {
	set  string
	text string
}

// pieces says how long a row's text is at most, in characters, and whether the
// title stands before it, for the sets that do not cut at 1,200 with the title.
var pieces = map[string]struct {
	limit   int
	noTitle bool
}{
	"nodejs-org": {limit: 1000},
	"jaquad":     {limit: 600, noTitle: true},
}

const defaultPiece = 1200

// rowLine is a line of rows.jsonl: where a row's text is. A line with a text of
// its own needs nothing else.
type rowLine struct {
	Set   string `json:"set"`
	ID    string `json:"id"`
	Start int    `json:"start"`
	Text  string `json:"text"`
}

// readJoined reads rows.jsonl of a folder and looks the texts up in the corpora
// beside it, one folder a set.
func readJoined(folder, texts string) ([]joinedRow, error) {
	file, err := oneOf(folder, "rows.jsonl")
	if err != nil {
		return nil, err
	}
	var lines []rowLine
	for line, err := range bench.Lines(file) {
		if err != nil {
			return nil, err
		}
		var l rowLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, len(lines)+1, err)
		}
		lines = append(lines, l)
	}
	corpora := map[string]map[string]string{}
	out := make([]joinedRow, len(lines))
	for i, l := range lines {
		text := l.Text
		if text == "" {
			if corpora[l.Set] == nil {
				if corpora[l.Set], err = readCorpus(texts, l.Set); err != nil {
					return nil, err
				}
			}
			whole, ok := corpora[l.Set][l.ID]
			if !ok {
				return nil, fmt.Errorf("%s:%d: set %s has no document %q", file, i+1, l.Set, l.ID)
			}
			text = piece(whole, l.Start, l.Set)
		}
		out[i] = joinedRow{l.Set, text}
	}
	return out, nil
}

// piece cuts a text from a character on.
func piece(text string, start int, set string) string {
	limit := pieces[set].limit
	if limit == 0 {
		limit = defaultPiece
	}
	runes := []rune(text)
	start = min(max(start, 0), len(runes))
	return string(runes[start:min(len(runes), start+limit)])
}

// readCorpus reads the documents of a set, from whichever file it has: those with
// chunks name chunks.
func readCorpus(texts, set string) (map[string]string, error) {
	file, err := oneOf(filepath.Join(texts, filepath.Base(set)), "chunks.jsonl", "corpus.jsonl", "docs.jsonl")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line, err := range bench.Lines(file) {
		if err != nil {
			return nil, err
		}
		var d struct {
			ID    string `json:"id"`
			Title string `json:"title"`
			Text  string `json:"text"`
		}
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, len(out)+1, err)
		}
		if out[d.ID] = d.Text; d.Title != "" && !pieces[set].noTitle {
			out[d.ID] = d.Title + "\n" + d.Text
		}
	}
	return out, nil
}

// oneOf is the first of the files that a folder has, plain or .gz.
func oneOf(folder string, names ...string) (string, error) {
	for _, name := range names {
		for _, ext := range []string{"", ".gz"} {
			path := filepath.Join(folder, name+ext)
			if _, err := os.Stat(path); err == nil {
				return path, nil
			} else if !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
		}
	}
	return "", fmt.Errorf("%s has none of %v, plain or .gz", folder, names)
}

// firstWords are the first n words of a text, by about the default rules of
// Unicode (UAX 29): those of spaces alone would take all of a text in a script
// that has none.
func firstWords(text string, n int) string {
	var words []string
	runes := []rune(text)
	for i := 0; i < len(runes) && len(words) < n; {
		if !inWord(runes[i]) {
			i++
			continue
		}
		end := i + 1
		if !unspaced(runes[i]) {
			end = wordEnd(runes, end)
		}
		words = append(words, string(runes[i:end]))
		i = end
	}
	return strings.Join(words, " ")
}

// wordEnd is where a word ends that goes on at a place.
func wordEnd(runes []rune, at int) int {
	part := func(i int) bool { return i < len(runes) && inWord(runes[i]) && !unspaced(runes[i]) }
	for part(at) || at < len(runes) && strings.ContainsRune("'’.,:", runes[at]) && part(at+1) {
		at++
	}
	return at
}

func inWord(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// unspaced tells the scripts that are written without spaces.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
