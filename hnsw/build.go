package hnsw

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/storage"
)

// Creator starts a section and returns where its bytes go, as
// (*storage.SegmentWriter).Section does: starting one ends the one before.
type Creator = func(section string) (io.Writer, error)

// A rowSource gives the input's vector i in the metric's prepared form. The
// slice may be tmp, which holds dim components, and is read at once.
type rowSource func(i int, tmp []float32) []float32

// Build writes a field over n = len(docs) vectors: row i of vectors, Dim
// components, belongs to docs[i]; docs ascend strictly. The bytes written
// depend on the vectors, docs, Dim, Metric, M, EfConstruction, Seed and
// GraphMin alone, not on Threads.
//
// A vector that the metric refuses (not finite; zero under Cosine) is an
// error that matches storage.ErrInvalid and names the doc. Besides its
// arguments Build holds the codes and the links: per vector the codec's stride
// plus 4·(M0+16) bytes, and 4-bit rows if any: for M = 16 and 100 dimensions
// 384 bytes.
//
// Time grows as n·log n with some 2·EfConstruction·M distances a vector.
// ctx ends the build early with its error.
func Build(ctx context.Context, o Options, vectors []float32, docs []uint32, create Creator) error {
	o, err := o.normalize()
	if err != nil {
		return err
	}
	if len(vectors) != len(docs)*o.Dim {
		return storage.Invalidf("%d components for %d vectors of dimension %d", len(vectors), len(docs), o.Dim)
	}
	for i, doc := range docs {
		v := vectors[i*o.Dim : (i+1)*o.Dim]
		if err := o.Metric.Validate(v, o.Dim); err != nil {
			return fmt.Errorf("doc %d: %w", doc, err)
		}
	}
	rows := func(i int, tmp []float32) []float32 {
		v := vectors[i*o.Dim : (i+1)*o.Dim]
		if o.Metric != quant.Cosine {
			return v
		}
		o.Metric.Prepare(tmp, v)
		return tmp
	}
	return build(ctx, o, rows, docs, create)
}

func build(ctx context.Context, o Options, rows rowSource, docs []uint32, create Creator) error {
	if err := checkDocs(docs); err != nil {
		return err
	}
	b, err := newBuilder(ctx, o, rows, docs)
	if err != nil {
		return err
	}
	if !b.flat() {
		if err := b.construct(); err != nil {
			return err
		}
	}
	return b.write(create)
}

func checkDocs(docs []uint32) error {
	if len(docs) > MaxVectors {
		return storage.Invalidf("%d vectors in one field: at most %d", len(docs), MaxVectors)
	}
	for i := 1; i < len(docs); i++ {
		if docs[i] <= docs[i-1] {
			return storage.Invalidf("docs do not ascend: %d after %d", docs[i], docs[i-1])
		}
	}
	if n := len(docs); n > 0 && docs[n-1] == none {
		return storage.Invalidf("doc %d is out of range", docs[n-1])
	}
	return nil
}

// construct makes the graph from nothing.
func (b *builder) construct() error {
	dup, err := b.group()
	if err != nil {
		return err
	}
	b.shuffle(dup)
	b.settle()
	b.makeLevels(nil)
	held := b.heldOut()
	if err := b.insertAll(0, []span{{0, b.nodes - held}}); err != nil {
		return err
	}
	b.built = b.measured
	return b.arrange()
}

// A builder makes the graph of one field. While it works, a node is named by
// its rank: in a build its place in the order of insertion, a seeded shuffle.
// Level l holds exactly the ranks below count(l) = ⌈n/M^l⌉, which gives every
// level the share of nodes that the paper's exponential draw gives on average,
// and lets one rank name a node on all its levels.
type builder struct {
	ctx      context.Context
	o        Options
	codec    quant.SQ8
	rows     rowSource
	docs     []uint32   // input row → doc
	codes    []byte     // codes by rank (by input row until settle)
	narrow   *quant.SQ4 // of the rows searched; nil when those are codes
	stored   []byte     // their rows by rank
	row      []uint32   // rank → input row; graph nodes first, then duplicates
	nodes    int        // graph nodes: ranks below it have links
	groups   []dupGroup
	levels   []level
	ord      []uint32 // rank → ord
	cal      calibration
	built    reference // what meta will say
	measured reference // of this graph
	old      *reuse    // the graphs of a merge's inputs, nil in a build
	workers  []*worker
	pairs    []uint64 // reverse edges of a batch, target<<32 | source
}

// A level is a linkTable under construction: rows have room for slack more
// links than they keep in the end, so that a row is pruned once for many
// links added to it, not at each.
type level struct {
	linkTable
	degree []uint8
	keep   int // M or M0
}

// A worker is the memory of one goroutine of the build.
type worker struct {
	Scratch
	prune  quant.Query
	cands  []key
	passed []key // candidates that diversify passed over
	vec    []float32
	out    []uint32
	gone   []uint32
	gained []uint64 // links that heal added, target<<32 | source
}

// A span is the ranks lo..hi-1.
type span struct{ lo, hi int }

const (
	linkSlack  = 16   // extra room in a row under construction
	firstBatch = 256  // nodes linked by exhaustive comparison
	batchMax   = 1024 // bound of a batch: its nodes do not walk over each other
	grain      = 16   // nodes a worker takes at once
)

func newBuilder(ctx context.Context, o Options, rows rowSource, docs []uint32) (*builder, error) {
	b := &builder{ctx: ctx, o: o, rows: rows, docs: docs, codec: quant.NewSQ8(o.Dim, o.Metric)}
	b.cal = defaultCalibration()
	for range o.Threads {
		b.workers = append(b.workers, &worker{vec: make([]float32, o.Dim)})
	}
	stride := b.codec.Stride()
	b.codes = make([]byte, len(docs)*stride)
	hugePages(b.codes)
	b.row = make([]uint32, len(docs))
	b.nodes = len(docs)
	err := b.parallel(len(docs), 64, func(w *worker, i int) error {
		b.row[i] = uint32(i)
		b.codec.Encode(b.codes[i*stride:(i+1)*stride], rows(i, w.vec))
		return nil
	})
	return b, err
}

// flat says whether the field gets no graph.
func (b *builder) flat() bool { return b.o.GraphMin < 0 || len(b.docs) < max(b.o.GraphMin, 2) }

func (b *builder) code(rank int) []byte {
	stride := b.codec.Stride()
	return b.codes[rank*stride : (rank+1)*stride]
}

// parallel calls fn for every i below n, grain of them at a time a worker. fn
// may write only what belongs to i, so the outcome does not depend on who does
// what. The context ends it between two grains.
func (b *builder) parallel(n, grain int, fn func(w *worker, i int) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, len(b.workers))
	work := func(t int) {
		for {
			lo := int(next.Add(int64(grain))) - grain
			if lo >= n {
				return
			}
			if errs[t] = b.ctx.Err(); errs[t] != nil {
				return
			}
			for i := lo; i < min(lo+grain, n); i++ {
				if errs[t] = fn(b.workers[t], i); errs[t] != nil {
					return
				}
			}
		}
	}
	for t := 1; t < len(b.workers) && t*grain < n; t++ {
		wg.Go(func() {
			// A merge reads vectors of mapped files: a fault is an error, in
			// this goroutine too.
			errs[t] = storage.Guard(func() error { work(t); return errs[t] })
		})
	}
	// Guarded too: a fault must not unwind past the others, who still read.
	errs[0] = storage.Guard(func() error { work(0); return errs[0] })
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return b.ctx.Err()
}

// insertAll links the nodes of the spans, on top of the linked ones there are,
// then calibrates with what is left, the last ranks, and links those. A batch
// never exceeds what is linked already, so early nodes meet a graph that is no
// staler than late ones do.
func (b *builder) insertAll(linked int, spans []span) error {
	for _, s := range spans {
		for lo := s.lo; lo < s.hi; {
			hi := min(lo+min(max(linked, firstBatch), batchMax), s.hi)
			if err := b.insertBatch(lo, hi); err != nil {
				return err
			}
			linked += hi - lo
			lo = hi
			if b.o.Progress != nil {
				b.o.Progress(linked, b.nodes)
			}
		}
	}
	if linked == b.nodes {
		return nil
	}
	if err := b.calibrate(linked); err != nil {
		return err
	}
	return b.insertAll(linked, []span{{linked, b.nodes}})
}

// makeLevels makes the tables of all levels. counts, if given, are the nodes
// of level 1, 2, …, else level l has ⌈n/M^l⌉.
func (b *builder) makeLevels(counts []int) {
	if counts == nil {
		counts = levelCounts(b.nodes, b.o.M)
	}
	for l := range len(counts) + 1 {
		keep, count := b.o.M, b.nodes
		if l == 0 {
			keep *= 2
		} else {
			count = counts[l-1]
		}
		stride := keep + linkSlack
		links := make([]uint32, count*stride)
		hugePages(asBytes(links))
		b.levels = append(b.levels, level{
			linkTable: linkTable{links: links, stride: stride, n: count},
			degree:    make([]uint8, count),
			keep:      keep,
		})
		for i := 0; i < len(links); i += stride {
			links[i] = none
		}
	}
}

// levelCounts is the number of nodes that level 1, 2, … of n nodes have.
func levelCounts(n, m int) []int {
	var counts []int
	for n > m {
		n = (n + m - 1) / m
		counts = append(counts, n)
	}
	return counts
}

// insertBatch links the nodes lo..hi-1: first each one's own links, found in
// the graph below lo and among the earlier nodes of the batch, in parallel,
// with nothing written but its own rows; then the links back, sorted by
// target, in parallel by target.
func (b *builder) insertBatch(lo, hi int) error {
	err := b.parallel(hi-lo, grain, func(w *worker, i int) error {
		return b.link(w, lo+i, lo)
	})
	if err != nil {
		return err
	}
	for l := range b.levels {
		lv := &b.levels[l]
		b.pairs = b.pairs[:0]
		for r := lo; r < min(hi, lv.n); r++ {
			for _, to := range lv.row(uint32(r))[:lv.degree[r]] {
				b.pairs = append(b.pairs, uint64(to)<<32|uint64(r))
			}
		}
		if err := b.linkBack(lv); err != nil {
			return err
		}
	}
	return nil
}

// linkBack adds to every target of b.pairs its sources.
func (b *builder) linkBack(lv *level) error {
	slices.Sort(b.pairs)
	var starts []int
	for i, p := range b.pairs {
		if i == 0 || p>>32 != b.pairs[i-1]>>32 {
			starts = append(starts, i)
		}
	}
	starts = append(starts, len(b.pairs))
	return b.parallel(len(starts)-1, 4*grain, func(w *worker, i int) error {
		pairs := b.pairs[starts[i]:starts[i+1]]
		t := int(pairs[0] >> 32)
		row, deg := lv.row(uint32(t)), int(lv.degree[t])
		if deg+len(pairs) <= lv.stride {
			for _, p := range pairs {
				row[deg] = uint32(p)
				deg++
			}
			lv.setDegree(t, deg)
			return nil
		}
		w.out = append(w.out[:0], row[:deg]...)
		for _, p := range pairs {
			w.out = append(w.out, uint32(p))
		}
		b.reselect(w, lv, t, w.out)
		return nil
	})
}

func (lv *level) setDegree(t, deg int) {
	lv.degree[t] = uint8(deg)
	if deg < lv.stride {
		lv.row(uint32(t))[deg] = none
	}
}
