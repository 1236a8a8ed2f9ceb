// Package builtin chooses between the models that a program can carry: one for
// English, one for some 100 languages. A program that imports it carries both,
// 115 MB.
//
// The choice is made once for a base, not text by text: vectors of two models
// cannot be compared, so all documents and all queries of an index go through
// one. An index records the Identity of its model at the first ingest and
// refuses the other one from then on. So:
//
//   - a base whose documents and questions are in English: New("en");
//   - any other base, also one that is partly English: New("").
//
// nDCG@10 of hybrid search (quarry eval --mode hybrid), and of vectors alone:
//
//	                  e5small           bgesmall
//	SciFact        0.704  0.657     0.727  0.705
//	NFCorpus       0.342  0.289     0.361  0.337
//	Cranfield      0.455  0.425     0.484  0.457
//	dify-docs en   0.855  0.819     0.864  0.820
package builtin

import (
	"strings"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/bgesmall"
	"github.com/quarrysearch/quarry/knowledge/embed/e5small"
)

// New returns the embedder for a base in a language, given as its code ("en",
// "en-GB", "de"; letters of either case): bgesmall for English, e5small for any
// other and for "", which is no language in particular. Nil options mean all
// defaults.
func New(language string, o *embed.Options) (*embed.Local, error) {
	if IsEnglish(language) {
		return bgesmall.New(o)
	}
	return e5small.NewWithOptions(o)
}

// IsEnglish reports whether New takes the English model for a language code.
func IsEnglish(language string) bool {
	code, _, _ := strings.Cut(strings.ReplaceAll(language, "_", "-"), "-")
	return strings.EqualFold(code, "en") || strings.EqualFold(code, "eng")
}
