package knowledge

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/parse"
	"github.com/quarrysearch/quarry/storage"
)

// docx packs a body as a DOCX file.
func docx(t testing.TB, body string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, data := range map[string]string{"[Content_Types].xml": "<Types/>",
		"word/document.xml": `<w:document xmlns:w="w"><w:body><w:p><w:r><w:t>` + body + `</w:t></w:r></w:p></w:body></w:document>`} {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(data))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Files that are empty, binary, encrypted, cut, lie about their encoding, or are
// bombs: each is brought in or fails by itself, with its reason; the others go
// on, and what is in the base holds.
func TestBadFiles(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{Embedder: newWords("w", 16)})
	mustCreate(t, s, "kb", nil)
	whole := docx(t, "hello word")
	cases := []struct {
		name string
		data []byte
		want error // nil: it comes in
	}{
		{"good.md", []byte("# Good\n\nwords"), nil},
		{"empty.md", nil, nil},
		{"empty.html", nil, nil},
		{"blank.txt", []byte(" \n\u200b\n\ufeff"), nil},
		{"empty.pdf", nil, storage.ErrCorrupt},
		{"empty.docx", nil, storage.ErrCorrupt},
		{"binary.txt", bytes.Repeat([]byte{0, 1, 2, 3, 250}, 100), parse.ErrUnsupported},
		{"program.md", []byte("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 100)), parse.ErrUnsupported},
		{"encrypted.docx", []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1E\x00n\x00c\x00r\x00y\x00p\x00t\x00e\x00d\x00P\x00a\x00c\x00k\x00a\x00g\x00e\x00"), parse.ErrEncrypted},
		{"whole.docx", whole, nil},
		{"cut.docx", whole[:len(whole)/2], storage.ErrCorrupt},
		{"bomb.docx", docx(t, strings.Repeat("a", 16<<20)), storage.ErrTooLarge},
		{"noise.pdf", []byte("%PDF-1.7\n" + strings.Repeat("1 0 obj << /A ", 200)), storage.ErrCorrupt},
		{"deep.json", []byte(strings.Repeat("[", 5000) + strings.Repeat("]", 5000)), storage.ErrTooLarge},
		{"says-utf8.html", []byte("<meta charset=utf-8><p>caf\xe9 na\xefve"), nil},
		{"says-utf16.html", []byte("<meta charset=utf-16><p>plain words"), nil},
		{"bom-utf16.txt", []byte("\xff\xfeplain words, no UTF-16"), nil},
		{"half-utf16.txt", []byte("\xfe\xff\x00a\x00b\x00"), nil},
		{"cut-utf8.txt", []byte("words and \xe2\x82"), nil},
		{"surrogates.txt", []byte("\xed\xa0\x80 words \xf4\x90\x80\x80 more"), nil},
	}
	var src []Source
	for _, c := range cases {
		src = append(src, Source{Name: c.name, Data: c.data})
	}
	rep := mustIngest(t, s, IngestRequest{Base: "kb", Sources: src})
	for _, c := range cases {
		i := slices.IndexFunc(rep.Failed, func(f Failure) bool { return f.Source == c.name })
		switch {
		case c.want == nil && i >= 0:
			t.Errorf("%s: %v", c.name, rep.Failed[i].Err)
		case c.want != nil && (i < 0 || !errors.Is(rep.Failed[i].Err, c.want) || rep.Failed[i].Reason == ""):
			t.Errorf("%s: %+v, want %v", c.name, rep.Failed, c.want)
		}
		if c.want != nil {
			continue
		}
		d, err := s.Document(t.Context(), "kb", c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for n := range d.Chunks {
			if p, err := s.Expand(t.Context(), "kb", chunkID(c.name, n), ExpandOptions{}); err != nil || !utf8.ValidString(p.Text) {
				t.Errorf("%s: %q %v", c.name, p.Text, err)
			}
		}
	}
	if got := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "café naïve", Mode: Keyword}); len(got.Items) == 0 {
		t.Error("a page that lies about its encoding is not found by its words")
	}
	mustCheck(t, s, "kb")
}

// Files that never end: a device, and a file that goes on whatever its size says.
func TestEndlessFiles(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{})
	mustCreate(t, s, "kb", nil)
	if _, err := os.Stat("/dev/zero"); err == nil {
		rep := mustIngest(t, s, IngestRequest{Base: "kb", Files: []File{{Path: "/dev/zero", Name: "zero.txt"}}, Sources: []Source{text("good.txt", "words")}})
		if len(rep.Failed) != 1 || !errors.Is(rep.Failed[0].Err, storage.ErrInvalid) || rep.Added != 1 {
			t.Errorf("%+v", rep)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for err == nil {
			_, err = w.Write(make([]byte, 4096))
		}
	}()
	p := place{name: "endless.txt", open: func() (openedSource, error) { return openedSource{file: r, size: 0}, nil }}
	if data, _, err := p.read(100_000); !errors.Is(err, storage.ErrTooLarge) || len(data) > 100_001 {
		t.Errorf("%d bytes: %v", len(data), err)
	}
	<-done
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	// In a folder a pipe would block whoever opens it: it is passed over.
	if !pipe(filepath.Join(t.TempDir(), "probe")) {
		return
	}
	dir := t.TempDir()
	pipe(filepath.Join(dir, "pipe.md"))
	rep := mustIngest(t, s, IngestRequest{Base: "kb", Folders: []Folder{{Path: dir}}})
	if len(rep.Skipped) != 1 || !strings.Contains(rep.Skipped[0].Reason, "regular") {
		t.Errorf("%+v", rep)
	}
}

// An embedder whose dimension changes: in the middle of an ingest, at a query,
// and together with its identity. The base never holds vectors of two lengths.
func TestEmbedderChangesDimension(t *testing.T) {
	e := newWords("w", 16)
	s := openMem(t, storage.NewMemFS(), Options{Embedder: e})
	mustCreate(t, s, "kb", &BaseOptions{Chunk: lines()})
	var src []Source
	for i := range 40 {
		src = append(src, text(fmt.Sprintf("%02d.txt", i), strings.Repeat(fmt.Sprintf("line %d\n", i), 40)))
	}
	shrink := func(_ embed.Kind, texts []string, r *embed.Result) error {
		r.Vectors = r.Vectors[:len(texts)*8]
		return nil
	}
	e.hook = func(k embed.Kind, texts []string, r *embed.Result) error {
		if e.calls.Load() < 3 {
			return nil
		}
		return shrink(k, texts, r)
	}
	rep, err := s.Ingest(t.Context(), IngestRequest{Base: "kb", Sources: src})
	if !errors.Is(err, embed.ErrContract) || !strings.Contains(err.Error(), "16 dimensions") {
		t.Errorf("in the middle: %+v %v", rep, err)
	}
	e.hook = nil
	if c := mustCheck(t, s, "kb"); c.Documents != rep.Added {
		t.Errorf("%d documents, %d reported", c.Documents, rep.Added)
	}
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: src})
	e.hook = shrink
	if _, err := s.Search(t.Context(), Request{Bases: []string{"kb"}, Query: "line 7"}); !errors.Is(err, embed.ErrContract) {
		t.Errorf("at a query: %v", err)
	}
	res, err := s.Search(t.Context(), Request{Bases: []string{"kb"}, Query: "line 7", Mode: Hybrid, OnError: Partial})
	if err != nil || !slices.Equal(res.Flags, []string{FlagDense}) || len(res.Items) == 0 {
		t.Errorf("partial: %+v %v", res, err)
	}
	e.hook, e.id.Dim = nil, 8
	for what, err := range map[string]error{
		"search": second(s.Search(t.Context(), Request{Bases: []string{"kb"}, Query: "line 7"})),
		"ingest": second(s.Ingest(t.Context(), IngestRequest{Base: "kb", Sources: src})),
	} {
		if !errors.Is(err, ErrModel) {
			t.Errorf("%s with another identity: %v", what, err)
		}
	}
}

// FuzzCatalog: whatever base.json holds, it is refused or names a directory of
// the base's own.
func FuzzCatalog(f *testing.F) {
	fs := storage.NewMemFS()
	s, err := Open("kb", &Options{FS: fs, Embedder: newWords("w", 4)})
	if err != nil {
		f.Fatal(err)
	}
	_, err = s.Create(context.Background(), "a", nil)
	if err == nil {
		_, err = s.Ingest(context.Background(), IngestRequest{Base: "a", Sources: []Source{text("x.txt", "one")}})
	}
	if err == nil {
		_, err = s.Freeze(context.Background(), "a")
	}
	if err = errors.Join(err, s.Close()); err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"kb/bases/a/base.json", "kb/bases/a/gen-1/base.json"} {
		data, err := fs.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"version":1,"id":"a","index":"index-1/../x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		fs := storage.NewMemFS()
		if err := errors.Join(fs.MkdirAll("kb/bases/a"), fs.WriteFile("kb/bases/a/base.json", data)); err != nil {
			t.Fatal(err)
		}
		cat, err := readCatalog(fs, "kb/bases/a", "a", 0)
		if err != nil {
			if !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrVersion) && !errors.Is(err, storage.ErrTooLarge) {
				t.Errorf("%v", err)
			}
			return
		}
		if strings.ContainsAny(cat.Index, `/\.`) || cat.ID != "a" || cat.Generation != 0 {
			t.Errorf("%+v", cat)
		}
		// It opens, or says why not.
		s, err := Open("kb", &Options{FS: fs, Embedder: newWords("w", 4)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, _ = s.Base(t.Context(), "a")
	})
}
