package cache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quarrysearch/quarry/knowledge/embed"
)

// Wrap returns an embedder that asks e only for texts that the cache does not
// have, and each of them once a call. Its identity is e's. While e does not
// know its dimension yet, all texts go to e. If e is a TokenEmbedder, so is the
// result; token vectors are not cached.
//
// Vectors that are not finite, and texts of which the embedder returned an
// error, are not kept. An error that names a text by its index (a type with
// AtText, such as service.TextError) names the caller's text.
func (c *Cache) Wrap(e embed.Embedder) embed.Embedder {
	w := &wrapped{c, e}
	if t, ok := e.(embed.TokenEmbedder); ok {
		return &wrappedTokens{w, t}
	}
	return w
}

type wrapped struct {
	c *Cache
	e embed.Embedder
}

type wrappedTokens struct {
	*wrapped
	t embed.TokenEmbedder
}

// Tokens passes the call on.
func (w *wrappedTokens) Tokens(ctx context.Context, kind embed.Kind, texts []string) ([]embed.TokenVectors, error) {
	return w.t.Tokens(ctx, kind, texts)
}

// Unwrap returns the embedder behind the cache: its tokenizer, say.
func (w *wrapped) Unwrap() embed.Embedder { return w.e }

func (w *wrapped) Identity() embed.Identity { return w.e.Identity() }

func (w *wrapped) Embed(ctx context.Context, kind embed.Kind, texts []string) (embed.Result, error) {
	if len(texts) == 0 {
		return embed.Result{}, nil
	}
	if err := ctx.Err(); err != nil {
		return embed.Result{}, context.Cause(ctx)
	}
	id := w.e.Identity()
	if id.Dim <= 0 {
		return w.learn(ctx, kind, texts)
	}
	a := &answer{
		dim: id.Dim, texts: texts, out: make([]float32, len(texts)*id.Dim),
		cut: make([]bool, len(texts)), places: make(map[key][]int),
	}
	sc := scope(id, kind)
	for i, t := range texts {
		k := keyOf(sc, t)
		if _, missing := a.places[k]; !missing {
			if cut, ok := w.c.get(k, a.row(i)); ok {
				a.cut[i] = cut
				continue
			}
			a.missing = append(a.missing, k)
		}
		a.places[k] = append(a.places[k], i)
	}
	w.c.count(len(texts)-len(a.missing), len(a.missing))
	for group := range slices.Chunk(a.missing, w.c.o.Group) {
		if err := w.fill(ctx, kind, a, group); err != nil {
			return embed.Result{}, err
		}
	}
	return a.result(), nil
}

// An answer is a Result in the making.
type answer struct {
	dim     int
	texts   []string
	out     []float32
	cut     []bool
	missing []key         // each once
	places  map[key][]int // of missing texts
}

func (a *answer) row(i int) []float32 { return a.out[i*a.dim : (i+1)*a.dim] }

func (a *answer) result() embed.Result {
	r := embed.Result{Vectors: a.out}
	for i, cut := range a.cut {
		if cut {
			r.Truncated = append(r.Truncated, i)
		}
	}
	return r
}

// fill embeds a group of missing texts.
func (w *wrapped) fill(ctx context.Context, kind embed.Kind, a *answer, group []key) error {
	texts := make([]string, len(group))
	for i, k := range group {
		texts[i] = a.texts[a.places[k][0]]
	}
	r, err := w.e.Embed(ctx, kind, texts)
	if err != nil {
		return atPlace(err, a, group)
	}
	if err := checkShape(r, len(texts), a.dim); err != nil {
		return err
	}
	cut := make([]bool, len(group))
	for _, i := range r.Truncated {
		cut[i] = true
	}
	for i, k := range group {
		for _, p := range a.places[k] {
			copy(a.row(p), r.Vectors[i*a.dim:(i+1)*a.dim])
			a.cut[p] = cut[i]
		}
	}
	w.keep(group, r.Vectors, a.dim, cut)
	return nil
}

// keep puts the finite ones into the cache.
func (w *wrapped) keep(keys []key, rows []float32, dim int, cut []bool) {
	for i := 0; i < len(keys); {
		end := i
		for end < len(keys) && finite(rows[end*dim:(end+1)*dim]) {
			end++
		}
		w.c.put(keys[i:end], rows[i*dim:end*dim], dim, func(j int) bool { return cut[i+j] })
		i = end + 1
	}
}

func finite(v []float32) bool {
	for _, x := range v {
		if math.Float32bits(x)&0x7f800000 == 0x7f800000 {
			return false
		}
	}
	return true
}

// atPlace makes an error about a text of a group name the caller's text.
func atPlace(err error, a *answer, group []key) error {
	var t interface {
		error
		TextIndex() int
		AtText(int) error
	}
	if errors.As(err, &t) {
		if i := t.TextIndex(); i >= 0 && i < len(group) {
			return t.AtText(a.places[group[i]][0])
		}
	}
	return err
}

// checkShape keeps a broken embedder from breaking the cache.
func checkShape(r embed.Result, n, dim int) error {
	if len(r.Vectors) != n*dim {
		return fmt.Errorf("quarry: embedder gave %d components for %d texts of dimension %d", len(r.Vectors), n, dim)
	}
	for _, i := range r.Truncated {
		if i < 0 || i >= n {
			return fmt.Errorf("quarry: embedder says that text %d of %d was cut", i, n)
		}
	}
	return nil
}

// learn passes a call on and keeps its answers once the dimension is known.
func (w *wrapped) learn(ctx context.Context, kind embed.Kind, texts []string) (embed.Result, error) {
	r, err := w.e.Embed(ctx, kind, texts)
	if err != nil {
		return r, err
	}
	w.c.count(0, len(texts))
	id := w.e.Identity()
	if id.Dim <= 0 || checkShape(r, len(texts), id.Dim) != nil {
		return r, nil
	}
	keys, cut := make([]key, len(texts)), make([]bool, len(texts))
	sc := scope(id, kind)
	for i, t := range texts {
		keys[i] = keyOf(sc, t)
	}
	for _, i := range r.Truncated {
		cut[i] = true
	}
	w.keep(keys, r.Vectors, id.Dim, cut)
	return r, nil
}
