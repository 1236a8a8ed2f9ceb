package cluster_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/cluster"
	"github.com/quarrysearch/quarry/cluster/testcluster"
	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/collection/conformance"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

// running gives the options of a running cluster: that of QUARRY_CLUSTER, with
// the key of QUARRY_CLUSTER_KEY, or three nodes started for the test.
func running(t *testing.T) cluster.Options {
	t.Helper()
	if urls := os.Getenv("QUARRY_CLUSTER"); urls != "" {
		return cluster.Options{URLs: strings.Split(urls, ",")}
	}
	c, err := testcluster.Start(context.WithoutCancel(t.Context()), testcluster.Options{Nodes: 3})
	if errors.Is(err, testcluster.ErrNoBinary) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return cluster.Options{URLs: c.URLs(), Key: c.Key()}
}

func TestConformance(t *testing.T) {
	o := running(t)
	made := map[string]bool{}
	conformance.Run(t, conformance.Options{Overlap: 0.75, Open: func(t testing.TB, name string, schema *index.Schema) collection.Collection {
		o := o
		o.Collection, o.Schema, o.Timeout, o.Attempt = "conformance-"+name, schema, time.Minute, 30*time.Second // machines may be slow
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
