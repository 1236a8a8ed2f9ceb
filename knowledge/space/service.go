package space

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/knowledge/research"
	"github.com/quarrysearch/quarry/storage"
)

// Options configure a Service; nil means all defaults. New clones it.
type Options struct {
	// Rerankers are those that profiles may name (RerankSetting.Model).
	Rerankers map[string]rerank.Reranker
	// Planner and Judge of mode research; nil: those that work offline.
	Planner research.Planner
	Judge   research.Judge
	// Research bounds mode research. TopK and Threshold are left alone: they
	// are the profile's.
	Research research.Limits
	// MaxConcurrent is how many spaces one retrieval searches at the same
	// time, 1 to 10; default 4.
	MaxConcurrent int
}

// DefaultMaxConcurrent is Options.MaxConcurrent when it is 0.
const DefaultMaxConcurrent = 4

// A Service retrieves evidence from the spaces of a catalogue, whose bases lie in
// a store. It opens neither and closes neither. Its methods may be called from
// any number of goroutines. One Service a catalogue: it is what keeps a
// generation alive while a retrieval reads it.
type Service struct {
	catalog *catalog.Catalog
	store   *knowledge.Store
	o       Options // defaults filled in
	pins    pins

	mu         sync.Mutex
	publishing map[string]*sync.Mutex // by base
}

// New makes a Service.
func New(c *catalog.Catalog, st *knowledge.Store, o *Options) (*Service, error) {
	s := &Service{catalog: c, store: st, publishing: make(map[string]*sync.Mutex), pins: pins{readers: make(map[pin]int)}}
	if o != nil {
		s.o = *o
	}
	if c == nil || st == nil {
		return nil, storage.Invalidf("space.New: a catalog and a store are needed")
	}
	if s.o.MaxConcurrent == 0 {
		s.o.MaxConcurrent = DefaultMaxConcurrent
	}
	if s.o.MaxConcurrent < 1 || s.o.MaxConcurrent > catalog.MaxSpaces {
		return nil, storage.Invalidf("Options.MaxConcurrent %d: want 1 to %d", s.o.MaxConcurrent, catalog.MaxSpaces)
	}
	rerankers := make(map[string]rerank.Reranker, len(s.o.Rerankers))
	for name, r := range s.o.Rerankers {
		if name == "" || r == nil {
			return nil, storage.Invalidf("Options.Rerankers: %q has no name or no reranker", name)
		}
		rerankers[name] = r
	}
	s.o.Rerankers = rerankers
	if s.o.Planner == nil {
		s.o.Planner = research.Offline{}
	}
	if s.o.Judge == nil {
		s.o.Judge = research.Offline{}
	}
	return s, nil
}

// A pin is a generation of a base.
type pin struct {
	base       string
	generation int
}

// pins count the retrievals that read a generation, so that none is dropped
// under them.
type pins struct {
	mu      sync.Mutex
	readers map[pin]int
}

// authorize asks the catalogue for the spaces of a run and pins their
// generations. Both happen under one lock, which keeps a publication from
// dropping a generation that was granted and is not yet pinned: it looks for
// readers after its own write to the catalogue, so it either finds the pin, or
// the grant already names the newer generation.
func (s *Service) authorize(run catalog.Run) (granted []catalog.Granted, release func(), err error) {
	p := &s.pins
	p.mu.Lock()
	defer p.mu.Unlock()
	if granted, err = s.catalog.Authorize(run); err != nil {
		return nil, nil, err
	}
	for i := range granted {
		p.readers[pin{granted[i].Base, granted[i].Publication.Generation}]++
	}
	return granted, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i := range granted {
			k := pin{granted[i].Base, granted[i].Publication.Generation}
			if p.readers[k]--; p.readers[k] == 0 {
				delete(p.readers, k)
			}
		}
	}, nil
}

// read tells whether a retrieval reads a generation.
func (p *pins) read(k pin) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readers[k] > 0
}

// alone lets one publication or sweep of a base run at a time.
func (s *Service) alone(base string) (unlock func()) {
	s.mu.Lock()
	m := s.publishing[base]
	if m == nil {
		m = new(sync.Mutex)
		s.publishing[base] = m
	}
	s.mu.Unlock()
	m.Lock()
	return m.Unlock
}

// Publish makes the base of a space, as it is now, and the draft of its profile
// what runs use from now on. expected is the revision of the draft that the
// caller saw; another one is catalog.ErrStale.
//
// A generation of the base is made first, then named by the catalogue in one
// transaction, then generations that nothing names any more are dropped; one that
// a retrieval still reads is left for the next Publish or Sweep. Runs go on all
// the time: those that started before read the old generation to their end. A
// crash leaves the old publication or the new one, and perhaps a generation that
// nothing names.
func (s *Service) Publish(ctx context.Context, account, space string, expected int) (catalog.Publication, error) {
	sp, err := s.catalog.Space(space)
	if err != nil {
		return catalog.Publication{}, err
	}
	if err := s.catalog.Allow(account, space, catalog.Publish); err != nil {
		return catalog.Publication{}, err
	}
	if sp.Draft.Revision != expected {
		return catalog.Publication{}, &catalog.Error{Code: catalog.ErrStale, Space: space, Spaces: []string{space}, Message: stale(space, expected, sp.Draft.Revision)}
	}
	defer s.alone(sp.Base)()
	g, err := s.store.Freeze(ctx, sp.Base)
	if err != nil {
		return catalog.Publication{}, &Error{space, err}
	}
	p, err := s.catalog.PublishSpace(account, space, expected, g.Number, embeddingOf(g.Model))
	if err != nil {
		return p, errors.Join(err, s.sweep(context.WithoutCancel(ctx), sp.Base))
	}
	// The publication is made. What stands in the way of tidying up shows at
	// the next one.
	_ = s.sweep(context.WithoutCancel(ctx), sp.Base)
	return p, nil
}

// Sweep drops the generations of a base that neither a publication nor a
// workflow snapshot names and no retrieval reads: what a crash, or a retrieval
// that ran longer than a publication, has left. So the generations of a base that
// has spaces are theirs: one that was made otherwise goes, too.
func (s *Service) Sweep(ctx context.Context, base string) error {
	defer s.alone(base)()
	return s.sweep(ctx, base)
}

func (s *Service) sweep(ctx context.Context, base string) error {
	generations, err := s.store.Generations(ctx, base)
	if err != nil {
		return err
	}
	used, err := s.catalog.GenerationsInUse(base)
	if err != nil {
		return err
	}
	var errs []error
	for _, g := range generations {
		if slices.Contains(used, g.Number) || s.pins.read(pin{base, g.Number}) {
			continue
		}
		errs = append(errs, s.store.DropGeneration(ctx, base, g.Number))
	}
	return errors.Join(errs...)
}
