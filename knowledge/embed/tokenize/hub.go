package tokenize

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/quarrysearch/quarry/storage"
)

// LoadTokenizerJSON makes the tokenizer that the hub's tokenizer.json
// describes: WordPiece behind BERT's normalizer and pre-tokenizer, or Unigram
// behind Metaspace, with or without Precompiled, Replace of runs of spaces,
// Strip to the right and WhitespaceSplit. It fails with ErrInvalid for
// anything else, naming it: tokens that are nearly right are wrong. Truncation
// and padding are the caller's. Added tokens are found in the text as it
// stands, those marked normalized too.
func LoadTokenizerJSON(data []byte) (Tokenizer, error) {
	var f hubFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, storage.Invalidf("tokenizer.json: %v", err)
	}
	kind := f.Model.Type
	if kind == "" && f.Model.Prefix != nil {
		kind = "WordPiece" // older files name no type
	}
	switch kind {
	case "WordPiece":
		return f.wordPiece()
	case "Unigram":
		return f.unigram()
	}
	return nil, storage.Invalidf("tokenizer.json: model %q, want WordPiece or Unigram", kind)
}

// LoadVocab makes a WordPiece tokenizer of a vocab.txt, one piece a line, with
// BERT's configuration and its five special tokens added.
func LoadVocab(data []byte, lowercase bool) (*WordPiece, error) {
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	c := DefaultWordPiece(lowercase)
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
		switch lines[i] {
		case c.CLS, c.SEP, c.PAD, c.UNK, "[MASK]":
			c.Added = append(c.Added, AddedToken{Text: lines[i], ID: int32(i)})
		}
	}
	return NewWordPiece(lines, c)
}

type hubFile struct {
	Added []struct {
		ID         int32  `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
	} `json:"added_tokens"`
	Normalizer   *hubPart `json:"normalizer"`
	PreTokenizer *hubPart `json:"pre_tokenizer"`
	Post         *struct {
		Single []struct {
			Special *struct {
				ID string `json:"id"`
			} `json:"SpecialToken"`
		} `json:"single"`
		Special map[string]struct {
			IDs []int32 `json:"ids"`
		} `json:"special_tokens"`
		CLS []any `json:"cls"`
		SEP []any `json:"sep"`
	} `json:"post_processor"`
	Padding *struct {
		ID    int32  `json:"pad_id"`
		Token string `json:"pad_token"`
	} `json:"padding"`
	Model struct {
		Type         string          `json:"type"`
		Unk          string          `json:"unk_token"`
		Prefix       *string         `json:"continuing_subword_prefix"`
		MaxRunes     *int            `json:"max_input_chars_per_word"`
		UnkID        *int32          `json:"unk_id"`
		ByteFallback bool            `json:"byte_fallback"`
		Vocab        json.RawMessage `json:"vocab"`
	} `json:"model"`
}

// hubPart is a normalizer or a pre-tokenizer with the fields of all kinds.
type hubPart struct {
	Type          string          `json:"type"`
	Normalizers   []hubPart       `json:"normalizers"`
	PreTokenizers []hubPart       `json:"pretokenizers"`
	CleanText     *bool           `json:"clean_text"`
	ChineseChars  *bool           `json:"handle_chinese_chars"`
	StripAccents  *bool           `json:"strip_accents"`
	Lowercase     *bool           `json:"lowercase"`
	Charsmap      []byte          `json:"precompiled_charsmap"`
	Pattern       json.RawMessage `json:"pattern"`
	Content       string          `json:"content"`
	StripLeft     bool            `json:"strip_left"`
	StripRight    bool            `json:"strip_right"`
	Replacement   string          `json:"replacement"`
	AddPrefix     *bool           `json:"add_prefix_space"`
	Scheme        string          `json:"prepend_scheme"`
	Split         *bool           `json:"split"`
}

func (p *hubPart) parts() []hubPart {
	switch {
	case p == nil:
		return nil
	case p.Type == "Sequence":
		return append(p.Normalizers, p.PreTokenizers...)
	}
	return []hubPart{*p}
}

func (f *hubFile) addedTokens() []AddedToken {
	var a []AddedToken
	for _, t := range f.Added {
		a = append(a, AddedToken{Text: t.Content, ID: t.ID, LStrip: t.LStrip, RStrip: t.RStrip, SingleWord: t.SingleWord})
	}
	return a
}

// specials finds the ids around a text in the post-processor, and that of pad
// in the padding or by its name.
func (f *hubFile) specials() Specials {
	s := Specials{-1, -1, -1, -1}
	if p := f.Post; p != nil {
		pair := func(v []any) int32 {
			if len(v) == 2 {
				if id, ok := v[1].(float64); ok {
					return int32(id)
				}
			}
			return -1
		}
		s.CLS, s.SEP = pair(p.CLS), pair(p.SEP)
		if n := len(p.Single); n > 0 {
			id := func(i int) int32 {
				if t := p.Single[i].Special; t != nil {
					if ids := p.Special[t.ID].IDs; len(ids) == 1 {
						return ids[0]
					}
				}
				return -1
			}
			s.CLS, s.SEP = id(0), id(n-1)
		}
	}
	for _, t := range f.Added {
		if t.Content == "[PAD]" || t.Content == "<pad>" {
			s.PAD = t.ID
		}
	}
	if f.Padding != nil {
		s.PAD = f.Padding.ID
	}
	return s
}

func (f *hubFile) wordPiece() (Tokenizer, error) {
	c := DefaultWordPiece(true)
	c.CleanText, c.SplitCJK, c.StripAccents, c.Lowercase = false, false, false, false
	for _, p := range f.Normalizer.parts() {
		if p.Type != "BertNormalizer" {
			return nil, storage.Invalidf("tokenizer.json: normalizer %q with WordPiece", p.Type)
		}
		is := func(b *bool, def bool) bool {
			if b == nil {
				return def
			}
			return *b
		}
		c.CleanText, c.SplitCJK, c.Lowercase = is(p.CleanText, true), is(p.ChineseChars, true), is(p.Lowercase, true)
		c.StripAccents = is(p.StripAccents, c.Lowercase)
	}
	if pre := f.PreTokenizer.parts(); len(pre) != 1 || pre[0].Type != "BertPreTokenizer" {
		return nil, storage.Invalidf("tokenizer.json: WordPiece needs BertPreTokenizer and nothing else")
	}
	var vocab map[string]int32
	if err := json.Unmarshal(f.Model.Vocab, &vocab); err != nil {
		return nil, storage.Invalidf("tokenizer.json: vocab: %v", err)
	}
	entries := make([]entry, 0, len(vocab))
	for text, id := range vocab {
		if text != "" {
			entries = append(entries, entry{text, id})
		}
	}
	if f.Model.Unk != "" {
		c.UNK = f.Model.Unk
	}
	if f.Model.Prefix != nil {
		c.Prefix = *f.Model.Prefix
	}
	if f.Model.MaxRunes != nil {
		c.MaxWordRunes = *f.Model.MaxRunes
	}
	c.Added = f.addedTokens()
	if f.Padding != nil {
		c.PAD = f.Padding.Token
	}
	w, err := newWordPiece(entries, c)
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (f *hubFile) unigram() (Tokenizer, error) {
	if f.Model.ByteFallback {
		return nil, storage.Invalidf("tokenizer.json: Unigram with byte_fallback")
	}
	if f.Model.UnkID == nil {
		return nil, storage.Invalidf("tokenizer.json: Unigram without unk_id")
	}
	c := UnigramConfig{NoCharsmap: true, Specials: f.specials(), Added: f.addedTokens()}
	c.Specials.UNK = *f.Model.UnkID
	for _, p := range f.Normalizer.parts() {
		if err := c.normalizer(&p); err != nil {
			return nil, err
		}
	}
	if err := c.preTokenizer(f.PreTokenizer.parts()); err != nil {
		return nil, err
	}
	var vocab []hubPiece
	if err := json.Unmarshal(f.Model.Vocab, &vocab); err != nil {
		return nil, storage.Invalidf("tokenizer.json: vocab: %v", err)
	}
	pieces, scores := make([]string, len(vocab)), make([]float64, len(vocab))
	for i, p := range vocab {
		pieces[i], scores[i] = p.text, p.score
	}
	u, err := NewUnigram(pieces, scores, c)
	if err != nil {
		return nil, err
	}
	return u, nil
}

func (c *UnigramConfig) normalizer(p *hubPart) error {
	switch p.Type {
	case "Precompiled":
		// A file without the map means the rule it was made by.
		c.NoCharsmap = false
		if len(p.Charsmap) > 0 {
			c.Charsmap = p.Charsmap
		}
		return nil
	case "Replace":
		runs := bytes.Contains(p.Pattern, []byte(`" {2,}"`))
		if runs && (p.Content == " " || p.Content == wordMark) {
			c.Collapse = true
			return nil
		}
	case "Strip":
		if !p.StripLeft {
			c.StripRight = p.StripRight
			return nil
		}
	}
	return storage.Invalidf("tokenizer.json: normalizer %q as this one is set, with Unigram", p.Type)
}

func (c *UnigramConfig) preTokenizer(parts []hubPart) error {
	if len(parts) == 2 && parts[0].Type == "WhitespaceSplit" {
		c.SplitSpace = true
		parts = parts[1:]
	}
	if len(parts) != 1 || parts[0].Type != "Metaspace" {
		return storage.Invalidf("tokenizer.json: Unigram needs Metaspace, after WhitespaceSplit or alone")
	}
	p := &parts[0]
	if p.Replacement != wordMark {
		return storage.Invalidf("tokenizer.json: Metaspace with %q", p.Replacement)
	}
	c.Whole = p.Split != nil && !*p.Split
	switch {
	case p.Scheme == "never" || p.AddPrefix != nil && !*p.AddPrefix:
		c.Prepend = PrependNever
	case p.Scheme == "first":
		c.Prepend = PrependFirst
	}
	return nil
}

// hubPiece is [text, score] in JSON.
type hubPiece struct {
	text  string
	score float64
}

func (p *hubPiece) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[2]any{&p.text, &p.score})
}
