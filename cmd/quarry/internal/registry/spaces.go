package registry

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/knowledge/space"
	"github.com/quarrysearch/quarry/knowledge/workflow"
)

// catalogName is the catalogue's file in the store, where quarry kb has it.
const catalogName = "catalog.db"

// Spaces retrieves evidence from the spaces of its catalogue.
type Spaces struct {
	*space.Service
	Catalog *catalog.Catalog
}

// HasCatalog tells whether there is a catalogue: Spaces makes one otherwise.
func (r *Registry) HasCatalog() bool {
	_, err := os.Stat(filepath.Join(r.dir, knowledgeName, catalogName))
	return err == nil
}

// Spaces opens the catalogue beside the bases, once, with the reranker of the
// program under workflow.DefaultRerankModel. They are the registry's to close.
func (r *Registry) Spaces(ctx context.Context) (*Spaces, error) {
	return r.spaces.do(ctx, struct{}{}, func(ctx context.Context) (*Spaces, error) {
		store, err := r.Knowledge(ctx)
		if err != nil {
			return nil, err
		}
		o := &space.Options{}
		if rr := r.Reranker(); rr != nil {
			o.Rerankers = map[string]rerank.Reranker{workflow.DefaultRerankModel: rr}
		}
		c, err := catalog.Open(filepath.Join(r.dir, knowledgeName, catalogName), &catalog.Options{ReadOnly: r.o.ReadOnly})
		if err != nil {
			return nil, err
		}
		s, err := space.New(c, store, o)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		r.onClose(c.Close)
		return &Spaces{Service: s, Catalog: c}, nil
	})
}
