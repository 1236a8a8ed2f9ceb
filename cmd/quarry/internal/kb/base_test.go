package kb

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/knowledge"
)

func TestLifeOfABase(t *testing.T) {
	store, dir := filled(t)
	fails(t, 1, "already exists", "kb", "create", store, "docs")
	if out := ok(t, "kb", "add", store, "docs", dir); !strings.Contains(out, "docs: 0 added, 0 updated, 3 unchanged, 0 removed, 0 failed") {
		t.Errorf("a second time: %s", out)
	}
	write(t, filepath.Join(dir, "manual.txt"), "Press the blue button.\n")
	write(t, filepath.Join(dir, "new.md"), "# New\n\nSomething new.\n")
	write(t, filepath.Join(dir, "broken.pdf"), "no PDF at all")
	if err := os.Remove(filepath.Join(dir, "refunds.md")); err != nil {
		t.Fatal(err)
	}
	r := fails(t, 1, "1 source failed: broken.pdf: ", "kb", "add", store, "docs", dir, "--keep-vanished")
	if !strings.Contains(r.out, "1 added, 1 updated, 1 unchanged, 0 removed, 1 failed") || !strings.HasPrefix(r.out, "failed: broken.pdf: ") || strings.Contains(r.out+r.err, ": quarry: ") {
		t.Errorf("%s%s", r.out, r.err)
	}
	if out := ok(t, "kb", "add", store, "docs", dir, "--keep-going"); !strings.Contains(out, "0 added, 0 updated, 3 unchanged, 1 removed, 1 failed") {
		t.Error(out)
	}
	docs := decodeLines[knowledge.Document](t, ok(t, "kb", "list", store, "docs", "--json"))
	if len(docs) != 3 || docs[1].ID != "manual.txt" || docs[1].Version != 2 {
		t.Errorf("%+v", docs)
	}
	ok(t, "kb", "add", store, "docs", filepath.Join(folder(t, map[string]string{"single.md": "alone"}), "single.md"))
	out := ok(t, "kb", "list", store, "docs")
	for _, want := range []string{"DOCUMENT ", "single.md ", "guide/shipping.html ", "Shipping\n", "4 documents\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out := ok(t, "kb", "check", store); !strings.Contains(out, "docs          4") || !strings.HasSuffix(out, "ok\n") {
		t.Error(out)
	}
	if out := ok(t, "kb", "rm", store, "docs", "single.md", "never there"); out != "docs: removed 1 document\n" {
		t.Error(out)
	}
	if out := ok(t, "kb", "rebuild", store, "docs"); !strings.Contains(out, "3 added") && !strings.Contains(out, "3 updated") {
		t.Error(out)
	}
	ok(t, "kb", "create", store, "other", "--embed", "none")
	if out := ok(t, "kb", "rm", store, "docs"); out != "docs: removed the base and 3 documents\n" {
		t.Error(out)
	}
	bases := decodeLines[knowledge.BaseInfo](t, ok(t, "kb", "list", store, "--json"))
	if len(bases) != 1 || bases[0].ID != "other" || bases[0].Embedder != "" {
		t.Errorf("%+v", bases)
	}
}

func TestPrefixesAndReplace(t *testing.T) {
	store := filepath.Join(t.TempDir(), "s")
	ok(t, "kb", "create", store, "docs", "--embed", "none")
	one, two := folder(t, map[string]string{"a.md": "one"}), folder(t, map[string]string{"a.md": "two"})
	ok(t, "kb", "add", store, "docs", one)
	fails(t, 1, "came from", "kb", "add", store, "docs", two)
	ok(t, "kb", "add", store, "docs", two, "--prefix", "second")
	ok(t, "kb", "add", store, "docs", two, "--replace")
	docs := decodeLines[knowledge.Document](t, ok(t, "kb", "list", store, "docs", "--json"))
	if len(docs) == 0 || docs[0].Origin != filepath.ToSlash(two) {
		t.Errorf("%+v", docs)
	}
	fails(t, 1, "too large", "kb", "add", store, "docs", folder(t, map[string]string{"big.txt": "more than that"}), "--max-bytes", "5")
}

func TestWhatIsNotThere(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	for _, args := range [][]string{{"add", nowhere, "docs", t.TempDir()}, {"list", nowhere}, {"search", nowhere, "x"}, {"check", nowhere}, {"rm", nowhere, "docs"}, {"rebuild", nowhere, "docs"}} {
		fails(t, 1, "no knowledge base in "+nowhere, append([]string{"kb"}, args...)...)
	}
	if _, err := os.Stat(nowhere); err == nil {
		t.Error("it was made")
	}
	store, dir := filled(t)
	for _, args := range [][]string{{"add", store, "faq", dir}, {"list", store, "faq"}, {"search", store, "x", "-b", "faq"}, {"check", store, "faq"}, {"rm", store, "faq"}, {"rebuild", store, "faq"}} {
		fails(t, 1, `no knowledge base "faq"`, append([]string{"kb"}, args...)...)
	}
	fails(t, 1, "nothing.md", "kb", "add", store, "docs", filepath.Join(dir, "nothing.md"))
	fails(t, 1, "no model here", "kb", "create", store, "more", "--embed", "/broken")
	fails(t, 1, "id", "kb", "create", store, "../more")
}

// The chunk options of a base decide how its documents are cut, and a rebuild
// with --reset changes them.
func TestChunkOptions(t *testing.T) {
	store, dir := filepath.Join(t.TempDir(), "s"), folder(t, library)
	ok(t, "kb", "create", store, "docs", "--embed", "none", "--strategy", "count", "--unit", "page", "--size", "1", "--lang", "de")
	ok(t, "kb", "add", store, "docs", filepath.Join(dir, "manual.txt"))
	base := func() knowledge.BaseInfo {
		for _, b := range decodeLines[knowledge.BaseInfo](t, ok(t, "kb", "list", store, "--json")) {
			return b
		}
		return knowledge.BaseInfo{}
	}
	if b := base(); b.Chunks != 3 || b.Analyzer != "german" || b.Model != nil {
		t.Errorf("%+v", b)
	}
	ok(t, "kb", "rebuild", store, "docs", "--reset", "--strategy", "divide", "--unit", "word", "--size", "2")
	if b := base(); b.Chunks != 2 || b.Analyzer != knowledge.AnalyzerAuto || b.Model == nil || b.Embedder != models.E5 {
		t.Errorf("%+v", b)
	}
}

func TestDamageIsFound(t *testing.T) {
	store, _ := filled(t)
	blobs, err := filepath.Glob(filepath.Join(store, "bases", "docs", "blobs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, dir := range blobs {
		more, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(append(files, dir), more...)
	}
	damaged := 0
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
			write(t, f, "something else")
			damaged++
		}
	}
	if damaged == 0 {
		t.Fatal("no blobs")
	}
	r := fails(t, 1, "damaged bases: 1", "kb", "check", store)
	if !strings.Contains(r.out, "DAMAGED") || !strings.Contains(r.out, "PROBLEM: docs: ") {
		t.Error(r.out)
	}
}

func TestEmbedderNames(t *testing.T) {
	for _, c := range []struct {
		flags models.Flags
		want  string
		short string
	}{
		{models.Flags{}, "e5", "e5"},
		{models.Flags{Embed: "none"}, "", "none"},
		{models.Flags{Embed: "openai:small"}, "openai:small", "openai:small"},
		{models.Flags{Embed: "openai:small", EmbedURL: "http://localhost/v1", EmbedKeyEnv: "KEY"}, `{"model":"openai:small","url":"http://localhost/v1","key_env":"KEY"}`, "openai:small"},
	} {
		got, err := embedderName(c.flags)
		if err != nil || got != c.want || shortName(got) != c.short {
			t.Errorf("%+v: %q, %q, %v", c.flags, got, shortName(got), err)
		}
	}
	if got, err := embedderName(models.Flags{Embed: "model.qem"}); err != nil || !filepath.IsAbs(got) {
		t.Errorf("a path stays %q, %v: another working directory does not find it", got, err)
	}
	if _, _, err := OpenEmbedder(t.Context(), "{broken", ""); err == nil {
		t.Error("no error")
	}
	if _, _, err := OpenEmbedder(t.Context(), filepath.Join(t.TempDir(), "none.qem"), ""); err == nil {
		t.Error("no error")
	}
}

// The program's own model, with its cache, from end to end.
func TestRealEmbedder(t *testing.T) {
	if testing.Short() {
		t.Skip("loads a model of 80 MB")
	}
	store, dir := filepath.Join(t.TempDir(), "s"), folder(t, library)
	real := func(args ...string) string {
		t.Helper()
		r := command(t, nil, args...)
		if r.code != 0 {
			t.Fatalf("%v: %s", args, r.err)
		}
		return r.out
	}
	real("kb", "create", store, "docs")
	real("kb", "add", store, "docs", dir)
	if _, err := os.Stat(models.CacheDir(store)); err != nil {
		t.Error(err)
	}
	a := decode[answer](t, real("kb", "search", store, "can I get my money back", "--mode", "vector", "--rerank", "late", "--json"))
	if len(a.Items) == 0 || a.Items[0].Metadata.Source != "refunds.md" {
		t.Errorf("%+v", a.Items)
	}
}

// The progress of an ingest goes to stderr, only where somebody looks.
func TestProgress(t *testing.T) {
	var errs bytes.Buffer
	s := &session{Console: &console.Console{Stderr: &errs, Stdout: io.Discard}}
	if progress, done := s.bar("reading"); progress != nil {
		t.Error("progress without a terminal")
	} else {
		done()
	}
	s.Progress = true
	progress, done := s.bar("reading")
	progress(knowledge.Progress{Source: "a.md", Status: knowledge.Added, Chunks: 3, Done: 1, Total: 2})
	progress(knowledge.Progress{Source: "b\x1b.pdf", Status: knowledge.Failed, Done: 2, Total: 2, Err: errors.New("broken:\nquarry: all of it")})
	progress(knowledge.Progress{Source: "c.md", Status: knowledge.Removed, Done: 2, Total: 2})
	done()
	if out := errs.String(); !strings.Contains(out, "reading a.md") || !strings.Contains(out, "quarry: failed: b .pdf: broken:") {
		t.Errorf("%q", out)
	}
	_, done = s.bar("nothing")
	done()
}

// An interrupt ends an ingest with an error; what was done stays.
func TestInterrupt(t *testing.T) {
	store, dir := filled(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	c := addCmd{StoreArg: engine.StoreArg{Store: store}, ID: "docs", Paths: []string{dir}}
	err := c.Run(ctx, &session{Console: &console.Console{Stdout: &out, Stderr: io.Discard}, open: fake})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if out := ok(t, "kb", "check", store); !strings.Contains(out, "ok") {
		t.Error(out)
	}
}
