package embed

import (
	"context"

	"github.com/quarrysearch/quarry/knowledge/embed/tokenize"
	"github.com/quarrysearch/quarry/storage"
)

// Local is an Embedder and a TokenEmbedder that runs a Model on the
// processor's cores. It is safe for concurrent use.
type Local struct{ run *runner }

// NewLocal returns an embedder over m, which it does not close. A nil o means
// all defaults. The error matches storage.ErrInvalid for a cross-encoder, whose
// vectors mean nothing.
func NewLocal(m *Model, o *Options) (*Local, error) {
	if m.head != nil {
		return nil, storage.Invalidf("model %q is a cross-encoder: it scores pairs and embeds nothing", m.config.Name)
	}
	run, err := newRunner(m, o)
	if err != nil {
		return nil, err
	}
	return &Local{run}, nil
}

// Model returns the model.
func (e *Local) Model() *Model { return e.run.model }

// Identity implements Embedder.
func (e *Local) Identity() Identity { return e.run.model.Identity() }

// Embed implements Embedder. The vector of a text does not depend on the other
// texts, their order or the number of workers, and is the same on every
// processor. The context is looked at between batches.
func (e *Local) Embed(ctx context.Context, kind Kind, texts []string) (Result, error) {
	m := e.run.model
	dim := m.config.Dim
	r := Result{Vectors: make([]float32, len(texts)*dim)}
	inputs, err := e.texts(ctx, kind, texts, m.config.Pooling == CLSPooling, func(s *scratch, t int, in *input) {
		m.pool(s, t, r.Vectors[in.text*dim:(in.text+1)*dim])
	})
	if err != nil {
		return Result{}, err
	}
	r.Truncated = truncated(inputs)
	return r, nil
}

// Tokens implements TokenEmbedder.
func (e *Local) Tokens(ctx context.Context, kind Kind, texts []string) ([]TokenVectors, error) {
	dim := e.run.model.config.Dim
	out := make([]TokenVectors, len(texts))
	prefix := len(e.prefix(kind))
	_, err := e.texts(ctx, kind, texts, false, func(s *scratch, t int, in *input) {
		v := TokenVectors{Dim: dim, Truncated: in.cut}
		first := s.starts[t] + 1 // after the first special token
		for i, tok := range in.tokens {
			if tok.End <= prefix {
				continue
			}
			v.Spans = append(v.Spans, Span{Start: max(tok.Start-prefix, 0), End: tok.End - prefix})
			v.Vectors = append(v.Vectors, s.x[(first+i)*dim:(first+i+1)*dim]...)
			normalize(v.Vectors[len(v.Vectors)-dim:])
		}
		out[in.text] = v
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (e *Local) prefix(kind Kind) string {
	if kind == Query {
		return e.run.model.config.QueryPrefix
	}
	return e.run.model.config.PassagePrefix
}

// texts runs the model over texts of one kind; first: see run.
func (e *Local) texts(ctx context.Context, kind Kind, texts []string, first bool, take func(s *scratch, t int, in *input)) ([]input, error) {
	if kind > Query {
		return nil, storage.Invalidf("kind %d", kind)
	}
	m, prefix := e.run.model, e.prefix(kind)
	return e.run.run(ctx, len(texts), first, func(i int) input {
		text := texts[i]
		if prefix != "" {
			text = prefix + text
		}
		tokens, cut := m.tokenizer.Tokenize(nil, text), false
		if room := m.config.Limit - 2; len(tokens) > room {
			tokens, cut = tokens[:room:room], true
		}
		in := m.frame(tokens, 0)
		in.cut = cut
		return in
	}, take)
}

// SpansOf returns the tokenizer of a local embedder, also of one in a cache
// (anything with Unwrap), as a function that gives the byte range of every token
// in order; nil when the embedder has none of its own.
func SpansOf(e Embedder) func(text string, emit func(start, end int)) {
	for e != nil {
		var t tokenize.Tokenizer
		switch v := e.(type) {
		case interface{ Tokenizer() tokenize.Tokenizer }:
			t = v.Tokenizer()
		case interface{ Model() *Model }:
			if m := v.Model(); m != nil {
				t = m.Tokenizer()
			}
		case interface{ Unwrap() Embedder }:
			e = v.Unwrap()
			continue
		}
		if t == nil {
			return nil
		}
		return func(text string, emit func(start, end int)) {
			for _, tok := range t.Tokenize(nil, text) {
				emit(tok.Start, tok.End)
			}
		}
	}
	return nil
}
