package analysis

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/quarrysearch/quarry/storage"
)

// Versions of the rules, newest last, never reused. There must be another one
// whenever any text may give other tokens than before; Stored makes analyzers of
// the earlier ones.
const (
	version1 = 1 // the first
	version2 = 2 // parts of quantities (5kg), squared units (㎏)
	version3 = 3 // couples of syllables ("vietnamese", which alone has this version)
)

// maxTerm is the longest term in bytes of folded UTF-8. Longer ones are cut at
// the last character that fits, when indexing and when searching alike.
const maxTerm = 255

// An Analyzer turns text into terms. It is immutable and safe for concurrent
// use; what changes during a call lives in the caller's Scratch.
type Analyzer struct {
	name        string
	id          uint8 // key of the word cache
	kind        kind
	version     uint8
	stem        func(*snowballstem.Env) bool
	stops       map[string]struct{}
	elisions    map[string]struct{} // what is dropped before an apostrophe
	possessive  bool                // a final 's is dropped
	turkish     bool                // I folds to ı
	keepAccents bool
	couples     bool   // words side by side are terms, too
	dictionary  string // its name, "" without one
	segment     Segmenter
}

// A Segmenter cuts a run of Han, Kana and Hangul into words: it calls word with
// the bytes of each, in ascending order, disjoint; bytes between them are taken
// for words of one character. It must always cut a run in the same way and be
// safe for concurrent use. A run has at most 512 characters.
type Segmenter func(run string, word func(start, end int))

// WithDictionary returns an analyzer that uses the words a dictionary finds in
// Han, Kana and Hangul besides the n-grams, under the name of a, "+" and name:
// 1 to 64 lower-case letters, digits, points and hyphens, which should hold the
// version of the dictionary, as it is part of the identity.
func (a *Analyzer) WithDictionary(name string, cut Segmenter) (*Analyzer, error) {
	ok := len(name) >= 1 && len(name) <= 64 && cut != nil && a.kind == kindText && a.segment == nil
	for _, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '-')
	}
	if !ok {
		return nil, storage.Invalidf("dictionary %q: want a name of lower-case letters, digits, points and hyphens, a function, and an analyzer of text without a dictionary", name)
	}
	b := *a
	b.name, b.dictionary, b.segment = a.name+"+"+name, name, cut
	return &b, nil
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
	// Couple tells that the term is two words, each a token of its own as well, so
	// that a search should count it for less.
	Couple bool
}

// New returns the analyzer of a name that Names lists. Another name gives an
// error that matches storage.ErrInvalid. New costs some microseconds; keep
// the result.
func New(name string) (*Analyzer, error) {
	for i := range languages {
		if l := &languages[i]; l.name == name {
			return l.analyzer(uint8(i), l.newest()), nil
		}
	}
	return nil, storage.Invalidf("analyzer %q is not one of %s", name, strings.Join(Names(), ", "))
}

// Stored returns the analyzer of an Identity, with the rules of its version; an
// index that was built by them needs it. One that this build does not know gives
// an error that matches storage.ErrInvalid.
func Stored(identity string) (*Analyzer, error) {
	name, number, _ := strings.Cut(identity, "/")
	a, err := New(name)
	if err != nil {
		return nil, err
	}
	v, err := strconv.Atoi(number)
	if err != nil || v < version1 || v > int(a.version) {
		return nil, storage.Invalidf("analyzer %q: this build has the versions %d to %d", identity, version1, a.version)
	}
	return languages[a.id].analyzer(a.id, uint8(v)), nil
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
	return languages[found].analyzer(uint8(found), languages[found].newest())
}

// Name is the name New was called with.
func (a *Analyzer) Name() string { return a.name }

// Identity is the name and the version of the rules, as "english/2". Two
// analyzers of one identity give the same tokens for every text, in every
// build; an index keeps it and refuses another.
func (a *Analyzer) Identity() string { return a.name + "/" + strconv.Itoa(int(a.version)) }

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

// Fold returns text as terms are written before they are stemmed: folded,
// without accents where the analyzer drops them. Words are not parted.
func (a *Analyzer) Fold(s *Scratch, text string) string {
	folded := s.fold.foldCase(s.buf[:0], text, a.foldFlags())
	if !a.keepAccents {
		s.buf2 = s.fold.stripAccents(s.buf2[:0], folded)
		folded = s.buf2
	}
	return string(folded)
}

// Forms returns what a word that may be misspelled is to be compared with in a
// dictionary of this analyzer's terms: its own term, the word as it is written
// and, where the analyzer stems, that without its last letter, as a stem leaves
// an ending out that the stemmer cannot tell in a misspelled word. Words of
// less than four characters have no such third form.
func (a *Analyzer) Forms(s *Scratch, word string, term []byte) []string {
	forms := []string{string(term)}
	add := func(form string) {
		if form != "" && !slices.Contains(forms, form) {
			forms = append(forms, form)
		}
	}
	written := a.Fold(s, word)
	add(written)
	if a.stem != nil && utf8.RuneCountInString(written) >= 4 {
		_, n := utf8.DecodeLastRuneInString(written)
		add(written[:len(written)-n])
	}
	return forms
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
