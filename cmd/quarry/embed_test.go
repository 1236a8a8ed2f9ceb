package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/ingest"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// tinyHub writes a model of random weights as the hub lays it out: one layer of
// 32 dimensions, letters for a vocabulary, texts cut at 12 tokens.
func tinyHub(t *testing.T, name string) string {
	t.Helper()
	vocab := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}
	for c := 'a'; c <= 'z'; c++ {
		vocab = append(vocab, string(c), "##"+string(c))
	}
	config, err := json.Marshal(map[string]any{"_name_or_path": name, "model_type": "bert", "hidden_act": "gelu", "hidden_size": 32,
		"num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 64, "vocab_size": len(vocab), "max_position_embeddings": 12,
		"layer_norm_eps": 1e-12, "pad_token_id": 0})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for file, data := range map[string][]byte{"config.json": config, "vocab.txt": []byte(strings.Join(vocab, "\n") + "\n"),
		"model.safetensors": tinyWeights(len(vocab), name)} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func tinyWeights(vocab int, name string) []byte {
	shapes := map[string][]int{"embeddings.word_embeddings.weight": {vocab, 32}, "embeddings.position_embeddings.weight": {12, 32},
		"embeddings.token_type_embeddings.weight": {2, 32}}
	add := func(name string, shape ...int) {
		shapes[name+".weight"], shapes[name+".bias"] = shape, shape[:1]
	}
	add("embeddings.LayerNorm", 32)
	for _, p := range []string{"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"} {
		add("encoder.layer.0."+p, 32, 32)
	}
	add("encoder.layer.0.attention.output.LayerNorm", 32)
	add("encoder.layer.0.intermediate.dense", 64, 32)
	add("encoder.layer.0.output.dense", 32, 64)
	add("encoder.layer.0.output.LayerNorm", 32)
	h := fnv.New64a()
	h.Write([]byte(name))
	rng := rand.New(rand.NewPCG(1, h.Sum64()))
	head, data := map[string]any{}, []byte{}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		start, n := len(data), 1
		for _, d := range shapes[name] {
			n *= d
		}
		for range n {
			data = storage.AppendF32(data, float32(rng.NormFloat64()*0.3))
		}
		head[name] = map[string]any{"dtype": "F32", "shape": shapes[name], "data_offsets": [2]int{start, len(data)}}
	}
	j, _ := json.Marshal(head) // strings and integers: cannot fail
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(j))), j...), data...)
}

// A fakeService answers in Ollama's form: a vector is the sum of its words' own
// directions, so that texts of the same words are near. It counts texts.
type fakeService struct {
	*httptest.Server
	texts atomic.Int64
}

func newFakeService(t *testing.T, dim int) *fakeService {
	s := new(fakeService)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Input []string }
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &in)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.texts.Add(int64(len(in.Input)))
		out := make([][]float64, len(in.Input))
		for i, text := range in.Input {
			out[i] = make([]float64, dim)
			for word := range strings.FieldsSeq(strings.ToLower(text)) {
				h := fnv.New64a()
				h.Write([]byte(word))
				rng := rand.New(rand.NewPCG(7, h.Sum64()))
				for j := range out[i] {
					out[i][j] += rng.NormFloat64()
				}
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"embeddings": out}) // a client that went away
	}))
	t.Cleanup(s.Close)
	return s
}

func TestModelFiles(t *testing.T) {
	hub := tinyHub(t, "made/up")
	qem := filepath.Join(t.TempDir(), "m.qem")
	made := decode[models.Info](t, ok(t, "model", "convert", hub, qem, "--json"))
	info := decode[models.Info](t, ok(t, "model", "info", qem, "--json"))
	if made != info || info.Name != "made/up" || info.Dim != 32 || info.Limit != 12 || len(info.SHA256) != 64 || !strings.HasPrefix(info.Revision, "sha256:") {
		t.Errorf("made %+v, is %+v", made, info)
	}
	if out := ok(t, "model", "info", qem); !strings.Contains(out, info.SHA256) || !strings.HasPrefix(out, "made/up\n") {
		t.Error(out)
	}
	texts := writeFile(t, "t.txt", "stone quarry\na b c\n")
	a, b := filepath.Join(t.TempDir(), "a.fvecs"), filepath.Join(t.TempDir(), "b.fvecs")
	ok(t, "embed", texts, "--embed", hub, "--out", a)
	ok(t, "embed", texts, "--embed", qem, "--out", b)
	if x, y := readFile(t, a), readFile(t, b); x != y || len(x) != 2*(4+4*32) {
		t.Error("directory and compact file give different vectors")
	}
	data := []byte(readFile(t, qem))
	data[len(data)/2] ^= 1
	damaged := filepath.Join(t.TempDir(), "damaged.qem")
	if err := os.WriteFile(damaged, data, 0o666); err != nil {
		t.Fatal(err)
	}
	fails(t, console.ExitFailed, "damaged.qem", "model", "info", damaged)
	fails(t, console.ExitFailed, "is no model", "model", "convert", texts, qem)
	fails(t, console.ExitFailed, "multilingual-e5-small", "model", "convert", writeFile(t, "m.onnx", ""), qem)
	fails(t, console.ExitFailed, "no tokenizer.json", "model", "convert", writeFile(t, "m.onnx", ""), qem, "--profile", "all-MiniLM-L6-v2")
	fails(t, console.ExitFailed, "none", "model", "convert", filepath.Join(hub, "none"), qem)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEmbed(t *testing.T) {
	hub := tinyHub(t, "made/up")
	dir := t.TempDir()
	out, cache := filepath.Join(dir, "v.fvecs"), filepath.Join(dir, "cache")
	args := []string{"embed", "--embed", hub, "--out", out, "--cache", cache, "--json"}
	lines := "one\n\none\n" + strings.Repeat("stone ", 20) + "\nlast"
	s := decode[embedSummary](t, ok(t, append(args, writeFile(t, "t.txt.gz", lines))...))
	if s.Texts != 5 || s.Dim != 32 || s.Blank != 1 || !slices.Equal(s.Truncated, []int{4}) || s.Cached != 1 {
		t.Errorf("%+v", s)
	}
	v, err := bench.ReadVectors(out, 0)
	if err != nil || v.Rows() != 5 || !slices.Equal(v.Row(0), v.Row(2)) || slices.Equal(v.Row(0), v.Row(4)) || slices.Max(v.Row(1)) != 0 {
		t.Errorf("%d rows, %v", v.Rows(), err)
	}
	first := readFile(t, out)
	r := command(t.Context(), strings.NewReader(`{"a":"one"}`+"\n\n"+`{"a":"one","b":7}`+"\n"+`{"b":"x","a":["`+strings.Repeat("stone ", 20)+`"]}`+"\n"+`{"a":"last"}`), append(args, "--text", "a")...)
	if s := decode[embedSummary](t, r.out); s.Texts != 5 || s.Cached != 4 || readFile(t, out) != first {
		t.Errorf("from JSON: %+v, %s", s, r.err)
	}
	bare := filepath.Join(dir, "v.f32")
	ok(t, "embed", "--embed", hub, "--out", bare, "--kind", "query", writeFile(t, "q.txt", "one\n"))
	if v, err := bench.ReadVectors(bare, 32); err != nil || v.Rows() != 1 {
		t.Error(v.Rows(), err)
	}
	fails(t, console.ExitFailed, "t.txt:1: ", "embed", "--embed", hub, "--out", out, "--text", "a", writeFile(t, "t.txt", "no JSON\n"))
	fails(t, console.ExitFailed, ".fvecs or .f32", "embed", "--embed", hub, "--out", "v.bin", writeFile(t, "t.txt", "x\n"))
	fails(t, console.ExitFailed, "no model at", "embed", "--embed", filepath.Join(dir, "none"), "--out", out, writeFile(t, "t.txt", "x\n"))
	fails(t, console.ExitUsage, "no service", "embed", "--embed", hub, "--embed-url", "http://x", "--out", out, writeFile(t, "t.txt", "x\n"))
	fails(t, console.ExitUsage, "behind the colon", "embed", "--embed", "openai:", "--out", out, writeFile(t, "t.txt", "x\n"))
	if names, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(names) > 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	if readFile(t, out) != first {
		t.Error("a failed command replaced its file")
	}
}

const embedDocs = `{"id":"cat","title":"Cats","text":"cats sleep"}
{"id":"dog","title":"Dogs","text":"hounds bark"}
{"id":"none","text":" "}
`

func TestImportAndSearchByModel(t *testing.T) {
	s := newFakeService(t, 16)
	dir := filepath.Join(t.TempDir(), "idx")
	docs := writeFile(t, "d.jsonl", embedDocs)
	with := []string{"--embed", "ollama:made-up", "--embed-url", s.URL}
	sum := decode[importSummary](t, ok(t, append([]string{"import", dir, docs, "--json"}, with...)...))
	if sum.Documents != 3 || sum.Embedded != 2 || sum.Cached != 0 || sum.Model != "ollama/made-up" {
		t.Errorf("%+v", sum)
	}
	record, err := models.ReadRecord(dir)
	if err != nil || record.Field != "embedding" || record.Model.Dim != 16 || record.Source.URL != s.URL {
		t.Fatalf("%+v, %v", record, err)
	}

	before := s.texts.Load()
	sum = decode[importSummary](t, ok(t, "import", dir, docs, "--json")) // the model on record
	if sum.Embedded != 2 || sum.Cached != 2 || s.texts.Load() != before {
		t.Errorf("unchanged text was embedded again: %+v, %d texts", sum, s.texts.Load()-before)
	}

	if r := search(t, dir, "hounds", "quarrel"); ids(r) != "dog cat" || r.Hits[0].Vector == nil || r.Hits[1].Vector == nil {
		t.Errorf("hybrid by default: %+v", r.Hits)
	}
	before = s.texts.Load()
	if r := search(t, dir, "hounds", "--mode", "keyword"); ids(r) != "dog" {
		t.Errorf("keyword: %s", ids(r))
	}
	if r := search(t, dir, "hounds", "bark", "--and"); ids(r) != "dog" || s.texts.Load() != before {
		t.Errorf("all words: %s, %d texts embedded", ids(r), s.texts.Load()-before)
	}
	if r := search(t, dir, "sleep", "cats", "--mode", "vector"); ids(r) != "cat dog" {
		t.Errorf("vector: %s", ids(r))
	}

	other := newFakeService(t, 16)
	if r := search(t, dir, "hounds", "--embed", "ollama:made-up", "--embed-url", other.URL); ids(r) != "dog cat" || other.texts.Load() == 0 {
		t.Errorf("the model elsewhere: %s", ids(r))
	}
	to := filepath.Join(t.TempDir(), "copy")
	ok(t, "backup", dir, to)
	if r := search(t, to, "hounds"); ids(r) != "dog cat" {
		t.Errorf("backup: %s", ids(r))
	}
}

func TestOtherModels(t *testing.T) {
	s := newFakeService(t, 16)
	dir := filepath.Join(t.TempDir(), "idx")
	docs := writeFile(t, "d.jsonl", embedDocs)
	ok(t, "import", dir, docs, "--embed", "ollama:made-up", "--embed-url", s.URL)
	other := []string{"--embed", "ollama:other", "--embed-url", s.URL}
	for _, args := range [][]string{{"import", dir, docs}, {"search", dir, "cats"}} {
		r := command(t.Context(), nil, append(args, other...)...)
		for _, want := range []string{"ollama/made-up", "ollama/other", "quarry import " + dir + ".new FILE… --embed ollama:other"} {
			if r.code != console.ExitFailed || !strings.Contains(r.err, want) {
				t.Errorf("%s: exit code %d, %s", args[0], r.code, r.err)
			}
		}
	}
	fails(t, console.ExitUsage, "choose another", "import", dir, docs, "--vector", "embedding:16")
	fails(t, console.ExitUsage, "has its embeddings in", "import", dir, docs, "--embed-field", "v")
	ok(t, "import", dir, docs, "--embed", "none")
	if r := search(t, dir, "cats", "--mode", "vector"); len(r.Hits) != 0 {
		t.Errorf("--embed none: %s", ids(r))
	}
	s.Close()
	fails(t, console.ExitFailed, "keyword does without", "search", dir, "cats")
	if r := search(t, dir, "cats", "--mode", "keyword"); ids(r) != "cat" {
		t.Error(ids(r))
	}
	if err := os.WriteFile(models.RecordFile(dir), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	fails(t, console.ExitFailed, "is damaged", "search", dir, "cats")

	plain := imported(t, 10) // with vectors of its own
	fails(t, console.ExitFailed, "not on record", "import", plain, docs, "--embed", tinyHub(t, "made/up"), "--embed-field", "v")
	fails(t, console.ExitUsage, "on record", "search", plain, "alpha", "--embed", "e5")
	fails(t, console.ExitUsage, "imported with --embed", "search", plain, "alpha", "--mode", "hybrid")
}

// TestImportStopsWhileEmbedding interrupts an import in its first batch, then
// resumes it.
func TestImportStopsWhileEmbedding(t *testing.T) {
	hub := tinyHub(t, "made/up")
	m, err := models.Open(t.Context(), models.Source{Model: hub}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ctx, cancel := context.WithCancel(t.Context())
	em := &embedding{Documents: models.Documents{Model: m, Field: "v", Texts: []string{"text"}, Step: func(int, int) { cancel() }}}
	docs := make([]index.Document, 300)
	for i := range docs {
		docs[i].Text = map[string]string{"text": fmt.Sprint("text ", i)}
	}
	if err := em.fill(ctx, docs); !errors.Is(err, ingest.ErrStopped) {
		t.Errorf("interrupted: %v", err)
	}
	em.Step = nil
	if err := em.fill(t.Context(), docs); err != nil || em.Embedded != 300 {
		t.Error(em.Embedded, err)
	}
	one := docs[7].Vectors["v"]
	if err := em.fill(t.Context(), docs); err != nil || em.Embedded != 300 || &one[0] != &docs[7].Vectors["v"][0] {
		t.Error("documents that have their vectors were embedded again")
	}
}

func TestEvalByModel(t *testing.T) {
	hub := tinyHub(t, "made/up")
	dir, cache := collectionDir(t), filepath.Join(t.TempDir(), "cache")
	for _, args := range [][]string{{}, {"--mode", "vector"}, {"--mode", "keyword", "--rerank", "late"}, {"--rerank", "late"}} {
		r := decode[evalReport](t, ok(t, append([]string{"eval", "--data", dir, "--embed", hub, "--cache", cache, "--json"}, args...)...))
		if r.Model != "made/up" || r.EvalReport.Queries != 2 || r.Recall100 != 1 || (r.Rerank == "late") != slices.Contains(args, "--rerank") {
			t.Errorf("%v: %+v", args, r)
		}
		if len(args) == 0 && r.Mode != "hybrid" {
			t.Errorf("%+v", r)
		}
	}
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "en"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(root, "de"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	r := decode[evalReport](t, ok(t, "eval", "--data", filepath.Join(root, "en"), "--embed", hub, "--mode", "vector", "--cross", "de", "--json"))
	if r.Set != "de-en" || r.EvalReport.Queries != 2 {
		t.Errorf("%+v", r)
	}
	fails(t, console.ExitUsage, "needs the model", "eval", "--data", dir, "--rerank", "late")
	fails(t, console.ExitUsage, "leave one out", "eval", "--data", dir, "--embed", hub, "--vectors", "x")
	fails(t, console.ExitFailed, "--cross fr", "eval", "--data", filepath.Join(root, "en"), "--embed", hub, "--cross", "fr")
	s := newFakeService(t, 8)
	fails(t, console.ExitUsage, "no token vectors", "eval", "--data", dir, "--embed", "ollama:made-up", "--embed-url", s.URL, "--rerank", "late")
}

// TestE5 finds a text by a question in another language, without a shared word.
func TestE5(t *testing.T) {
	if testing.Short() {
		t.Skip("reads the vocabulary of a model of 250,000 tokens, three times")
	}
	dir := filepath.Join(t.TempDir(), "idx")
	docs := writeFile(t, "d.jsonl", `{"id":"cat","text":"The cat sleeps on the sofa all day."}`+"\n"+`{"id":"tax","text":"Invoices must be paid within thirty days."}`+"\n")
	ok(t, "import", dir, docs, "--embed", "e5")
	for query, want := range map[string]string{"Wo schläft die Katze?": "cat tax", "Wann muss ich die Rechnung bezahlen?": "tax cat"} {
		if r := search(t, dir, query); ids(r) != want {
			t.Errorf("%s: %s, want %s", query, ids(r), want)
		}
	}
	m, err := models.Open(t.Context(), models.Source{Model: models.E5}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	v, err := m.Texts(t.Context(), embed.Query, []string{"a", " ", "b"}, nil)
	if err != nil || v.Row(1) != nil || len(v.Row(2)) != 384 || math.Abs(float64(dot(v.Row(2), v.Row(2)))-1) > 1e-3 {
		t.Error(v, err)
	}
}

func dot(a, b []float32) (sum float32) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
