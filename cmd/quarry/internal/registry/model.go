package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/cache"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// source finds the model of a name that a caller gives.
func (r *Registry) source(name string) (models.Source, error) {
	s, ok := r.o.Models[name]
	if !ok {
		return s, storage.Invalidf("embed: no model %.80q here: want one of %s", name, strings.Join(r.Models(), ", "))
	}
	return s, nil
}

// model opens the model of a source once. dim is the dimension it must have, 0
// when it is not known.
func (r *Registry) model(ctx context.Context, s models.Source, dim int) (*models.Model, error) {
	return r.models.do(ctx, s, func(ctx context.Context) (*models.Model, error) {
		m, err := models.Open(ctx, s, dim)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrModel, s.Model, err)
		}
		r.onClose(m.Close)
		return m, nil
	})
}

// embedders opens the model of a collection.
func (c *Collection) embedders(ctx context.Context) (embedders, error) {
	e := c.e
	if e.record == nil {
		return embedders{}, storage.Invalidf("collection %q has no model: its vectors come from the caller", e.name)
	}
	return e.models.do(ctx, struct{}{}, func(ctx context.Context) (embedders, error) {
		m, err := c.r.model(ctx, e.record.Source, e.record.Model.Dim)
		if err != nil {
			return embedders{}, err
		}
		if err := e.record.Check(e.dir, m); err != nil {
			return embedders{}, fmt.Errorf("%w: %w", ErrModel, err)
		}
		c, err := c.r.openCache(models.CacheDir(e.dir))
		if err != nil {
			return embedders{}, err
		}
		documents := *m
		if c != nil {
			documents.Embedder = c.Wrap(m.Embedder)
			e.caches.Lock()
			e.caches.close = append(e.caches.close, c.Close)
			e.caches.Unlock()
		}
		return embedders{queries: m, documents: &documents}, nil
	})
}

// openCache opens a cache of embeddings, nil without the right to write.
func (r *Registry) openCache(dir string) (*cache.Cache, error) {
	if r.o.ReadOnly {
		return nil, nil
	}
	return cache.Open(dir, cache.Options{})
}

// embedderName is the name under which a knowledge base keeps its embedder, and
// sourceOf finds it again: the model, or the JSON of its source where that says
// more.
func embedderName(s models.Source) (string, error) {
	if s == (models.Source{Model: s.Model}) {
		return s.Model, nil
	}
	name, err := json.Marshal(s)
	return string(name), err
}

func sourceOf(name string) (models.Source, error) {
	s := models.Source{Model: name}
	if strings.HasPrefix(name, "{") {
		if err := json.Unmarshal([]byte(name), &s); err != nil {
			return s, storage.Invalidf("embedder %s: %v", name, err)
		}
	}
	return s, nil
}

// A lateEmbedder opens its model when it is needed: weights take memory, and a
// service has to be asked. Whoever made the store need not use all models.
type lateEmbedder struct {
	r    *Registry
	name string
}

func (l *lateEmbedder) model(ctx context.Context) (*models.Model, error) {
	s, err := sourceOf(l.name)
	if err != nil {
		return nil, err
	}
	return l.r.model(ctx, s, 0)
}

// Identity opens the model. One that cannot be opened now has a name only, and
// Embed tells why.
func (l *lateEmbedder) Identity() embed.Identity {
	m, err := l.model(context.Background())
	if err != nil {
		l.r.log.Warn("model cannot be opened now", "model", l.name, "error", err)
		return embed.Identity{Name: l.name}
	}
	return m.Identity()
}

// Unwrap opens the model, for its tokenizer; nil when it cannot be opened now.
func (l *lateEmbedder) Unwrap() embed.Embedder {
	m, err := l.model(context.Background())
	if err != nil {
		return nil
	}
	return m.Embedder
}

// Embed opens the model and embeds.
func (l *lateEmbedder) Embed(ctx context.Context, kind embed.Kind, texts []string) (embed.Result, error) {
	m, err := l.model(ctx)
	if err != nil {
		return embed.Result{}, err
	}
	return m.Embed(ctx, kind, texts)
}

const lateReranker = "late"

// checkReranker checks Options.Reranker.
func checkReranker(name string) error {
	if name == "" || name == lateReranker || name == models.None {
		return nil
	}
	provider, model, ok := strings.Cut(name, ":")
	if _, err := rerank.ParseProvider(provider); err != nil || !ok || model == "" {
		return storage.Invalidf("reranker %q: want late, none, cohere:MODEL, jina:MODEL, voyage:MODEL or tei:URL", name)
	}
	return nil
}

// Reranker is the reranker of the program, nil when it is to have none. It is
// opened when it is first used. Its name in workflows is
// workflow.DefaultRerankModel.
func (r *Registry) Reranker() rerank.Reranker {
	if r.o.Reranker == models.None {
		return nil
	}
	return &lateOpened{r}
}

// lateOpened is the reranker, opened when it is needed.
type lateOpened struct{ r *Registry }

// Rerank opens the reranker and asks it.
func (l *lateOpened) Rerank(ctx context.Context, query string, passages []string, topN int) ([]rerank.Scored, error) {
	rr, err := l.r.reranker.do(ctx, struct{}{}, l.r.openReranker)
	if err != nil {
		return nil, err
	}
	return rr.Rerank(ctx, query, passages, topN)
}

// Name is that of the reranker, or of the option while it is not open.
func (l *lateOpened) Name() string {
	if rr, ok := l.r.reranker.get(struct{}{}); ok {
		return rr.Name()
	}
	return cmp.Or(l.r.o.Reranker, lateReranker)
}

func (r *Registry) openReranker(ctx context.Context) (rerank.Reranker, error) {
	if r.o.Reranker == "" || r.o.Reranker == lateReranker {
		m, err := r.model(ctx, r.o.Models[models.E5], 0)
		if err != nil {
			return nil, err
		}
		t := m.Tokens()
		if t == nil {
			return nil, errors.New("the model e5 gives no token vectors")
		}
		return rerank.LateInteraction(t, rerank.LateOptions{})
	}
	provider, model, _ := strings.Cut(r.o.Reranker, ":")
	p, err := rerank.ParseProvider(provider)
	if err != nil {
		return nil, err
	}
	o := rerank.Options{Model: model}
	if p == rerank.TEI {
		o = rerank.Options{Call: call.Options{BaseURL: model}}
	}
	h, err := rerank.NewHTTP(p, o)
	if err != nil {
		return nil, err
	}
	r.onClose(h.Close)
	return h, nil
}
