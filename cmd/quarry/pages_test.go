package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
)

// pages are the documents whose commands a newcomer types. Their quarry
// commands are run here, in order, in one directory a page.
var pages = []string{"README.md", "TUNING.md", "OPERATING.md", "SCALE.md", "CONTRIBUTING.md"}

// skipped are commands of the pages that this test does not run, and why.
var skipped = map[string]string{
	"go":      "its targets are checked below",
	".ci/run": "it runs this test",

	".ci/cluster":            "it builds another engine",
	"bench/peers/vectors.sh": "it needs other engines",
}

// TestPages runs every command of the pages.
func TestPages(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every command of the pages")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			commands := commandsOf(t, filepath.Join(root, page))
			if len(commands) == 0 {
				t.Fatal("no commands")
			}
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			t.Setenv("GOROOT", partOfGOROOT(t))
			t.Chdir(t.TempDir())
			stage(t, page)
			for _, words := range commands {
				if words[0] != "quarry" {
					checkOther(t, root, words)
					continue
				}
				if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "://") }) {
					parseLine(t, words) // it needs a cluster
					continue
				}
				runLine(t, expand(t, words))
			}
		})
	}
}

// runLine runs a command of ours, which must succeed. A server is interrupted once
// it serves; what is redirected goes to its file.
func runLine(t *testing.T, words []string) {
	t.Helper()
	file := ""
	if i := slices.Index(words, ">"); i >= 0 {
		words, file = words[:i], words[i+1]
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &watched{until: "quarry serves", then: cancel}
	if words[1] == "mcp" {
		defer ownStreams(t)()
	}
	if words[1] == "serve" {
		words = append(words, "--listen", "127.0.0.1:0")
	}
	var errs bytes.Buffer
	if code := run(ctx, &console.Console{Stdin: strings.NewReader(""), Stdout: out, Stderr: &errs}, words[1:]); code != console.ExitOK {
		t.Errorf("%s: exit code %d: %s", strings.Join(words, " "), code, errs.String())
	}
	if words[1] == "serve" && ctx.Err() == nil {
		t.Errorf("%s: it never served", strings.Join(words, " "))
	}
	if file != "" {
		if err := os.WriteFile(file, out.Bytes(), 0o666); err != nil {
			t.Error(err)
		}
	}
}

// parseLine holds a command to the flags that there are.
func parseLine(t *testing.T, words []string) {
	t.Helper()
	var c cli
	p, err := newParser(t.Context(), &console.Console{Stdout: io.Discard, Stderr: io.Discard}, &c, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse(words[1:]); err != nil {
		t.Errorf("%s: %v", strings.Join(words, " "), err)
	}
}

// ownStreams gives a command that speaks a protocol on stdin and stdout, and
// closes both, an empty stdin and a stdout of its own.
func ownStreams(t *testing.T) (back func()) {
	t.Helper()
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	oldIn, oldOut := os.Stdin, os.Stdout
	os.Stdin, os.Stdout = in, out
	return func() { os.Stdin, os.Stdout = oldIn, oldOut }
}

// watched is a buffer that calls then once it was written a text.
type watched struct {
	bytes.Buffer
	until string
	then  func()
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.until) {
		w.then()
	}
	return n, err
}

// checkOther looks at a command that is not ours: what it names must be there.
func checkOther(t *testing.T, root string, words []string) {
	t.Helper()
	if _, ok := skipped[words[0]]; !ok {
		t.Errorf("%s: neither a quarry command nor one this test knows", strings.Join(words, " "))
		return
	}
	for _, w := range words[1:] {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(w, "/..."), "./"); ok && path != "..." {
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: %v", strings.Join(words, " "), err)
			}
		}
	}
	named := []string{}
	if strings.Contains(words[0], "/") {
		named = append(named, words[0])
	}
	if i := slices.Index(words, "-C"); i >= 0 {
		named = append(named, words[i+1])
	}
	for _, path := range named {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(path))); err != nil {
			t.Error(err)
		}
	}
}

var assignment = regexp.MustCompile(`^[A-Z_]+=`)

// commandsOf reads the commands in the fenced blocks of a page that have no
// language: one or more a line, with comments behind '#'.
func commandsOf(t *testing.T, file string) (out [][]string) {
	t.Helper()
	fenced, shell := false, false
	for line := range strings.Lines(readFile(t, file)) {
		line = strings.TrimSpace(line)
		if language, ok := strings.CutPrefix(line, "```"); ok {
			fenced, shell = !fenced, language == ""
			continue
		}
		if !fenced || !shell {
			continue
		}
		for _, words := range splitCommands(line) {
			for len(words) > 0 && assignment.MatchString(words[0]) {
				words = words[1:]
			}
			if len(words) > 2 && slices.Equal(words[:3], []string{"go", "run", "./cmd/quarry"}) {
				words = append([]string{"quarry"}, words[3:]...)
			}
			if len(words) > 0 {
				out = append(out, words)
			}
		}
	}
	return out
}

// splitCommands splits a line as a shell does: quotes, ';' and '#'.
func splitCommands(line string) (out [][]string) {
	var words []string
	word, in := "", false // in a word
	quote := rune(0)
	end := func() {
		if in {
			words = append(words, word)
		}
		word, in = "", false
	}
	for _, r := range line + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == '#' && !in:
			return append(out, words)
		case r == ';':
			end()
			out, words = append(out, words), nil
		case r == ' ' || r == '\t':
			end()
		default:
			word, in = word+string(r), true
		}
	}
	return append(out, words)
}

// expand replaces a word with '*' by the files it matches.
func expand(t *testing.T, words []string) (out []string) {
	t.Helper()
	for _, w := range words {
		files, err := filepath.Glob(w)
		if err != nil || len(files) == 0 || !strings.Contains(w, "*") {
			files = []string{w}
		}
		out = append(out, files...)
	}
	return out
}

// stage writes the files that the commands of a page name.
func stage(t *testing.T, page string) {
	t.Helper()
	write := func(name, content string) {
		t.Helper()
		if dir := filepath.Dir(name); dir != "." {
			if err := os.MkdirAll(dir, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var docs strings.Builder
	for i := range 20 {
		line, err := json.Marshal(map[string]any{"id": fmt.Sprint("d", i), "title": fmt.Sprint("Page ", i), "text": "How to unpack an archive with zero downtime.",
			"metadata": map[string]any{"lang": []string{"de", "en"}[i%2], "platform": "linux", "created": fmt.Sprintf("20%02d-01-01", 10+i)}})
		if err != nil {
			t.Fatal(err)
		}
		docs.Write(append(line, '\n'))
	}
	gz := readFile(t, writeFile(t, "docs.jsonl.gz", docs.String()))
	write("docs.jsonl.gz", gz)
	write("records.jsonl.gz", readFile(t, writeFile(t, "r.gz", `{"id":"a","title":"A","content":"one"}`+"\n"+`{"id":"b","title":"B","content":"two"}`+"\n")))
	write("embeddings.f32", strings.Repeat("\x00\x00\x80\x3f", 2*384)) // ones
	write("paper.pdf", paper)
	write("handbook/refunds.md", "# Refunds\n\nYou get a refund within 30 days of the purchase.\n\n# Passwords\n\nReset your password by the link below the form.\n")
	write("articles/login.md", "# Login\n\nReset your password by the link below the form.\n")
	write("notes.md", "# Notes\n\nVacation is 30 days.\n")
	write("guide.md", "# Guide\n\n"+strings.Repeat("One sentence after the other. ", 100))
	write("support.json", supportWorkflow)
	write("answers.yaml", answersWorkflow)
	write("scifact/corpus.jsonl", `{"id":"d1","title":"Cats","text":"The cats of the house"}`+"\n")
	write("scifact/queries.jsonl", `{"id":"q1","text":"cat"}`+"\n")
	write("scifact/qrels.tsv", "q1\td1\t1\n")
	write("passages.txt", "a passage about stone\nanother one about water\n")
	write("queries.txt", "stone\nwater\n")
	rng := rand.New(rand.NewPCG(5, 6))
	m := bench.Matrix[float32]{Dim: 8, Data: make([]float32, 200*8)}
	for i := range m.Data {
		m.Data[i] = float32(rng.NormFloat64())
	}
	truth, err := bench.Truth(t.Context(), m, m.Head(5), bench.Cosine, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{bench.WriteFvecs("b.fvecs", m), bench.WriteFvecs("q.fvecs", m.Head(5)), bench.WriteIvecs("t.ivecs", truth)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var rows strings.Builder
	for i := range 205 {
		fmt.Fprintf(&rows, `{"set":"stones","text":"stone number %d is hard"}`+"\n", i)
	}
	write("minilm-90k/rows.jsonl", rows.String())
	for _, err := range []error{bench.WriteFvecs("minilm-90k/base.fvecs", m), bench.WriteFvecs("minilm-90k/query.fvecs", m.Head(5)), bench.WriteIvecs("minilm-90k/gt.ivecs", truth)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	switch page { // pages that begin with an index or a base already there
	case "TUNING.md", "OPERATING.md", "SCALE.md":
		ok(t, "import", "idx", "docs.jsonl.gz", "--text", "title:english^2,text:english", "--meta", "*,created:time")
	}
	if page == "OPERATING.md" {
		ok(t, "kb", "create", "store", "docs")
		ok(t, "kb", "add", "store", "docs", "handbook")
	}
}

// supportWorkflow is the workflow of README.md: search, rerank, end.
const supportWorkflow = `{
	"nodes": [
		{"id": "s", "type": "start-node", "config": {"variables": ["user_message"]}},
		{"id": "k", "type": "search-knowledge-node", "config": {"knowledge_base_ids": ["docs"], "query": "{{user_message}}", "search_mode": "hybrid"}},
		{"id": "e", "type": "end-node", "config": {"outputs": ["search_results"]}}
	],
	"edges": [{"from": "s", "to": "k"}, {"from": "k", "to": "e"}]
}`

// answersWorkflow is one of another system, with a node that asks a space.
const answersWorkflow = `app: {name: Answers, mode: workflow}
kind: app
version: 0.3.1
workflow:
  graph:
    nodes:
      - {id: start, data: {type: start, variables: [{variable: user_message}]}}
      - id: evidence
        data: {type: knowledge-retrieval-v2, control_space_ids: [docs], query_variable_selector: [start, user_message], mode: deep}
      - {id: end, data: {type: end, outputs: [{variable: result, value_selector: [evidence, result]}]}}
    edges: [{source: start, target: evidence}, {source: evidence, target: end}]
`

// paper is a PDF of one page. It has no cross-reference table: readers mend that.
const paper = `%PDF-1.4
1 0 obj
<< /Type /Catalog /Pages 2 0 R >>
endobj
2 0 obj
<< /Type /Pages /Kids [3 0 R] /Count 1 >>
endobj
3 0 obj
<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>
endobj
4 0 obj
<< /Length 53 >>
stream
BT /F 12 Tf 20 200 Td (Stone is split by wedges.) Tj ET
endstream
endobj
5 0 obj
<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>
endobj
trailer
<< /Root 1 0 R >>
%%EOF
`
