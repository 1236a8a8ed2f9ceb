package space

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/quarrysearch/quarry/knowledge/research"
)

// A panel plans and judges once for all research spaces of a retrieval, so that
// their number does not multiply the calls of models. Each space has its own
// research run; the first to ask for a plan makes it, and each that comes to the
// judge waits there for the others: then one of them has the evidence of all
// judged, and all get the verdict.
type panel struct {
	planner research.Planner
	judge   research.Judge
	topN    int

	plan    once[[]string]
	verdict once[research.Verdict]

	mu       sync.Mutex
	out      int           // runs that have not come to the judge yet
	all      chan struct{} // closed when none is
	failed   bool          // a space of the retrieval
	evidence [][]placed    // of the runs that have come
}

// placed is a passage of a space's evidence.
type placed struct {
	space, place int
	passage      research.Passage
}

func newPanel(o *Options, topN, runs int) *panel {
	return &panel{planner: o.Planner, judge: o.Judge, topN: topN, out: runs, all: make(chan struct{})}
}

// fail notes that a space has failed: the retrieval will, and no more calls are
// made for it. The nil panel of a retrieval without research has nothing to note.
func (p *panel) fail() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = true
}

// A seat is what the run of one space sees of the panel. It is a planner and a
// judge.
type seat struct {
	p     *panel
	sp    *searched
	ready bool // it has come to the judge, or left
}

// Plan returns the plan of the panel.
func (s *seat) Plan(ctx context.Context, q research.Question, b *research.Budget) ([]string, error) {
	return s.p.plan.do(ctx, func() ([]string, error) { return s.p.planner.Plan(ctx, q, b) })
}

// Sufficient returns the verdict of the panel.
func (s *seat) Sufficient(ctx context.Context, q research.Question, evidence []research.Passage, b *research.Budget) (research.Verdict, error) {
	s.come(evidence)
	select {
	case <-s.p.all:
	case <-ctx.Done():
		return research.Verdict{}, ctx.Err()
	}
	return s.p.verdict.do(ctx, func() (research.Verdict, error) {
		list, failed := s.p.collected()
		if failed {
			return research.Verdict{Sufficient: true}, nil
		}
		return s.p.judge.Sufficient(ctx, q, list, b)
	})
}

// come brings the evidence of a run, what its threshold drops left out. A run
// that ends before it gets to the judge brings none.
func (s *seat) come(evidence []research.Passage) {
	if s.ready {
		return
	}
	s.ready = true
	least := s.sp.threshold()
	var list []placed
	for i, e := range evidence {
		if e.Score >= least {
			e.ID = fmt.Sprintf("%d/%s", s.sp.place, e.ID)
			list = append(list, placed{s.sp.place, i, e})
		}
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.p.evidence = append(s.p.evidence, list)
	if s.p.out--; s.p.out == 0 {
		close(s.p.all)
	}
}

// collected is the evidence that would be the answer if it were enough.
func (p *panel) collected() (list []research.Passage, failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Concat(p.evidence...)
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(b.passage.Score, a.passage.Score), cmp.Compare(a.space, b.space), cmp.Compare(a.place, b.place))
	})
	for _, e := range all[:min(len(all), p.topN)] {
		list = append(list, e.passage)
	}
	return list, p.failed
}

// once is a value made by the first that asks for it.
type once[T any] struct {
	mu    sync.Mutex
	done  chan struct{} // nil: nobody has asked
	value T
	err   error
}

// do makes the value, or waits for it.
func (o *once[T]) do(ctx context.Context, produce func() (T, error)) (T, error) {
	o.mu.Lock()
	if o.done == nil {
		o.done = make(chan struct{})
		o.mu.Unlock()
		o.value, o.err = produce()
		close(o.done)
		return o.value, o.err
	}
	o.mu.Unlock()
	select {
	case <-o.done:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
