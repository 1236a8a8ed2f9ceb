package space

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/chat"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/knowledge/research"
)

// fakeChat answers as a planner and as a judge, and keeps what it was asked.
type fakeChat struct {
	plan, verdict string // replies; "" is an error

	mu     sync.Mutex
	judged []string // requests to the judge
	plans  int
}

func (c *fakeChat) Complete(_ context.Context, r chat.Request) (chat.Reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reply := c.plan
	if asked := r.Messages[len(r.Messages)-1].Content; strings.Contains(asked, `"passages"`) {
		c.judged = append(c.judged, asked)
		reply = c.verdict
	} else {
		c.plans++
	}
	if reply == "" {
		return chat.Reply{}, errFake
	}
	return chat.Reply{Text: reply}, nil
}

const (
	directQuestion  = "alpha"
	complexQuestion = "What is alpha, and how does gamma differ from delta?"
)

// S3.7: a direct question costs one judgement, a complex one one plan more, for
// any number of spaces; the judge reads one set of evidence, of all of them.
func TestS3_7_ModelCalls(t *testing.T) {
	c := &fakeChat{plan: `{"queries":["gamma","delta"]}`, verdict: `{"sufficient":false,"missing":["epsilon"]}`}
	m := research.Model{Chat: c}
	w := newWorld(t, &Options{Planner: m, Judge: m}, nil)
	var ids []string
	for i := range 6 {
		ids = append(ids, fmt.Sprintf("s%d", i))
		w.add(ids[i], func(p *catalog.Profile) {
			p.DefaultMode = catalog.Research
			if i == 5 {
				p.DefaultMode = catalog.Fast
			}
		}, source(fmt.Sprintf("%d.txt", i), fmt.Sprintf("alpha in space%d", i), "gamma in it", "delta in it", "epsilon in it", "zeta in it"))
	}
	for _, q := range []struct {
		text        string
		plan, calls int
		queries     []string
	}{
		{directQuestion, 0, 1, []string{directQuestion, "epsilon"}},
		{complexQuestion, 1, 2, []string{complexQuestion, "gamma", "delta", "epsilon"}},
	} {
		for _, n := range []int{1, 5, 6} {
			c.plans, c.judged = 0, nil
			r := draft(q.text, ids[:n]...)
			r.TopN = 50
			res := w.retrieve(r)
			tr := res.ProcessData.KnowledgeFS.Research
			if res.Metrics.ModelCalls != q.calls || c.plans != q.plan || len(c.judged) != 1 {
				t.Errorf("%q, %d spaces: %d calls counted, %d plans and %d judgements made", q.text, n, res.Metrics.ModelCalls, c.plans, len(c.judged))
			}
			if tr.Rounds != 2 || tr.Sufficient || !slices.Equal(tr.Queries, q.queries) || tr.Complex != (q.plan > 0) {
				t.Errorf("%q: %+v", q.text, tr)
			}
			for i := range min(n, 5) {
				if !strings.Contains(c.judged[0], fmt.Sprintf("alpha in space%d", i)) {
					t.Errorf("%q, %d spaces: the judge did not see space %d", q.text, n, i)
				}
			}
			if strings.Contains(c.judged[0], "space5") {
				t.Errorf("%q: the judge saw what mode fast has found", q.text)
			}
			if !slices.ContainsFunc(contents(res), func(s string) bool { return strings.HasPrefix(s, "epsilon") }) {
				t.Errorf("%q: what the judge missed is not in %q", q.text, contents(res))
			}
		}
	}
}

// S3.7: a planner or judge that fails is replaced by the one that works offline,
// and a flag says so; each failed call counts.
func TestS3_7_ModelFails(t *testing.T) {
	for _, c := range []struct {
		chat  *fakeChat
		flags []string
	}{
		{&fakeChat{verdict: `{"sufficient":true,"missing":[]}`}, []string{research.FlagPlanner}},
		{&fakeChat{plan: `{"queries":["gamma"]}`, verdict: `certainly!`}, []string{research.FlagJudge}},
		{&fakeChat{plan: `{"queries":[]}`, verdict: `{}`}, []string{research.FlagPlanner, research.FlagJudge}},
	} {
		m := research.Model{Chat: c.chat}
		w := newWorld(t, &Options{Planner: m, Judge: m}, nil)
		for _, id := range []string{"a", "b"} {
			w.add(id, nil, source("a.txt", "alpha one", "gamma two", "delta three"))
		}
		r := draft(complexQuestion, "a", "b")
		r.Mode = catalog.Research
		res := w.retrieve(r)
		if !slices.Equal(res.Metrics.DegradationFlags, c.flags) || res.Metrics.ModelCalls != 2 || len(res.Evidence) != 6 {
			t.Errorf("flags %q, %d calls, %q", res.Metrics.DegradationFlags, res.Metrics.ModelCalls, contents(res))
		}
	}
}

// S3.13: a result is evidence and how it was found, nothing else: every content
// stands in a source, and no model is asked for more than is counted.
func TestS3_13_EvidenceOnly(t *testing.T) {
	c := &fakeChat{plan: `{"queries":["gamma"]}`, verdict: `{"sufficient":true,"missing":[]}`}
	w := newWorld(t, &Options{Planner: research.Model{Chat: c}, Judge: research.Model{Chat: c}}, nil)
	text := []string{"alpha one", "gamma two", "delta three"}
	w.add("a", nil, source("a.txt", text...))
	for _, m := range allModes {
		c.plans, c.judged = 0, nil
		r := draft(complexQuestion, "a")
		r.Mode = m
		res := w.retrieve(r)
		if n := c.plans + len(c.judged); n != res.Metrics.ModelCalls || (n > 0) != (m == catalog.Research) {
			t.Errorf("%s: %d calls of models, %d counted", m, n, res.Metrics.ModelCalls)
		}
		for _, e := range res.Evidence {
			if !slices.Contains(text, e.Content) {
				t.Errorf("%s: %q is in no source", m, e.Content)
			}
		}
		var keys map[string]json.RawMessage
		must(t, json.Unmarshal(value[[]byte](t)(json.Marshal(res)), &keys))
		if got := slices.Sorted(maps.Keys(keys)); !slices.Equal(got, []string{"metrics", "process_data", "result"}) {
			t.Errorf("%s: keys %q", m, got)
		}
	}
}

// S3.7: without a model nothing is asked of one.
func TestS3_7_Offline(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.add("a", nil, source("a.txt", "alpha one", "gamma two", "delta three"))
	for _, q := range []string{directQuestion, complexQuestion} {
		r := draft(q, "a")
		r.Mode = catalog.Research
		if res := w.retrieve(r); res.Metrics.ModelCalls != 0 || len(res.Evidence) == 0 || len(res.Metrics.DegradationFlags) != 0 {
			t.Errorf("%q: %+v", q, res)
		}
	}
}

// S3.7: expansion brings neighbors in the outline, which are evidence like any
// other: cited, verified, within the filters; and one rerank a round puts all in
// order.
func TestS3_7_Expansion(t *testing.T) {
	var pools [][]string
	o := &Options{Rerankers: map[string]rerank.Reranker{"r": funcReranker(func(_ context.Context, passages []string) (out []rerank.Scored, err error) {
		pools = append(pools, passages)
		for i, p := range passages {
			score := .1
			if strings.HasPrefix(p, "the answer") {
				score = .9
			}
			out = append(out, rerank.Scored{Index: i, Score: score})
		}
		return out, nil
	})}}
	w := newWorld(t, o, nil)
	text := []string{"nothing here", "alpha is asked for", "the answer follows it", "nothing there"}
	w.add("a", func(p *catalog.Profile) {
		p.TopK, p.DefaultMode = 2, catalog.Research
		p.Rerank = catalog.RerankSetting{Enabled: true, Model: "r"}
	}, append([]knowledge.Source{source("z.txt", text...)}, others(30)...)...)
	r := draft("alpha", "a")
	r.Verify = true
	res := w.retrieve(r)
	if len(pools) != 1 || !slices.Contains(pools[0], text[2]) || !slices.Contains(pools[0], text[0]) || slices.Contains(pools[0], text[3]) {
		t.Errorf("reranked %q", pools)
	}
	if len(res.Evidence) != 2 || res.Evidence[0].Content != text[2] || res.Evidence[0].Metadata.Score != .9 || len(res.Evidence[0].Metadata.Sources) != 0 {
		t.Fatalf("got %+v", res.Evidence)
	}
	must(t, w.Verify(t.Context(), res.Evidence[0]))
	r.Filters.NodeKinds = []string{"table"}
	wantContents(t, w.retrieve(r))
}

// others are documents about something else.
func others(n int) (out []knowledge.Source) {
	for i := range n {
		out = append(out, source(fmt.Sprintf("other%d.txt", i), fmt.Sprintf("omega %d", i)))
	}
	return out
}

// A space that fails ends the research of all: nobody waits for it at the judge,
// and no model is asked for a verdict nobody needs.
func TestResearchSpaceFails(t *testing.T) {
	c := &fakeChat{plan: `{"queries":["gamma"]}`, verdict: `{"sufficient":true,"missing":[]}`}
	m := research.Model{Chat: c}
	broken := funcReranker(func(context.Context, []string) ([]rerank.Scored, error) { return nil, errFake })
	w := newWorld(t, &Options{Planner: m, Judge: m, Rerankers: map[string]rerank.Reranker{"r": broken}}, nil)
	for _, id := range []string{"a", "b", "c"} {
		w.add(id, func(p *catalog.Profile) {
			p.DefaultMode = catalog.Research
			p.Rerank = catalog.RerankSetting{Enabled: id == "b", Model: "r"}
		}, source("a.txt", "alpha one"))
	}
	w.refused(draft(complexQuestion, "a", "b", "c"), errFake, `"b"`)
	if len(c.judged) != 0 {
		t.Errorf("judged %d times", len(c.judged))
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.o.Judge = judgeFunc(func() { cancel() })
	_, err := w.Retrieve(ctx, draft(directQuestion, "a", "c"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

type judgeFunc func()

func (f judgeFunc) Sufficient(context.Context, research.Question, []research.Passage, *research.Budget) (research.Verdict, error) {
	f()
	return research.Verdict{}, nil
}
