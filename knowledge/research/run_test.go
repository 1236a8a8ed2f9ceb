package research

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/knowledge/chat"
	"github.com/quarrysearch/quarry/storage"
)

const (
	direct  = "how long does a refund take"
	twofold = "How do I back up a base and how long does a refund take?"
)

func mustRun(t *testing.T, question string, s Searcher, p Planner, j Judge, l Limits) *Outcome {
	t.Helper()
	o, err := Run(bg, Classify(question), s, p, j, l)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func checkBudget(t *testing.T, o *Outcome, m *talker, most int64, complex bool) {
	t.Helper()
	if got := m.calls.Load(); got > most || int(got) != o.Calls.Plan+o.Calls.Judge || !complex && o.Calls.Plan > 0 || o.Calls.Plan > 1 {
		t.Errorf("%d model calls, at most %d; counted %+v", got, most, o.Calls)
	}
	if o.Rounds > 2 || len(o.Queries) > 1+2*MaxQueries {
		t.Errorf("%d rounds, %d queries", o.Rounds, len(o.Queries))
	}
}

// A direct question costs one judgement of the whole evidence set, a complex
// one a plan more, however many passages there are.
func TestS3_7ModelCalls(t *testing.T) {
	for _, c := range []struct {
		question, plan, verdict string
		most                    int64
		queries, rounds         int
	}{
		{direct, "", `{"sufficient": true, "missing": []}`, 1, 1, 1},
		{direct, "", `{"sufficient": false, "missing": ["refund days"]}`, 1, 2, 2},
		{direct, "", `{"sufficient": false, "missing": []}`, 1, 1, 1},
		{twofold, `{"queries": ["backup", "refund"]}`, `{"sufficient": true, "missing": []}`, 2, 3, 1},
		{twofold, `{"queries": ["backup", "refund"]}`, `{"sufficient": false, "missing": ["restore"]}`, 2, 4, 2},
		// Always asks for more.
		{twofold, `{"queries": ["a", "b", "c", "d", "e", "f"]}`, `{"sufficient": false, "missing": ["g", "h", "i", "j", "k"]}`, 2, 7, 2},
		// Only what was searched for already.
		{direct, "", `{"sufficient": false, "missing": ["How long does a refund take", " "]}`, 1, 1, 1},
	} {
		s, m := library(), talks(c.plan, c.verdict)
		for i := range 500 {
			s.texts = append(s.texts, fmt.Sprintf("x%d: refund a base %d", i, i))
		}
		o := mustRun(t, c.question, s, Model{Chat: m}, Model{Chat: m}, Limits{})
		checkBudget(t, o, m, c.most, c.question == twofold)
		if len(o.Queries) != c.queries || o.Rounds != c.rounds || len(o.Flags) > 0 {
			t.Errorf("%s, %s: %d queries, %d rounds, flags %q", c.question, c.verdict, len(o.Queries), o.Rounds, o.Flags)
		}
		if n := m.calls.Load(); n != c.most {
			t.Errorf("%s: %d calls, want %d", c.question, n, c.most)
		}
	}
}

// Offline there is no call at all, and the answer is the same each time.
func TestS3_7Offline(t *testing.T) {
	for _, q := range []string{direct, twofold} {
		first := mustRun(t, q, library(), nil, nil, Limits{})
		if first.Calls != (Calls{}) || first.Flags != nil {
			t.Errorf("%+v", first)
		}
		for range 20 {
			if o := mustRun(t, q, library(), Offline{}, Offline{}, Limits{}); !reflect.DeepEqual(o, first) {
				t.Fatalf("%+v, then %+v", first, o)
			}
		}
	}
	o := mustRun(t, twofold, library(), nil, nil, Limits{TopK: 2})
	if got := ids(o.Passages); got != "backup refund" && got != "refund backup" || !slices.Equal(o.Queries[1:3], []string{"How do I back up a base", "how long does a refund take"}) {
		t.Errorf("%s for %q", got, o.Queries)
	}
}

// A model that fails, talks about something else, hangs or asks on and on costs
// no more than one that works, and the run goes on without it.
func TestS3_7ModelFails(t *testing.T) {
	hang := func(ctx context.Context, _ chat.Request) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	say := func(s string) func(context.Context, chat.Request) (string, error) {
		return func(context.Context, chat.Request) (string, error) { return s, nil }
	}
	offline := mustRun(t, twofold, library(), nil, nil, Limits{})
	for name, f := range map[string]func(context.Context, chat.Request) (string, error){
		"down":        func(context.Context, chat.Request) (string, error) { return "", errDown },
		"hangs":       hang,
		"talks":       say("Sure! Here is the plan: first, search for backups."),
		"wrong shape": say(`{"queries": "backup", "sufficient": "yes"}`),
		"wrong keys":  say(`{"steps": ["backup"]}`),
		"no query":    say(`{"queries": [" "]}`),
		"array":       say(`[{"queries": ["x"]}]`),
		"twice":       say(`{"queries": ["x"]} {"queries": ["y"]}`),
		"huge":        say(`{"queries": ["` + strings.Repeat("x", 1<<20) + `"]}`),
		"empty":       say(""),
	} {
		t.Run(name, func(t *testing.T) {
			m := &talker{say: f}
			o := mustRun(t, twofold, library(), Model{Chat: m}, Model{Chat: m}, Limits{CallTimeout: 20 * time.Millisecond})
			checkBudget(t, o, m, 2, true)
			if !slices.Equal(o.Flags, []string{FlagPlanner, FlagJudge}) || ids(o.Passages) != ids(offline.Passages) {
				t.Errorf("flags %q, passages %s, offline %s", o.Flags, ids(o.Passages), ids(offline.Passages))
			}
		})
	}
	// The deadline of the run leaves time for the offline way.
	ctx, cancel := context.WithTimeout(bg, 300*time.Millisecond)
	defer cancel()
	o, err := Run(ctx, Classify(twofold), library(), Model{Chat: &talker{say: hang}}, nil, Limits{})
	if err != nil || !slices.Equal(o.Flags, []string{FlagPlanner}) {
		t.Errorf("%+v, %v", o, err)
	}
}

// greedy asks the model until the budget says no, and then some more.
type greedy struct{ m *talker }

func (g greedy) Plan(ctx context.Context, _ Question, b *Budget) ([]string, error) {
	var out []string
	for range 50 {
		r, err := b.Complete(ctx, g.m, chat.Request{})
		if err != nil {
			return out, err
		}
		out = append(out, r.Text)
	}
	return out, nil
}

func (g greedy) Sufficient(ctx context.Context, q Question, _ []Passage, b *Budget) (Verdict, error) {
	missing, err := g.Plan(ctx, q, b)
	return Verdict{Missing: missing}, err
}

func TestS3_7BudgetByConstruction(t *testing.T) {
	m := &talker{say: func(context.Context, chat.Request) (string, error) { return "more", nil }}
	o := mustRun(t, twofold, library(), greedy{m}, greedy{m}, Limits{})
	checkBudget(t, o, m, 2, true)
	if !slices.Equal(o.Flags, []string{FlagPlanner, FlagJudge}) {
		t.Errorf("flags %q", o.Flags)
	}
	if _, err := new(Budget).Complete(bg, m, chat.Request{}); !errors.Is(err, ErrBudget) {
		t.Errorf("a budget made elsewhere: %v", err)
	}
}

// One batch, one expansion, one rerank a round; no passage is reranked twice.
func TestS3_7Steps(t *testing.T) {
	s := library()
	s.rerank = scored("refund")
	s.next = map[string][]string{"refund": {"refund-2", "refund-3", "refund-4"}}
	m := talks("", `{"sufficient": false, "missing": ["shipping", "restore a base"]}`)
	o := mustRun(t, direct, s, nil, Model{Chat: m}, Limits{TopK: 3})
	if want := []string{"search", "expand 3", "rerank 5", "search", "expand 1", "rerank 1"}; !slices.Equal(s.calls, want) {
		t.Errorf("steps %q, want %q", s.calls, want)
	}
	if len(s.queries[0]) != 1 || len(s.queries[1]) != 2 || !o.Reranked || o.Candidates != 6 {
		t.Errorf("queries %q, %+v", s.queries, o)
	}
	if got := ids(o.Passages); got != "refund refund-2 refund-3" || o.Passages[0].Score != .9 {
		t.Errorf("%s", got)
	}
}

// The threshold acts after rerank, inclusively, and before top K.
func TestS3_7ThresholdAfterRerank(t *testing.T) {
	for threshold, want := range map[float64]string{0: "refund backup restore", .9: "refund", .91: ""} {
		s := library()
		s.rerank = scored("refund")
		if o := mustRun(t, direct, s, nil, nil, Limits{TopK: 5, Threshold: threshold}); ids(o.Passages) != want {
			t.Errorf("threshold %v: %q, want %q", threshold, ids(o.Passages), want)
		}
	}
}

// A reranker that works in the first round only: its scores and those of a
// fusion do not mix.
func TestS3_7RerankerFailsLater(t *testing.T) {
	s := library()
	rounds := 0
	s.rerank = func(p []Passage) ([]Passage, bool, error) {
		if rounds++; rounds > 1 {
			return nil, false, nil
		}
		return scored("refund")(p)
	}
	m := talks("", `{"sufficient": false, "missing": ["shipping"]}`)
	o := mustRun(t, direct, s, nil, Model{Chat: m}, Limits{})
	if !slices.Equal(o.Flags, []string{FlagSupplement}) || strings.Contains(ids(o.Passages), "ship") || !o.Reranked {
		t.Errorf("%+v", o)
	}
	// Without one from the start it is asked once, and the second round counts.
	s = library()
	o = mustRun(t, direct, s, nil, Model{Chat: m}, Limits{})
	if n := strings.Count(strings.Join(s.calls, " "), "rerank"); n != 1 || o.Reranked || !strings.Contains(ids(o.Passages), "ship") {
		t.Errorf("%q, %+v", s.calls, o)
	}
}

// Neighbors stand behind what was found, where no reranker scores both.
func TestS3_7ExpansionBounded(t *testing.T) {
	s := library()
	s.next = map[string][]string{"refund": {"a", "b", "c", "backup"}, "backup": {"a", "d"}}
	o := mustRun(t, direct, s, nil, Offline{}, Limits{Seeds: 2, Neighbors: 2})
	if got := ids(o.Passages); got != "refund backup restore a b d" {
		t.Errorf("%s", got)
	}
	s = library()
	mustRun(t, direct, s, nil, nil, Limits{Seeds: -1})
	if strings.Contains(strings.Join(s.calls, " "), "expand") {
		t.Errorf("%q", s.calls)
	}
}

// Nothing found is a success, and nobody is asked about it.
func TestS3_10EmptyIsSuccess(t *testing.T) {
	m := talks(`{"queries": ["nothing"]}`, `{"sufficient": true, "missing": []}`)
	o := mustRun(t, "Who is it? Where is it?", &shelf{}, Model{Chat: m}, Model{Chat: m}, Limits{})
	if len(o.Passages) != 0 || o.Rounds != 1 || o.Calls.Judge != 0 || o.Verdict.Sufficient || len(o.Flags) > 0 {
		t.Errorf("%+v", o)
	}
}

// Evidence only: what a model says is searched for, and never becomes text of a
// passage.
func TestS3_13EvidenceOnly(t *testing.T) {
	m := talks(`{"queries": ["The answer is forty-two refund days", "backup"]}`, `{"sufficient": false, "missing": ["Dear user, shipping costs ten"]}`)
	s := library()
	o := mustRun(t, twofold, s, Model{Chat: m}, Model{Chat: m}, Limits{})
	if o.Rounds != 2 || len(o.Passages) == 0 {
		t.Fatalf("%+v", o)
	}
	for _, p := range o.Passages {
		if !slices.Contains(s.texts, p.ID+": "+p.Text) {
			t.Errorf("%q is no passage of the library", p.Text)
		}
	}
}

func TestRunEnds(t *testing.T) {
	s := library()
	s.err = errDown
	if o, err := Run(bg, Classify(direct), s, nil, nil, Limits{}); o != nil || !errors.Is(err, errDown) {
		t.Errorf("%v, %v", o, err)
	}
	for _, q := range []string{direct, twofold} {
		ctx, cancel := context.WithCancel(bg)
		m := &talker{say: func(context.Context, chat.Request) (string, error) { cancel(); return "", context.Canceled }}
		if o, err := Run(ctx, Classify(q), library(), Model{Chat: m}, Model{Chat: m}, Limits{}); o != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("canceled by the model: %v, %v", o, err)
		}
	}
	for _, l := range []Limits{{TopK: -1}, {TopK: 101}, {Threshold: 1.1}, {Threshold: math.NaN()}, {Candidates: 1}, {Seeds: -2}, {Neighbors: 101}, {CallTimeout: -1}} {
		if _, err := Run(bg, Classify(direct), library(), nil, nil, l); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if _, err := Run(bg, Classify(" \n"), library(), nil, nil, Limits{}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("blank: %v", err)
	}
}

// lists is a Searcher that gives what it is told.
type lists struct {
	found    [][]Passage
	next     [][]Passage
	reranked []Passage
}

func (l lists) Search(context.Context, []string) ([][]Passage, error)  { return l.found, nil }
func (l lists) Expand(context.Context, []Passage) ([][]Passage, error) { return l.next, nil }
func (l lists) Rerank(context.Context, []Passage) ([]Passage, bool, error) {
	return l.reranked, true, nil
}

// A Searcher that breaks its contract is an error, never wrong evidence.
func TestSearcherContract(t *testing.T) {
	a, b := Passage{ID: "a", Score: .5}, Passage{ID: "b", Score: .4}
	one := [][]Passage{{a, b}}
	none := [][]Passage{nil, nil}
	for name, l := range map[string]lists{
		"no list":        {},
		"no ID":          {found: [][]Passage{{{Score: 1}}}},
		"score":          {found: [][]Passage{{{ID: "x", Score: 1.5}}}},
		"NaN":            {found: [][]Passage{{{ID: "x", Score: math.NaN()}}}},
		"neighbors":      {found: one},
		"neighbor no ID": {found: one, next: [][]Passage{{{}}, nil}},
		"rerank fewer":   {found: one, next: none, reranked: []Passage{a}},
		"rerank twice":   {found: one, next: none, reranked: []Passage{a, a}},
		"rerank other":   {found: one, next: none, reranked: []Passage{a, {ID: "c"}}},
		"rerank score":   {found: one, next: none, reranked: []Passage{a, {ID: "b", Score: math.Inf(1)}}},
	} {
		if o, err := Run(bg, Classify(direct), l, nil, nil, Limits{}); o != nil || !errors.Is(err, ErrSearcher) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
	if o, err := Run(bg, Classify(direct), lists{one, none, []Passage{b, a}}, nil, nil, Limits{}); err != nil || ids(o.Passages) != "a b" {
		t.Errorf("%+v, %v", o, err)
	}
}
