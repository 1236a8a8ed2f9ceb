package embed

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/quarrysearch/quarry/internal/simd"
	"github.com/quarrysearch/quarry/knowledge/embed/tokenize"
	"github.com/quarrysearch/quarry/storage"
)

// head turns the last layer's vector x of the first token into one logit:
// out · tanh(dense·x + bias) + outBias. It stays in float32: of the work of a
// pair it is a thousandth.
type head struct {
	// seps is the number of separators between the two texts of a pair.
	seps int
	// kind is what a token of the second text adds to the vector of its
	// position: token type 1 less token type 0. All zero in models of one type.
	kind  []float32
	dense []float32 // a row an output
	bias  []float32
	out   []float32
	// outBias has one component, so that all weights are slices.
	outBias []float32
}

// headRoBERTa are the separators of the RoBERTa family, headBERT of BERT's.
const (
	headBERT    = 1
	headRoBERTa = 2
)

// floats calls f for every array of the head with the length it has.
func (h *head) floats(dim int, f func(p *[]float32, n int)) {
	f(&h.kind, dim)
	f(&h.dense, dim*dim)
	f(&h.bias, dim)
	f(&h.out, dim)
	f(&h.outBias, 1)
}

// readHead reads the head from tensors as BertForSequenceClassification or
// (XLM)RobertaForSequenceClassification names them.
func readHead(dim int, src *safetensors) (*head, error) {
	b := &builder{src: src, c: &Config{Dim: dim}}
	h, dense, out := &head{seps: headBERT, kind: make([]float32, dim)}, "pooler.dense", "classifier"
	if src.has("classifier.out_proj") {
		h.seps, dense, out = headRoBERTa, "classifier.dense", "classifier.out_proj"
	}
	if labels, ok := b.matrix(out+".weight", -1, dim); ok && labels.rows != 1 {
		return nil, storage.Invalidf("%s: a classifier of %d labels: want one, the relevance", src.file, labels.rows)
	}
	h.out, h.outBias = b.vector(out+".weight", dim), b.vector(out+".bias", 1)
	h.bias = b.vector(dense+".bias", dim)
	if m, ok := b.matrix(dense+".weight", dim, dim); ok {
		h.dense = make([]float32, dim*dim)
		for i := range dim {
			m.floats(i, h.dense[i*dim:(i+1)*dim])
		}
		b.err = checkFinite(dense+".weight", h.dense)
	}
	if kinds, ok := b.matrix("embeddings.token_type_embeddings.weight", -1, dim); ok && kinds.rows > 1 && h.seps == headBERT {
		first := make([]float32, dim)
		kinds.floats(0, first)
		kinds.floats(1, h.kind)
		for i, v := range first {
			h.kind[i] -= v
		}
		b.err = checkFinite("embeddings.token_type_embeddings.weight", h.kind)
	}
	if b.err != nil {
		return nil, b.err
	}
	return h, nil
}

// append appends the section of the compact file.
func (h *head) append(b []byte) []byte {
	b = storage.AppendU32(b, uint32(h.seps))
	h.floats(0, func(p *[]float32, _ int) { b = append(b, simd.WordBytes(*p)...) })
	return b
}

// head reads the section that append wrote; without one, a model has no head.
func (r *fileReader) head(dim int) (*head, error) {
	s, ok := r.sections[secHead]
	if !ok {
		return nil, nil
	}
	h, size := new(head), 4
	h.floats(dim, func(_ *[]float32, n int) { size += 4 * n })
	if len(s.data) != size {
		return nil, storage.Corruptf(r.name, s.off, "section %q has %d bytes, want %d", secHead, len(s.data), size)
	}
	if h.seps = int(min(binary.LittleEndian.Uint32(s.data), 1<<16)); h.seps != headBERT && h.seps != headRoBERTa {
		return nil, storage.Corruptf(r.name, s.off, "%d separators in a pair", h.seps)
	}
	all := simd.Words[float32](s.data[4:])
	if err := checkFinite(r.name, all); err != nil {
		return nil, err
	}
	h.floats(dim, func(p *[]float32, n int) { *p, all = all[:n:n], all[n:] })
	return h, nil
}

// logit gives the score of the vector x of the first token. y is scratch of as
// many components.
func (h *head) logit(x, y []float32) float64 {
	dim := len(x)
	for i := range dim {
		y[i] = float32(tanh(float64(simd.DotF32(h.dense[i*dim:(i+1)*dim], x) + h.bias[i])))
	}
	return float64(simd.DotF32(h.out, y) + h.outBias[0])
}

// tanh is exact to 1e-15, and every step is rounded by itself: the bits are the
// same on every processor, which math.Tanh does not promise.
func tanh(x float64) float64 {
	if x < 0 {
		return -tanh(-x)
	}
	if x > 20 {
		return 1
	}
	k := math.Floor(float64(float64(2*x)*math.Log2E) + 0.5)
	r := float64(2*x) - float64(k*math.Ln2)
	exp := 1.0
	for i := 14.0; i > 0; i-- {
		exp = float64(float64(exp*r)/i) + 1
	}
	return 1 - 2/(math.Ldexp(exp, int(k))+1)
}

// A CrossEncoder reads a query and a passage together and gives one logit: how
// relevant the passage is. It is safe for concurrent use.
type CrossEncoder struct{ run *runner }

// NewCrossEncoder returns a cross-encoder over m, which it does not close. A nil
// o means all defaults. The error matches storage.ErrInvalid when the model has
// no classification head.
func NewCrossEncoder(m *Model, o *Options) (*CrossEncoder, error) {
	if m.head == nil {
		return nil, storage.Invalidf("model %q has no classification head: it is no cross-encoder", m.config.Name)
	}
	if need := m.head.seps + 4; m.config.Limit < need {
		return nil, storage.Invalidf("model %q: a limit of %d tokens, want at least %d for a pair", m.config.Name, m.config.Limit, need)
	}
	run, err := newRunner(m, o)
	if err != nil {
		return nil, err
	}
	return &CrossEncoder{run}, nil
}

// Model returns the model.
func (c *CrossEncoder) Model() *Model { return c.run.model }

// Name returns the model's name.
func (c *CrossEncoder) Name() string { return c.run.model.config.Name }

// A PairResult holds the logits of one Pairs call.
type PairResult struct {
	// Logits holds one number a passage, in order: any size, higher is more
	// relevant; 1/(1+e^−x) is the probability the model was trained to give.
	Logits []float64
	// Truncated lists, in ascending order, the passages that were longer than
	// the model takes together with the query. Of the two texts, the longer
	// one was cut; both, when each is longer than half of the limit.
	Truncated []int
}

// Pairs scores passages against a query. A logit does not depend on the other
// passages, their order or the number of workers, and is the same on every
// processor. The context is looked at between batches.
func (c *CrossEncoder) Pairs(ctx context.Context, query string, passages []string) (PairResult, error) {
	m := c.run.model
	q := m.tokenizer.Tokenize(nil, query)
	r := PairResult{Logits: make([]float64, len(passages))}
	inputs, err := c.run.run(ctx, len(passages), true, func(i int) input {
		return m.pair(q, m.tokenizer.Tokenize(nil, passages[i]))
	}, func(s *scratch, t int, in *input) {
		dim := m.config.Dim
		r.Logits[in.text] = m.head.logit(s.x[t*dim:(t+1)*dim], s.y[:dim])
	})
	if err != nil {
		return PairResult{}, err
	}
	r.Truncated = truncated(inputs)
	return r, nil
}

// pair frames the tokens of a query and a passage, cut to the limit.
func (m *Model) pair(q, p []tokenize.Token) input {
	n, k := fitPair(len(q), len(p), m.config.Limit-2-m.head.seps)
	in := m.frame(q[:n], m.head.seps-1)
	in.second = len(in.ids)
	in.ids = append(in.ids, m.frame(p[:k], 0).ids[1:]...)
	in.tokens, in.cut = nil, n < len(q) || k < len(p)
	return in
}

// fitPair cuts texts of n and k tokens to room in all, as the reference
// tokenizers do ("longest first"): the longer one loses what is too much, until
// both have half; of an odd room the one that was longer has the larger half.
func fitPair(n, k, room int) (int, int) {
	switch half := room / 2; {
	case n+k <= room:
	case n <= half:
		k = room - n
	case k <= half:
		n = room - k
	case n > k:
		n, k = room-half, half
	default:
		n, k = half, room-half
	}
	return n, k
}
