package external

import (
	"context"
	"encoding/json"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/space"
	"github.com/quarrysearch/quarry/knowledge/workflow"
	"github.com/quarrysearch/quarry/storage"
)

// A Retriever finds the records of a request that was checked, best first. A
// base or space that is not there is storage.ErrNotFound.
type Retriever interface {
	Retrieve(ctx context.Context, r *Request) ([]Record, error)
}

// MaxLooked is how many items are looked at for conditions that the index does
// not answer.
const MaxLooked = knowledge.MaxTopK

// Store retrieves from knowledge bases: a knowledge_id is the id of one, or
// "id@n" for a generation. Mode is knowledge.Hybrid by default.
type Store struct {
	Searcher workflow.Searcher
	Mode     knowledge.Mode
}

var _ Retriever = Store{}

// Retrieve searches one base.
func (s Store) Retrieve(ctx context.Context, r *Request) ([]Record, error) {
	f, err := r.Condition.Compile()
	if err != nil {
		return nil, err
	}
	q := knowledge.Request{Bases: []string{r.KnowledgeID}, Query: r.Query, Mode: s.Mode, TopK: r.Setting.TopK, ScoreThreshold: r.Setting.ScoreThreshold, Filter: f.Index}
	if q.Mode == "" {
		q.Mode = knowledge.Hybrid
	}
	if !f.Exact() {
		q.TopK = min(max(50, 10*r.Setting.TopK), MaxLooked)
	}
	for {
		resp, err := s.Searcher.Search(ctx, q)
		if err != nil {
			return nil, err
		}
		var out []Record
		for i := range resp.Items {
			if it := &resp.Items[i]; f.Keeps(&it.Metadata) && len(out) < r.Setting.TopK {
				rec, err := recordOf(it)
				if err != nil {
					return nil, err
				}
				out = append(out, rec)
			}
		}
		if f.Exact() || len(out) == r.Setting.TopK || len(resp.Items) < q.TopK || q.TopK == MaxLooked {
			return out, nil
		}
		q.TopK = MaxLooked
	}
}

// recordOf makes a record of an item.
func recordOf(it *knowledge.Item) (Record, error) {
	r := Record{Content: it.Content, Score: it.Score, Title: it.Metadata.Title}
	if r.Title == "" {
		r.Title = it.Metadata.Source
	}
	var err error
	r.Metadata, err = object(it.Metadata)
	return r, err
}

// object is a value as a JSON object.
func object(v any) (m map[string]any, err error) {
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	return m, err
}

// Spaces retrieves from published spaces: a knowledge_id is the id of one. It is
// a draft run of Account without a workflow, so what the account may not use is
// refused. Filters of spaces are a closed set that metadata_condition does not
// fit, so conditions are an error.
type Spaces struct {
	Retriever workflow.Retriever
	Account   string
	Mode      catalog.Mode // default: that of the space's profile
}

var _ Retriever = Spaces{}

// Retrieve retrieves from one space.
func (s Spaces) Retrieve(ctx context.Context, r *Request) ([]Record, error) {
	if r.Condition != nil && len(r.Condition.Conditions) > 0 {
		return nil, storage.Invalidf("metadata_condition: a space takes none")
	}
	res, err := s.Retriever.Retrieve(ctx, space.Request{Run: catalog.Run{Kind: catalog.Draft, Account: s.Account, Spaces: []string{r.KnowledgeID}},
		Query: r.Query, Mode: s.Mode, TopN: r.Setting.TopK})
	if err != nil {
		return nil, err
	}
	var out []Record
	for i := range res.Evidence {
		e := &res.Evidence[i]
		if e.Metadata.Score < r.Setting.ScoreThreshold {
			break
		}
		m, err := object(e.Metadata)
		if err != nil {
			return nil, err
		}
		out = append(out, Record{e.Content, e.Metadata.Score, e.Title, m})
	}
	return out, nil
}
