// Package bgesmall is bge-small-en-v1.5, carried by the program that imports it:
// an embedder of 384 dimensions for English that needs no file, no service and
// no network.
//
// The model's file adds 35 MB to the program; its weights, of 8 bits, are used
// where they lie. ORIGIN.md tells where they come from, LICENSE what they may be
// used for (MIT). It knows no other language: package builtin has the choice.
//
// Questions are to be embedded as embed.Query, texts as embed.Passage: the model
// was trained with a sentence before questions, which the embedder adds.
package bgesmall

import (
	_ "embed"

	"github.com/quarrysearch/quarry/internal/simd"
	"github.com/quarrysearch/quarry/knowledge/embed"
)

//go:generate go run gen.go

// file is the compact file, a string so that nobody can write to it.
//
//go:embed bgesmall.qem
var file string

// FileName names the file in errors.
const FileName = "bgesmall.qem"

// New returns an embedder; nil means all defaults. Every call reads the
// vocabulary again: share the embedder, it is safe for concurrent use.
func New(o *embed.Options) (*embed.Local, error) {
	m, err := embed.ParseModel(FileName, simd.StringBytes(file))
	if err != nil {
		return nil, err
	}
	return embed.NewLocal(m, o)
}
