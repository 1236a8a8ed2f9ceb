package cluster_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/cluster"
	"github.com/quarrysearch/quarry/cluster/testcluster"
	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/collection/conformance"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

func TestConformance(t *testing.T) {
	urls, key := testcluster.Running(t)
	made := map[string]bool{}
	conformance.Run(t, conformance.Options{Overlap: 0.75, Open: func(t testing.TB, name string, schema *index.Schema) collection.Collection {
		o := cluster.Options{URLs: urls, Key: key, Collection: "conformance-" + name, Schema: schema, Timeout: time.Minute, Attempt: 30 * time.Second} // machines may be slow
		if !made[name] {
			if err := cluster.Drop(t.Context(), o); err != nil && !errors.Is(err, storage.ErrNotFound) {
				t.Fatal(err)
			}
			made[name] = true
		}
		c, err := cluster.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}})
}
