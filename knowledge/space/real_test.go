package space

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// dataFile reads the lines of a staged file.
func dataFile(t testing.TB, name string, line func(string)) {
	t.Helper()
	dir := os.Getenv("QUARRY_DATA")
	if dir == "" {
		t.Skip("QUARRY_DATA is not set")
	}
	f := value[*os.File](t)(os.Open(filepath.Join(dir, filepath.FromSlash(name))))
	defer f.Close()
	sc := bufio.NewScanner(value[*gzip.Reader](t)(gzip.NewReader(f)))
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		line(sc.Text())
	}
	must(t, sc.Err())
}

// page is one document of a staged collection.
type page struct {
	ID, Title, Text string
	Metadata        struct {
		Lang, Path, Created, Updated, Date, Category, Platform, Section string
		DocType                                                         string `json:"doc_type"`
	}
}

// source makes a Markdown source with the front matter that the page once had.
func (p *page) source() knowledge.Source {
	m := &p.Metadata
	front := fmt.Sprintf("---\nlanguage: %s\n", m.Lang)
	add := func(format string, value string) {
		if value != "" {
			front += fmt.Sprintf(format, value)
		}
	}
	add("date: %s\n", m.Created+m.Date)
	add("updated: %s\n", m.Updated)
	add("tags: [%s]\n", strings.Trim(strings.Join([]string{m.Category, m.Platform, m.Section, m.DocType}, ","), ","))
	return knowledge.Source{Name: p.ID + ".md", Title: p.Title, Data: []byte(front + "---\n\n" + p.Text)}
}

// difyPages are the pages of the dify-docs by language.
func difyPages(t testing.TB) map[string][]knowledge.Source {
	pages := make(map[string][]knowledge.Source)
	dataFile(t, "dify-docs/docs.jsonl.gz", func(line string) {
		var p page
		must(t, json.Unmarshal([]byte(line), &p))
		pages[p.Metadata.Lang] = append(pages[p.Metadata.Lang], p.source())
	})
	return pages
}

// question is a query and the pages that answer it.
type question struct {
	id, text string
	pages    map[string]bool
}

// difyQuestions are the known-item queries, with the pages that a file of
// judgements names.
func difyQuestions(t testing.TB, judgements string) (out []question) {
	pages := make(map[string]map[string]bool)
	dataFile(t, judgements, func(line string) {
		f := strings.Split(line, "\t")
		if pages[f[0]] == nil {
			pages[f[0]] = make(map[string]bool)
		}
		pages[f[0]][f[1]+".md"] = true
	})
	dataFile(t, "dify-docs/queries.jsonl.gz", func(line string) {
		var q struct{ ID, Text string }
		must(t, json.Unmarshal([]byte(line), &q))
		if pages[q.ID] != nil {
			out = append(out, question{q.ID, q.Text, pages[q.ID]})
		}
	})
	return out
}

func language(id string) string { lang, _, _ := strings.Cut(id, ":"); return lang }

// A tally averages what retrievals are worth. Pages are ranked by their first
// evidence; ten of them count.
type tally struct{ n, mrr, ndcg, recall float64 }

func (s *tally) add(res *Result, relevant map[string]bool) {
	var got, ideal, mrr, hits float64
	seen := make(map[string]bool)
	for _, e := range res.Evidence {
		doc := e.Metadata.Citation.DocumentID
		if seen[doc] || len(seen) == 10 {
			continue
		}
		if relevant[doc] {
			hits++
			got += 1 / math.Log2(float64(len(seen))+2)
			if mrr == 0 {
				mrr = 1 / float64(len(seen)+1)
			}
		}
		seen[doc] = true
	}
	for i := range min(len(relevant), 10) {
		ideal += 1 / math.Log2(float64(i)+2)
	}
	s.n++
	s.mrr += mrr
	s.ndcg += got / ideal
	s.recall += hits / float64(min(len(relevant), 10))
}

func (s *tally) String() string {
	return fmt.Sprintf("MRR@10 %.4f  nDCG@10 %.4f  recall@10 %.4f  (%.0f queries)", s.mrr/s.n, s.ndcg/s.n, s.recall/s.n, s.n)
}

// byWords scores passages by the share of the query's words that they hold; a
// word of letters without spaces between is a pair of them.
type byWords struct{}

func (byWords) Name() string { return "words" }

func (byWords) Rerank(_ context.Context, query string, passages []string, _ int) (out []rerank.Scored, err error) {
	words := pieces(query)
	for i, p := range passages {
		held, n := pieces(p), 0
		for w := range words {
			if held[w] {
				n++
			}
		}
		out = append(out, rerank.Scored{Index: i, Score: float64(n) / float64(max(len(words), 1))})
	}
	return out, nil
}

func pieces(text string) map[string]bool {
	out := make(map[string]bool)
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if r := []rune(w); r[0] < 0x2E80 {
			out[w] = true
		} else {
			for i := 1; i < len(r); i++ {
				out[string(r[i-1:i+1])] = true
			}
		}
	}
	return out
}

// realSpaces publishes dify-docs in three languages, each with a profile of its
// own, a part of tldr and a part of nodejs-org, and a workflow over all five.
func realSpaces(t *testing.T) (*world, []string) {
	w := newWorld(t, &Options{Rerankers: map[string]rerank.Reranker{"words": byWords{}}}, map[string]embed.Embedder{"zh": newBag("zh", 32)})
	pages := difyPages(t)
	take := func(space, file string, want func(p *page) bool) {
		dataFile(t, file, func(line string) {
			var p page
			must(t, json.Unmarshal([]byte(line), &p))
			if p.Metadata.Lang == "en" && want(&p) {
				pages[space] = append(pages[space], p.source())
			}
		})
	}
	take("tldr", "tldr/docs.jsonl.gz", func(p *page) bool { return p.Metadata.Platform == "osx" || p.Metadata.Platform == "windows" })
	take("nodejs", "nodejs-org/docs.jsonl.gz", func(p *page) bool {
		return slices.Contains([]string{"vulnerability", "announcements", "community", "npm"}, p.Metadata.Category)
	})
	words := catalog.RerankSetting{Enabled: true, Model: "words"}
	ids := []string{"en", "zh", "ja", "tldr", "nodejs"}
	for _, id := range ids {
		o := &knowledge.BaseOptions{}
		if id == "zh" {
			o.Embedder = "zh"
		}
		start := time.Now()
		w.addBase(id, o, func(p *catalog.Profile) {
			switch id {
			case "en":
				p.TopK = 20
			case "zh":
				p.DefaultMode, p.Rerank = catalog.Deep, words
			case "ja":
				p.DefaultMode = catalog.Research
				p.ScoreThreshold = catalog.Threshold{Enabled: true, Stage: catalog.StageFinal, Value: 0.3}
			case "tldr":
				p.Degrade = []string{catalog.Dense}
			case "nodejs":
				p.DefaultMode, p.Rerank = catalog.Deep, words
				p.ScoreThreshold = catalog.Threshold{Enabled: true, Stage: catalog.StageRerank, Value: 0.25}
			}
		}, pages[id]...)
		info := value[knowledge.BaseInfo](t)(w.kb.Base(t.Context(), fmt.Sprintf("%s@%d", id, w.published(id))))
		t.Logf("%s: %d documents, %d chunks, published after %.1f s", id, info.Documents, info.Chunks, time.Since(start).Seconds())
	}
	must(t, errOf(w.cat.Publish("ann", "flow", 1, ids)))
	return w, ids
}

// A published workflow over five real spaces, in each mode, with filters, and
// with a permission withdrawn in the middle.
func TestRealSpaces(t *testing.T) {
	if testing.Short() && os.Getenv("QUARRY_DATA") != "" {
		t.Skip("five real spaces take seconds")
	}
	w, ids := realSpaces(t)
	questions := difyQuestions(t, "dify-docs/qrels.tsv.gz")
	for _, m := range append([]catalog.Mode{""}, allModes...) {
		var score tally
		for i := 0; i < len(questions); i += 4 {
			q := questions[i]
			space := language(q.id)
			r := published(q.text, ids...)
			if m != "" {
				// In one mode, the space in question alone: these profiles do
				// not score alike.
				r.Mode, r.Run.Spaces = m, []string{space}
			}
			r.TopN, r.Verify = 40, i%20 == 0
			if m != catalog.Research && m != "" && space == "ja" {
				w.refused(r, catalog.ErrThreshold, "ja")
				continue
			}
			score.add(w.retrieve(r), q.pages)
		}
		t.Logf("%-8s %v", m, &score)
		if score.ndcg/score.n < 0.40 {
			t.Errorf("mode %q: %v", m, &score)
		}
	}
	w.realFilters(ids)
	w.realRevocation(ids)
}

// realFilters holds the evidence of filtered runs against the documents.
func (w *world) realFilters(ids []string) {
	t := w.t
	for _, c := range []struct {
		name  string
		query string
		f     Filters
		pass  func(space string, d *knowledge.Document) bool
		least int
	}{
		{"language", "workflow variables", Filters{Languages: []string{"ja"}},
			func(space string, _ *knowledge.Document) bool { return space == "ja" }, 5},
		{"created", "security release", Filters{CreatedAfter: "2020-01-01", CreatedBefore: "2023-01-01"},
			func(_ string, d *knowledge.Document) bool { return d.Created.Year() >= 2020 && d.Created.Year() < 2023 }, 5},
		{"tags", "install a package", Filters{Tags: []string{"osx"}},
			func(space string, d *knowledge.Document) bool {
				return space == "tldr" && slices.Contains(d.Tags, "osx")
			}, 5},
		{"all together", "vulnerability", Filters{Tags: []string{"vulnerability", "announcements"}, Languages: []string{"en"}, DocumentTypes: []string{"markdown"}, CreatedAfter: "2024-01-01"},
			func(space string, d *knowledge.Document) bool { return space == "nodejs" && d.Created.Year() >= 2024 }, 1},
		{"nothing", "workflow", Filters{Tags: []string{"osx"}, Languages: []string{"zh"}}, func(string, *knowledge.Document) bool { return false }, 0},
	} {
		r := published(c.query, ids...)
		r.Filters, r.TopN, r.Verify = c.f, 100, true
		res := w.retrieve(r)
		for _, e := range res.Evidence {
			d := value[knowledge.Document](t)(w.kb.Document(t.Context(), e.Metadata.SpaceID, e.Metadata.Citation.DocumentID))
			if !c.pass(e.Metadata.SpaceID, &d) {
				t.Errorf("%s: %s of %s, tags %q, created %v", c.name, d.ID, e.Metadata.SpaceID, d.Tags, d.Created)
			}
		}
		if len(res.Evidence) < c.least {
			t.Errorf("%s: %d pieces of evidence", c.name, len(res.Evidence))
		}
	}
}

// realRevocation withdraws a permission in the middle of a row of runs.
func (w *world) realRevocation(ids []string) {
	t := w.t
	var grants []catalog.Grant
	for _, id := range ids {
		grants = append(grants, catalog.Grant{Space: id, Permission: catalog.Use})
	}
	value[catalog.Account](t)(w.cat.CreateAccount("", catalog.Account{ID: "bob", Workspace: "w", Name: "Bob", Grants: grants}))
	r := published("how do I install it", ids...)
	r.Run.Account = "bob"
	for i := range 20 {
		if i == 10 {
			must(t, w.cat.RevokeGrant("ann", "bob", "ja"))
		}
		if i < 10 {
			w.retrieve(r)
		} else {
			w.refused(r, catalog.ErrPermission, "ja")
		}
	}
	r.Run.Spaces = []string{"en", "zh", "tldr", "nodejs"}
	if res := w.retrieve(r); slices.Contains(from(res), "ja") {
		t.Error("evidence of a space that was not asked")
	}
}

// pairs makes questions of two parts of known-item queries of one language: all
// pages of both answer it.
func pairs(questions []question) (out []question) {
	join := map[string]string{
		"en": "Where can I read about %s? And what is there on %s?",
		"zh": "%s在哪里有说明？另外，%s是怎么回事？",
		"ja": "%sについて知りたいです。また、%sについても教えてください。",
	}
	by := make(map[string][]question)
	for _, q := range questions {
		by[language(q.id)] = append(by[language(q.id)], q)
	}
	for _, lang := range []string{"en", "zh", "ja"} {
		list := by[lang]
		for i := range list {
			a, b := list[i], list[(i+len(list)/2)%len(list)]
			p := question{id: a.id, text: fmt.Sprintf(join[lang], a.text, b.text), pages: map[string]bool{}}
			for _, q := range []question{a, b} {
				for page := range q.pages {
					p.pages[page] = true
				}
			}
			out = append(out, p)
		}
	}
	return out
}

// difySpaces publishes the dify-docs, a space for each language.
func difySpaces(t testing.TB, w *world, embedder string) {
	pages := difyPages(t)
	for _, lang := range difyLanguages {
		start := time.Now()
		w.addBase(lang, &knowledge.BaseOptions{Embedder: embedder}, func(p *catalog.Profile) { p.TopK = 20 }, pages[lang]...)
		t.Logf("%s: published after %.1f s", lang, time.Since(start).Seconds())
	}
}

var difyLanguages = []string{"en", "zh", "ja"}

// measure asks every step-th question in each mode, of the spaces that it is put
// to.
func measure(t testing.TB, w *world, questions []question, step int, spaces func(q *question) []string) map[catalog.Mode]*tally {
	scores := make(map[catalog.Mode]*tally)
	for _, m := range allModes {
		s, start := &tally{}, time.Now()
		for i := 0; i < len(questions); i += step {
			r := draft(questions[i].text, spaces(&questions[i])...)
			r.Mode, r.TopN = m, 40
			s.add(w.retrieve(r), questions[i].pages)
		}
		scores[m] = s
		t.Logf("%-8s %v, %.1f ms a query", m, s, 1000*time.Since(start).Seconds()/s.n)
	}
	return scores
}

func own(q *question) []string { return []string{language(q.id)} }

func foreign(q *question) []string {
	return slices.DeleteFunc(slices.Clone(difyLanguages), func(l string) bool { return l == language(q.id) })
}

// S3.7: on questions of several parts mode research, offline, is not worse than
// mode deep.
func TestS3_7_ResearchNotWorseThanDeep(t *testing.T) {
	if testing.Short() && os.Getenv("QUARRY_DATA") != "" {
		t.Skip("three real spaces take seconds")
	}
	w := newWorld(t, nil, nil)
	difySpaces(t, w, "")
	notWorse(t, measure(t, w, pairs(difyQuestions(t, "dify-docs/qrels.tsv.gz")), 3, own))
}

func notWorse(t *testing.T, scores map[catalog.Mode]*tally) {
	t.Helper()
	d, r := scores[catalog.Deep], scores[catalog.Research]
	if r.ndcg < d.ndcg || r.recall < d.recall {
		t.Errorf("research %v\nis worse than deep %v", r, d)
	}
}

// The 1,016 cross-lingual judgements, and questions of one and of two parts in
// their own language, by the multilingual encoder of the program. The encoder
// takes minutes, so only with QUARRY_LONG=1.
func TestCrossLingual(t *testing.T) {
	if os.Getenv("QUARRY_LONG") == "" {
		t.Skip("QUARRY_LONG is not set")
	}
	// The file of package e5small, without linking its 80 MB into this test.
	m := value[*embed.Model](t)(embed.OpenModel(storage.OS{}, filepath.Join("..", "embed", "e5small", "e5small.qem")))
	t.Cleanup(func() { must(t, m.Close()) })
	w := newWorld(t, nil, map[string]embed.Embedder{"e5": value[*embed.Local](t)(embed.NewLocal(m, nil))})
	difySpaces(t, w, "e5")
	questions := difyQuestions(t, "dify-docs/qrels.tsv.gz")
	t.Log("cross-lingual")
	measure(t, w, difyQuestions(t, "dify-docs/qrels.cross.tsv.gz"), 1, foreign)
	t.Log("known items")
	measure(t, w, questions, 1, own)
	t.Log("two known items in one question")
	notWorse(t, measure(t, w, pairs(questions), 1, own))
}
