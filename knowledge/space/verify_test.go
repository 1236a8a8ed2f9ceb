package space

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/storage"
)

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// docx makes a DOCX file of one paragraph.
func docx(t testing.TB, text string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, data := range map[string]string{
		"[Content_Types].xml": `<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>`,
		"_rels/.rels":         `<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>`,
		"word/document.xml":   `<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>` + text + `</w:t></w:r></w:p></w:body></w:document>`,
	} {
		f, err := z.Create(name)
		must(t, err)
		_, err = f.Write([]byte(data))
		must(t, err)
	}
	must(t, z.Close())
	return b.Bytes()
}

// S3.8: source[start:end] of the stated version is the content and the hash is
// that of the source bytes; where the text is no copy of the source there are no
// offsets, and the content stands in the text that was made of it.
func TestS3_8_Verify(t *testing.T) {
	w := newWorld(t, nil, nil)
	html := "<!doctype html><title>Page</title><h1>Head</h1><p>Alpha &amp; <b>omega</b> in a page.</p>"
	w.addBase("a", nil, func(p *catalog.Profile) { p.TopK = 100 },
		knowledge.Source{Name: "guide.md", Data: []byte("\ufeff# Über\r\n\r\nAlpha 😀 in **Markdown**.\r\n\r\n## Next\r\n\r\nAlpha again, 語.\r\n")},
		knowledge.Source{Name: "page.html", Data: []byte(html)},
		knowledge.Source{Name: "letter.docx", Data: docx(t, "Alpha in a letter.")},
		knowledge.Source{Name: "plain.txt", Data: []byte("Alpha in plain text.\n")},
	)
	sources := make(map[string][]byte)
	for d, err := range w.kb.Documents(t.Context(), "a") {
		must(t, err)
		sources[d.ID] = value[[]byte](t)(w.kb.SourceBytes(t.Context(), "a", d.ArtifactHash))
	}
	with, without := 0, 0
	for _, m := range allModes {
		r := draft("alpha", "a")
		r.Mode, r.Verify = m, true
		res := w.retrieve(r)
		if len(res.Evidence) < 4 {
			t.Errorf("%s: %q", m, contents(res))
		}
		for _, e := range res.Evidence {
			c := e.Metadata.Citation
			must(t, w.Verify(t.Context(), e))
			if c.ArtifactHash != hashOf(string(sources[c.DocumentID])) {
				t.Errorf("%s: hash %s", c.DocumentID, c.ArtifactHash)
			}
			if c.StartOffset == nil {
				without++
				continue
			}
			with++
			if got := string(sources[c.DocumentID][*c.StartOffset:*c.EndOffset]); got != e.Content {
				t.Errorf("%s: source has %q, content is %q", c.DocumentID, got, e.Content)
			}
		}
	}
	if with == 0 || without == 0 {
		t.Errorf("%d pieces of evidence with offsets, %d without", with, without)
	}
}

// Evidence that was tampered with does not hold.
func TestVerifyForged(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.addBase("a", nil, nil, knowledge.Source{Name: "a.md", Data: []byte("Alpha one.\n")}, knowledge.Source{Name: "b.docx", Data: docx(t, "Beta two.")})
	w.add("b", nil, source("a.md", "Alpha one."))
	md := w.retrieve(draft("alpha", "a")).Evidence[0]
	letter := w.retrieve(draft("beta", "a")).Evidence[0]
	if md.Metadata.Citation.StartOffset == nil || letter.Metadata.Citation.StartOffset != nil {
		t.Fatal("the documents are not what the test is about")
	}
	at := func(n int) *int { return &n }
	for name, c := range map[string]struct {
		of    Evidence
		forge func(*Evidence)
		class error
	}{
		"content":         {md, func(e *Evidence) { e.Content = "Omega one." }, ErrEvidence},
		"no content":      {letter, func(e *Evidence) { e.Content = "" }, ErrEvidence},
		"start":           {md, func(e *Evidence) { e.Metadata.Citation.StartOffset = at(1) }, ErrEvidence},
		"end":             {md, func(e *Evidence) { e.Metadata.Citation.EndOffset = at(math.MaxInt) }, ErrEvidence},
		"negative":        {md, func(e *Evidence) { e.Metadata.Citation.StartOffset = at(-1) }, ErrEvidence},
		"reversed":        {md, func(e *Evidence) { e.Metadata.Citation.StartOffset, e.Metadata.Citation.EndOffset = at(5), at(2) }, ErrEvidence},
		"one offset":      {md, func(e *Evidence) { e.Metadata.Citation.EndOffset = nil }, ErrEvidence},
		"hash":            {md, func(e *Evidence) { e.Metadata.Citation.ArtifactHash = hashOf("x") }, ErrEvidence},
		"hash, no offset": {letter, func(e *Evidence) { e.Metadata.Citation.ArtifactHash = hashOf("x") }, ErrEvidence},
		"text":            {letter, func(e *Evidence) { e.Content = "Beta three." }, ErrEvidence},
		"offsets":         {letter, func(e *Evidence) { e.Metadata.Citation.StartOffset, e.Metadata.Citation.EndOffset = at(0), at(9) }, ErrEvidence},
		"version":         {md, func(e *Evidence) { e.Metadata.Citation.DocumentVersion = 2 }, storage.ErrNotFound},
		"version 0":       {md, func(e *Evidence) { e.Metadata.Citation.DocumentVersion = 0 }, storage.ErrNotFound},
		"document":        {md, func(e *Evidence) { e.Metadata.Citation.DocumentID = "c.md" }, storage.ErrNotFound},
		"space":           {md, func(e *Evidence) { e.Metadata.SpaceID = "none" }, catalog.ErrUnavailable},
		"other space":     {letter, func(e *Evidence) { e.Metadata.SpaceID = "b" }, storage.ErrNotFound},
	} {
		must(t, w.Verify(t.Context(), c.of))
		e := c.of
		c.forge(&e)
		if err := w.Verify(t.Context(), e); !errors.Is(err, c.class) {
			t.Errorf("%s: got %v, want %v", name, err, c.class)
		}
	}
}

// Evidence outlives its source: replaced, deleted, or under another document of
// the same name.
func TestVerifyReplaced(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.add("a", nil, source("a.txt", "alpha old"))
	old := w.retrieve(draft("alpha", "a")).Evidence[0]
	w.ingest("a", source("a.txt", "alpha new"))
	must(t, w.Verify(t.Context(), old))
	w.publish("a")
	res := w.retrieve(draft("alpha", "a"))
	wantContents(t, res, "alpha new")
	if c := res.Evidence[0].Metadata.Citation; c.DocumentVersion != 2 || c.ArtifactHash == old.Metadata.Citation.ArtifactHash {
		t.Errorf("cited %+v", c)
	}
	must(t, w.Verify(t.Context(), old)) // the base keeps the last versions
	must(t, w.Verify(t.Context(), res.Evidence[0]))

	// Deleted and made again: version 1 of that name is now two documents, one
	// of them in a generation that the snapshot of a workflow keeps.
	must(t, errOf(w.cat.Publish("ann", "flow", 1, []string{"a"})))
	must(t, errOf(w.kb.DeleteDocuments(t.Context(), "a", "a.txt")))
	w.ingest("a", source("a.txt", "alpha other"))
	w.publish("a")
	must(t, w.Verify(t.Context(), w.retrieve(draft("alpha", "a")).Evidence[0]))
	must(t, w.Verify(t.Context(), old))

	must(t, errOf(w.cat.Publish("ann", "flow", 1, []string{"a"})))
	must(t, w.Sweep(t.Context(), "a"))
	if err := w.Verify(t.Context(), old); !errors.Is(err, ErrEvidence) {
		t.Errorf("nothing keeps the old version, but %v", err)
	}
	if err := w.Verify(t.Context(), res.Evidence[0]); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("nothing keeps version 2, but %v", err)
	}
}

// A stored source that was replaced by another file is corrupt, and a retrieval
// that verifies gives no evidence at all.
func TestSourceFileReplaced(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.add("good", nil, source("g.txt", "alpha good"))
	w.add("a", nil, source("a.txt", "alpha one"), source("b.txt", "beta two"))
	e := w.retrieve(draft("alpha", "a")).Evidence[0]
	var blobs []string
	find(t, w.fs, "kb/bases/a", &blobs)
	fs := w.fs.(*storage.MemFS)
	n := 0
	for _, from := range blobs {
		for _, to := range blobs {
			if strings.HasSuffix(to, e.Metadata.Citation.ArtifactHash+".zst") && !strings.HasSuffix(from, e.Metadata.Citation.ArtifactHash+".zst") {
				must(t, fs.WriteFile(to, value[[]byte](t)(fs.ReadFile(from))))
				n++
			}
		}
	}
	if n == 0 {
		t.Fatalf("no blob was replaced: %q", blobs)
	}
	if err := w.Verify(t.Context(), e); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	r := draft("alpha", "good", "a")
	r.Verify = true
	w.refused(r, storage.ErrCorrupt, `space "a"`)
}

// find lists the blobs below a directory.
func find(t testing.TB, fs storage.FS, dir string, blobs *[]string) {
	for _, name := range value[[]string](t)(fs.List(dir)) {
		if sub, ok := strings.CutSuffix(name, "/"); ok {
			find(t, fs, dir+"/"+sub, blobs)
		} else if strings.HasSuffix(name, ".zst") {
			*blobs = append(*blobs, dir+"/"+name)
		}
	}
}
