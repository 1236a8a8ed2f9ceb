package space

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/embed"
)

// Ingest brings documents into the base of a space and, the first time, freezes
// the embedding model of the space: from then on a base with other vectors is
// catalog.ErrFrozen, before anything is read. r.Base is set to the space's base.
// Runs see nothing of it until the next Publish. account needs the permission to
// edit.
func (s *Service) Ingest(ctx context.Context, account, space string, r knowledge.IngestRequest) (*knowledge.Report, error) {
	sp, err := s.editable(account, space)
	if err != nil {
		return nil, err
	}
	// A base that has its model already says so now, one that has none after
	// its first ingest. A crash in between is made up for by the next one.
	if err := s.freezeEmbedding(ctx, account, &sp); err != nil {
		return nil, err
	}
	r.Base = sp.Base
	report, err := s.store.Ingest(ctx, r)
	if err != nil {
		return report, &Error{space, err}
	}
	return report, s.freezeEmbedding(ctx, account, &sp)
}

// Rebuild makes the base of a space anew from its kept sources, which is the one
// way to another embedding model, and freezes that. Published generations keep
// the old model, and runs use it, until the next Publish. o is as in
// knowledge.Store.Rebuild; account needs the permission to edit.
func (s *Service) Rebuild(ctx context.Context, account, space string, o *knowledge.BaseOptions, progress func(knowledge.Progress)) (*knowledge.Report, error) {
	sp, err := s.editable(account, space)
	if err != nil {
		return nil, err
	}
	report, err := s.store.Rebuild(ctx, sp.Base, o, progress)
	if err != nil {
		return report, &Error{space, err}
	}
	if sp.Embedding == nil {
		return report, s.freezeEmbedding(ctx, account, &sp)
	}
	now, err := s.embedding(ctx, &sp)
	if err == nil && now != nil && *now != *sp.Embedding {
		err = s.catalog.ReplaceEmbedding(account, space, *sp.Embedding, *now)
	}
	return report, err
}

func (s *Service) editable(account, space string) (catalog.Space, error) {
	sp, err := s.catalog.Space(space)
	if err != nil {
		return sp, err
	}
	return sp, s.catalog.Allow(account, space, catalog.Edit)
}

func (s *Service) freezeEmbedding(ctx context.Context, account string, sp *catalog.Space) error {
	e, err := s.embedding(ctx, sp)
	if err != nil || e == nil {
		return err
	}
	return s.catalog.FreezeEmbedding(account, sp.ID, *e)
}

// embedding is that of the base of a space as it is now; nil before its first
// ingest, and without a model.
func (s *Service) embedding(ctx context.Context, sp *catalog.Space) (*catalog.EmbeddingProfile, error) {
	info, err := s.store.Base(ctx, sp.Base)
	if err != nil {
		return nil, &Error{sp.ID, err}
	}
	return embeddingOf(info.Model), nil
}

// embeddingOf is the catalogue's view of a model. The digest covers what makes
// vectors comparable, which a floor of scores does not.
func embeddingOf(m *embed.Identity) *catalog.EmbeddingProfile {
	if m == nil {
		return nil
	}
	id := *m
	id.Floor = 0
	data, _ := json.Marshal(id) // of text and whole numbers: it cannot fail
	sum := sha256.Sum256(data)
	metric := cmp.Or(m.Metric, "cosine") // the zero value
	return &catalog.EmbeddingProfile{Name: m.Name, Revision: m.Revision, Dim: m.Dim, Metric: metric, Digest: hex.EncodeToString(sum[:])}
}

func stale(space string, expected, now int) string {
	return fmt.Sprintf("space %q: its draft has revision %d, not %d: read it again", space, now, expected)
}
