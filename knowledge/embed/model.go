package embed

import (
	"github.com/quarrysearch/quarry/internal/simd"
	"github.com/quarrysearch/quarry/knowledge/embed/tokenize"
	"github.com/quarrysearch/quarry/storage"
)

// A Model is an encoder's weights and its tokenizer, ready for inference. It is
// immutable and safe for concurrent use.
type Model struct {
	config    Config
	tokenizer tokenize.Tokenizer
	word      table
	position  []float32 // Positions × Dim, the vector of token type 0 added
	norm      norm      // after the embeddings
	layers    []layer
	head      *head              // of a cross-encoder, or nil
	file      string             // the compact file's name, if it came from one
	sections  map[string]section // of the compact file, or nil
	close     func() error       // of the mapped file, or nil
	mapped    bool               // weights may fault
}

// norm is the gain and the offset of a layer normalization.
type norm struct{ gamma, beta []float32 }

// layer is one block of the encoder. The outputs of qkv are the queries, keys
// and values of all heads, one after the other.
type layer struct {
	qkv, out, up, down simd.Weights
	attnNorm, ffnNorm  norm
}

// table is the token table: rows of 8-bit codes with a scale a row, or of
// blocks of 4 bits.
type table struct {
	dim    int
	codes  []int8
	scale  []float32
	blocks []byte
}

// row writes the vector of a token.
func (t *table) row(id int, dst []float32) {
	if t.blocks != nil {
		size := t.dim / q4Len * q4Block
		q4Floats(t.blocks[id*size:(id+1)*size], dst)
		return
	}
	scale := t.scale[id]
	for i, c := range t.codes[id*t.dim : (id+1)*t.dim] {
		dst[i] = float32(c) * scale
	}
}

// Config returns the model's description.
func (m *Model) Config() Config { return m.config }

// Tokenizer returns the model's tokenizer.
func (m *Model) Tokenizer() tokenize.Tokenizer { return m.tokenizer }

// Identity returns what an index records of the model. A cross-encoder has one
// as well; its vectors mean nothing.
func (m *Model) Identity() Identity {
	c := &m.config
	return Identity{
		Name: c.Name, Revision: c.Revision, Dim: c.Dim, Metric: "cosine",
		QueryPrefix: c.QueryPrefix, PassagePrefix: c.PassagePrefix,
		Tokenizer: m.tokenizer.Name(), Floor: c.Floor,
	}
}

// IsCrossEncoder reports whether the model has a classification head: then it is
// for NewCrossEncoder, else for NewLocal.
func (m *Model) IsCrossEncoder() bool { return m.head != nil }

// Close unmaps the model's file, if it has one. The model must not be in use.
func (m *Model) Close() error {
	if m.close == nil {
		return nil
	}
	f := m.close
	m.close = nil
	return f()
}

// build makes a model of a source: weights are quantized per output channel,
// unless the source has codes of its own.
func build(c Config, tok tokenize.Tokenizer, src source) (*Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if tok.Size() > c.Vocab {
		return nil, storage.Invalidf("model %q: the tokenizer has %d tokens, the token table %d rows", c.Name, tok.Size(), c.Vocab)
	}
	m := &Model{config: c, tokenizer: tok}
	b := &builder{src: src, c: &m.config}
	m.word = b.table("embeddings.word_embeddings.weight")
	m.position = b.positions()
	m.norm = b.norm("embeddings.LayerNorm")
	if b.err != nil {
		return nil, b.err
	}
	for l := range c.Layers {
		m.layers = append(m.layers, b.layer(l))
		if b.err != nil {
			return nil, b.err
		}
	}
	m.config.PositionOffset = 0
	return m, nil
}

// builder reads tensors; the first error sticks. It allocates nothing for a
// tensor before the source has said that it is there and as large as the shape
// asks for: shapes are read from files, too.
type builder struct {
	src source
	c   *Config
	err error
}

func (b *builder) vector(name string, n int) []float32 {
	if b.err != nil {
		return nil
	}
	v, err := b.src.vector(name, n)
	if err == nil {
		err = checkFinite(name, v)
	}
	b.err = err
	return v
}

func (b *builder) matrix(name string, rows, cols int) (matrix, bool) {
	if b.err != nil {
		return matrix{}, false
	}
	m, err := b.src.matrix(name, rows, cols)
	b.err = err
	return m, err == nil
}

func (b *builder) norm(name string) norm {
	return norm{gamma: b.vector(name+".weight", b.c.Dim), beta: b.vector(name+".bias", b.c.Dim)}
}

// positions reads the position table, adds the vector of token type 0, which
// is that of all tokens, and drops the rows before the first token's.
func (b *builder) positions() []float32 {
	dim := b.c.Dim
	m, _ := b.matrix("embeddings.position_embeddings.weight", b.c.Positions+b.c.PositionOffset, dim)
	k, ok := b.matrix("embeddings.token_type_embeddings.weight", -1, dim)
	if !ok {
		return nil
	}
	out, kind := make([]float32, b.c.Positions*dim), make([]float32, dim)
	k.floats(0, kind)
	for p := range b.c.Positions {
		row := out[p*dim : (p+1)*dim]
		m.floats(p+b.c.PositionOffset, row)
		for i, v := range kind {
			row[i] += v
		}
	}
	b.err = checkFinite("embeddings.position_embeddings.weight", out)
	return out
}

func (b *builder) table(name string) table {
	dim := b.c.Dim
	t := table{dim: dim}
	m, ok := b.matrix(name, b.c.Vocab, dim)
	if !ok {
		return t
	}
	if m.blocks != nil {
		t.blocks = make([]byte, 0, m.rows*(dim/q4Len)*q4Block)
		for i := range m.rows {
			t.blocks = append(t.blocks, m.blocks(i)...)
		}
		return t
	}
	t.codes, t.scale = make([]int8, m.rows*dim), make([]float32, m.rows)
	buf := make([]float32, dim)
	for i := range m.rows {
		t.scale[i] = m.quantizedRow(i, t.codes[i*dim:(i+1)*dim], buf)
	}
	b.err = checkFinite(name, t.scale)
	return t
}

// weights packs matrices of inputs × (sum of outputs) side by side.
func (b *builder) weights(inputs, outputs int, names ...string) simd.Weights {
	n := outputs * len(names)
	w := simd.Weights{K: inputs, N: n}
	var sources []matrix
	for _, name := range names {
		m, _ := b.matrix(name+".weight", outputs, inputs)
		sources = append(sources, m)
		w.Bias = append(w.Bias, b.vector(name+".bias", outputs)...)
	}
	if b.err != nil {
		return w
	}
	w.Packed, w.Sums, w.Scale = make([]int8, n*inputs), make([]int32, n), make([]float32, n)
	plain, buf := make([]int8, outputs*inputs), make([]float32, inputs)
	for i, m := range sources {
		first := i * outputs
		for r := range outputs {
			w.Scale[first+r] = m.quantizedRow(r, plain[r*inputs:(r+1)*inputs], buf)
		}
		simd.PackWeights(w.Packed[first*inputs:], w.Sums[first:], plain, outputs, inputs)
	}
	b.err = checkFinite(names[0], w.Scale)
	return w
}

func (b *builder) layer(l int) layer {
	name := func(part string) string { return layerTensor(l, part) }
	dim, inner := b.c.Dim, b.c.Inner
	return layer{
		qkv:      b.weights(dim, dim, name("attention.self.query"), name("attention.self.key"), name("attention.self.value")),
		out:      b.weights(dim, dim, name("attention.output.dense")),
		attnNorm: b.norm(name("attention.output.LayerNorm")),
		up:       b.weights(dim, inner, name("intermediate.dense")),
		down:     b.weights(inner, dim, name("output.dense")),
		ffnNorm:  b.norm(name("output.LayerNorm")),
	}
}
