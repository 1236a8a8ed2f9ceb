package knowledge

import (
	"context"
	"testing"

	"github.com/quarrysearch/quarry/storage"
)

// TestReadOnlyAfterCreate: a base that holds nothing yet is no obstacle to a
// reader of all bases.
func TestReadOnlyAfterCreate(t *testing.T) {
	ctx, fs := context.Background(), storage.NewMemFS()
	s, err := Open("/store", &Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(ctx, "new", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open("/store", &Options{FS: fs, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	res, err := r.Search(ctx, Request{Bases: []string{"new"}, Query: "anything", Mode: Keyword})
	if err != nil || len(res.Items) != 0 {
		t.Errorf("search of an empty base: %v, %v", res, err)
	}
	if _, err := r.Check(ctx, "new"); err != nil {
		t.Errorf("check of an empty base: %v", err)
	}
}
