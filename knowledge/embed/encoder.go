package embed

import (
	"math"

	"github.com/quarrysearch/quarry/internal/simd"
)

// The forward pass works on the tokens of several texts, one after the other
// without padding: rows of one matrix. Every row goes through the same
// operations whatever stands beside it, and attention looks at the rows of its
// own text only, so a vector does not depend on the batch.

const (
	// ffnTile is the number of rows that go through the feed-forward step
	// together: its inner rows, 4 bytes times Inner each, stay in the
	// second-level cache. A multiple of 12, the largest group of the kernel.
	ffnTile = 72
	// fineTokens is the number of tokens, special ones included, up to which a
	// text gets activations of 16 bits: there are too few vectors for errors of
	// rounding to cancel out in their mean, and they cost little. Of 500 texts
	// in 12 languages, those of a word or two were the only ones under 0.997 of
	// the float32 reference with 8 bits.
	fineTokens = 16
	// attnTile is the number of rows of scores computed together.
	attnTile = 32
	// keyBlock is the number of keys that lie transposed together: a block of
	// them stays in the first-level cache, whatever the length of the text.
	keyBlock = 32
)

// scratch is the working memory of one worker. It grows to the largest batch.
type scratch struct {
	ids    []int32 // of the batch
	starts []int   // where the texts start in ids, and the end
	second []int   // where in ids the second text of a pair starts, or the end of the text
	fine   bool    // activations of 16 bits
	first  bool    // of the last layer, the vectors of first tokens only

	x, qkv, ctx, y []float32
	inner          []float32
	act, innerAct  activations
	rest           []float32 // of one row, what 8 bits leave over
	low, zeros     []float32 // product of what is left over; no bias
	keys, values   []float32 // of one head
	scores         []float32
}

// grow returns a slice of n elements, b if it has room. What it holds is left
// from before.
func grow[T any](b []T, n int) []T {
	if cap(b) < n {
		return make([]T, n)
	}
	return b[:n]
}

// activations are rows quantized to 8 bits, and, for fine batches, what 8 bits
// left over, quantized to 8 bits again.
type activations struct{ high, low simd.Rows }

func (a *activations) grow(m, k int) {
	for _, r := range []*simd.Rows{&a.high, &a.low} {
		r.K = k
		r.Codes = grow(r.Codes, m*k)
		r.Scale, r.Zero = grow(r.Scale, m), grow(r.Zero, m)
	}
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// forward runs the encoder over the batch in s; afterwards s.x holds the last
// layer's vectors, row by row, or with s.first those of the first tokens, a row
// a text.
func (m *Model) forward(s *scratch) {
	c := &m.config
	rows := roundUp(len(s.ids), simd.GemmRows)
	s.x = grow(s.x, rows*c.Dim)
	s.qkv = grow(s.qkv, rows*3*c.Dim)
	s.ctx = grow(s.ctx, rows*c.Dim)
	s.y = grow(s.y, rows*c.Dim)
	s.inner = grow(s.inner, min(rows, ffnTile)*c.Inner)
	s.rest = grow(s.rest, max(c.Dim, c.Inner))
	s.act.grow(rows, c.Dim)
	s.innerAct.grow(min(rows, ffnTile), c.Inner)

	m.embedTokens(s)
	for i := range m.layers {
		l := &m.layers[i]
		s.quantize(&s.act, s.x, rows)
		s.multiply(&s.act, 0, rows, &l.qkv, s.qkv)
		only := s.first && i == len(m.layers)-1
		for t := range len(s.starts) - 1 {
			first, end := s.starts[t], s.starts[t+1]
			queries := end - first
			if only {
				queries = 1
			}
			attend(s, first, end, queries, c.Dim, c.Heads)
		}
		if only {
			rows = s.keepFirst(c.Dim)
		}
		x := s.x[:rows*c.Dim]
		s.quantize(&s.act, s.ctx, rows)
		s.multiply(&s.act, 0, rows, &l.out, s.y)
		addNorm(x, s.y, &l.attnNorm, c.Epsilon)
		s.quantize(&s.act, x, rows)
		feedForward(s, l, rows)
		addNorm(x, s.y, &l.ffnNorm, c.Epsilon)
	}
}

// keepFirst moves the rows of the first tokens to the front and returns how many
// rows there are then, filled up to a group of the kernel.
func (s *scratch) keepFirst(dim int) int {
	n := len(s.starts) - 1
	rows := roundUp(n, simd.GemmRows)
	for _, x := range [][]float32{s.x, s.ctx} {
		for t, first := range s.starts[:n] {
			copy(x[t*dim:(t+1)*dim], x[first*dim:])
		}
		clear(x[n*dim : rows*dim])
	}
	return rows
}

// embedTokens sets x to the vectors of the tokens and their positions. Rows
// that only fill up the last group of the kernel become zero.
func (m *Model) embedTokens(s *scratch) {
	dim := m.config.Dim
	for t := range len(s.starts) - 1 {
		first := s.starts[t]
		for i, id := range s.ids[first:s.starts[t+1]] {
			row := s.x[(first+i)*dim : (first+i+1)*dim]
			m.word.row(int(id), row)
			if first+i >= s.second[t] {
				simd.AddRow(row, m.head.kind)
			}
			simd.AddLayerNorm(row, m.position[i*dim:(i+1)*dim], m.norm.gamma, m.norm.beta, m.config.Epsilon)
		}
	}
	clear(s.x[len(s.ids)*dim:])
	clear(s.ctx[len(s.ids)*dim:])
}

// quantize sets a to the rows of x.
func (s *scratch) quantize(a *activations, x []float32, rows int) {
	k := a.high.K
	for r := range rows {
		row := x[r*k : (r+1)*k]
		codes := a.high.Codes[r*k : (r+1)*k]
		scale, zero := simd.QuantizeRow(row, codes)
		a.high.Scale[r], a.high.Zero[r] = scale, zero
		if !s.fine {
			continue
		}
		rest := s.rest[:k]
		simd.ResidualRow(row, codes, scale, zero, rest)
		a.low.Scale[r], a.low.Zero[r] = simd.QuantizeRow(rest, a.low.Codes[r*k:(r+1)*k])
	}
}

// multiply sets rows first to first+rows of out, which is as wide as w, to the
// product of as many rows of a.
func (s *scratch) multiply(a *activations, first, rows int, w *simd.Weights, out []float32) {
	out = out[:rows*w.N]
	high := rowsOf(&a.high, first, rows)
	simd.MulU8S8(&high, 0, rows, w, out, w.N)
	if !s.fine {
		return
	}
	low, plain := rowsOf(&a.low, first, rows), *w
	s.zeros, s.low = grow(s.zeros, w.N), grow(s.low, rows*w.N)
	clear(s.zeros)
	plain.Bias = s.zeros
	simd.MulU8S8(&low, 0, rows, &plain, s.low, w.N)
	for r := 0; r < len(out); r += w.N {
		simd.AddRow(out[r:r+w.N], s.low[r:])
	}
}

func rowsOf(a *simd.Rows, first, n int) simd.Rows {
	return simd.Rows{K: a.K, Codes: a.Codes[first*a.K : (first+n)*a.K],
		Scale: a.Scale[first : first+n], Zero: a.Zero[first : first+n]}
}

func addNorm(x, y []float32, n *norm, eps float32) {
	dim := len(n.gamma)
	for r := 0; r < len(x); r += dim {
		simd.AddLayerNorm(x[r:r+dim], y[r:r+dim], n.gamma, n.beta, eps)
	}
}

// feedForward sets y to down(GELU(up(act))).
func feedForward(s *scratch, l *layer, rows int) {
	dim, inner := l.up.K, l.up.N
	for first := 0; first < rows; first += ffnTile {
		n := min(ffnTile, rows-first)
		s.multiply(&s.act, first, n, &l.up, s.inner)
		for r := range n {
			simd.GELU(s.inner[r*inner : (r+1)*inner])
		}
		s.quantize(&s.innerAct, s.inner, n)
		s.multiply(&s.innerAct, 0, n, &l.down, s.y[first*dim:])
	}
}

// attend sets as many rows of ctx as there are queries, from first on, to the
// attention of the text that the rows first to end hold, in float32: scores =
// queries · keysᵀ / √(width of a head), their softmax, times values. Keys and
// values of a head are copied together first: in qkv each row has cache lines of
// its own.
func attend(s *scratch, first, end, queries, dim, heads int) {
	n, width := end-first, dim/heads
	if n == 0 {
		return
	}
	cols := roundUp(n, 16)
	stride := 3 * dim
	s.keys = grow(s.keys, width*roundUp(n, keyBlock))
	s.values = grow(s.values, width*n)
	s.scores = grow(s.scores, min(queries, attnTile)*cols)
	scale := float32(1 / math.Sqrt(float64(width)))
	pad := float32(math.Inf(-1))
	for h := range heads {
		q := s.qkv[first*stride+h*width:]
		transposeKeys(s.keys, q[dim:], n, width, stride)
		for j := range n {
			copy(s.values[j*width:(j+1)*width], q[2*dim+j*stride:])
		}
		for row := 0; row < queries; row += attnTile {
			m := min(attnTile, queries-row)
			for col := 0; col < cols; col += keyBlock {
				simd.MulF32(q[row*stride:], stride, s.keys[col*width:], keyBlock, s.scores[col:], cols, m, width, min(keyBlock, cols-col))
			}
			ctx := s.ctx[(first+row)*dim+h*width:]
			var sums [attnTile]float32
			for r := range m {
				line := s.scores[r*cols : (r+1)*cols]
				for i := n; i < cols; i++ {
					line[i] = pad
				}
				sums[r] = simd.SoftmaxRow(line, scale)
			}
			simd.MulF32(s.scores, cols, s.values, width, ctx, dim, m, n, width)
			for r := range m {
				inv := 1 / sums[r]
				out := ctx[r*dim : r*dim+width]
				for i := range out {
					out[i] *= inv
				}
			}
		}
	}
}

// transposeKeys writes n keys, stride floats apart, in blocks of keyBlock: a
// block holds width rows, component by component, of as many columns. Columns
// after the last key are 0.
func transposeKeys(dst, keys []float32, n, width, stride int) {
	for first := 0; first < n; first += keyBlock {
		block := dst[first*width : (first+keyBlock)*width]
		if n-first < keyBlock {
			clear(block)
		}
		for j := range min(keyBlock, n-first) {
			key := keys[(first+j)*stride : (first+j)*stride+width]
			for i, v := range key {
				block[i*keyBlock+j] = v
			}
		}
	}
}

// pool writes the unit vector of text t of the batch to out: that of its first
// token, with s.first, or of the mean of its tokens.
func (m *Model) pool(s *scratch, t int, out []float32) {
	dim := m.config.Dim
	if s.first {
		copy(out, s.x[t*dim:(t+1)*dim])
	} else { // the sum: its direction is that of the mean
		clear(out)
		for rows := s.x[s.starts[t]*dim : s.starts[t+1]*dim]; len(rows) > 0; rows = rows[dim:] {
			for i, v := range rows[:dim] {
				out[i] += v
			}
		}
	}
	normalize(out)
}

// normalize makes v a unit vector, or leaves it zero.
func normalize(v []float32) {
	var sum float64
	for _, x := range v {
		sum += float64(float64(x) * float64(x))
	}
	if sum < 1e-60 {
		clear(v)
		return
	}
	inv := 1 / math.Sqrt(sum)
	for i, x := range v {
		v[i] = float32(float64(x) * inv)
	}
}
