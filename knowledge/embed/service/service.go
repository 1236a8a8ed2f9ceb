package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// A Service embeds texts through one model of one service.
type Service struct {
	shape  *shape
	o      Options
	client *call.Client
	dim    atomic.Int64 // 0 until known
}

var _ embed.Embedder = (*Service)(nil)

// New returns an embedder over a provider. It reads the key and sends nothing.
// Errors match storage.ErrInvalid.
func New(p Provider, o Options) (*Service, error) {
	if int(p) >= len(shapes) {
		return nil, storage.Invalidf("provider %d", p)
	}
	s := &shapes[p]
	if err := o.validate(s); err != nil {
		return nil, err
	}
	if o.MaxTexts == 0 {
		o.MaxTexts = s.texts
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = s.bytes
	}
	client, err := call.New(s.name, o.reach(s))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	sv := &Service{shape: s, o: o, client: client}
	sv.dim.Store(int64(o.Dim))
	return sv, nil
}

// Identity returns the model's identity: its name is the provider's and the
// model's, "openai/text-embedding-3-small" say, because providers put different
// prompts before texts; where the service answers is no part of it. Dim is 0
// until it is known.
func (s *Service) Identity() embed.Identity {
	return embed.Identity{
		Name: s.shape.name + "/" + s.o.Model, Revision: s.o.Revision,
		Dim: int(s.dim.Load()), Metric: "cosine",
		QueryPrefix: s.o.QueryPrefix, PassagePrefix: s.o.PassagePrefix,
		Tokenizer: "remote", Floor: s.o.Floor,
	}
}

// Probe learns the dimension, with one request unless it is known, and returns
// the complete Identity.
func (s *Service) Probe(ctx context.Context) (embed.Identity, error) {
	if s.dim.Load() == 0 {
		if _, err := s.Embed(ctx, embed.Query, []string{"dimension"}); err != nil {
			return embed.Identity{}, err
		}
	}
	return s.Identity(), nil
}

// Stats returns counts of requests.
func (s *Service) Stats() call.Stats { return s.client.Stats() }

// Close closes idle connections.
func (s *Service) Close() error { return s.client.Close() }

// Embed returns one vector a text. A blank text is a TextError matching
// storage.ErrInvalid, and a text too long for one request one matching
// storage.ErrTooLarge, both before anything is sent. Other errors are those of
// package call; the first failing batch, by the order of the texts, names them.
func (s *Service) Embed(ctx context.Context, kind embed.Kind, texts []string) (embed.Result, error) {
	if len(texts) == 0 {
		return embed.Result{}, nil
	}
	r, err := s.newRun(kind, texts)
	if err != nil {
		return embed.Result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for range min(s.workers(), len(texts)) {
		wg.Go(func() {
			if !r.work(ctx) {
				cancel() // the others' answers would be thrown away
			}
		})
	}
	wg.Wait()
	if r.err != nil {
		return embed.Result{}, r.err
	}
	return embed.Result{Vectors: r.out, Truncated: r.truncated}, nil
}

func (s *Service) workers() int {
	if n := s.o.Call.Concurrent; n > 0 {
		return n
	}
	return 4
}

// A run is one call of Embed.
type run struct {
	s         *Service
	texts     []string
	truncated []int
	prefix    string
	head      []byte // the request up to its list of texts

	mu    sync.Mutex
	next  int // first text not yet in a batch
	limit int // texts a batch, lowered when the service refuses more
	out   []float32
	err   error // of the batch that begins first
	errAt int
}

func (s *Service) newRun(kind embed.Kind, texts []string) (*run, error) {
	r := &run{s: s, texts: texts, limit: s.o.MaxTexts, prefix: s.o.PassagePrefix}
	if kind == embed.Query {
		r.prefix = s.o.QueryPrefix
	}
	head, err := json.Marshal(s.shape.fields(&s.o, kind))
	if err != nil {
		return nil, storage.Invalidf("%s: request: %v", s.shape.name, err)
	}
	head[len(head)-1] = ','
	r.head = append(head, `"`+s.shape.list+`":[`...)
	var copied bool
	for i, t := range texts {
		if IsBlank(t) {
			return nil, &TextError{i, storage.Invalidf("it is blank")}
		}
		if m := s.o.MaxTextBytes; m > 0 && len(t) > m {
			if !copied {
				r.texts, copied = append([]string(nil), texts...), true
			}
			r.texts[i] = cut(t, m)
			r.truncated = append(r.truncated, i)
			if IsBlank(r.texts[i]) {
				return nil, &TextError{i, storage.Invalidf("its first %d bytes are blank", m)}
			}
		}
		if n, room := encodedLen(r.prefix)+encodedLen(r.texts[i])+2, s.o.MaxBytes-len(r.head)-2; n > room {
			return nil, &TextError{i, fmt.Errorf("%w: %d bytes, a request to %s has room for %d", storage.ErrTooLarge, n, s.shape.name, max(room, 0))}
		}
	}
	return r, nil
}

// A batch is the texts [start, end) of a run.
type batch struct{ start, end int }

// take forms the next batch: as many texts as fit.
func (r *run) take() (batch, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || r.next == len(r.texts) {
		return batch{}, false
	}
	b := batch{r.next, r.next}
	size := len(r.head) + 2
	prefix := encodedLen(r.prefix)
	for b.end < len(r.texts) && b.end-b.start < r.limit {
		size += prefix + encodedLen(r.texts[b.end]) + 3
		if b.end > b.start && size-1 > r.s.o.MaxBytes {
			break
		}
		b.end++
	}
	r.next = b.end
	return b, true
}

// work embeds batches until there are none, or one failed.
func (r *run) work(ctx context.Context) bool {
	for {
		b, ok := r.take()
		if !ok {
			return true
		}
		if err := r.embed(ctx, b); err != nil {
			r.fail(ctx, b, err)
			return false
		}
	}
}

// fail keeps the error of the batch that begins first; an error that only says
// that another batch failed gives way to that one's.
func (r *run) fail(ctx context.Context, b batch, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	caused := ctx.Err() != nil && errors.Is(err, context.Canceled)
	if r.err != nil && (caused || r.errAt < b.start) {
		return
	}
	r.err, r.errAt = err, b.start
}

// embed sends one batch; in halves when the service says that it is too large.
func (r *run) embed(ctx context.Context, b batch) error {
	s, n := r.s, b.end-b.start
	reply, err := s.client.Post(ctx, s.shape.path, r.body(b), replyLimit(n))
	if n > 1 && errors.Is(err, storage.ErrTooLarge) {
		mid := b.start + n/2
		r.mu.Lock()
		r.limit = min(r.limit, n-n/2)
		r.mu.Unlock()
		if err := r.embed(ctx, batch{b.start, mid}); err != nil {
			return err
		}
		return r.embed(ctx, batch{mid, b.end})
	}
	if err != nil {
		if n == 1 && errors.Is(err, call.ErrRefused) {
			return &TextError{b.start, err}
		}
		return fmt.Errorf("a batch of %d texts: %w", n, err)
	}
	vectors, err := parseReply(s.shape, reply, n, b.start)
	if err != nil {
		return err
	}
	return r.store(b, vectors)
}

// replyLimit bounds a reply: 4096 components of 32 bytes a text.
func replyLimit(n int) int64 { return 1<<20 + int64(n)*(128<<10) }

// body writes the request of a batch.
func (r *run) body(b batch) []byte {
	out := bytes.NewBuffer(make([]byte, 0, len(r.head)+64))
	out.Write(r.head)
	for i, t := range r.texts[b.start:b.end] {
		if i > 0 {
			out.WriteByte(',')
		}
		writeString(out, r.prefix, t)
	}
	out.WriteString("]}")
	return out.Bytes()
}

// store checks the dimension and writes the rows, at unit length.
func (r *run) store(b batch, vectors [][]float32) error {
	s := r.s
	if n := len(vectors[0]); n > 0 && n <= maxDim {
		s.dim.CompareAndSwap(0, int64(n))
	}
	dim := int(s.dim.Load())
	for i, v := range vectors {
		if len(v) != dim || dim == 0 {
			return &TextError{b.start + i, call.Replyf(s.shape.name, "%d components, want %d", len(v), dim)}
		}
	}
	r.mu.Lock()
	if r.out == nil {
		r.out = make([]float32, len(r.texts)*dim)
	}
	out := r.out
	r.mu.Unlock()
	for i, v := range vectors { // rows of other batches are not touched
		row := (b.start + i) * dim
		normalize(out[row:row+dim], v)
	}
	return nil
}
