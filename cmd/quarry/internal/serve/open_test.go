package serve

import (
	"errors"
	"testing"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

// A data directory that is open already is served, and closed with the server; a
// server that cannot be made leaves it open.
func TestServeOpenRegistry(t *testing.T) {
	reg, err := registry.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := reg.Create(t.Context(), "notes", registry.CreateOptions{Schema: index.Schema{Text: []index.TextField{{Name: "text"}}}})
	if err != nil {
		t.Fatal(err)
	}
	h.Release()
	for name, c := range map[string]Config{
		"listen":      {Open: reg, Listen: "0.0.0.0:0"},
		"certificate": {Open: reg, TLSCert: "none"},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: a server", name)
		}
	}
	r := start(t, &Config{Open: reg, Data: "elsewhere"})
	if r.s.Registry() != reg {
		t.Error("another registry is served")
	}
	r.ok("PUT", "/v1/collections/notes/documents/a", `{"text":{"text":"slate"}}`)
	r.ok("GET", "/v1/collections/notes/documents/a", nil)
	r.stop()
	if _, err := reg.Get(t.Context(), "notes"); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("behind the server the registry is open: %v", err)
	}
}
