package embed

import "math"

// reference is the encoder in plain float32, one text at a time and without
// quantized activations: the oracle of Model.
type reference struct {
	c      Config
	tables [2]matrix    // token, position
	kinds  [2][]float32 // of token types 0 and 1
	norm   norm
	layers []refLayer
}

type refLayer struct {
	query, key, value, out, up, down refLinear
	attnNorm, ffnNorm                norm
}

// refLinear is a matrix of outputs × inputs and its bias.
type refLinear struct {
	w, bias []float32
}

func newReference(c Config, src source) (*reference, error) {
	b := &builder{src: src, c: &c}
	r := &reference{c: c, kinds: [2][]float32{make([]float32, c.Dim), make([]float32, c.Dim)}, norm: b.norm("embeddings.LayerNorm")}
	r.tables[0], _ = b.matrix("embeddings.word_embeddings.weight", c.Vocab, c.Dim)
	r.tables[1], _ = b.matrix("embeddings.position_embeddings.weight", c.Positions+c.PositionOffset, c.Dim)
	if m, ok := b.matrix("embeddings.token_type_embeddings.weight", -1, c.Dim); ok {
		for i, k := range r.kinds {
			m.floats(min(i, m.rows-1), k)
		}
	}
	for l := range c.Layers {
		linear := func(part string, outputs, inputs int) refLinear {
			name := layerTensor(l, part)
			f := refLinear{w: make([]float32, outputs*inputs), bias: b.vector(name+".bias", outputs)}
			if m, ok := b.matrix(name+".weight", outputs, inputs); ok {
				for i := range outputs {
					m.floats(i, f.w[i*inputs:(i+1)*inputs])
				}
			}
			return f
		}
		r.layers = append(r.layers, refLayer{
			query: linear("attention.self.query", c.Dim, c.Dim), key: linear("attention.self.key", c.Dim, c.Dim),
			value: linear("attention.self.value", c.Dim, c.Dim), out: linear("attention.output.dense", c.Dim, c.Dim),
			up: linear("intermediate.dense", c.Inner, c.Dim), down: linear("output.dense", c.Dim, c.Inner),
			attnNorm: b.norm(layerTensor(l, "attention.output.LayerNorm")), ffnNorm: b.norm(layerTensor(l, "output.LayerNorm")),
		})
	}
	return r, b.err
}

// embed returns the unit vector of one text, given its tokens with the special
// ones.
func (r *reference) embed(ids []int32) []float32 {
	x := r.tokens(ids, len(ids))
	out := make([]float32, r.c.Dim)
	for _, row := range x {
		for i, v := range row {
			out[i] += v
		}
		if r.c.Pooling == CLSPooling {
			break
		}
	}
	normalize(out)
	return out
}

// logit returns the score of a pair, of which the tokens from second on are of
// type 1: h is the head's weights in float32 already.
func (r *reference) logit(ids []int32, second int, h *head) float64 {
	x := r.tokens(ids, second)[0]
	dense, out := refLinear{h.dense, h.bias}, refLinear{h.out, h.outBias}
	y := dense.apply(x)
	for i, v := range y {
		y[i] = float32(math.Tanh(float64(v)))
	}
	return float64(out.apply(y)[0])
}

// tokens returns the last layer's vectors. Tokens from second on are of type 1.
func (r *reference) tokens(ids []int32, second int) [][]float32 {
	x := make([][]float32, len(ids))
	buf := make([]float32, r.c.Dim)
	for t, id := range ids {
		x[t] = make([]float32, r.c.Dim)
		r.tables[0].floats(int(id), x[t])
		r.tables[1].floats(t+r.c.PositionOffset, buf)
		kind := r.kinds[0]
		if t >= second {
			kind = r.kinds[1]
		}
		for i := range buf {
			x[t][i] += buf[i] + kind[i]
		}
		r.normalizeLayer(x[t], &r.norm)
	}
	for i := range r.layers {
		l := &r.layers[i]
		a := r.attention(x, l)
		for t := range x {
			r.add(x[t], l.out.apply(a[t]), &l.attnNorm)
			inner := l.up.apply(x[t])
			for i, v := range inner {
				inner[i] = float32(0.5 * float64(v) * (1 + math.Erf(float64(v)/math.Sqrt2)))
			}
			r.add(x[t], l.down.apply(inner), &l.ffnNorm)
		}
	}
	return x
}

func (r *reference) attention(x [][]float32, l *refLayer) [][]float32 {
	n, width := len(x), r.c.Dim/r.c.Heads
	q, k, v, out := make([][]float32, n), make([][]float32, n), make([][]float32, n), make([][]float32, n)
	for t := range x {
		q[t], k[t], v[t], out[t] = l.query.apply(x[t]), l.key.apply(x[t]), l.value.apply(x[t]), make([]float32, r.c.Dim)
	}
	score := make([]float64, n)
	for h := 0; h < r.c.Dim; h += width {
		for t := range x {
			top, sum := math.Inf(-1), 0.0
			for u := range x {
				score[u] = float64(dot(q[t][h:h+width], k[u][h:h+width])) / math.Sqrt(float64(width))
				top = max(top, score[u])
			}
			for u := range x {
				score[u] = math.Exp(score[u] - top)
				sum += score[u]
			}
			for u := range x {
				p := float32(score[u] / sum)
				for i := h; i < h+width; i++ {
					out[t][i] += p * v[u][i]
				}
			}
		}
	}
	return out
}

func dot(a, b []float32) (sum float32) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

func (f *refLinear) apply(x []float32) []float32 {
	y := make([]float32, len(f.bias))
	for i := range y {
		y[i] = dot(x, f.w[i*len(x):]) + f.bias[i]
	}
	return y
}

func (r *reference) add(x, y []float32, n *norm) {
	for i, v := range y {
		x[i] += v
	}
	r.normalizeLayer(x, n)
}

func (r *reference) normalizeLayer(x []float32, n *norm) {
	var mean, variance float64
	for _, v := range x {
		mean += float64(v)
	}
	mean /= float64(len(x))
	for _, v := range x {
		variance += (float64(v) - mean) * (float64(v) - mean)
	}
	inv := 1 / math.Sqrt(variance/float64(len(x))+float64(r.c.Epsilon))
	for i, v := range x {
		x[i] = float32((float64(v)-mean)*inv)*n.gamma[i] + n.beta[i]
	}
}
