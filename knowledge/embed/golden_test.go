package embed

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// golden holds made-up sentences and their vectors, rounded to three digits,
// by ONNX Runtime 1.32 in float32: the ONNX files of langchain4j 0.36.2 with
// every MatMulInteger replaced by a MatMul of the dequantized weights, so that
// the reference has no rounding of activations of its own.
type golden struct {
	Texts  []string
	Models map[string]map[string][][]float32 // by model and kind
}

// TestGoldenVectors needs the folders that the models' fetch script fills, side
// by side under QUARRY_MODELS and called like the models.
func TestGoldenVectors(t *testing.T) {
	dir := os.Getenv("QUARRY_MODELS")
	if dir == "" {
		t.Skip("QUARRY_MODELS is not set")
	}
	b, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	for name, kinds := range g.Models {
		t.Run(name, func(t *testing.T) {
			onnx, err := os.ReadFile(filepath.Join(dir, name, name+".onnx"))
			if os.IsNotExist(err) {
				t.Skipf("%s is not in QUARRY_MODELS", name)
			}
			tok, err2 := os.ReadFile(filepath.Join(dir, name, name+"-tokenizer.json"))
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			p, ok := FindProfile(name[:len(name)-len("-q")])
			if !ok {
				t.Fatal("no profile")
			}
			m, err := FromONNX(name, onnx, tok, p)
			if err != nil {
				t.Fatal(err)
			}
			e := newLocal(t, m, nil)
			for _, kind := range []Kind{Passage, Query} {
				r := embedAll(t, e, kind, g.Texts)
				dim := m.config.Dim
				for i, want := range kinds[kind.String()] {
					if cos := cosine(r.Vectors[i*dim:(i+1)*dim], want); cos < 0.995 {
						t.Errorf("%s %d: cosine %.5f", kind, i, cos)
					}
				}
			}
		})
	}
}
