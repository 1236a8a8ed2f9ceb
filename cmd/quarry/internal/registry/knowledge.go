package registry

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/cache"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/knowledge/workflow"
	"github.com/quarrysearch/quarry/storage"
)

// Knowledge is the store of knowledge bases, opened at its first use with the
// embedders that its bases name and those of Options.Models, each of which is
// opened when it is needed. It is the registry's to close.
func (r *Registry) Knowledge(ctx context.Context) (*knowledge.Store, error) {
	return r.store.do(ctx, struct{}{}, r.openStore)
}

func (r *Registry) openStore(ctx context.Context) (*knowledge.Store, error) {
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed {
		return nil, storage.ErrClosed
	}
	dir := filepath.Join(r.dir, knowledgeName)
	names, err := r.embedderNames(ctx, dir)
	if err != nil {
		return nil, err
	}
	c, err := r.openCache(models.CacheDir(dir))
	if err != nil {
		return nil, err
	}
	embedders := make(map[string]embed.Embedder, len(names))
	for name := range names {
		if _, err := sourceOf(name); err != nil {
			return nil, errors.Join(err, closeCache(c))
		}
		var e embed.Embedder = &lateEmbedder{r, name}
		if c != nil {
			e = c.Wrap(e)
		}
		embedders[name] = e
	}
	var elsewhere *knowledge.Elsewhere
	if o := r.o.Cluster; o != nil {
		elsewhere = &knowledge.Elsewhere{Open: o.OpenNamed, Drop: o.DropNamed}
	}
	store, err := knowledge.Open(dir, &knowledge.Options{ReadOnly: r.o.ReadOnly, Embedders: embedders, Sync: r.o.Sync, Logger: r.log.With("store", knowledgeName),
		Elsewhere: elsewhere})
	if err != nil {
		return nil, errors.Join(err, closeCache(c))
	}
	r.onClose(func() error { return closeCache(c) })
	return store, nil
}

func closeCache(c *cache.Cache) error {
	if c == nil {
		return nil
	}
	return c.Close()
}

// embedderNames are those that the bases of a store may need.
func (r *Registry) embedderNames(ctx context.Context, dir string) (map[string]bool, error) {
	names := make(map[string]bool)
	for _, s := range r.o.Models {
		name, err := embedderName(s)
		if err != nil {
			return nil, err
		}
		names[name] = true
	}
	s, err := knowledge.Open(dir, &knowledge.Options{ReadOnly: true})
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return names, nil
	}
	if err != nil {
		return nil, err
	}
	bases, err := s.Bases(ctx)
	for _, b := range bases {
		if b.Embedder != "" {
			names[b.Embedder] = true
		}
	}
	if errors.Is(err, storage.ErrNotFound) {
		err = nil // a directory without bases
	}
	return names, errors.Join(err, s.Close())
}

// CreateBase makes an empty knowledge base whose vectors are made by a model,
// a name of Models; empty: it is searched by keyword only. o.Embedder is set by
// it; nil o is all defaults.
func (r *Registry) CreateBase(ctx context.Context, id, model string, o *knowledge.BaseOptions) (knowledge.BaseInfo, error) {
	if err := errors.Join(r.writable(), CheckName("knowledge base", id)); err != nil {
		return knowledge.BaseInfo{}, err
	}
	var opt knowledge.BaseOptions
	if o != nil {
		opt = *o
	}
	opt.Embedder = ""
	if model != "" {
		s, err := r.source(model)
		if err == nil {
			opt.Embedder, err = embedderName(s)
		}
		if err != nil {
			return knowledge.BaseInfo{}, err
		}
	}
	store, err := r.Knowledge(ctx)
	if err != nil {
		return knowledge.BaseInfo{}, err
	}
	info, err := store.Create(ctx, id, &opt)
	if errors.Is(err, knowledge.ErrExists) {
		err = errors.Join(ErrExists, err)
	}
	return info, err
}

// Environment is what the nodes of workflows use here: the store, the reranker
// as workflow.DefaultRerankModel, e5, and Options.Chat. Models are opened by the
// node that needs them; a store that is not there is left out.
func (r *Registry) Environment(ctx context.Context) (*workflow.Environment, error) {
	env := &workflow.Environment{Chat: r.o.Chat}
	store, err := r.Knowledge(ctx)
	switch {
	case err == nil:
		env.Store = store
	case !errors.Is(err, storage.ErrNotFound):
		return nil, err
	}
	env.Embedder = &lateEmbedder{r, models.E5}
	if rr := r.Reranker(); rr != nil {
		env.Rerankers = map[string]rerank.Reranker{workflow.DefaultRerankModel: rr}
	}
	return env, nil
}

// ModelOf is the name of a base's embedder as Models has it, or the embedder's
// own where the base was made by somebody else; empty for none.
func (r *Registry) ModelOf(b *knowledge.BaseInfo) string {
	for _, alias := range r.Models() {
		if name, err := embedderName(r.o.Models[alias]); err == nil && name == b.Embedder {
			return alias
		}
	}
	if s, err := sourceOf(b.Embedder); err == nil {
		return strings.TrimSpace(s.Model)
	}
	return b.Embedder
}
