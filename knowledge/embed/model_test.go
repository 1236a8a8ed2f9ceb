package embed

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/internal/simd"
	"github.com/quarrysearch/quarry/knowledge/embed/tokenize"
	"github.com/quarrysearch/quarry/storage"
)

const seed = 20261130

// tiny is the shape of the made-up model most tests use.
func tiny() Config {
	return Config{Name: "made/up", Revision: "1", Dim: 64, Heads: 2, Layers: 2, Inner: 128, Vocab: 64, Positions: 24,
		Limit: 24, Epsilon: 1e-12, QueryPrefix: "query: ", PassagePrefix: "passage: ", Floor: 0.25}
}

// tinyVocab has the letters as words and as endings, and a few words.
func tinyVocab() []string {
	v := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "query", "passage", ":", ".", "stone", "quarry"}
	for c := 'a'; c <= 'z'; c++ {
		v = append(v, string(c), "##"+string(c))
	}
	return v
}

// fakeSource holds tensors of floats by name, random but fixed by the name.
type fakeSource struct {
	c       Config
	tensors map[string][]float32
	shapes  map[string][]int
}

func newFake(c Config) *fakeSource {
	f := &fakeSource{c: c, tensors: map[string][]float32{}, shapes: map[string][]int{}}
	add := f.add
	norm := func(name string) {
		add(name+".weight", 1, 0.1, c.Dim)
		add(name+".bias", 0, 0.1, c.Dim)
	}
	linear := func(name string, out, in int) {
		add(name+".weight", 0, 1.5/math.Sqrt(float64(in)), out, in)
		add(name+".bias", 0, 0.1, out)
	}
	add("embeddings.word_embeddings.weight", 0, 1, c.Vocab, c.Dim)
	add("embeddings.position_embeddings.weight", 0, 0.3, c.Positions+c.PositionOffset, c.Dim)
	add("embeddings.token_type_embeddings.weight", 0, 0.1, 2, c.Dim)
	norm("embeddings.LayerNorm")
	for l := range c.Layers {
		for _, p := range []string{"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"} {
			linear(layerTensor(l, p), c.Dim, c.Dim)
		}
		norm(layerTensor(l, "attention.output.LayerNorm"))
		linear(layerTensor(l, "intermediate.dense"), c.Inner, c.Dim)
		linear(layerTensor(l, "output.dense"), c.Dim, c.Inner)
		norm(layerTensor(l, "output.LayerNorm"))
	}
	return f
}

// add adds a tensor of random numbers.
func (f *fakeSource) add(name string, mean, spread float64, shape ...int) {
	h := fnv.New64a()
	h.Write([]byte(name))
	r := rand.New(rand.NewPCG(seed, h.Sum64()))
	n := 1
	for _, d := range shape {
		n *= d
	}
	t := make([]float32, n)
	for i := range t {
		t[i] = float32(mean + spread*r.NormFloat64())
	}
	f.tensors[name], f.shapes[name] = t, shape
}

func (f *fakeSource) vector(name string, n int) ([]float32, error) {
	t, ok := f.tensors[name]
	if !ok || len(t) != n {
		return nil, fmt.Errorf("tensor %q: have %d, want %d", name, len(t), n)
	}
	return slices.Clone(t), nil
}

func (f *fakeSource) matrix(name string, rows, cols int) (matrix, error) {
	t, ok := f.tensors[name]
	if rows < 0 {
		rows = len(t) / cols
	}
	if !ok || len(t) != rows*cols {
		return matrix{}, fmt.Errorf("tensor %q: have %d, want %d × %d", name, len(t), rows, cols)
	}
	return matrix{rows: rows, cols: cols, floats: func(i int, dst []float32) { copy(dst, t[i*cols:]) }}, nil
}

// safetensors writes the tensors as a .safetensors file.
func (f *fakeSource) safetensors(prefix string) []byte {
	head, data := map[string]safetensor{}, []byte{}
	for _, name := range slices.Sorted(maps.Keys(f.tensors)) {
		start := int64(len(data))
		for _, v := range f.tensors[name] {
			data = storage.AppendF32(data, v)
		}
		head[prefix+name] = safetensor{DType: "F32", Shape: f.shapes[name], Offsets: [2]int64{start, int64(len(data))}}
	}
	j, err := json.Marshal(head)
	if err != nil {
		panic(err)
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(j)))
	return append(append(out, j...), data...)
}

// pb appends a field of a protocol-buffer message.
func pb(b []byte, number int, v any) []byte {
	switch v := v.(type) {
	case int:
		return storage.AppendUvarint(storage.AppendUvarint(b, uint64(number<<3)), uint64(v))
	case string:
		return storage.AppendBytes(storage.AppendUvarint(b, uint64(number<<3|2)), v)
	case []byte:
		return storage.AppendBytes(storage.AppendUvarint(b, uint64(number<<3|2)), v)
	}
	panic("pb")
}

func pbTensor(name string, kind int, raw []byte, dims ...int) []byte {
	var t []byte
	for _, d := range dims {
		t = pb(t, 1, d)
	}
	return pb(pb(pb(t, 2, kind), 8, name), 9, raw)
}

// onnx writes the tensors as an ONNX file: layers as plain or, with integers,
// as 8-bit matrices with a scale a column.
func (f *fakeSource) onnx(integers bool) []byte {
	var graph []byte
	for i, name := range slices.Sorted(maps.Keys(f.tensors)) {
		t, shape := f.tensors[name], f.shapes[name]
		if len(shape) == 1 || !strings.HasPrefix(name, "encoder.") {
			graph = pb(graph, 5, pbTensor(name, onnxFloat, simd.WordBytes(t), shape...))
			continue
		}
		rows, cols := shape[0], shape[1]
		base := fmt.Sprintf("onnx::MatMul_%d", i)
		path := "/" + strings.ReplaceAll(strings.TrimSuffix(name, ".weight"), "encoder.layer.", "encoder/layer#")
		path = strings.ReplaceAll(strings.ReplaceAll(path, ".", "/"), "#", ".")
		op, suffix := "MatMul", ""
		flat, codes, scales := make([]float32, len(t)), make([]byte, len(t)), make([]float32, rows)
		row := make([]int8, cols)
		for r := range rows {
			scales[r] = quantizeSymmetric(t[r*cols:(r+1)*cols], row)
			for c := range cols {
				flat[c*rows+r], codes[c*rows+r] = t[r*cols+c], byte(row[c])
			}
		}
		if integers {
			op, suffix = "MatMulInteger", "_quantized"
			graph = pb(graph, 5, pbTensor(base+suffix, onnxInt8, codes, cols, rows))
			graph = pb(graph, 5, pbTensor(base+"_scale", onnxFloat, simd.WordBytes(scales), rows))
			graph = pb(graph, 5, pbTensor(base+"_zero_point", onnxInt8, make([]byte, rows), rows))
		} else {
			graph = pb(graph, 5, pbTensor(base, onnxFloat, simd.WordBytes(flat), cols, rows))
		}
		node := pb(pb(pb(pb(nil, 1, "x"), 1, base+suffix), 3, path+"/MatMul"+map[bool]string{true: "_quant"}[integers]), 4, op)
		graph = pb(graph, 1, node)
	}
	return pb(pb(nil, 1, 8), 7, graph)
}

func tinyTokenizer(t testing.TB) tokenize.Tokenizer {
	t.Helper()
	tok, err := tokenize.NewWordPiece(tinyVocab(), tokenize.DefaultWordPiece(true))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func tinyModel(t testing.TB, c Config) (*Model, *fakeSource) {
	t.Helper()
	f := newFake(c)
	m, err := build(c, tinyTokenizer(t), f)
	if err != nil {
		t.Fatal(err)
	}
	return m, f
}

func tinyTexts() []string {
	return []string{"stone", "", "a quarry of stone. and more of it", "quarry", "zebra stone zebra",
		strings.Repeat("stone quarry ", 30), "x", "every stone has a name."}
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i, v := range a {
		ab += float64(v) * float64(b[i])
		aa += float64(v) * float64(v)
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

// withSpecials gives the ids a text has on its way through the model.
func withSpecials(m *Model, text string) []int32 {
	cls, sep, _, _ := m.tokenizer.Specials()
	ids := []int32{cls}
	for _, t := range m.tokenizer.Tokenize(nil, text) {
		ids = append(ids, t.ID)
	}
	ids = ids[:min(len(ids), m.config.Limit-1)]
	return append(ids, sep)
}
