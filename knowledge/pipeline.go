package knowledge

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// Sizes of the pipeline.
const (
	embedTexts  = 256       // texts a call of the embedder
	embedBytes  = 256 << 10 // bytes a call, but for a single text
	embedCalls  = 2         // at a time: one ends while the next has begun
	applyPieces = 512       // chunks an index batch, but for a single document

	window      = 64        // sources between the first stage and the last
	windowBytes = 128 << 20 // their bytes, but for a single source
)

// ingest is one run of the pipeline:
//
//	places ─ feed ─► prepare (Threads) ─► in order ─► embed, batches across
//	         documents (2 calls at a time) ─► apply, whole documents, in order
//
// Source bytes are written beside it and waited for before apply. What is on the
// way is bounded in number and in bytes. Order is kept throughout: after a crash
// the base holds a prefix.
type ingest struct {
	b       *base
	req     IngestRequest
	report  *Report
	rebuild bool

	ix    collection.Collection
	cat   catalog
	e     embed.Embedder // nil: keyword only
	model *embed.Identity

	done, total int
	types       map[string]filter.Type // of metadata, those of this ingest included
	stopped     context.Context        // done when the pipeline has stopped early
	stop        context.CancelCauseFunc
	wg          sync.WaitGroup
	gone        []string // hashes of blobs that this ingest has made old
	busy        busyClock
	room        *gate
}

// A job is one source on its way.
type job struct {
	place    *place
	prepared chan struct{} // closed when v or err is set
	v        *version
	err      error

	pending  atomic.Int64 // pieces without a vector
	embedded chan struct{}
	refused  atomic.Pointer[error] // the embedder's word on one of its texts
}

// run takes places through the pipeline. The caller's goroutine is the one that
// applies, reports and calls Progress.
func (in *ingest) run(ctx context.Context, places []place) error {
	prep, err := newPreparer(in.b, in.cat, in.e)
	if err != nil {
		return err
	}
	prep.replace = in.req.Replace
	if in.req.MaxFileBytes > 0 {
		prep.maxBytes = in.req.MaxFileBytes
	}
	if in.rebuild {
		prep.maxBytes = maxBlob
	}
	prep.lookup = func(id string) (Document, error) { return record(ctx, in.ix, id) }
	prep.start = in.start
	sc, err := in.ix.Schema(ctx)
	if err != nil {
		return err
	}
	in.types, in.room = sc.Meta, newGate(windowBytes)
	if err := in.b.s.fs.MkdirAll(in.b.path(blobsName)); err != nil {
		return err
	}
	in.stopped, in.stop = context.WithCancelCause(ctx)
	work, order := make(chan *job), make(chan *job, window)
	sequence, ready := make(chan *job), make(chan *job, window)
	in.start(func() { in.feed(places, work, order) })
	for range in.b.s.o.Threads {
		in.start(func() { in.prepare(prep, work) })
	}
	in.start(func() { in.inOrder(order, sequence) })
	in.start(func() { in.embed(sequence, ready) })
	err = in.apply(ready)
	// What fails because the pipeline has stopped only says so.
	if cause := context.Cause(in.stopped); cause != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = cause
	}
	in.stop(err)
	in.wg.Wait()
	in.report.EmbedSeconds = in.busy.total().Seconds()
	if err != nil || in.rebuild {
		return err
	}
	// Not before: a source on its way may have counted on one of them.
	return in.b.dropBlobs(ctx, in.ix, in.gone)
}

func (in *ingest) start(f func()) {
	in.wg.Add(1)
	go func() {
		defer in.wg.Done()
		f()
	}()
}

// send passes a job on, unless the pipeline has stopped.
func (in *ingest) send(to chan<- *job, j *job) bool {
	select {
	case to <- j:
		return true
	case <-in.stopped.Done():
		return false
	}
}

func (in *ingest) feed(places []place, work, order chan<- *job) {
	defer close(work)
	defer close(order)
	for i := range places {
		j := &job{place: &places[i], prepared: make(chan struct{}), embedded: make(chan struct{})}
		// In order, so that the sources before never wait for room that this
		// one holds.
		if !in.room.take(in.stopped, j.place.size) || !in.send(order, j) || !in.send(work, j) {
			return
		}
	}
}

func (in *ingest) prepare(prep *preparer, work <-chan *job) {
	for j := range work {
		j.v, j.err = prep.prepare(in.stopped, j.place)
		close(j.prepared)
	}
}

func (in *ingest) inOrder(order <-chan *job, sequence chan<- *job) {
	defer close(sequence)
	for j := range order {
		select {
		case <-j.prepared:
		case <-in.stopped.Done():
			return
		}
		if !in.send(sequence, j) {
			return
		}
	}
}

// A textBatch collects the texts of one call of the embedder.
type textBatch struct {
	texts  []string
	owners []owner
	bytes  int
}

type owner struct {
	j     *job
	piece int
}

// embed gives pieces their vectors. A batch goes out when it is full, and also
// when the embedder would otherwise have nothing to do.
func (in *ingest) embed(sequence <-chan *job, ready chan<- *job) {
	defer close(ready)
	slots, idle := make(chan struct{}, embedCalls), make(chan struct{}, 1)
	var batch textBatch
	flush := func() {
		if len(batch.texts) == 0 {
			return
		}
		b := batch
		batch = textBatch{}
		select {
		case slots <- struct{}{}:
		case <-in.stopped.Done():
			return
		}
		in.busy.begin()
		in.start(func() {
			in.call(b)
			in.busy.end()
			<-slots
			select {
			case idle <- struct{}{}:
			default:
			}
		})
	}
	for {
		var j *job
		more := true
		select {
		case j, more = <-sequence:
		default:
			if len(slots) == 0 {
				flush()
			}
			select {
			case j, more = <-sequence:
			case <-idle:
				continue
			case <-in.stopped.Done():
				return
			}
		}
		if !more {
			flush()
			return
		}
		in.gather(j, &batch, flush)
		select {
		case ready <- j:
		default:
			// The stage behind may be waiting for what lies in the batch.
			flush()
			if !in.send(ready, j) {
				return
			}
		}
	}
}

// gather puts the texts of a job into batches.
func (in *ingest) gather(j *job, batch *textBatch, flush func()) {
	if j.err != nil || in.e == nil || len(j.v.pieces) == 0 {
		close(j.embedded)
		return
	}
	j.pending.Store(int64(len(j.v.pieces)))
	for i := range j.v.pieces {
		text := j.v.pieces[i].text
		if len(batch.texts) >= embedTexts || len(batch.texts) > 0 && batch.bytes+len(text) > embedBytes {
			flush()
		}
		batch.texts = append(batch.texts, text)
		batch.owners = append(batch.owners, owner{j, i})
		batch.bytes += len(text)
	}
}

// call embeds one batch. A text that the embedder refuses fails its document,
// and the rest is tried again without it; any other failure ends the ingest.
func (in *ingest) call(b textBatch) {
	for len(b.texts) > 0 {
		err := in.vectors(b)
		if err == nil {
			break
		}
		var refused interface {
			error
			TextIndex() int
		}
		if !errors.As(err, &refused) || refused.TextIndex() < 0 || refused.TextIndex() >= len(b.texts) {
			in.stop(err)
			return
		}
		bad := b.owners[refused.TextIndex()].j
		bad.refused.Store(&err)
		var rest textBatch
		for i, o := range b.owners {
			if o.j == bad {
				o.j.finish(1)
				continue
			}
			rest.texts, rest.owners = append(rest.texts, b.texts[i]), append(rest.owners, o)
		}
		b = rest
	}
	for _, o := range b.owners {
		o.j.finish(1)
	}
}

func (j *job) finish(n int64) {
	if j.pending.Add(-n) == 0 {
		close(j.embedded)
	}
}

// vectors calls the embedder and hands out its vectors.
func (in *ingest) vectors(b textBatch) error {
	r, err := in.e.Embed(in.stopped, embed.Passage, b.texts)
	if err != nil {
		return err
	}
	dim := in.model.Dim
	if err := r.Check(in.model, len(b.texts)); err != nil {
		return err
	}
	for i, o := range b.owners {
		v := r.Vectors[i*dim : (i+1)*dim : (i+1)*dim]
		square, ok := squareNorm(v)
		if !ok {
			err := embed.NotFinite(in.model)
			o.j.refused.Store(&err)
			continue
		}
		if square > 0 || in.model.Metric == metricL2 || in.model.Metric == metricDot {
			o.j.v.pieces[o.piece].vector = v
		}
	}
	for _, i := range r.Truncated {
		if i >= 0 && i < len(b.owners) {
			o := b.owners[i]
			o.j.v.pieces[o.piece].truncated = true
		}
	}
	return nil
}

// squareNorm returns the squared length of a vector and whether all of it is
// finite.
func squareNorm(v []float32) (float64, bool) {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return sum, !math.IsNaN(sum) && !math.IsInf(sum, 0)
}

// apply takes jobs in order and puts whole documents into the index, several a
// batch while they come fast.
func (in *ingest) apply(ready <-chan *job) error {
	g := &group{in: in}
	for {
		var j *job
		more := true
		select {
		case j, more = <-ready:
		default:
			if err := g.flush(); err != nil {
				return err
			}
			select {
			case j, more = <-ready:
			case <-in.stopped.Done():
				return context.Cause(in.stopped)
			}
		}
		if !more {
			// The stages before close their queues when they are stopped, too.
			if in.stopped.Err() != nil {
				return context.Cause(in.stopped)
			}
			return g.flush()
		}
		select {
		case <-j.embedded:
		default:
			if err := g.flush(); err != nil {
				return err
			}
			select {
			case <-j.embedded:
			case <-in.stopped.Done():
				return context.Cause(in.stopped)
			}
		}
		if err := g.add(j); err != nil {
			return err
		}
	}
}

// A gate lets through so many bytes at a time.
type gate struct {
	mu    sync.Mutex
	size  int64
	free  int64
	freed chan struct{} // closed when some are given back
}

func newGate(size int64) *gate { return &gate{size: size, free: size, freed: make(chan struct{})} }

// take waits for n bytes, all there are when n is more; false when ctx is done.
func (g *gate) take(ctx context.Context, n int64) bool {
	n = min(n, g.size)
	for {
		g.mu.Lock()
		if g.free >= n {
			g.free -= n
			g.mu.Unlock()
			return true
		}
		freed := g.freed
		g.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

func (g *gate) give(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free += min(n, g.size)
	close(g.freed)
	g.freed = make(chan struct{})
}

// A busyClock measures the time in which at least one call was in flight.
type busyClock struct {
	mu    sync.Mutex
	calls int
	since time.Time
	sum   time.Duration
}

func (c *busyClock) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls++; c.calls == 1 {
		c.since = time.Now()
	}
}

func (c *busyClock) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls--; c.calls == 0 {
		c.sum += time.Since(c.since)
	}
}

func (c *busyClock) total() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sum
}

// ends tells whether an error of the index is about the store rather than
// about one document.
func ends(err error) bool {
	return !errors.Is(err, storage.ErrSchema) && !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrTooLarge)
}
