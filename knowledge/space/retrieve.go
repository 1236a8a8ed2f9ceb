package space

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/research"
)

// Retrieve searches the published spaces of a run and returns the best evidence
// of all of them, or an error and none: a space that may not be used, or that
// fails in a way its profile does not allow, fails the whole retrieval. Of
// several the first in the order of the request names the error. Finding nothing
// is a success.
//
// Whether the run may use its spaces is asked when it starts and, when the
// catalogue has changed meanwhile, again before it returns. So no run that
// starts after a revocation has returned gives evidence of the space revoked,
// and one that was under way gives none either, unless it was already past the
// second question.
func (s *Service) Retrieve(ctx context.Context, r Request) (*Result, error) {
	start := time.Now()
	f, err := r.normalize()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.Run.Kind == catalog.Draft && r.Run.Workflow != "" {
		if err := s.catalog.BindDraft(r.Run.Account, r.Run.Workflow, r.Run.Spaces); err != nil {
			return nil, err
		}
	}
	epoch := s.catalog.Epoch()
	granted, release, err := s.authorize(r.Run)
	if err != nil {
		return nil, err
	}
	defer release()
	t, err := s.begin(&r, f, granted)
	if err != nil {
		return nil, err
	}
	if err := t.searchAll(ctx); err != nil {
		return nil, err
	}
	res, err := t.result(ctx)
	if err != nil {
		return nil, err
	}
	if s.catalog.Epoch() != epoch {
		if _, err := s.catalog.Authorize(r.Run); err != nil {
			return nil, err
		}
	}
	res.Metrics.TotalMS = millis(time.Since(start))
	return res, nil
}

// A retrieval is one call of Retrieve on its way.
type retrieval struct {
	s      *Service
	r      *Request
	filter filter.Filter
	spaces []*searched
	slots  chan struct{} // one for each space being searched
	panel  *panel

	mu      sync.Mutex                         // vectors
	vectors map[string]*knowledge.QueryVectors // by the text they are of
}

// searched is one space of a retrieval.
type searched struct {
	t        *retrieval
	place    int // in the request
	id       string
	base     string // its reference: "id@generation"
	profile  *catalog.Profile
	granted  *catalog.Granted
	mode     catalog.Mode
	reranker bool // the final scores are a reranker's
	items    []knowledge.Item
	outcome  *research.Outcome // of mode research
	trace    SpaceTrace
	err      error
}

// begin makes the retrieval of what was granted.
func (s *Service) begin(r *Request, f filter.Filter, granted []catalog.Granted) (*retrieval, error) {
	t := &retrieval{s: s, r: r, filter: f, slots: make(chan struct{}, s.o.MaxConcurrent), vectors: make(map[string]*knowledge.QueryVectors)}
	trace := rand.Uint64()
	researching := 0
	for i := range granted {
		g := &granted[i]
		sp := &searched{t: t, place: i, id: g.Space, granted: g, profile: &g.Publication.Profile, mode: r.Mode,
			base: fmt.Sprintf("%s@%d", g.Base, g.Publication.Generation)}
		if sp.mode == "" {
			sp.mode = sp.profile.DefaultMode
		}
		if err := sp.profile.ValidateMode(sp.mode); err != nil {
			return nil, &Error{sp.id, err}
		}
		if sp.mode == catalog.Research {
			researching++
		}
		sp.trace = SpaceTrace{Space: sp.id, Mode: sp.mode, Publication: g.Publication.Revision, Generation: g.Publication.Generation,
			TraceID: fmt.Sprintf("%016x-%d", trace, i), DegradationFlags: []string{}}
		t.spaces = append(t.spaces, sp)
	}
	if researching > 0 {
		t.panel = newPanel(&s.o, r.TopN, researching)
	}
	return t, nil
}

// searchAll searches the spaces, at most Options.MaxConcurrent at the same time.
// A failure ends the searches of the spaces behind it; those before it go on,
// since one of them may have to name the error.
func (t *retrieval) searchAll(ctx context.Context) error {
	var wg sync.WaitGroup
	ends := make([]context.CancelFunc, len(t.spaces))
	contexts := make([]context.Context, len(t.spaces))
	for i := range t.spaces {
		contexts[i], ends[i] = context.WithCancel(ctx)
		defer ends[i]()
	}
	for i, sp := range t.spaces {
		wg.Go(func() {
			start := time.Now()
			if sp.err = sp.search(contexts[i]); sp.err != nil {
				t.panel.fail()
				for _, end := range ends[i+1:] {
					end()
				}
			}
			sp.trace.TotalMS = millis(time.Since(start))
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, sp := range t.spaces {
		if sp.err != nil {
			return &Error{sp.id, sp.err}
		}
	}
	return nil
}

// slot waits for its turn among the spaces of the retrieval; done gives it on.
func (t *retrieval) slot(ctx context.Context) (done func(), err error) {
	select {
	case t.slots <- struct{}{}:
		return func() { <-t.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// result merges what the spaces found into the answer.
func (t *retrieval) result(ctx context.Context) (*Result, error) {
	merged := merge(t.spaces, t.r.TopN)
	res := &Result{Evidence: make([]Evidence, 0, len(merged))}
	for _, f := range merged {
		res.Evidence = append(res.Evidence, evidenceOf(t.spaces[f.space].id, f.item))
	}
	if t.r.Verify {
		v := verifier{s: t.s}
		for i, f := range merged {
			sp := t.spaces[f.space]
			if err := v.in(ctx, sp.base, &res.Evidence[i]); err != nil {
				return nil, &Error{sp.id, err}
			}
		}
	}
	if err := checkSize(res.Evidence); err != nil {
		return nil, err
	}
	tr := &res.ProcessData.KnowledgeFS
	tr.RequestedMode, tr.CandidateCounts = string(t.r.Mode), make(map[string]int, len(t.spaces))
	if t.r.Mode == "" {
		tr.RequestedMode = RequestedDefault
	}
	res.Metrics.DegradationFlags = []string{}
	for _, sp := range t.spaces {
		tr.PerSpace = append(tr.PerSpace, sp.trace)
		tr.CandidateCounts[sp.id] = sp.trace.CandidateCount
		if !slices.Contains(tr.EffectiveModes, sp.mode) {
			tr.EffectiveModes = append(tr.EffectiveModes, sp.mode)
		}
		tr.ProfilesDiffer = tr.ProfilesDiffer || !sp.comparable(t.spaces[0])
		for _, flag := range sp.trace.DegradationFlags {
			if !slices.Contains(res.Metrics.DegradationFlags, flag) {
				res.Metrics.DegradationFlags = append(res.Metrics.DegradationFlags, flag)
			}
		}
	}
	res.Metrics.Mode = ModeMixed
	if len(tr.EffectiveModes) == 1 {
		res.Metrics.Mode = string(tr.EffectiveModes[0])
	}
	if tr.Research = t.researchTrace(); tr.Research != nil {
		res.Metrics.ModelCalls = tr.Research.Calls.Plan + tr.Research.Calls.Judge
	}
	return res, nil
}

// comparable tells whether two spaces score alike: by one mode, model, reranker
// and depth.
func (sp *searched) comparable(other *searched) bool {
	model := func(s *searched) string {
		if e := s.granted.Publication.Embedding; e != nil {
			return e.Digest
		}
		return ""
	}
	return sp.mode == other.mode && sp.reranker == other.reranker && sp.profile.TopK == other.profile.TopK && model(sp) == model(other) &&
		(!sp.reranker || sp.profile.Rerank.Model == other.profile.Rerank.Model)
}

func (sp *searched) flag(flag string) {
	if !slices.Contains(sp.trace.DegradationFlags, flag) {
		sp.trace.DegradationFlags = append(sp.trace.DegradationFlags, flag)
	}
}
