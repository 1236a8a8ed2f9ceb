package kb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/knowledge"
)

func find(t *testing.T, args ...string) answer {
	t.Helper()
	return decode[answer](t, ok(t, append([]string{"kb", "search", "--json"}, args...)...))
}

func TestSearch(t *testing.T) {
	store, dir := filled(t)
	for mode, kind := range map[string]index.ScoreKind{"vector": index.ScoreCosine, "keyword": index.ScoreKeyword, "hybrid": index.ScoreRRF} {
		a := find(t, store, "green", "button", "--mode", mode)
		if len(a.Items) == 0 || a.Items[0].Kind != kind || a.Mode != knowledge.Mode(mode) || a.Query != "green button" {
			t.Fatalf("%s: %+v", mode, a)
		}
		m := a.Items[0].Metadata
		if m.Source != "manual.txt" || m.Page != 1 || m.KnowledgeBaseID != "docs" {
			t.Errorf("%s: %+v", mode, m)
		}
		source, err := os.ReadFile(filepath.Join(dir, m.Source))
		if err != nil || m.SourceStart == nil || string(source[*m.SourceStart:*m.SourceEnd]) != a.Items[0].Content {
			t.Errorf("%s: the citation does not hold: %v", mode, err)
		}
	}
	if a := find(t, store, "customs duty", "-k", "1"); len(a.Items) != 1 || cmp.Diff(a.Items[0].Metadata.SectionPath, []string{"Shipping", "Customs"}) != "" {
		t.Errorf("%+v", a.Items)
	}
	if a := find(t, store, "press", "--filter", `source = "refunds.md"`); len(a.Items) == 0 || a.Items[0].Metadata.Source != "refunds.md" {
		t.Errorf("by filter: %+v", a.Items)
	}
	if a := find(t, store, "zebra", "--mode", "keyword"); a.Items == nil || len(a.Items) != 0 {
		t.Errorf("an empty result is [], not %v", a.Items)
	}
	all, some := find(t, store, "refund purchase", "-k", "20"), find(t, store, "refund purchase", "-k", "20", "--min-score", "0.6")
	if len(some.Items) == 0 || len(some.Items) >= len(all.Items) || some.Items[len(some.Items)-1].Score < 0.6 {
		t.Errorf("%d of %d over the threshold", len(some.Items), len(all.Items))
	}
	if a := find(t, store, "red button", "--rerank", "late"); a.Items[0].Kind != knowledge.ScoreRerank || a.Items[0].RetrievalScore == nil {
		t.Errorf("reranked: %+v", a.Items[0])
	}
	if a := find(t, store, "refund", "--context", "30"); a.Context == nil || a.Context.Tokens > 30 || len(a.Context.Sources) == 0 {
		t.Errorf("%+v", a.Context)
	}
}

func TestSearchForReading(t *testing.T) {
	store, _ := filled(t)
	out := ok(t, "kb", "search", store, "customs", "duty")
	for _, want := range []string{"  1  1.0000  guide/shipping.html  Shipping > Customs  [docs #1, bytes ", "keyword #1, vector #1]\n     Customs The recipient pays", " of 1 base, hybrid, "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out := ok(t, "kb", "search", store, "red button", "-k", "1", "--full"); !strings.Contains(out, "manual.txt, p. 1") || !strings.Contains(out, "     Press the red button to stop it.") {
		t.Error(out)
	}
	out = ok(t, "kb", "search", store, "refund", "-k", "2", "--context", "100")
	if !strings.HasPrefix(out, "[1] refunds.md\n# Refund policy\n") || !strings.Contains(out, "\n[1] refunds.md  (docs, version 1)\n") || !strings.Contains(out, " tokens; 2 passages") {
		t.Error(out)
	}
	dir := folder(t, map[string]string{"evil.txt": "the \u202ered\u0085 word, which is \u0090 longer than its control characters\r\nand more"})
	ok(t, "kb", "add", store, "docs", filepath.Join(dir, "evil.txt"))
	for _, flag := range []string{"--full", "--context=50", "--rerank-keep"} {
		if out := ok(t, "kb", "search", store, "red word", flag, "--mode", "keyword"); strings.ContainsAny(out, "\u202e\u0085\u0090\r") {
			t.Errorf("%s: control characters in %q", flag, out)
		}
	}
}

// A keyword search opens no embedder, and a base without one is searched all
// the same.
func TestKeywordNeedsNoEmbedder(t *testing.T) {
	store, _ := filled(t)
	if r := command(t, none, "kb", "search", store, "refund", "--mode", "keyword"); r.code != 0 {
		t.Error(r.err)
	}
	for _, args := range [][]string{{"list", store}, {"list", store, "docs"}, {"check", store}, {"rm", store, "docs", "refunds.md"}} {
		if r := command(t, none, append([]string{"kb"}, args...)...); r.code != 0 {
			t.Errorf("%v: %s", args, r.err)
		}
	}
	if r := command(t, none, "kb", "search", store, "refund"); r.code != 1 || !strings.Contains(r.err, "no model here") {
		t.Errorf("%+v", r)
	}
	words := filepath.Join(t.TempDir(), "words")
	for _, args := range [][]string{{"create", words, "w", "--embed", "none"}, {"add", words, "w", folder(t, library)}, {"search", words, "refund"}} {
		if r := command(t, none, append([]string{"kb"}, args...)...); r.code != 0 {
			t.Errorf("%v: %s", args, r.err)
		}
	}
}

func TestSeveralBases(t *testing.T) {
	store, _ := filled(t)
	ok(t, "kb", "create", store, "faq", "--embed", "none")
	ok(t, "kb", "add", store, "faq", folder(t, map[string]string{"faq.md": "# Refund\n\nHow do I get a refund? Ask billing.\n"}))
	a := find(t, store, "refund billing", "-k", "10")
	seen := map[string]bool{}
	for _, it := range a.Items {
		seen[it.Metadata.KnowledgeBaseID] = true
	}
	if len(a.Bases) != 2 || !seen["docs"] || !seen["faq"] || a.Merge != knowledge.MergeRank {
		t.Errorf("%+v", a.Response)
	}
	if out := ok(t, "kb", "search", store, "refund"); !strings.Contains(out, " of 2 bases, hybrid and keyword, ") {
		t.Error(out)
	}
	if a := find(t, store, "refund", "-b", "faq"); len(a.Bases) != 1 || a.Items[0].Metadata.KnowledgeBaseID != "faq" {
		t.Errorf("%+v", a.Response)
	}
	fails(t, 1, `no knowledge base "gone"`, "kb", "search", store, "refund", "-b", "docs,gone")
	r := command(t, fake, "kb", "search", store, "refund", "-b", "docs,gone", "--partial")
	if r.code != 0 || !strings.Contains(r.err, "degraded: base-missing:gone") {
		t.Errorf("%+v", r)
	}
}

func TestChunk(t *testing.T) {
	dir := folder(t, library)
	path := filepath.Join(dir, "manual.txt")
	text := []rune(library["manual.txt"])
	units := utf16.Encode(text)
	lines := decodeLines[chunkLine](t, ok(t, "chunk", path, "--strategy", "count", "--unit", "sentence", "--size", "1", "--overlap", "0", "--json"))
	if len(lines) != 3 {
		t.Fatalf("%d chunks", len(lines))
	}
	for i, l := range lines {
		if l.Index != i || l.Page != i+1 || l.Tokens == 0 || library["manual.txt"][l.Start:l.End] != l.Text || library["manual.txt"][*l.SourceStart:*l.SourceEnd] != l.Text ||
			string(text[l.RuneStart:l.RuneEnd]) != l.Text || string(utf16.Decode(units[l.UTF16Start:l.UTF16End])) != l.Text {
			t.Errorf("%+v", l)
		}
	}
	// Offsets of the source are those of the file, behind the front matter.
	md := decodeLines[chunkLine](t, ok(t, "chunk", filepath.Join(dir, "refunds.md"), "--json"))
	if len(md) != 3 || cmp.Diff(md[1].SectionPath, []string{"Refund policy", "Exceptions"}) != "" || library["refunds.md"][*md[1].SourceStart:*md[1].SourceEnd] != md[1].Text {
		t.Errorf("%+v", md)
	}
	// What the dry run shows is what a base makes.
	store, _ := filled(t)
	a := find(t, store, "gift cards", "-k", "1")
	if m := a.Items[0].Metadata; a.Items[0].Content != md[1].Text || m.StartOffset != md[1].Start || m.ChunkIndex != md[1].Index {
		t.Errorf("%+v is not %+v", a.Items[0], md[1])
	}
	out := ok(t, "chunk", filepath.Join(dir, "refunds.md"))
	for _, want := range []string{"BYTES", "SECTION", "Refund policy > Exceptions", "markdown, 3 sections", "3 chunks, at most "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out := ok(t, "chunk", path, "--full", "--embed", "none", "--strategy", "count", "--unit", "custom", "--separator", `\f`, "--size", "1", "--overlap", "0"); !strings.Contains(out, "#1 ") || !strings.Contains(out, "     Press the red button to stop it.\n") || !strings.Contains(out, "3 chunks") {
		t.Error(out)
	}
	fails(t, 1, "broken.pdf", "chunk", write2(t, "broken.pdf", "no PDF"))
	fails(t, 1, "nothing.md", "chunk", filepath.Join(dir, "nothing.md"))
}

func write2(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	write(t, path, text)
	return path
}
