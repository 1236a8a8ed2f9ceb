package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/index/segment"
	"github.com/quarrysearch/quarry/storage"
)

const (
	// propUUID is the path of an object's UUID in a condition.
	propUUID = "id"
	// deleteAtOnce is how many objects one request names.
	deleteAtOnce = 1000
)

// deleteWhere deletes the documents that match f, but for those in docs.
//
// The cluster's own deletion by condition takes what matches on any of the replicas
// it asks, and so would delete the new version of a document for an old one that a
// node still holds which was down. Here documents are found first, on a majority,
// which meets the last acknowledged version of each; those that do not match
// somewhere are read by a majority and looked at; then they are deleted by name.
// A last look finds what a replica that failed has kept back.
func (c *Collection) deleteWhere(ctx context.Context, f filter.Filter, docs []segment.Doc) error {
	w, err := c.compile(ctx, f)
	if err != nil {
		return err
	}
	var spared []string
	for i := range docs {
		spared = append(spared, uuid(docs[i].ID))
	}
	for look := 1; ; look++ {
		open := w
		if len(spared) > 0 {
			open = allOf(w, not(anyOf(propUUID, spared)))
		}
		found, limit, err := c.matching(ctx, open)
		if err != nil || len(found) == 0 {
			return err
		}
		for ids := range slices.Chunk(found, deleteAtOnce) {
			wrong, err := c.wrong(ctx, f, w, ids)
			if err != nil {
				return err
			}
			spared = append(spared, wrong...)
			ids = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(wrong, id) })
			if err := c.deleteNamed(ctx, ids); err != nil {
				return err
			}
		}
		if look > 1 && len(found) < limit {
			return nil // others put documents meanwhile: these are not hunted
		}
	}
}

// matching returns the UUIDs of documents that match w on any replica of a majority,
// at most limit of them.
func (c *Collection) matching(ctx context.Context, w where) (ids []string, limit int, err error) {
	d, err := c.deletion(ctx, w, true)
	if err != nil {
		return nil, 0, err
	}
	for _, o := range d.Results.Objects {
		ids = append(ids, o.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids), d.Results.Limit, nil
}

// wrong returns those of the documents whose last acknowledged version does not
// match f, whose condition is w.
func (c *Collection) wrong(ctx context.Context, f filter.Filter, w where, ids []string) ([]string, error) {
	doubtful, _, err := c.matching(ctx, allOf(anyOf(propUUID, ids), not(w)))
	if err != nil || len(doubtful) == 0 {
		return nil, err
	}
	l := c.known.Load()
	b := index.NewBatch()
	var mu sync.Mutex
	err = parallel(ctx, 4*c.o.Writers, len(doubtful), func(ctx context.Context, i int) error {
		data, err := c.client.call(ctx, request{method: http.MethodGet, path: objectsPath + url.PathEscape(c.class) + "/" + doubtful[i], replicated: true})
		if errors.Is(err, storage.ErrNotFound) {
			return nil // deleting it again repairs the replica that has it
		}
		if err != nil {
			return err
		}
		d, err := decodeObject(data, l)
		if err == nil {
			d.Vectors = nil
			mu.Lock()
			b.Put(d)
			mu.Unlock()
		}
		return err
	})
	if err != nil || b.Len() == 0 {
		return nil, err
	}
	return refused(ctx, l, c.o, b, f)
}

// refused returns the UUIDs of the documents of a batch that do not match f, by an
// index in memory.
func refused(ctx context.Context, l *layout, o Options, b *index.Batch, f filter.Filter) (ids []string, err error) {
	meta := maps.Clone(l.schema.Meta)
	maps.DeleteFunc(meta, func(_ string, t filter.Type) bool { return t == filter.Undeclared })
	ix, err := index.Open("memory", &index.Options{Schema: &index.Schema{Text: l.schema.Text, Meta: meta}, Analyzers: o.Analyzers, FS: storage.NewMemFS(), Sync: storage.SyncNever, NoBackground: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	if err := ix.Apply(ctx, b); err != nil {
		return nil, err
	}
	res, err := ix.Search(ctx, index.Query{Filter: filter.Not(f), K: b.Len()})
	if err != nil {
		return nil, err
	}
	for _, h := range res.Hits {
		ids = append(ids, uuid(h.ID))
	}
	return ids, nil
}

// deleteNamed deletes documents by their UUIDs, of which none may be left.
func (c *Collection) deleteNamed(ctx context.Context, ids []string) error {
	for try := 0; len(ids) > 0; try++ {
		d, err := c.deletion(ctx, anyOf(propUUID, ids), false)
		if err != nil || d.Results.Failed == 0 {
			return err
		}
		c.client.degrade()
		if err := c.client.pause(ctx, try, true); err != nil {
			return unavailable(err, fmt.Errorf("%d of %d documents were not deleted", d.Results.Failed, d.Results.Matches))
		}
	}
	return nil
}

// A deletion is the answer to a deletion of many.
type deletion struct {
	Results struct {
		Failed  int `json:"failed"`
		Limit   int `json:"limit"`
		Matches int `json:"matches"`
		Objects []struct {
			ID string `json:"id"`
		} `json:"objects"`
	} `json:"results"`
}

// deletion deletes what matches w on a replica, or only names it. It carries its
// time, so that a node that misses it does not bring documents back.
func (c *Collection) deletion(ctx context.Context, w where, dry bool) (*deletion, error) {
	body := []byte(`{"output":"minimal"`)
	if dry {
		body = []byte(`{"output":"verbose","dryRun":true`)
	}
	body = append(append(append(body, `,"match":{"class":"`...), c.class...), `","where":`...)
	body = append(w.json(body), `},"deletionTimeUnixMilli":`...)
	body = append(strconv.AppendInt(body, time.Now().UnixMilli(), 10), '}')
	d := new(deletion)
	_, err := c.client.call(ctx, request{method: http.MethodDelete, path: "/v1/batch/objects", body: body, write: !dry, replicated: true,
		check: func(data []byte) error { return d.decode(data) }})
	return d, err
}

func (d *deletion) decode(data []byte) error {
	*d = deletion{}
	if err := json.Unmarshal(data, d); err != nil {
		return &failure{fmt.Errorf("%w: answer of the cluster to a deletion: %w", storage.ErrCorrupt, err), true}
	}
	if r := d.Results; r.Failed < 0 || r.Matches < 0 || r.Limit < 1 {
		return &failure{fmt.Errorf("%w: answer of the cluster to a deletion: %d failed, %d matches, limit %d", storage.ErrCorrupt, r.Failed, r.Matches, r.Limit), true}
	}
	return nil
}
