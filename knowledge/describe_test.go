package knowledge

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge/describe"
	"github.com/quarrysearch/quarry/storage"
)

// Entities, freshness, kind of node and source id: by their rules, in records
// and chunks, for filters, and the same after a rebuild.
func TestDescription(t *testing.T) {
	now := time.Date(2030, 6, 1, 0, 0, 0, 0, time.UTC)
	s := openMem(t, storage.NewMemFS(), Options{Now: func() time.Time { return now }})
	mustCreate(t, s, "kb", &BaseOptions{Analyzer: "standard"})
	doc := func(front, body string) []byte { return []byte("---\n" + front + "---\n" + body) }
	long := strings.Repeat("The words go on at Acme Cloud and on. ", 60)
	src := []Source{
		{Name: "a.md", Data: doc("date: 2030-01-05\nentities: [Orbit Pro, payments]\nsource_id: wiki-7\n", "# Pricing\n\nUse get_price of Acme Cloud.\n")},
		{Name: "b.md", Data: doc("date: 2020-01-05\nmodified: 2029-12-01\nexpires: 2030-05-31\n", "# Rates\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n# Long\n\n"+long+"\n")},
		{Name: "c.md", Data: doc("date: 2020-01-05\nnode_kind: summary\n", "In short.\n")},
		{Name: "d.txt", Data: []byte("plain words"), Meta: map[string]any{"entities": []string{"Handbook"}, "freshness": "stale", "node_kind": "image", "source_id": "cms"}},
		{Name: "e.md", Data: doc("freshness: fresh\nexpires: 2001-01-01\nnode_kind: poem\n", "text\n")},
		{Name: "rows.csv", Data: []byte("name,price\nnut,1\nbolt,2\n")},
		{Name: "rows.jsonl", Data: []byte(`{"name":"nut"}` + "\n")},
	}
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: src})
	check := func() {
		t.Helper()
		for _, c := range []struct {
			id, fresh, source string
			entities          []string
			kinds             string
		}{
			{"a.md", describe.Fresh, "wiki-7", []string{"Orbit Pro", "payments", "get_price", "Acme Cloud"}, "section"},
			{"b.md", describe.Expired, "b.md", []string{"Acme Cloud"}, "table chunk chunk chunk"},
			{"c.md", describe.Stale, "c.md", nil, "summary"},
			{"d.txt", describe.Stale, "cms", []string{"Handbook"}, "image"},
			{"e.md", describe.Fresh, "e.md", nil, "chunk"},
			{"rows.csv", describe.Unknown, "rows.csv", nil, "table"},
			{"rows.jsonl", describe.Unknown, "rows.jsonl", nil, "chunk"},
		} {
			d, err := s.Document(t.Context(), "kb", c.id)
			if err != nil {
				t.Fatal(err)
			}
			if d.Freshness != c.fresh || d.SourceID != c.source || !slices.Equal(d.Entities, c.entities) {
				t.Errorf("%s: %q %q %q", c.id, d.Freshness, d.SourceID, d.Entities)
			}
			if (len(d.Warnings) > 0) != (c.id == "e.md") {
				t.Errorf("%s: %v", c.id, d.Warnings)
			}
			for _, own := range ownFields {
				if _, twice := d.Meta[own]; twice && c.id != "d.txt" {
					t.Errorf("%s: metadata %q is there twice", c.id, own)
				}
			}
			var kinds []string
			for i := range d.Chunks {
				p, err := s.Expand(t.Context(), "kb", chunkID(c.id, i), ExpandOptions{})
				if err != nil {
					t.Fatal(err)
				}
				m := p.Metadata
				kinds = append(kinds, m.NodeKind)
				if m.Freshness != c.fresh || m.SourceID != c.source {
					t.Errorf("%s: chunk %+v", c.id, m)
				}
			}
			if strings.Join(kinds, " ") != c.kinds {
				t.Errorf("%s: kinds %v, want %s", c.id, kinds, c.kinds)
			}
		}
		for _, c := range []struct {
			f    filter.Filter
			want string
		}{
			{filter.ContainsAny(FieldEntities, "Acme Cloud"), "a.md b.md"},
			{filter.ContainsAll(FieldEntities, "Acme Cloud", "payments"), "a.md"},
			{filter.In(FieldFreshness, describe.Expired, describe.Stale), "b.md c.md d.txt"},
			{filter.Eq(FieldNodeKind, NodeTable), "b.md rows.csv"},
			{filter.In(FieldSourceID, "wiki-7", "cms"), "a.md d.txt"},
		} {
			var got []string
			for it := range strings.SplitSeq("pricing rates short plain text nut acme words", " ") {
				for _, it := range mustSearch(t, s, Request{Bases: []string{"kb"}, Query: it, Mode: Keyword, TopK: 50, Filter: c.f}).Items {
					got = append(got, it.Metadata.DocumentID)
				}
			}
			slices.Sort(got)
			if got = slices.Compact(got); strings.Join(got, " ") != c.want {
				t.Errorf("%s: %v, want %s", c.f, got, c.want)
			}
		}
	}
	check()
	if rep := mustIngest(t, s, IngestRequest{Base: "kb", Sources: src}); rep.Unchanged != len(src) {
		t.Errorf("%+v", rep)
	}
	before := dump(t, s, "kb")
	now = now.AddDate(3, 0, 0) // freshness is that of the ingest
	if _, err := s.Rebuild(t.Context(), "kb", nil, nil); err != nil {
		t.Fatal(err)
	}
	check()
	if after := dump(t, s, "kb"); after != before {
		t.Errorf("rebuilt:\n%s\nwas\n%s", after, before)
	}
	mustCheck(t, s, "kb")
}

// Files of a named folder have its name for a source id. Entities are bounded.
func TestSourceIDAndBounds(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	for i := range 400 {
		fmt.Fprintf(&b, "name_%d ", i)
	}
	write(t, dir, "x.md", b.String())
	s := openMem(t, storage.NewMemFS(), Options{})
	mustCreate(t, s, "kb", &BaseOptions{Chunk: wordChunks(100, 0)})
	mustIngest(t, s, IngestRequest{Base: "kb", Folders: []Folder{{Path: dir, Name: "handbook"}}})
	d, err := s.Document(t.Context(), "kb", "handbook/x.md")
	if err != nil || d.SourceID != "handbook" || len(d.Entities) != maxEntities {
		t.Errorf("%q, %d entities: %v", d.SourceID, len(d.Entities), err)
	}
	p, err := s.Expand(t.Context(), "kb", chunkID(d.ID, 3), ExpandOptions{})
	if err != nil || len(p.Metadata.Entities) != maxChunkEntities {
		t.Errorf("%d entities of a chunk: %v", len(p.Metadata.Entities), err)
	}
}

// A base that was made before there were entities, freshness, kinds of node,
// source ids and disabled documents: it is searched as ever, read-only too, what
// asks for the new fields matches nothing, and an ingest brings them.
func TestBaseOfBefore(t *testing.T) {
	fs := storage.NewMemFS()
	s := openMem(t, fs, Options{})
	mustCreate(t, s, "kb", nil)
	src := []Source{text("a.txt", "red apple of Acme Cloud"), text("b.txt", "red brick")}
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: src})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	now, err := index.Open("kb/bases/kb/index-1", &index.Options{FS: fs, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	added := []string{FieldEntities, FieldFreshness, FieldNodeKind, FieldSourceID, fieldDisabled}
	schema := now.Schema()
	for _, f := range added {
		delete(schema.Meta, f)
	}
	before, err := index.Open("kb/bases/kb/index-2", &index.Options{FS: fs, Schema: &schema})
	if err != nil {
		t.Fatal(err)
	}
	batch := index.NewBatch()
	for d, err := range now.Documents("") {
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range added {
			delete(d.Meta, f)
		}
		if d.Meta[fieldFingerprint] != nil {
			d.Meta[fieldFingerprint] = "that of before"
		}
		batch.Put(d)
	}
	if err := errors.Join(before.Apply(t.Context(), batch), before.Close(), now.Close()); err != nil {
		t.Fatal(err)
	}
	cat, err := fs.ReadFile("kb/bases/kb/base.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := fs.WriteFile("kb/bases/kb/base.json", bytes.Replace(cat, []byte("index-1"), []byte("index-2"), 1)); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{true, false} {
		s := openMem(t, fs, Options{ReadOnly: readOnly})
		r := Request{Bases: []string{"kb"}, Query: "red", Mode: Keyword}
		if res := mustSearch(t, s, r); len(res.Items) != 2 || res.Items[0].Metadata.Freshness != "" {
			t.Errorf("%+v", res.Items)
		}
		for want, f := range []filter.Filter{filter.ContainsAny(FieldEntities, "Acme Cloud"), 2: filter.Not(filter.Eq(FieldFreshness, describe.Fresh))} {
			if f.IsZero() {
				continue
			}
			if r.Filter = f; len(mustSearch(t, s, r).Items) != want {
				t.Errorf("%s: want %d", f, want)
			}
		}
		if d, err := s.Document(t.Context(), "kb", "a.txt"); err != nil || !d.Enabled {
			t.Errorf("%+v %v", d, err)
		}
		mustCheck(t, s, "kb")
		if readOnly {
			continue
		}
		if err := s.SetEnabled(t.Context(), "kb", "b.txt", false); err != nil {
			t.Fatal(err)
		}
		if rep := mustIngest(t, s, IngestRequest{Base: "kb", Sources: src}); rep.Updated != 2 {
			t.Errorf("%+v", rep)
		}
		r.Filter = filter.ContainsAny(FieldEntities, "Acme Cloud")
		if res := mustSearch(t, s, r); len(res.Items) != 1 || res.Items[0].Metadata.SourceID != "a.txt" {
			t.Errorf("%+v", res.Items)
		}
		if r.Filter = (filter.Filter{}); len(mustSearch(t, s, r).Items) != 1 {
			t.Error("the mark is lost")
		}
	}
}
