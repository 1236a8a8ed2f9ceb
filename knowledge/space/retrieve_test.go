package space

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/rerank"
)

// item makes an item with a score, its place in its space, its document.
func item(base, document string, chunk int, score float64) knowledge.Item {
	return knowledge.Item{Content: document, Score: score, Metadata: knowledge.Metadata{KnowledgeBaseID: base, DocumentID: document,
		ChunkID: fmt.Sprintf("%s#%08d", document, chunk), ChunkIndex: chunk, StartOffset: chunk * 10, EndOffset: chunk*10 + 5}}
}

// S3.6: by score, then space, then place, cut at top N; scores are not made
// relative to the best of their space, and not compared with any slack.
func TestS3_6_Merge(t *testing.T) {
	next := math.Nextafter(0.5, 1)
	spaces := []*searched{
		{items: []knowledge.Item{item("x", "a", 0, 0.5), item("x", "b", 0, 0.5), item("x", "c", 0, 0.1)}},
		{items: []knowledge.Item{item("y", "d", 0, next), item("y", "e", 0, 0.5), item("y", "f", 0, 0.5)}},
		{items: []knowledge.Item{item("z", "g", 0, 0.01)}}, // the best of its space
		{},
	}
	names := func(n int) string {
		var out []string
		for _, f := range merge(spaces, n) {
			out = append(out, f.item.Metadata.DocumentID)
		}
		return strings.Join(out, "")
	}
	for n, want := range map[int]string{100: "dabefcg", 7: "dabefcg", 3: "dab", 1: "d"} {
		if got := names(n); got != want {
			t.Errorf("top %d: got %s, want %s", n, got, want)
		}
	}
}

// S0.8: two spaces on one base do not give one stretch twice, and the list is
// filled up.
func TestS0_8_SharedBase(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.add("a", nil, source("a.txt", numbered("alpha", 6)...))
	value[catalog.Space](t)(w.cat.CreateSpace("ann", catalog.Space{ID: "b", Workspace: "w", Name: "b", Base: "a", Draft: catalog.DefaultProfile()}))
	w.ingest("a", source("b.txt", "beta"))
	w.publish("b") // another generation of the base
	r := draft("alpha", "a", "b")
	r.TopN = 6
	res := w.retrieve(r)
	got := contents(res)
	slices.Sort(got)
	if !slices.Equal(got, numbered("alpha", 6)) {
		t.Errorf("got %q", got)
	}
	if g := w.generations("a"); len(g) != 2 {
		t.Errorf("generations %v: each space uses its own", g)
	}
}

// S3.6: the answer is the same each time, and process data says when scores are
// only weakly comparable.
func TestS3_6_Deterministic(t *testing.T) {
	w := newWorld(t, nil, map[string]embed.Embedder{"other": newBag("other", 16)})
	text := []knowledge.Source{source("a.txt", numbered("alpha beta", 20)...), source("b.txt", numbered("alpha gamma", 20)...)}
	for _, id := range []string{"a", "b", "c"} {
		w.add(id, nil, text...)
	}
	o := baseOptions()
	o.Embedder = "other"
	w.addBase("d", o, nil, text...)
	for _, m := range allModes {
		r := draft("beta and gamma, number7", "c", "a", "b")
		r.Mode, r.TopN = m, 25
		first := w.retrieve(r)
		if first.ProcessData.KnowledgeFS.ProfilesDiffer {
			t.Errorf("%s: equal profiles differ", m)
		}
		for range 10 {
			if d := cmp.Diff(first.Evidence, w.retrieve(r).Evidence); d != "" {
				t.Fatalf("%s: %s", m, d)
			}
		}
		for i := 1; i < len(first.Evidence); i++ {
			if first.Evidence[i].Metadata.Score > first.Evidence[i-1].Metadata.Score {
				t.Errorf("%s: place %d scores more than the one before", m, i)
			}
		}
	}
	differ := func(r Request) bool { return w.retrieve(r).ProcessData.KnowledgeFS.ProfilesDiffer }
	if !differ(draft("alpha", "a", "d")) {
		t.Error("another model does not make profiles differ")
	}
	w.edit("b", func(p *catalog.Profile) { p.DefaultMode = catalog.Deep })
	if !differ(draft("alpha", "a", "b")) {
		t.Error("another mode does not make profiles differ")
	}
	w.edit("b", func(p *catalog.Profile) { p.DefaultMode, p.TopK = catalog.Fast, 5 })
	if !differ(draft("alpha", "a", "b")) {
		t.Error("another top K does not make profiles differ")
	}
}

// S3.7: fast is one recall, fused; deep recalls five times as much and reranks
// when the profile has a reranker.
func TestS3_7_FastAndDeep(t *testing.T) {
	var pools []int
	o := &Options{Rerankers: map[string]rerank.Reranker{"r": funcReranker(func(ctx context.Context, passages []string) ([]rerank.Scored, error) {
		pools = append(pools, len(passages))
		return byLength(ctx, passages)
	})}}
	w := newWorld(t, o, nil)
	// One line is the longest and far from the best of either leg.
	text := append(numbered("alpha beta", 30), "alpha "+strings.Repeat("and other words ", 20))
	w.add("a", func(p *catalog.Profile) { p.TopK = 4 }, source("a.txt", text...))
	w.add("b", func(p *catalog.Profile) {
		p.TopK = 4
		p.Rerank = catalog.RerankSetting{Enabled: true, Model: "r"}
	}, source("a.txt", text...))
	candidates := func(id string, m catalog.Mode) int {
		r := draft("alpha beta", id)
		r.Mode = m
		res := w.retrieve(r)
		if len(res.Evidence) != 4 || res.Metrics.ModelCalls != 0 {
			t.Errorf("%s, %s: %d pieces of evidence, %d calls of models", id, m, len(res.Evidence), res.Metrics.ModelCalls)
		}
		return res.ProcessData.KnowledgeFS.CandidateCounts[id]
	}
	if n := candidates("a", catalog.Fast); n < 4 || n > 8 {
		t.Errorf("fast looks at %d candidates: two legs give 4 each", n)
	}
	if n := candidates("a", catalog.Deep); n < 20 || n > 40 {
		t.Errorf("deep looks at %d candidates: two legs give 20 each", n)
	}
	candidates("b", catalog.Fast)
	if len(pools) != 0 {
		t.Errorf("fast reranks %v", pools)
	}
	candidates("b", catalog.Deep)
	if !slices.Equal(pools, []int{12}) {
		t.Errorf("deep reranks %v, want one pool of 12", pools)
	}
}

// S3.8: the JSON of evidence is that of the seed; what is unknown is left out.
func TestS3_8_EvidenceJSON(t *testing.T) {
	w := newWorld(t, nil, nil)
	md := "# Chapter\n\n## Section\n\nAlpha stands in this sentence.\n"
	w.addBase("handbook", nil, nil, knowledge.Source{Name: "guide.md", Data: []byte(md)})
	res := w.retrieve(draft("alpha sentence", "handbook"))
	got := value[[]byte](t)(json.Marshal(res.Evidence))
	want := fmt.Sprintf(`[{"content":%q,"title":"Section","metadata":{"citation":{"document_id":"guide.md","document_version":1,`+
		`"section_path":["Chapter","Section"],"start_offset":%d,"end_offset":%d,"artifact_hash":"%s"},"score":1,"sources":["dense","fts"],"space_id":"handbook"}}]`,
		strings.TrimSpace(md), 0, len(md)-1, hashOf(md))
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	// With a page, without offsets, section and title.
	e := evidenceOf("s", &knowledge.Item{Content: "c", Metadata: knowledge.Metadata{DocumentID: "d", DocumentVersion: 2, Page: 3, ArtifactHash: "h"}})
	const bare = `{"content":"c","title":"d","metadata":{"citation":{"document_id":"d","document_version":2,"section_path":[],"page_number":3,"artifact_hash":"h"},"score":0,"sources":[],"space_id":"s"}}`
	if got := value[[]byte](t)(json.Marshal(e)); string(got) != bare {
		t.Errorf("got %s", got)
	}
}

// Evidence keeps within the limits of an answer, and its offsets with it.
func TestEvidenceLimits(t *testing.T) {
	from := 7
	path := append(many(70), strings.Repeat("節", 600))
	it := knowledge.Item{Content: strings.Repeat("語", 9000), Metadata: knowledge.Metadata{DocumentID: "d", SectionPath: path, SourceStart: &from, SourceEnd: &from}}
	e := evidenceOf("s", &it)
	c := e.Metadata.Citation
	if e.Content != strings.Repeat("語", MaxContent) || *c.StartOffset != 7 || *c.EndOffset != 7+3*MaxContent {
		t.Errorf("%d bytes, %d to %d", len(e.Content), *c.StartOffset, *c.EndOffset)
	}
	if len(c.SectionPath) != MaxSections || c.SectionPath[0] != "v7" || c.SectionPath[63] != strings.Repeat("節", MaxSection) || e.Title != c.SectionPath[63] {
		t.Errorf("%d sections from %q", len(c.SectionPath), c.SectionPath[0])
	}
	small, large := []Evidence{e}, slices.Repeat([]Evidence{e}, 100)
	must(t, checkSize(small))
	must(t, checkSize(large[:60])) // 60 times 24 KiB
	for i := range large {
		large[i].Content = strings.Repeat("\x01", MaxContent) // 6 bytes of JSON each
	}
	if err := checkSize(large); err == nil {
		t.Error("100 times 48 KiB pass")
	}
}

// S3.9: metrics and process data.
func TestS3_9_Metrics(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.add("a", nil, source("a.txt", "alpha"))
	w.add("b", func(p *catalog.Profile) { p.DefaultMode = catalog.Deep }, source("a.txt", "alpha"))
	w.publish("b")
	res := w.retrieve(draft("alpha", "a", "b"))
	data := value[[]byte](t)(json.Marshal(map[string]any{"metrics": res.Metrics, "process_data": res.ProcessData}))
	ms := regexp.MustCompile(`"total_ms":\d+(\.\d{1,3})?([,}])`)
	id := regexp.MustCompile(`"trace_id":"[0-9a-f]{16}-(\d)"`)
	if n := len(ms.FindAll(data, -1)); n != 3 {
		t.Errorf("%d times with at most 3 decimals in %s", n, data)
	}
	got := id.ReplaceAllString(ms.ReplaceAllString(string(data), `"total_ms":0$2`), `"trace_id":"$1"`)
	const want = `{"metrics":{"mode":"mixed","total_ms":0,"degradation_flags":[],"model_calls":0},"process_data":{"knowledge_fs":{"requested_mode":"space-default",` +
		`"effective_modes":["fast","deep"],"profiles_differ":true,"candidate_counts":{"a":1,"b":1},"per_space":[` +
		`{"control_space_id":"a","mode":"fast","publication_revision":1,"generation":1,"candidate_count":1,"total_ms":0,"trace_id":"0","degradation_flags":[]},` +
		`{"control_space_id":"b","mode":"deep","publication_revision":2,"generation":2,"candidate_count":1,"total_ms":0,"trace_id":"1","degradation_flags":[]}]}}}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r := draft("alpha", "a", "b")
	r.Mode = catalog.Research
	res = w.retrieve(r)
	if tr := res.ProcessData.KnowledgeFS; res.Metrics.Mode != "research" || tr.RequestedMode != "research" || tr.Research == nil || tr.Research.Rounds != 1 {
		t.Errorf("got %+v", res)
	}
	if res.Metrics.TotalMS <= 0 || res.ProcessData.KnowledgeFS.PerSpace[0].TotalMS > res.Metrics.TotalMS {
		t.Errorf("times %+v", res.Metrics)
	}
}

// S3.10: a leg or reranker that fails is a flag where the profile allows it.
func TestS3_10_Degradation(t *testing.T) {
	model := newBag("model", 64)
	broken := funcReranker(func(context.Context, []string) ([]rerank.Scored, error) { return nil, errFake })
	silent := funcReranker(func(context.Context, []string) ([]rerank.Scored, error) { return nil, nil })
	w := newWorld(t, &Options{Rerankers: map[string]rerank.Reranker{"broken": broken, "silent": silent}}, map[string]embed.Embedder{"model": model})
	o := baseOptions()
	o.Embedder = "model"
	for id, degrade := range map[string][]string{"open": {catalog.Dense, catalog.FTS, catalog.Reranker}, "dense": {catalog.Dense}, "fts": {catalog.FTS}, "rerank": {catalog.Reranker}, "closed": nil} {
		for _, r := range []string{"", "broken", "silent", "none"} {
			w.addBase(id+r, o, func(p *catalog.Profile) {
				p.Degrade = degrade
				p.Rerank = catalog.RerankSetting{Enabled: r != "", Model: r}
			}, source("a.txt", "alpha beta", "alpha"))
		}
	}
	ask := func(id string, m catalog.Mode) Request {
		r := draft("alpha beta", id)
		r.Mode = m
		return r
	}
	for _, m := range []catalog.Mode{catalog.Deep, catalog.Research} {
		for _, r := range []string{"broken", "silent", "none"} {
			for _, id := range []string{"open", "rerank"} {
				res := w.retrieve(ask(id+r, m))
				wantContents(t, res, "alpha beta", "alpha")
				if !slices.Equal(res.Metrics.DegradationFlags, []string{"rerank-failed:skipped"}) {
					t.Errorf("%s, %s: flags %q", id+r, m, res.Metrics.DegradationFlags)
				}
			}
			for _, id := range []string{"closed", "dense", "fts"} {
				_, err := w.Retrieve(t.Context(), ask(id+r, m))
				var e *Error
				if !errors.As(err, &e) || e.Space != id+r || !strings.Contains(err.Error(), "rerank") && !errors.Is(err, errFake) {
					t.Errorf("%s, %s: %v", id+r, m, err)
				}
			}
		}
	}
	model.fail.Store(true)
	for _, m := range allModes {
		for _, id := range []string{"open", "dense"} {
			res := w.retrieve(ask(id, m))
			wantContents(t, res, "alpha beta", "alpha")
			if !slices.Equal(res.Metrics.DegradationFlags, []string{"dense-failed:fts-only"}) || !slices.Equal(res.Evidence[0].Metadata.Sources, []string{SourceFTS}) {
				t.Errorf("%s, %s: flags %q, sources %q", id, m, res.Metrics.DegradationFlags, res.Evidence[0].Metadata.Sources)
			}
		}
		for _, id := range []string{"closed", "fts", "rerank"} {
			w.refused(ask(id, m), errFake, id)
		}
	}
}

// S3.10: of several spaces that fail, the first in the order of the request names
// the error, whichever fails first in time; no evidence of the others comes back.
func TestS3_10_FirstFailingSpace(t *testing.T) {
	slow := make(chan struct{})
	o := &Options{Rerankers: map[string]rerank.Reranker{
		"slow": funcReranker(func(ctx context.Context, _ []string) ([]rerank.Scored, error) {
			select {
			case <-slow:
				return nil, errors.New("failed late")
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}),
		"quick": funcReranker(func(context.Context, []string) ([]rerank.Scored, error) {
			defer func() { slow <- struct{}{} }()
			return nil, errors.New("failed early")
		}),
	}}
	w := newWorld(t, o, nil)
	for _, id := range []string{"good", "slow", "quick", "hung"} {
		w.add(id, func(p *catalog.Profile) {
			p.DefaultMode = catalog.Deep
			p.Rerank = catalog.RerankSetting{Enabled: id != "good", Model: strings.Replace(id, "hung", "slow", 1)}
		}, source("a.txt", "alpha"))
	}
	for _, m := range []catalog.Mode{catalog.Deep, catalog.Research} {
		r := draft("alpha", "good", "slow", "quick")
		r.Mode = m
		res, err := w.Retrieve(t.Context(), r)
		var e *Error
		if res != nil || !errors.As(err, &e) || e.Space != "slow" || !strings.Contains(err.Error(), "failed late") {
			t.Errorf("%s: %v, %v", m, res, err)
		}
	}
	// What is behind the failure is not waited for.
	ended := make(chan struct{})
	go func() {
		select { // quick tells this one or hung
		case <-slow:
		case <-ended:
		}
	}()
	r := draft("alpha", "good", "quick", "hung")
	_, err := w.Retrieve(t.Context(), r)
	close(ended)
	wantError(t, err, err, `"quick"`, "failed early")

	// A space that may not be used names the error before any is searched.
	must(t, w.cat.SetActive("ann", "hung", false))
	w.refused(draft("alpha", "quick", "hung"), catalog.ErrInactive, "hung")
	w.refused(draft("alpha", "none", "hung"), catalog.ErrUnavailable, "none")
}

// S3.10: nothing found anywhere is a success.
func TestS3_10_Empty(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.add("empty", nil)
	w.addBase("words", baseOptions(), func(p *catalog.Profile) { p.TopK = 3 }, source("a.txt", "alpha"))
	for _, m := range allModes {
		r := draft("omega", "empty")
		r.Mode = m
		res := w.retrieve(r)
		if res.Evidence == nil || len(res.Evidence) != 0 {
			t.Errorf("%s: got %q", m, contents(res))
		}
		data := value[[]byte](t)(json.Marshal(res))
		if !strings.HasPrefix(string(data), `{"result":[],"metrics":{"mode":"`+string(m)) {
			t.Errorf("%s: got %s", m, data)
		}
		r = draft("omega", "words", "empty")
		r.Mode, r.Filters.Tags = m, []string{"none"}
		wantContents(t, w.retrieve(r))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Retrieve(ctx, draft("alpha", "words")); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}
