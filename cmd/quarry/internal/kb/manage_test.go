package kb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge"
)

func TestGetAndExpand(t *testing.T) {
	store, dir := filled(t)
	write(t, filepath.Join(dir, "refunds.md"), library["refunds.md"]+"\nAnd more.\n")
	ok(t, "kb", "add", store, "docs", dir)
	d := decode[knowledge.Document](t, ok(t, "kb", "get", store, "docs", "refunds.md", "--json"))
	if d.Version != 2 || !d.Enabled || d.SourceID != "refunds.md" {
		t.Errorf("%+v", d)
	}
	if out := ok(t, "kb", "get", store, "docs", "refunds.md"); !strings.Contains(out, "title ") || !strings.Contains(out, d.ArtifactHash) || strings.Contains(out, "disabled") {
		t.Error(out)
	}
	if out := ok(t, "kb", "get", store, "docs", "refunds.md", "--bytes"); out != library["refunds.md"]+"\nAnd more.\n" {
		t.Errorf("%q", out)
	}
	if out := ok(t, "kb", "get", store, "docs", "refunds.md", "--bytes", "--version", "1"); out != library["refunds.md"] {
		t.Errorf("%q", out)
	}
	fails(t, 1, "version 3", "kb", "get", store, "docs", "refunds.md", "--bytes", "--version", "3")
	fails(t, 1, `document "nobody"`, "kb", "get", store, "docs", "nobody")
	p := decode[knowledge.Passage](t, ok(t, "kb", "expand", store, "docs", "refunds.md#00000001", "--before", "1", "--json"))
	if p.Start != 0 && !strings.Contains(p.Text, "# Refund policy") || !strings.Contains(p.Text, "final sale") {
		t.Errorf("%+v", p)
	}
	if out := ok(t, "kb", "expand", store, "docs", "refunds.md#00000001", "--section"); !strings.HasPrefix(out, "refunds.md  [bytes ") || !strings.Contains(out, "\n     ## Exceptions") {
		t.Error(out)
	}
	fails(t, 1, "chunk", "kb", "expand", store, "docs", "refunds.md#00000099")
	fails(t, 1, "chunk id", "kb", "expand", store, "docs", "refunds.md")
}

// G10 from the command line.
func TestDisableAndEnable(t *testing.T) {
	store, _ := filled(t)
	found := func() bool {
		return strings.Contains(ok(t, "kb", "search", store, "refund", "--mode", "keyword"), "refunds.md")
	}
	if !found() {
		t.Fatal("it is not found at all")
	}
	if out := ok(t, "kb", "disable", store, "docs", "refunds.md"); out != "docs: 1 document disabled\n" {
		t.Error(out)
	}
	if found() {
		t.Error("found although it is disabled")
	}
	fails(t, 1, "disabled", "kb", "expand", store, "docs", "refunds.md#00000000")
	if out := ok(t, "kb", "list", store, "docs"); strings.Count(out, "disabled") != 1 {
		t.Error(out)
	}
	if out := ok(t, "kb", "get", store, "docs", "refunds.md"); !strings.Contains(out, "disabled") {
		t.Error(out)
	}
	fails(t, 1, `no document "nobody"`, "kb", "disable", store, "docs", "nobody")
	ok(t, "kb", "enable", store, "docs", "refunds.md")
	if !found() {
		t.Error("not found although it is enabled again")
	}
}

func TestFreeze(t *testing.T) {
	store, dir := filled(t)
	if out := ok(t, "kb", "freeze", store, "docs"); !strings.HasPrefix(out, "docs@1: 3 documents, ") {
		t.Error(out)
	}
	if err := os.Remove(filepath.Join(dir, "refunds.md")); err != nil {
		t.Fatal(err)
	}
	ok(t, "kb", "add", store, "docs", dir)
	ok(t, "kb", "rebuild", store, "docs", "--reset", "--embed", "none")
	for _, mode := range []string{"keyword", "hybrid"} { // the generation keeps its embedder
		if out := ok(t, "kb", "search", store, "refund", "-b", "docs@1", "--mode", mode); !strings.Contains(out, "refunds.md") {
			t.Errorf("%s: %s", mode, out)
		}
	}
	if out := ok(t, "kb", "search", store, "refund", "-b", "docs", "--mode", "keyword"); strings.Contains(out, "refunds.md") {
		t.Error(out)
	}
	if out := ok(t, "kb", "get", store, "docs@1", "refunds.md", "--bytes"); out != library["refunds.md"] {
		t.Errorf("%q", out)
	}
	if out := ok(t, "kb", "list", store, "docs@1"); !strings.Contains(out, "3 documents") {
		t.Error(out)
	}
	if out := ok(t, "kb", "check", store, "docs@1"); !strings.Contains(out, "docs@1") || !strings.HasSuffix(out, "ok\n") {
		t.Error(out)
	}
	if out := ok(t, "kb", "freeze", store, "docs", "--list"); !strings.HasPrefix(out, "docs@1: 3 documents") || strings.Count(out, "\n") != 1 {
		t.Error(out)
	}
	if out := ok(t, "kb", "freeze", store, "docs", "--drop", "1"); out != "docs@1: removed\n" {
		t.Error(out)
	}
	fails(t, 1, `no knowledge base "docs@1"`, "kb", "search", store, "refund", "-b", "docs@1")
	fails(t, 1, "docs@1", "kb", "freeze", store, "docs", "--drop", "1")
	fails(t, 1, "want an id", "kb", "list", store, "docs@one")
}

func TestPruneAndParseOptions(t *testing.T) {
	store, dir := filled(t)
	write(t, filepath.Join(store, "bases", "docs", "blobs", strings.Repeat("a", 64)+".zst"), "left by a crash")
	if out := ok(t, "kb", "prune", store); !strings.Contains(out, "docs: 1 stored file removed\n") {
		t.Error(out)
	}
	// A damaged index file is found by the check, too.
	files, err := filepath.Glob(filepath.Join(store, "bases", "docs", "index-1", "wal-*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 0xFF
	write(t, files[0], string(data))
	r := command(t, fake, "kb", "check", store, "docs")
	if r.code != 1 {
		t.Errorf("a damaged log: exit code %d\n%s", r.code, r.out)
	}
	store = filepath.Join(t.TempDir(), "s")
	ok(t, "kb", "create", store, "cyrillic", "--embed", "none", "--charset", "windows-1251", "--format", "text")
	ok(t, "kb", "add", store, "cyrillic", write2(t, "note.md", "# \xcf\xf0\xe8\xe2\xe5\xf2"))
	if out := ok(t, "kb", "search", store, "привет"); !strings.Contains(out, "# Привет") {
		t.Errorf("%s%s", dir, out)
	}
	d := decode[knowledge.Document](t, ok(t, "kb", "get", store, "cyrillic", "note.md", "--json"))
	if d.Format != "text" {
		t.Errorf("%+v", d)
	}
}
