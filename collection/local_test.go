package collection_test

import (
	"path/filepath"
	"testing"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/collection/conformance"
	"github.com/quarrysearch/quarry/index"
)

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	conformance.Run(t, conformance.Options{Overlap: 1, Open: func(t testing.TB, name string, schema *index.Schema) collection.Collection {
		c, err := collection.Open(filepath.Join(dir, name), &index.Options{Schema: schema, MustExist: schema == nil})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}})
}
