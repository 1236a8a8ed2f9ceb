package embed

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quarrysearch/quarry/knowledge/embed/tokenize"
	"github.com/quarrysearch/quarry/storage"
)

// Options for a Local embedder.
type Options struct {
	// Workers is the number of batches worked on at the same time, over
	// all calls; each uses one core. Default: GOMAXPROCS.
	Workers int
	// BatchTokens bounds the tokens of a batch, and with them the working
	// memory of a worker: some 14 KiB a token for a model of 384 dimensions.
	// A single text may exceed it. Default: 512.
	BatchTokens int
}

// Local is an Embedder and a TokenEmbedder that runs a Model on the
// processor's cores. It is safe for concurrent use.
type Local struct {
	model   *Model
	batch   int
	workers chan *scratch // one slot a worker; nil until it is first used
}

// NewLocal returns an embedder over m, which it does not close. A nil o means
// all defaults.
func NewLocal(m *Model, o *Options) (*Local, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	if opt.Workers == 0 {
		opt.Workers = runtime.GOMAXPROCS(0)
	}
	if opt.BatchTokens == 0 {
		opt.BatchTokens = 512
	}
	if opt.Workers < 0 || opt.Workers > 4096 {
		return nil, storage.Invalidf("Workers %d: want 1 to 4096", opt.Workers)
	}
	if opt.BatchTokens < 0 || opt.BatchTokens > 1<<20 {
		return nil, storage.Invalidf("BatchTokens %d: want 1 to 1048576", opt.BatchTokens)
	}
	e := &Local{model: m, batch: opt.BatchTokens, workers: make(chan *scratch, opt.Workers)}
	for range opt.Workers {
		e.workers <- nil
	}
	return e, nil
}

// Model returns the model.
func (e *Local) Model() *Model { return e.model }

// Identity implements Embedder.
func (e *Local) Identity() Identity {
	c := &e.model.config
	return Identity{
		Name: c.Name, Revision: c.Revision, Dim: c.Dim, Metric: "cosine",
		QueryPrefix: c.QueryPrefix, PassagePrefix: c.PassagePrefix,
		Tokenizer: e.model.tokenizer.Name(), Floor: c.Floor,
	}
}

// Embed implements Embedder. The vector of a text does not depend on the other
// texts, their order or the number of workers, and is the same on every
// processor. The context is looked at between batches.
func (e *Local) Embed(ctx context.Context, kind Kind, texts []string) (Result, error) {
	dim := e.model.config.Dim
	r := Result{Vectors: make([]float32, len(texts)*dim)}
	inputs, err := e.run(ctx, kind, texts, func(s *scratch, t int, in *input) {
		e.model.pool(s, t, r.Vectors[in.text*dim:(in.text+1)*dim])
	})
	if err != nil {
		return Result{}, err
	}
	for i := range inputs {
		if inputs[i].cut {
			r.Truncated = append(r.Truncated, inputs[i].text)
		}
	}
	slices.Sort(r.Truncated)
	return r, nil
}

// Tokens implements TokenEmbedder.
func (e *Local) Tokens(ctx context.Context, kind Kind, texts []string) ([]TokenVectors, error) {
	dim := e.model.config.Dim
	out := make([]TokenVectors, len(texts))
	prefix := len(e.prefix(kind))
	_, err := e.run(ctx, kind, texts, func(s *scratch, t int, in *input) {
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
		return e.model.config.QueryPrefix
	}
	return e.model.config.PassagePrefix
}

// input is a text on its way: its tokens without the two special ones.
type input struct {
	text   int
	tokens []tokenize.Token
	cut    bool
}

// fine reports whether the text gets activations of 16 bits.
func (in *input) fine() bool { return len(in.tokens)+2 <= fineTokens }

// run tokenizes the texts, sorts them into batches, longest first, and hands
// each text of a finished batch to take, row t of the batch. Both steps use all
// free workers; take is called by several goroutines at a time, for different
// texts.
func (e *Local) run(ctx context.Context, kind Kind, texts []string, take func(s *scratch, t int, in *input)) ([]input, error) {
	if kind > Query {
		return nil, storage.Invalidf("kind %d", kind)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	inputs := make([]input, len(texts))
	const piece = 16
	err := e.parallel(ctx, (len(texts)+piece-1)/piece, func(_ *scratch, p int) {
		for i := p * piece; i < min((p+1)*piece, len(texts)); i++ {
			inputs[i] = e.tokenize(kind, i, texts[i])
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(inputs, func(a, b input) int {
		return cmp.Or(cmp.Compare(len(b.tokens), len(a.tokens)), cmp.Compare(a.text, b.text))
	})
	batches := e.batches(inputs)
	return inputs, e.parallel(ctx, len(batches), func(s *scratch, b int) {
		batch := batches[b]
		e.model.load(s, batch)
		e.model.forward(s)
		for t := range batch {
			take(s, t, &batch[t])
		}
	})
}

// tokenize gives the tokens of a text and its prefix, cut at the limit.
func (e *Local) tokenize(kind Kind, i int, text string) input {
	if p := e.prefix(kind); p != "" {
		text = p + text
	}
	in := input{text: i, tokens: e.model.tokenizer.Tokenize(nil, text)}
	if room := e.model.config.Limit - 2; len(in.tokens) > room {
		in.tokens, in.cut = in.tokens[:room:room], true
	}
	return in
}

// batches cuts the inputs into runs of no more tokens than a batch takes, or
// than a worker's share when there are few; the texts of a batch are fine or
// are not.
func (e *Local) batches(inputs []input) [][]input {
	total := 0
	for i := range inputs {
		total += len(inputs[i].tokens) + 2
	}
	bound := min(e.batch, total/cap(e.workers)+1)
	var out [][]input
	for len(inputs) > 0 {
		n, tokens := 1, len(inputs[0].tokens)+2
		for n < len(inputs) && tokens+len(inputs[n].tokens)+2 <= bound && inputs[n].fine() == inputs[0].fine() {
			tokens += len(inputs[n].tokens) + 2
			n++
		}
		out = append(out, inputs[:n])
		inputs = inputs[n:]
	}
	return out
}

// parallel calls f for 0 ≤ i < n on as many workers as are free, at least one,
// and waits for them. It stops early when ctx is done; a memory fault in a
// mapped model is an error.
func (e *Local) parallel(ctx context.Context, n int, f func(s *scratch, i int)) error {
	var (
		next  atomic.Int64
		group sync.WaitGroup
		fault atomic.Pointer[error]
	)
	work := func(s *scratch) {
		defer func() { e.workers <- s }()
		err := e.model.guard(func() {
			for ctx.Err() == nil && fault.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				f(s, i)
			}
		})
		if err != nil {
			fault.CompareAndSwap(nil, &err)
		}
	}
	if n > 0 {
		select {
		case own := <-e.workers:
			for range n - 1 {
				s, ok := e.free()
				if !ok {
					break
				}
				group.Go(func() { work(s) })
			}
			work(orNew(own))
			group.Wait()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := fault.Load(); err != nil {
		return *err
	}
	return ctx.Err()
}

// free takes a worker if one is free.
func (e *Local) free() (*scratch, bool) {
	select {
	case s := <-e.workers:
		return orNew(s), true
	default:
		return nil, false
	}
}

func orNew(s *scratch) *scratch {
	if s == nil {
		return new(scratch)
	}
	return s
}

// guard runs f; with a mapped model, a fault of the mapping is an error.
func (m *Model) guard(f func()) error {
	if !m.mapped {
		f()
		return nil
	}
	return storage.Guard(func() error { f(); return nil })
}

// load lays out the tokens of a batch.
func (m *Model) load(s *scratch, batch []input) {
	cls, sep, _, _ := m.tokenizer.Specials()
	s.ids, s.starts, s.fine = s.ids[:0], append(s.starts[:0], 0), batch[0].fine()
	for i := range batch {
		s.ids = append(s.ids, cls)
		for _, t := range batch[i].tokens {
			s.ids = append(s.ids, t.ID)
		}
		s.ids = append(s.ids, sep)
		s.starts = append(s.starts, len(s.ids))
	}
}
