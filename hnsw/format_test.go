package hnsw

import (
	"bytes"
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOpensVersion1 keeps a field of the first version readable: its curve is
// one of plain beams.
func TestOpensVersion1(t *testing.T) {
	dump, err := os.ReadFile(filepath.Join("testdata", "tiny-v1.hex"))
	if err != nil {
		t.Fatal(err)
	}
	s, name := sections{}, ""
	for line := range strings.Lines(string(dump)) {
		if section, ok := strings.CutPrefix(line, "== "); ok {
			name = strings.TrimSpace(section)
			s[name] = new(bytes.Buffer)
			continue
		}
		_, line, _ = strings.Cut(line, "  ")
		line, _, _ = strings.Cut(line, "|")
		b, err := hex.DecodeString(strings.Join(strings.Fields(line), ""))
		if err != nil {
			t.Fatal(err)
		}
		s[name].Write(b)
	}
	f := openSections(t, s, 100)
	if err := f.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := openSections(t, tiny(t), 100)
	var sc Scratch
	for ord := range uint32(40) {
		q := f.Vector(ord)
		got, _ := graphSearch(t, f, q, 5, 16, &sc)
		if exact, _ := graphSearch(t, want, q, 5, 16, &sc); !slices.Equal(got, exact) {
			t.Fatalf("got %v, want %v", got, exact)
		}
	}
}
