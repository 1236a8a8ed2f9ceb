package research

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/quarrysearch/quarry/fusion"
	"github.com/quarrysearch/quarry/storage"
)

// ErrSearcher is the error of a Searcher that broke its contract.
var ErrSearcher = errors.New("quarry: a searcher broke its contract")

// How lists of queries are joined. The queries ask for different things, so
// that two lists agree says little, and the best of each list must come first:
// a small rank constant, not the 60 that joins two legs of one query.
const (
	rankConstant   = 1
	questionWeight = 1
	planWeight     = 0.5
	missingWeight  = 0.5
)

// neighborScore is the share of a passage's score that one next to it has,
// where no reranker scores both.
const neighborScore = 0.2

// A run is one Run on its way.
type run struct {
	question Question
	searcher Searcher
	limits   Limits
	legs     []fusion.Leg
	keys     map[string]uint64 // of IDs: places in pool
	pool     []candidate

	plain bool // there is no reranker
	out   *Outcome
}

// A candidate is a passage of any list, or one next to it.
type candidate struct {
	Passage
	found    bool // in a list; else next to one that was
	rank     int  // in the last fusion; those next to others behind all
	rated    bool // Score is final
	expanded bool
}

// Run searches for the evidence of a question; see the package comment for the
// steps. A nil Planner or Judge is the offline one. An error of the Searcher,
// and the end of ctx, end the run without evidence; a planner or judge that
// fails is replaced and flagged.
func Run(ctx context.Context, q Question, s Searcher, p Planner, j Judge, l Limits) (*Outcome, error) {
	l, err := l.withDefaults()
	switch {
	case err != nil:
		return nil, err
	case strings.TrimSpace(q.Text) == "":
		return nil, storage.Invalidf("the question is blank")
	case s == nil:
		return nil, storage.Invalidf("there is no searcher")
	}
	r := &run{question: q, searcher: s, limits: l, keys: map[string]uint64{}, out: &Outcome{}}
	queries, err := r.plan(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := r.round(ctx, append([]string{q.Text}, queries...), planWeight); err != nil {
		return nil, err
	}
	missing, err := r.judge(ctx, j)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		if err := r.round(ctx, missing, missingWeight); err != nil {
			return nil, err
		}
	}
	r.out.Candidates = len(r.pool)
	return r.out, nil
}

// plan returns what to search for beside the question.
func (r *run) plan(ctx context.Context, p Planner) ([]string, error) {
	if err := ctx.Err(); err != nil || !r.question.Complex {
		return nil, err
	}
	if p == nil {
		p = Offline{}
	}
	b := Budget{left: maxPlanCalls, timeout: r.limits.CallTimeout}
	queries, err := p.Plan(ctx, r.question, &b)
	r.out.Calls.Plan = b.calls
	if ended := ctx.Err(); ended != nil {
		return nil, ended
	}
	if err != nil {
		r.flag(FlagPlanner)
		queries = Offline{}.plan(r.question)
	}
	return cleanQueries(queries, []string{r.question.Text}), nil
}

// judge returns what to search for in a supplementary round, if anything.
func (r *run) judge(ctx context.Context, j Judge) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if j == nil {
		j = Offline{}
	}
	b := Budget{left: maxJudgeCalls, timeout: r.limits.CallTimeout}
	v, err := j.Sufficient(ctx, r.question, slices.Clone(r.out.Passages), &b)
	r.out.Calls.Judge = b.calls
	if ended := ctx.Err(); ended != nil {
		return nil, ended
	}
	if err != nil {
		r.flag(FlagJudge)
		v = Offline{}.judge(r.question, r.out.Passages)
	}
	v.Missing = cleanQueries(v.Missing, r.out.Queries)
	if v.Sufficient {
		v.Missing = nil
	}
	r.out.Verdict = v
	return v.Missing, nil
}

func (r *run) flag(f string) { r.out.Flags = append(r.out.Flags, f) }

// round searches for more queries, and ranks all that was found so far.
func (r *run) round(ctx context.Context, queries []string, weight float64) error {
	lists, err := r.searcher.Search(ctx, slices.Clone(queries))
	if err != nil {
		return err
	}
	if len(lists) != len(queries) {
		return fmt.Errorf("%w: %d lists for %d queries", ErrSearcher, len(lists), len(queries))
	}
	for i, list := range lists {
		leg := fusion.Leg{Name: fmt.Sprintf("query %d", len(r.legs)), Weight: weight}
		if len(r.legs) == 0 {
			leg.Weight = questionWeight
		}
		for _, p := range list {
			key, err := r.key(p, true)
			if err != nil {
				return fmt.Errorf("query %d: %w", i, err)
			}
			leg.Items = append(leg.Items, fusion.Item{Key: key, Score: p.Score})
		}
		r.legs = append(r.legs, leg)
	}
	r.out.Queries = append(r.out.Queries, queries...)
	r.out.Rounds++
	if err := r.rank(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// key is the place of a passage in the pool. found tells that it comes from a
// list.
func (r *run) key(p Passage, found bool) (uint64, error) {
	if p.ID == "" || !(p.Score >= 0 && p.Score <= 1) && found {
		return 0, fmt.Errorf("%w: passage %.80q has score %v", ErrSearcher, p.ID, p.Score)
	}
	key, ok := r.keys[p.ID]
	if !ok {
		key = uint64(len(r.pool))
		r.keys[p.ID] = key
		r.pool = append(r.pool, candidate{Passage: p})
	}
	r.pool[key].found = r.pool[key].found || found
	return key, nil
}

// rank fuses, expands, reranks and cuts.
func (r *run) rank(ctx context.Context) error {
	top, err := r.fuse()
	if err != nil {
		return err
	}
	if top, err = r.expand(ctx, top); err != nil {
		return err
	}
	if err := r.rerank(ctx, top); err != nil {
		return err
	}
	var rated []*candidate
	for i := range r.pool {
		if c := &r.pool[i]; c.rated || r.plain && c.rank > 0 {
			rated = append(rated, c)
		}
	}
	slices.SortFunc(rated, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.rank, b.rank))
	})
	r.out.Passages = nil
	for _, c := range rated {
		if c.Score < r.limits.Threshold || len(r.out.Passages) == r.limits.TopK {
			break
		}
		r.out.Passages = append(r.out.Passages, c.Passage)
	}
	return nil
}

// fuse joins all lists and returns the best candidates. One list alone keeps
// its scores.
func (r *run) fuse() (top []uint64, err error) {
	var f fusion.Fuser
	// Equal scores fall by key: by list, then by rank.
	hits, err := f.RRF(r.legs, fusion.Options{RankConstant: rankConstant})
	if err != nil {
		return nil, err
	}
	for i, h := range hits {
		c := &r.pool[h.Key]
		c.rank = i + 1
		if !c.rated && len(r.legs) > 1 {
			c.Score = h.Score
		}
		if i < r.limits.Candidates {
			top = append(top, h.Key)
		}
	}
	return top, nil
}

// expand adds what stands next to the best candidates.
func (r *run) expand(ctx context.Context, top []uint64) ([]uint64, error) {
	var seeds []Passage
	for _, key := range top[:min(len(top), r.limits.Seeds)] {
		if c := &r.pool[key]; !c.expanded && r.limits.Neighbors > 0 {
			c.expanded = true
			seeds = append(seeds, c.Passage)
		}
	}
	if len(seeds) == 0 {
		return top, nil
	}
	lists, err := r.searcher.Expand(ctx, seeds)
	if err != nil {
		return nil, err
	}
	if len(lists) != len(seeds) {
		return nil, fmt.Errorf("%w: %d lists of neighbors for %d passages", ErrSearcher, len(lists), len(seeds))
	}
	for i, list := range lists {
		for _, p := range list[:min(len(list), r.limits.Neighbors)] {
			if _, known := r.keys[p.ID]; known {
				continue
			}
			key, err := r.key(p, false)
			if err != nil {
				return nil, err
			}
			c := &r.pool[key]
			c.Score, c.rank = neighborScore*seeds[i].Score, len(r.pool)+r.limits.Candidates
			top = append(top, key)
		}
	}
	return top, nil
}

// rerank scores the candidates that have no score yet. A passage is never
// scored twice, and scores of two scales never meet.
func (r *run) rerank(ctx context.Context, top []uint64) error {
	top = slices.DeleteFunc(slices.Clone(top), func(key uint64) bool { return r.pool[key].rated })
	if r.plain || len(top) == 0 {
		return nil
	}
	passages, asked := make([]Passage, len(top)), make(map[uint64]bool, len(top))
	for i, key := range top {
		passages[i], asked[key] = r.pool[key].Passage, true
	}
	ranked, done, err := r.searcher.Rerank(ctx, passages)
	switch {
	case err != nil:
		return err
	case !done && r.out.Reranked:
		r.flag(FlagSupplement)
		return nil
	case !done:
		r.plain = true
		return nil
	case len(ranked) != len(top):
		return fmt.Errorf("%w: %d of %d passages reranked", ErrSearcher, len(ranked), len(top))
	}
	for _, p := range ranked {
		key, ok := r.keys[p.ID]
		if !ok || !asked[key] {
			return fmt.Errorf("%w: reranked passage %.80q was not asked for, or comes twice", ErrSearcher, p.ID)
		}
		if !(p.Score >= 0 && p.Score <= 1) {
			return fmt.Errorf("%w: reranked passage %.80q has score %v", ErrSearcher, p.ID, p.Score)
		}
		asked[key] = false
		r.pool[key].Score, r.pool[key].rated = p.Score, true
	}
	r.out.Reranked = true
	return nil
}

// cleanQueries makes queries fit to be searched for: no control characters, no
// blank ones, none that was searched for already, at most MaxQueries.
func cleanQueries(queries, searched []string) (out []string) {
	for _, q := range queries {
		q = strings.Join(strings.FieldsFunc(q, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
		q = clip(q, MaxQueryRunes)
		same := func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), q) }
		if q == "" || slices.ContainsFunc(searched, same) || slices.ContainsFunc(out, same) {
			continue
		}
		if out = append(out, q); len(out) == MaxQueries {
			break
		}
	}
	return out
}

// clip cuts a text to n runes.
func clip(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
