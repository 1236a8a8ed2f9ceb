package index

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/bm25"
	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/bm25/pattern"
	"github.com/quarrysearch/quarry/index/segment"
)

// TextStats are the counts of a text field in a snapshot. Documents replaced
// or deleted count until a merge drops them, as they do in scores.
type TextStats struct {
	Docs          uint64  `json:"docs"`           // documents with at least one token
	Tokens        uint64  `json:"tokens"`         // in all documents
	AverageLength float64 `json:"average_length"` // tokens a document
	Terms         []Term  `json:"terms"`          // of the text asked for, in its order
}

// A Term is an index term with its counts.
type Term struct {
	Term        string  `json:"term"`
	Docs        uint64  `json:"docs"` // with the term
	Occurrences uint64  `json:"occurrences"`
	IDF         float64 `json:"idf"` // ln(1 + (N−n+½)/(n+½))
}

// TermStats returns the counts of a text field, and those of the terms that a
// search for text would look up in it.
// Errors: ErrInvalid, ErrCorrupt, ErrClosed.
func (s *Snapshot) TermStats(field, text string) (*TextStats, error) {
	if err := s.acquire(); err != nil {
		return nil, err
	}
	defer s.release()
	f := s.schema.text[field]
	switch {
	case f == nil:
		return nil, invalidf("no text field %q", field)
	case len(text) > MaxQueryText || !utf8.ValidString(text):
		return nil, invalidf("text of %d bytes: want UTF-8 of at most %d", len(text), MaxQueryText)
	}
	out := &TextStats{Terms: []Term{}}
	err := guard(func() error {
		for _, v := range s.segs {
			if t := v.Text[field]; t != nil {
				out.Docs += uint64(t.Stats().DocsWithField)
				out.Tokens += t.Stats().TotalLength
			}
		}
		if out.Docs > 0 {
			out.AverageLength = float64(out.Tokens) / float64(out.Docs)
		}
		for _, w := range queryWords(f.analyzer, text) {
			t := Term{Term: string(w.term)}
			var err error
			if t.Docs, t.Occurrences, err = s.frequency(field, w.term); err != nil {
				return err
			}
			t.IDF = bm25.IDF(out.Docs, t.Docs)
			out.Terms = append(out.Terms, t)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Snapshot) frequency(field string, term []byte) (docs, occurrences uint64, err error) {
	for _, v := range s.segs {
		if f := v.Text[field]; f != nil {
			df, ttf, err := f.TermStats(term)
			if err != nil {
				return 0, 0, err
			}
			docs += df
			occurrences += ttf
		}
	}
	return docs, occurrences, nil
}

// A queryWord is a term of a text and where it stands.
type queryWord struct {
	start, end int
	term       []byte
}

func queryWords(a *analysis.Analyzer, text string) []queryWord {
	scratch := analysisScratch.Get().(*analysis.Scratch)
	defer analysisScratch.Put(scratch)
	var words []queryWord
	a.QueryTokens(scratch, text, func(t *analysis.Token) {
		words = append(words, queryWord{t.Start, t.End, slices.Clone(t.Term)})
	})
	return words
}

// Limits of Suggest.
const (
	maxSuggestWords   = 16   // of the text that are looked at
	defaultSuggest    = 5    // options a word
	maxSuggest        = 50   // options a word
	suspectDocs       = 3    // a word in more documents is taken for right
	suspectFactor     = 10   // and so is one without an option in so many times the documents
	maxSuggestLength  = 1000 // bytes of text
	suggestCandidates = 4    // terms looked up, for each option
)

// A Suggestion answers "did you mean".
type Suggestion struct {
	// Text is the text with every doubtful word replaced by its first option;
	// empty when there is none.
	Text  string          `json:"text,omitempty"`
	Words []SuggestedWord `json:"words"`
}

// A SuggestedWord is a doubtful word, text[Start:End], with what it may mean,
// the best option first.
type SuggestedWord struct {
	Word    string            `json:"word"`
	Start   int               `json:"start"`
	End     int               `json:"end"`
	Options []SuggestedOption `json:"options"`
}

// A SuggestedOption is a word of the index, as a document writes it, in lower
// case.
type SuggestedOption struct {
	Text   string  `json:"text"`
	Docs   uint64  `json:"docs"`
	Errors int     `json:"errors"`
	Score  float64 `json:"score"` // (1 − errors/length)·ln(1 + docs)
}

// Suggest looks for words of a text that may be misspelled: those that at most
// 3 documents hold in the field, where another word with one error (two from
// six characters on, the first character right) is in at least one document and
// in ten times as many. Words are compared both as they are written and as the
// field's analyzer stems them, and options are written as a document of the
// snapshot writes them. limit is the number of options a word, 0 means 5.
// Errors: ErrInvalid, ErrCorrupt, ErrClosed, that of ctx.
func (s *Snapshot) Suggest(ctx context.Context, field, text string, limit int) (*Suggestion, error) {
	if err := s.acquire(); err != nil {
		return nil, err
	}
	defer s.release()
	f := s.schema.text[field]
	switch {
	case f == nil:
		return nil, invalidf("no text field %q", field)
	case len(text) > maxSuggestLength || !utf8.ValidString(text):
		return nil, invalidf("text of %d bytes: want UTF-8 of at most %d", len(text), maxSuggestLength)
	case limit < 0 || limit > maxSuggest:
		return nil, invalidf("%d options a word: want 0 (default) to %d", limit, maxSuggest)
	}
	out := &Suggestion{Words: []SuggestedWord{}}
	err := guard(func() error {
		g := suggester{s: s, field: field, f: f, limit: cmp.Or(limit, defaultSuggest)}
		words := queryWords(f.analyzer, text)
		for _, w := range words[:min(len(words), maxSuggestWords)] {
			if err := ctx.Err(); err != nil {
				return err
			}
			options, err := g.options(text[w.start:w.end], w.term)
			if err != nil {
				return err
			}
			if len(options) > 0 {
				out.Words = append(out.Words, SuggestedWord{text[w.start:w.end], w.start, w.end, options})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.Text = replaceWords(text, out.Words)
	return out, nil
}

// replaceWords puts first options in; of words that overlap (an identifier and
// its parts), the first counts.
func replaceWords(text string, words []SuggestedWord) string {
	var b strings.Builder
	at := 0
	for _, w := range words {
		if w.Start < at {
			continue
		}
		b.WriteString(text[at:w.Start])
		b.WriteString(w.Options[0].Text)
		at = w.End
	}
	if at == 0 {
		return ""
	}
	return b.String() + text[at:]
}

type suggester struct {
	s     *Snapshot
	field string
	f     *textField
	limit int
}

type candidate struct {
	term   string
	docs   uint64
	errors int
	score  float64
}

func (g *suggester) options(written string, term []byte) ([]SuggestedOption, error) {
	known, _, err := g.s.frequency(g.field, term)
	if err != nil || known > suspectDocs {
		return nil, err
	}
	found := map[string]*candidate{}
	scratch := analysisScratch.Get().(*analysis.Scratch)
	forms := g.f.analyzer.Forms(scratch, written, term)
	analysisScratch.Put(scratch)
	for _, form := range forms {
		if err := g.collect(form, string(term), found); err != nil {
			return nil, err
		}
	}
	var list []candidate
	for _, c := range found {
		if c.docs >= known*suspectFactor && c.score > 0 {
			list = append(list, *c)
		}
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.term, b.term))
	})
	var out []SuggestedOption
	for _, c := range list[:min(len(list), g.limit*suggestCandidates)] {
		surface, err := g.surface(written, c.term)
		if err != nil {
			return nil, err
		}
		if surface == "" || slices.ContainsFunc(out, func(o SuggestedOption) bool { return o.Text == surface }) {
			continue
		}
		if out = append(out, SuggestedOption{surface, c.docs, c.errors, c.score}); len(out) == g.limit {
			break
		}
	}
	return out, nil
}

// collect adds the terms that differ a little from a form of the word.
func (g *suggester) collect(form, term string, found map[string]*candidate) error {
	n := utf8.RuneCountInString(form)
	if n < 3 {
		return nil
	}
	d, err := pattern.Fuzzy(form, min(n/3, pattern.MaxErrors), 1)
	if err != nil {
		return err
	}
	scanned := 0
	near := map[string]*candidate{}
	for _, v := range g.s.segs {
		t := v.Text[g.field]
		if t == nil {
			continue
		}
		err := t.EachMatch(d, &scanned, func(match []byte, errors int, df, _ uint64) bool {
			c := near[string(match)]
			if c == nil {
				c = &candidate{term: string(match), errors: errors}
				near[c.term] = c
			}
			c.docs += df
			return true
		})
		if err != nil {
			return err
		}
	}
	delete(near, term)
	for t, c := range near {
		c.score = d.Similarity(c.errors) * math.Log1p(float64(c.docs))
		if have := found[t]; have == nil || have.score < c.score {
			found[t] = c
		}
	}
	return nil
}

// surface returns a term as a live document writes it, "" when none has it.
func (g *suggester) surface(written, term string) (string, error) {
	q := bm25.Terms{Fields: []bm25.FieldBoost{{Field: g.field}}, Words: bm25.Words(term)}
	segs := make([]bm25.SegmentFields, len(g.s.segs))
	for i, v := range g.s.segs {
		segs[i] = v.Text
	}
	b, err := bm25.Bind(q, segs, nil)
	if err != nil {
		return "", err
	}
	scratch := textScratch.Get().(*bm25.Scratch)
	defer textScratch.Put(scratch)
	live := search{views: g.s.segs}
	for i, v := range g.s.segs {
		hits, err := b.TopK(i, 1, live.accept(i, v), 0, scratch, nil)
		if err != nil {
			return "", err
		}
		if len(hits) == 0 {
			continue
		}
		if g.f.NotStored {
			return term, nil
		}
		buf, err := v.Stored.Get(hits[0].Doc, nil)
		if err != nil {
			return "", err
		}
		var dec segment.DocDecoder
		d, err := dec.DecodeStored(v.name, buf, func(f string) bool { return f == g.field })
		if err != nil {
			return "", err
		}
		for _, t := range d.Texts {
			if t.Field == g.field {
				return nearest(g.f.analyzer, t.Text, written, term)
			}
		}
		return term, nil
	}
	return "", nil
}

// nearest returns the word of a text that has the term and differs least from
// what was written, then the shortest.
func nearest(a *analysis.Analyzer, text, written, term string) (string, error) {
	scratch := analysisScratch.Get().(*analysis.Scratch)
	defer analysisScratch.Put(scratch)
	words := map[string]bool{}
	a.Tokens(scratch, text, func(t *analysis.Token) {
		if string(t.Term) == term {
			words[strings.ToLower(text[t.Start:t.End])] = true
		}
	})
	d, err := pattern.Fuzzy(strings.ToLower(written), pattern.MaxErrors, 0)
	if err != nil {
		return "", err
	}
	best, least := term, math.MaxInt
	for w := range words {
		errors, ok := d.Match([]byte(w))
		if !ok {
			errors = pattern.MaxErrors + 1
		}
		if errors < least || errors == least && cmp.Or(cmp.Compare(len(w), len(best)), cmp.Compare(w, best)) < 0 {
			best, least = w, errors
		}
	}
	return best, nil
}
