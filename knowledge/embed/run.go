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

// Options for a Local embedder or a CrossEncoder.
type Options struct {
	// Workers is the number of batches worked on at the same time, over
	// all calls; each uses one core. Default: GOMAXPROCS.
	Workers int
	// BatchTokens bounds the tokens of a batch, and with them the working
	// memory of a worker: some 14 KiB a token for a model of 384 dimensions.
	// A single text may exceed it. Default: 512.
	BatchTokens int
}

// A runner runs a model over batches of texts. It is safe for concurrent use.
type runner struct {
	model   *Model
	batch   int
	workers chan *scratch // one slot a worker; nil until it is first used
}

func newRunner(m *Model, o *Options) (*runner, error) {
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
	r := &runner{model: m, batch: opt.BatchTokens, workers: make(chan *scratch, opt.Workers)}
	for range opt.Workers {
		r.workers <- nil
	}
	return r, nil
}

// input is a text, or a pair of texts, on its way through the model.
type input struct {
	text   int
	ids    []int32 // special tokens included
	second int     // where in ids the second text of a pair starts, else len(ids)
	tokens []tokenize.Token
	cut    bool
}

// frame puts the special tokens around those of a text, with seps separators
// more at the end.
func (m *Model) frame(tokens []tokenize.Token, seps int) input {
	cls, sep, _, _ := m.tokenizer.Specials()
	ids := append(make([]int32, 0, len(tokens)+2+seps), cls)
	for _, t := range tokens {
		ids = append(ids, t.ID)
	}
	for range seps + 1 {
		ids = append(ids, sep)
	}
	return input{ids: ids, second: len(ids), tokens: tokens}
}

// fine reports whether the text gets activations of 16 bits.
func (in *input) fine() bool { return len(in.ids) <= fineTokens }

// truncated lists the texts that were cut, in ascending order.
func truncated(inputs []input) (out []int) {
	for i := range inputs {
		if inputs[i].cut {
			out = append(out, inputs[i].text)
		}
	}
	slices.Sort(out)
	return out
}

// run takes n inputs from prepare (of which it needs the first tokens' vectors
// only, if first is set), sorts them into batches, longest first, and
// hands each input of a finished batch to take, row t of the batch. Both steps
// use all free workers: prepare and take are called by several goroutines at a
// time, for different inputs. A memory fault in a mapped model is an error.
func (r *runner) run(ctx context.Context, n int, first bool, prepare func(i int) input, take func(s *scratch, t int, in *input)) ([]input, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	inputs := make([]input, n)
	piece := max(1, min(16, n/(4*cap(r.workers))))
	err := r.parallel(ctx, (n+piece-1)/piece, func(_ *scratch, p int) {
		for i := p * piece; i < min((p+1)*piece, n); i++ {
			inputs[i] = prepare(i)
			inputs[i].text = i
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(inputs, func(a, b input) int {
		return cmp.Or(cmp.Compare(len(b.ids), len(a.ids)), cmp.Compare(a.text, b.text))
	})
	batches := r.batches(inputs)
	return inputs, r.parallel(ctx, len(batches), func(s *scratch, b int) {
		batch := batches[b]
		s.load(batch)
		s.first = first
		r.model.forward(s)
		for t := range batch {
			take(s, t, &batch[t])
		}
	})
}

// batches cuts the inputs, longest first, into batches: full ones while there
// are many, and the last of them so that all workers end at about the same
// time. The texts of a batch are fine or are not.
func (r *runner) batches(inputs []input) [][]input {
	total := 0
	for i := range inputs {
		total += len(inputs[i].ids)
	}
	var out [][]input
	for total > 4*cap(r.workers)*r.batch {
		n, tokens := 1, len(inputs[0].ids)
		for n < len(inputs) && tokens+len(inputs[n].ids) <= r.batch && inputs[n].fine() == inputs[0].fine() {
			tokens += len(inputs[n].ids)
			n++
		}
		out, inputs, total = append(out, inputs[:n]), inputs[n:], total-tokens
	}
	fine := slices.IndexFunc(inputs, func(in input) bool { return in.fine() })
	if fine < 0 {
		fine = len(inputs)
	}
	return append(append(out, r.share(inputs[:fine])...), r.share(inputs[fine:])...)
}

// share deals the inputs, longest first, out to as many batches as they fill,
// but a multiple of the workers: each to the batch that costs least so far. A
// batch may get a few tokens more than BatchTokens.
func (r *runner) share(inputs []input) [][]input {
	total := 0
	for i := range inputs {
		total += len(inputs[i].ids)
	}
	n := min(roundUp((total+r.batch-1)/r.batch, cap(r.workers)), len(inputs))
	out, cost := make([][]input, n), make([]int, n)
	for _, in := range inputs {
		k := 0
		for i, c := range cost {
			if c < cost[k] {
				k = i
			}
		}
		out[k] = append(out[k], in)
		cost[k] += len(in.ids) * (costOfLayers + len(in.ids))
	}
	return out
}

// costOfLayers is the length of a text whose attention costs as much as the
// matrix products of its layers.
const costOfLayers = 480

// parallel calls f for 0 ≤ i < n on as many workers as are free, at least one,
// and waits for them. It stops early when ctx is done; a memory fault in a
// mapped model is an error.
func (r *runner) parallel(ctx context.Context, n int, f func(s *scratch, i int)) error {
	var (
		next  atomic.Int64
		group sync.WaitGroup
		fault atomic.Pointer[error]
	)
	work := func(s *scratch) {
		defer func() { r.workers <- s }()
		err := r.model.guard(func() {
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
		case own := <-r.workers:
			for range n - 1 {
				s, ok := r.free()
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
func (r *runner) free() (*scratch, bool) {
	select {
	case s := <-r.workers:
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
func (s *scratch) load(batch []input) {
	s.ids, s.starts, s.second, s.fine = s.ids[:0], append(s.starts[:0], 0), s.second[:0], batch[0].fine()
	for i := range batch {
		s.second = append(s.second, len(s.ids)+batch[i].second)
		s.ids = append(s.ids, batch[i].ids...)
		s.starts = append(s.starts, len(s.ids))
	}
}
