package embed

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// speedTexts are the lines of the file that QUARRY_TEXTS names, or made-up
// texts of 12 to 240 words.
func speedTexts(b *testing.B) []string {
	b.Helper()
	if name := os.Getenv("QUARRY_TEXTS"); name != "" {
		data, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(data)), "\n")
	}
	words := strings.Fields("the of and a to in is with stone bridge river water lamp keeper old new quarry repaired before storm engine pressure measured result shows that material under heat flow between layers")
	r := rand.New(rand.NewPCG(seed, 1))
	texts := make([]string, 48)
	for i := range texts {
		for range 12 + i*5 - r.IntN(5) {
			texts[i] += words[r.IntN(len(words))] + " "
		}
	}
	return texts
}

// BenchmarkModels embeds the same texts with every ONNX model under
// QUARRY_MODELS, on one core and on two: _gen/speed.py runs it beside ONNX
// Runtime.
func BenchmarkModels(b *testing.B) {
	dir := os.Getenv("QUARRY_MODELS")
	if dir == "" {
		b.Skip("QUARRY_MODELS is not set")
	}
	for _, p := range Profiles() {
		name := strings.ToLower(filepath.Base(p.Name)) + "-q"
		onnx, err := os.ReadFile(filepath.Join(dir, name, name+".onnx"))
		if err != nil {
			continue
		}
		tok, err := os.ReadFile(filepath.Join(dir, name, name+"-tokenizer.json"))
		if err != nil {
			b.Fatal(err)
		}
		m, err := FromONNX(name, onnx, tok, p)
		if err != nil {
			b.Fatal(err)
		}
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/workers=%d", name, workers), func(b *testing.B) { benchmarkTexts(b, m, workers) })
		}
	}
}

func benchmarkTexts(b *testing.B, m *Model, workers int) {
	texts := speedTexts(b)
	tokens := 0
	for _, t := range texts {
		tokens += min(len(m.tokenizer.Tokenize(nil, t))+2, m.config.Limit)
	}
	e := newLocal(b, m, &Options{Workers: workers})
	for b.Loop() {
		embedAll(b, e, Passage, texts)
	}
	b.ReportMetric(float64(b.N*len(texts))/b.Elapsed().Seconds(), "texts/s")
	b.ReportMetric(float64(b.N*tokens)/b.Elapsed().Seconds(), "tokens/s")
}
