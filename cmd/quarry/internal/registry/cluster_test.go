package registry

import (
	"errors"
	"slices"
	"testing"

	"github.com/quarrysearch/quarry/cluster"
	"github.com/quarrysearch/quarry/cluster/testcluster"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// TestCluster makes, serves and deletes a collection on a cluster.
func TestCluster(t *testing.T) {
	nodes := testcluster.ForTest(t, testcluster.Options{Nodes: 1})
	r, err := Open(t.TempDir(), &Options{Cluster: &cluster.Options{URLs: nodes.URLs(), Key: nodes.Key()}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(t.Context())
	ctx := t.Context()
	if _, err := r.Get(ctx, "docs"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Get of what is not there: %v", err)
	}
	c, err := r.Create(ctx, "docs", CreateOptions{Schema: index.Schema{Text: []index.TextField{{Name: "text"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(ctx, []index.Document{{ID: "a", Text: map[string]string{"text": "a mill"}, Meta: map[string]any{"n": 1}}, {ID: "b"}}); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Delete(ctx, nil, filter.Eq("n", 1), true); n != 1 || err != nil {
		t.Errorf("dry run: %d, %v", n, err)
	}
	if n, err := c.Delete(ctx, []string{"b", "c"}, filter.Filter{}, false); n != 1 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if _, err := c.Local("merge"); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("Local: %v", err)
	}
	if _, err := r.CreateSnapshot(ctx, "docs", "s"); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("snapshot: %v", err)
	}
	c.Release()
	if names, err := r.Names(); !slices.Equal(names, []string{"docs"}) || err != nil {
		t.Errorf("names %q, %v", names, err)
	}
	if _, err := r.Create(ctx, "Docs", CreateOptions{}); !errors.Is(err, ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	if err := r.Delete(ctx, "docs"); err != nil {
		t.Error(err)
	}
	if names, err := r.Names(); len(names) != 0 || err != nil {
		t.Errorf("names %q, %v", names, err)
	}
}
