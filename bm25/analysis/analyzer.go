package analysis

import (
	"slices"
	"strconv"
	"strings"

	"github.com/blevesearch/snowballstem"
	"github.com/quarrysearch/quarry/storage"
)

// version is the version of the rules of every analyzer. It must change
// whenever any text may give other tokens than before.
const version = 1

// maxTerm is the longest term in bytes of folded UTF-8. Longer ones are cut at
// the last character that fits, when indexing and when searching alike.
const maxTerm = 255

// An Analyzer turns text into terms. It is immutable and safe for concurrent
// use; what changes during a call lives in the caller's Scratch.
type Analyzer struct {
	name        string
	id          uint8 // key of the word cache
	kind        kind
	stem        func(*snowballstem.Env) bool
	stops       map[string]struct{}
	elisions    map[string]struct{} // what is dropped before an apostrophe
	possessive  bool                // a final 's is dropped
	turkish     bool                // I folds to ı
	keepAccents bool
}

type kind uint8

const (
	kindText kind = iota
	kindCode
	kindKeyword
)

// A Token is one term at one place of the text.
type Token struct {
	Term     []byte // valid UTF-8, 1 to 255 bytes; valid during the call only
	Position uint32 // counts words or characters from 0; several tokens may share one
	Start    int    // byte offset in the source text where the token begins
	End      int    // byte offset just after it
}

// New returns the analyzer of a name that Names lists. Another name gives an
// error that matches storage.ErrInvalid. New costs some microseconds; keep
// the result.
func New(name string) (*Analyzer, error) {
	for i := range languages {
		if l := &languages[i]; l.name == name {
			return l.analyzer(uint8(i)), nil
		}
	}
	return nil, storage.Invalidf("analyzer %q is not one of %s", name, strings.Join(Names(), ", "))
}

// Names lists the analyzers in alphabetical order.
func Names() []string {
	names := make([]string, len(languages))
	for i := range languages {
		names[i] = languages[i].name
	}
	slices.Sort(names)
	return names
}

// ForLanguage returns the analyzer for an ISO 639 code or BCP 47 tag ("de",
// "pt-BR", "nob"), upper or lower case, and "standard" for a language without
// one of its own.
func ForLanguage(tag string) *Analyzer {
	code, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(tag, "_", "-")), "-")
	found := 0 // standard
	for i := range languages {
		if code != "" && slices.Contains(strings.Fields(languages[i].codes), code) {
			found = i
		}
	}
	return languages[found].analyzer(uint8(found))
}

// Name is the name New was called with.
func (a *Analyzer) Name() string { return a.name }

// Identity is the name and the version of the rules, as "english/1". Two
// analyzers of one identity give the same tokens for every text, in every
// build; an index keeps it and refuses another.
func (a *Analyzer) Identity() string { return a.name + "/" + strconv.Itoa(version) }

// Tokens calls emit for every token of text in the order of their starts, as
// they are to be indexed: stop words included, wholes and parts, all n-grams.
// The positions of consecutive tokens never decrease. The token is reused:
// emit must copy what it keeps. No text makes Tokens fail. Cost: O(len(text));
// no allocation when s is warm.
func (a *Analyzer) Tokens(s *Scratch, text string, emit func(*Token)) {
	s.run(a, modeIndex, text, emit)
}

// QueryTokens calls emit for the terms that a search for text should look up.
// They differ from Tokens in two ways: stop words are left out unless the text
// has nothing else, and a run of an unspaced script gives only its longest
// n-grams.
func (a *Analyzer) QueryTokens(s *Scratch, text string, emit func(*Token)) {
	mode := modeQueryAll
	if len(a.stops) > 0 {
		s.run(a, modeCount, text, nil)
		if s.content > 0 {
			mode = modeQuery
		}
	}
	s.run(a, mode, text, emit)
}

// PhraseTokens calls emit for the terms of a phrase: every token must occur in
// a document at its position, relative to the first one's. Stop words stay.
// An identifier gives its whole, hyphenated words their parts.
func (a *Analyzer) PhraseTokens(s *Scratch, text string, emit func(*Token)) {
	s.run(a, modePhrase, text, emit)
}

// IsStopWord tells whether a query that holds other words leaves this one out.
func (a *Analyzer) IsStopWord(word string) bool {
	var f folder
	_, ok := a.stops[string(f.foldCase(nil, word, a.foldFlags()))]
	return ok
}

func (a *Analyzer) foldFlags() foldFlags {
	if a.turkish {
		return foldTurkish
	}
	return 0
}
