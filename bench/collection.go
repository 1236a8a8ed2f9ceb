package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"strconv"
	"strings"
)

// A Document is one entry of a collection's corpus.
type Document struct {
	ID    string
	Title string
	Text  string
	// Metadata holds string, bool, int64, float64, nil, and []any and
	// map[string]any of them. A number is an int64 when it is written as one
	// that fits, so that 64-bit integers stay exact.
	Metadata map[string]any
}

// A Query is one entry of a collection's queries.
type Query struct {
	ID       string
	Text     string
	Metadata map[string]any // as Document.Metadata
}

// Qrels are relevance judgements: query id → document id → grade, above 0 when
// relevant.
type Qrels map[string]map[string]int

// A Collection is a folder with a corpus, queries and judgements. Queries and
// judgements are in memory; the corpus is read when asked for.
type Collection struct {
	Name       string // the folder's last element
	Queries    []Query
	Qrels      Qrels
	CorpusFile string
}

// OpenCollection reads a folder in either layout, every file plain or .gz:
//
//	corpus.jsonl (or docs.jsonl), queries.jsonl, qrels.tsv   ids under "id", no header
//	corpus.jsonl, queries.jsonl, qrels/test.tsv              BEIR: ids under "_id", header
//
// Where the folder has no judgements its parent's qrels.tsv is taken (one file
// for the folders of several languages). A folder without queries or judgements
// at all is an error that matches fs.ErrNotExist. Other errors match ErrInput.
func OpenCollection(dir string) (*Collection, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	c := &Collection{Name: filepath.Base(abs)}
	if c.CorpusFile, err = firstFile(dir, "corpus.jsonl", "docs.jsonl"); err != nil {
		return nil, err
	}
	queries, err := firstFile(dir, "queries.jsonl")
	if err != nil {
		return nil, err
	}
	qrels, err := firstFile(dir, "qrels.tsv", "qrels/test.tsv")
	if errors.Is(err, fs.ErrNotExist) {
		var parentErr error
		if qrels, parentErr = firstFile(filepath.Dir(abs), "qrels.tsv"); parentErr == nil {
			err = nil
		}
	}
	if err != nil {
		return nil, err
	}
	if c.Queries, err = ReadQueries(queries); err != nil {
		return nil, err
	}
	if c.Qrels, err = ReadQrels(qrels); err != nil {
		return nil, err
	}
	return c, nil
}

// Documents yields the corpus in file order. An error ends the sequence.
func (c *Collection) Documents() iter.Seq2[Document, error] { return ReadDocuments(c.CorpusFile) }

// row is a line of corpus.jsonl or queries.jsonl; keys it does not name are
// ignored.
type row struct {
	ID       *string        `json:"id"`
	BEIRID   *string        `json:"_id"`
	Title    string         `json:"title"`
	Text     string         `json:"text"`
	Metadata map[string]any `json:"metadata"`
}

func (r *row) id() string {
	switch {
	case r.ID != nil:
		return *r.ID
	case r.BEIRID != nil:
		return *r.BEIRID
	}
	return ""
}

// rows yields the JSON objects of a .jsonl file with their line numbers; empty
// lines are skipped.
func rows(path string) iter.Seq2[int, rowOrError] {
	return func(yield func(int, rowOrError) bool) {
		n := 0
		for line, err := range Lines(path) {
			n++
			if err == nil && strings.TrimSpace(line) == "" {
				continue
			}
			var r row
			if err == nil {
				if err = unmarshal(line, &r); err != nil {
					err = inputf(fmt.Sprintf("%s:%d", path, n), "%v", err)
				} else if r.id() == "" {
					err = inputf(fmt.Sprintf("%s:%d", path, n), "no \"id\" or \"_id\"")
				}
			}
			if !yield(n, rowOrError{r, err}) || err != nil {
				return
			}
		}
	}
}

type rowOrError struct {
	row
	err error
}

func unmarshal(line string, into *row) error {
	dec := json.NewDecoder(strings.NewReader(line))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if rest := bytes.TrimSpace([]byte(line[dec.InputOffset():])); len(rest) > 0 {
		return fmt.Errorf("more after the object: %.20q", rest)
	}
	for k, v := range into.Metadata {
		into.Metadata[k] = plainNumbers(v)
	}
	return nil
}

// plainNumbers turns json.Number into int64 or float64 at every depth.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n
		}
		x, err := v.Float64()
		if err != nil {
			return v.String() // beyond float64: keep what was written
		}
		return x
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}

// ReadDocuments yields the documents of a .jsonl file in file order. An error
// names file and line, matches ErrInput, and ends the sequence.
func ReadDocuments(path string) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		for _, r := range rows(path) {
			if r.err != nil {
				yield(Document{}, r.err)
				return
			}
			if !yield(Document{ID: r.id(), Title: r.Title, Text: r.Text, Metadata: r.Metadata}, nil) {
				return
			}
		}
	}
}

// ReadQueries reads a queries.jsonl file. A repeated id is an error.
func ReadQueries(path string) ([]Query, error) {
	var out []Query
	seen := map[string]bool{}
	for n, r := range rows(path) {
		if r.err != nil {
			return nil, r.err
		}
		q := Query{ID: r.id(), Text: r.Text, Metadata: r.Metadata}
		if seen[q.ID] {
			return nil, inputf(fmt.Sprintf("%s:%d", path, n), "query id %q twice", q.ID)
		}
		seen[q.ID] = true
		out = append(out, q)
	}
	return out, nil
}

// ReadQrels reads judgements: query TAB document TAB grade, with BEIR's header
// line (query-id, corpus-id, score) or without. Two different grades for one
// pair are an error.
func ReadQrels(path string) (Qrels, error) {
	out := Qrels{}
	n := 0
	for line, err := range Lines(path) {
		n++
		if err != nil {
			return nil, err
		}
		if line == "" || n == 1 && strings.HasPrefix(line, "query-id\t") {
			continue
		}
		cols := strings.Split(line, "\t")
		where := fmt.Sprintf("%s:%d", path, n)
		if len(cols) != 3 || cols[0] == "" || cols[1] == "" {
			return nil, inputf(where, "want query TAB document TAB grade, got %.80q", line)
		}
		grade, err := strconv.Atoi(cols[2])
		if err != nil {
			return nil, inputf(where, "grade %q is not an integer", cols[2])
		}
		if out[cols[0]] == nil {
			out[cols[0]] = map[string]int{}
		}
		if old, ok := out[cols[0]][cols[1]]; ok && old != grade {
			return nil, inputf(where, "query %q and document %q have grades %d and %d", cols[0], cols[1], old, grade)
		}
		out[cols[0]][cols[1]] = grade
	}
	return out, nil
}
