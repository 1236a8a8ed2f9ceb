package chunk

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/quarrysearch/quarry/storage"
)

// A Strategy says how units become chunks.
type Strategy string

const (
	// Count makes chunks of Size units, the last one maybe shorter.
	Count Strategy = "count"
	// Divide makes Size chunks of each document.
	Divide Strategy = "divide"
	// Structure makes chunks of at most Size units that never cross a heading
	// and are cut between blocks, sentences or lines where they can be.
	Structure Strategy = "structure"
)

// A Unit is what chunks are measured in.
type Unit string

// The units. Blank stretches between them belong to none.
const (
	Token     Unit = "token"     // a token of the embedding model
	Word      Unit = "word"      // a UAX #29 word with a letter, a digit or a symbol beyond ASCII
	Sentence  Unit = "sentence"  // a UAX #29 sentence, tailored: see the package comment
	Paragraph Unit = "paragraph" // lines between blank lines
	Custom    Unit = "custom"    // text between two separators
	Page      Unit = "page"      // a PageSpan of the document, else text between form feeds
)

// Defaults and limits.
const (
	DefaultSize       = 500    // units, or parts
	DefaultOverlap    = 50     // units, fewer when Size is not above it
	DefaultSeparator  = "\n\n" // of the unit custom
	DefaultTokenLimit = 32_768 // tokens a chunk
	DefaultMaxChunks  = 50_000 // searchable chunks of one call
)

// A Tokenizer calls emit for each token of text with the bytes it was made
// from, 0 ≤ start ≤ end ≤ len(text), starts never descending. Spans may be
// empty, may share bytes and may lie inside a rune, as those of byte-level
// vocabularies do; one that is blank or finds nothing is allowed. It gets texts of up to some 64 KiB, cut at white space where
// there is any, and gives at most six tokens a byte.
type Tokenizer func(text string, emit func(start, end int))

// Options say how documents are cut. The zero value gives chunks of 500
// tokens, 50 of them shared. The JSON names are those of the AI Search node.
type Options struct {
	Strategy Strategy `json:"strategy,omitempty"` // default count
	Unit     Unit     `json:"unit,omitempty"`     // default token; structure takes token, word or sentence
	// Size is the number of units a chunk (count, structure) or of parts a
	// document (divide), 1 or more; nil means 500.
	Size *int `json:"size,omitempty"`
	// Separator divides units of the unit custom; nil means "\n\n", and it
	// may not be empty. Other units ignore it. At the border of a chunk it
	// belongs to none.
	Separator *string `json:"separator,omitempty"`
	// Overlap is the number of units at the end of a chunk that the next one
	// repeats: 0 to Size−1, for divide any number from 0. Nil means
	// min(50, Size−1) for count, 0 for divide and structure.
	Overlap *int `json:"overlap,omitempty"`

	// Tokenizer gives the embedding model's own tokens. Nil means Words, which
	// is no model's: good for tests and models that count words.
	Tokenizer Tokenizer `json:"-"`
	// TokenLimit is the number of tokens no chunk exceeds; 0 means 32,768.
	TokenLimit int `json:"-"`
	// MaxChunks is the number of chunks of one call (Chunks or Documents)
	// beyond which it fails with ErrTooManyChunks; 0 means 50,000, −1 none.
	MaxChunks int `json:"-"`
	// KeepWhole is the size in units up to which structure keeps a code block
	// or a table in one chunk, even above Size; 0 means 2·Size, −1 never.
	KeepWhole int `json:"-"`
	// AtSentence lets count cut tokens and words after the last sentence end
	// of the window (the last paragraph end of its second half, if there is
	// one) instead of at Size exactly. Structure always does.
	AtSentence bool `json:"-"`
}

// ErrTooManyChunks is the error of a call that met more than MaxChunks
// chunks. It matches storage.ErrTooLarge.
var ErrTooManyChunks = fmt.Errorf("%w: too many chunks", storage.ErrTooLarge)

// settings are Options with every default filled in.
type settings struct {
	strategy             Strategy
	unit                 Unit
	size, overlap        int
	separator            string
	tokenize             Tokenizer
	perByte              int // most tokens a byte
	limit, maxChunks     int
	keepWhole            int // −1 never
	snap                 bool
	structured, weighted bool // strategy structure; unit token
}

// settle checks strategy, unit, size, separator, overlap and the rest, in
// this order, and fills in defaults.
func (o *Options) settle() (*settings, error) {
	s := &settings{strategy: o.Strategy, unit: o.Unit, size: DefaultSize, separator: DefaultSeparator,
		tokenize: o.Tokenizer, perByte: maxTokensPerByte, limit: o.TokenLimit, maxChunks: o.MaxChunks}
	switch s.strategy {
	case "":
		s.strategy = Count
	case Count, Divide, Structure:
	default:
		return nil, storage.Invalidf("chunk options: strategy %q is not count, divide or structure", s.strategy)
	}
	s.structured = s.strategy == Structure
	switch s.unit {
	case "":
		s.unit = Token
	case Token, Word, Sentence:
	case Paragraph, Custom, Page:
		if s.structured {
			return nil, storage.Invalidf("chunk options: unit %q is not one of structure, which takes token, word or sentence", s.unit)
		}
	default:
		return nil, storage.Invalidf("chunk options: unit %q is not token, word, sentence, paragraph, custom or page", s.unit)
	}
	s.weighted = s.unit == Token
	if o.Size != nil {
		s.size = *o.Size
	}
	if s.size < 1 {
		return nil, storage.Invalidf("chunk options: size %d is not positive", s.size)
	}
	if o.Separator != nil {
		s.separator = *o.Separator
	}
	if s.unit == Custom && s.separator == "" {
		return nil, storage.Invalidf("chunk options: separator is empty")
	}
	if err := s.settleOverlap(o.Overlap); err != nil {
		return nil, err
	}
	return s, s.settleLimits(o)
}

func (s *settings) settleOverlap(given *int) error {
	switch {
	case given == nil:
		if s.strategy == Count {
			s.overlap = min(DefaultOverlap, s.size-1)
		}
	case *given < 0:
		return storage.Invalidf("chunk options: overlap %d is negative", *given)
	case *given >= s.size && s.strategy != Divide:
		return storage.Invalidf("chunk options: overlap %d is not below size %d", *given, s.size)
	default:
		s.overlap = *given
	}
	return nil
}

func (s *settings) settleLimits(o *Options) error {
	if s.tokenize == nil {
		s.tokenize, s.perByte = Words, 1
	}
	switch {
	case s.limit < 0:
		return storage.Invalidf("chunk options: token limit %d is negative", s.limit)
	case s.limit == 0:
		s.limit = DefaultTokenLimit
	}
	switch {
	case s.maxChunks < -1:
		return storage.Invalidf("chunk options: most chunks %d is below −1", s.maxChunks)
	case s.maxChunks == -1:
		s.maxChunks = math.MaxInt
	case s.maxChunks == 0:
		s.maxChunks = DefaultMaxChunks
	}
	if o.KeepWhole < -1 {
		return storage.Invalidf("chunk options: keep whole %d is below −1", o.KeepWhole)
	}
	s.keepWhole = o.KeepWhole
	if s.keepWhole == 0 {
		s.keepWhole = 2 * min(s.size, math.MaxInt/2)
	}
	// A token window that the limit binds is a window of that size.
	if s.weighted && s.strategy != Divide {
		s.size = min(s.size, s.limit)
		s.overlap = min(s.overlap, s.size-1)
		s.keepWhole = min(s.keepWhole, s.limit)
	}
	s.snap = s.structured || o.AtSentence && s.strategy == Count && (s.unit == Token || s.unit == Word)
	return nil
}

// OptionsFrom reads options from decoded JSON, as a workflow's node has them:
// strategy, unit, size, separator and overlap; null counts as absent.
// tokenModel and tokenLimit are accepted and ignored whatever they are, since
// the node forces both. An unknown key, a wrong type, or a number that is not
// finite and whole is an error matching storage.ErrInvalid that names the key.
// Values are checked by New.
func OptionsFrom(raw map[string]any) (Options, error) {
	var o Options
	for key := range raw {
		switch key {
		case "strategy", "unit", "size", "separator", "overlap", "tokenModel", "tokenLimit":
		default:
			return Options{}, storage.Invalidf("chunk options: unknown key %q", key)
		}
	}
	for _, key := range []string{"strategy", "unit", "size", "separator", "overlap"} {
		v := raw[key]
		if v == nil {
			continue
		}
		if key == "size" || key == "overlap" {
			n, ok := wholeNumber(v)
			if !ok {
				return Options{}, storage.Invalidf("chunk options: %s is %v, not a whole number", key, v)
			}
			if key == "size" {
				o.Size = &n
			} else {
				o.Overlap = &n
			}
			continue
		}
		text, ok := v.(string)
		if !ok {
			return Options{}, storage.Invalidf("chunk options: %s is %T, not text", key, v)
		}
		switch {
		case key == "separator":
			o.Separator = &text
		case text == "":
			return Options{}, storage.Invalidf("chunk options: %s is empty", key)
		case key == "strategy":
			o.Strategy = Strategy(text)
		default:
			o.Unit = Unit(text)
		}
	}
	return o, nil
}

func wholeNumber(v any) (int, bool) {
	switch n := v.(type) {
	case int:
		return n, true
	case int64:
		return int(n), int64(int(n)) == n
	case float64:
		// Also false for NaN and infinities. 2⁵³ is where floats stop being whole numbers one by one.
		ok := n == math.Trunc(n) && math.Abs(n) <= min(1<<53, math.MaxInt)
		if !ok {
			return 0, false
		}
		return int(n), true
	case json.Number:
		i, err := n.Int64()
		return int(i), err == nil && int64(int(i)) == i
	}
	return 0, false
}
