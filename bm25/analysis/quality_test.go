package analysis

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// judged is a test collection held in memory.
type judged struct {
	docs    []string
	queries []judgedQuery
}

type judgedQuery struct {
	text  string
	grade map[int]float64
}

func dataDir(t testing.TB) string {
	dir := os.Getenv("QUARRY_DATA")
	if dir == "" {
		t.Skip("QUARRY_DATA is not set")
	}
	return dir
}

func eachLine(t testing.TB, path string, fn func(line []byte)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		fn(sc.Bytes())
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
}

// loadJudged reads the documents whose id has a prefix and every nth query
// that is judged among them.
func loadJudged(t testing.TB, corpus, queries, qrels, prefix string, nth int) *judged {
	c := &judged{}
	ids := map[string]int{}
	eachLine(t, corpus, func(line []byte) {
		var d struct{ ID, Title, Text string }
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(d.ID, prefix) {
			return
		}
		ids[d.ID] = len(c.docs)
		c.docs = append(c.docs, d.Title+"\n"+d.Text)
	})
	grades := map[string]map[int]float64{}
	eachLine(t, qrels, func(line []byte) {
		f := strings.Split(string(line), "\t")
		g, err := strconv.ParseFloat(f[2], 64)
		doc, ok := ids[f[1]]
		if err != nil || !ok {
			return
		}
		if grades[f[0]] == nil {
			grades[f[0]] = map[int]float64{}
		}
		grades[f[0]][doc] = g
	})
	n := 0
	eachLine(t, queries, func(line []byte) {
		var q struct{ ID, Text string }
		if err := json.Unmarshal(line, &q); err != nil {
			t.Fatal(err)
		}
		if len(grades[q.ID]) > 0 {
			if n%nth == 0 {
				c.queries = append(c.queries, judgedQuery{q.Text, grades[q.ID]})
			}
			n++
		}
	})
	return c
}

// bruteIndex is an exhaustive BM25 with k1 1.2, b 0.75 and Lucene's idf and
// one-byte lengths.
type bruteIndex struct {
	postings map[string][]posting
	norm     []float64
}

type posting struct {
	doc int
	tf  float64
}

// codedLength is the length after a round trip through one byte: exact to 39,
// then four significant bits.
func codedLength(n int) int {
	const free = 24
	if n < free+16 {
		return n
	}
	v := n - free
	shift := bits.Len(uint(v)) - 4
	return free + v>>shift<<shift
}

func buildBrute(a *Analyzer, docs []string) *bruteIndex {
	ix := &bruteIndex{postings: map[string][]posting{}}
	var s Scratch
	lengths := make([]int, len(docs))
	total := 0
	for d, text := range docs {
		a.Tokens(&s, text, func(tok *Token) {
			lengths[d]++
			p := ix.postings[string(tok.Term)]
			if len(p) > 0 && p[len(p)-1].doc == d {
				p[len(p)-1].tf++
			} else {
				ix.postings[string(tok.Term)] = append(p, posting{d, 1})
			}
		})
		total += lengths[d]
	}
	avg := float64(total) / float64(len(docs))
	for _, l := range lengths {
		ix.norm = append(ix.norm, 1.2*(0.25+0.75*float64(codedLength(l))/avg))
	}
	return ix
}

// search returns the best k documents, ties by number.
func (ix *bruteIndex) search(a *Analyzer, s *Scratch, text string, k int) []int {
	scores := map[int]float64{}
	n := float64(len(ix.norm))
	a.QueryTokens(s, text, func(tok *Token) {
		p := ix.postings[string(tok.Term)]
		df := float64(len(p))
		idf := math.Log(1 + (n-df+0.5)/(df+0.5))
		for _, e := range p {
			scores[e.doc] += idf * e.tf / (e.tf + ix.norm[e.doc])
		}
	})
	docs := make([]int, 0, len(scores))
	for d := range scores {
		docs = append(docs, d)
	}
	slices.SortFunc(docs, func(x, y int) int {
		if scores[x] != scores[y] {
			if scores[x] > scores[y] {
				return -1
			}
			return 1
		}
		return x - y
	})
	return docs[:min(k, len(docs))]
}

// measure gives nDCG@10 and MRR@10 over the queries.
func measure(a *Analyzer, c *judged) (ndcg, mrr float64) {
	ix := buildBrute(a, c.docs)
	var s Scratch
	for _, q := range c.queries {
		var dcg, ideal, rr float64
		for r, d := range ix.search(a, &s, q.text, 10) {
			g := q.grade[d]
			dcg += g / math.Log2(float64(r)+2)
			if g > 0 && rr == 0 {
				rr = 1 / float64(r+1)
			}
		}
		var gains []float64
		for _, g := range q.grade {
			gains = append(gains, g)
		}
		slices.SortFunc(gains, func(x, y float64) int { return int(math.Copysign(1, y-x)) })
		for r, g := range gains[:min(10, len(gains))] {
			ideal += g / math.Log2(float64(r)+2)
		}
		if ideal > 0 {
			ndcg += dcg / ideal
		}
		mrr += rr
	}
	n := float64(len(c.queries))
	return ndcg / n, mrr / n
}

func mustNew(t testing.TB, name string) *Analyzer {
	t.Helper()
	a, err := New(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestQuality holds the golden floors: about 0.002 under what was measured.
func TestQuality(t *testing.T) {
	dir := dataDir(t)
	for _, set := range []struct {
		name  string
		a     *Analyzer
		mrr   bool
		nth   int
		floor float64
	}{
		{"scifact", mustNew(t, "english"), false, 1, 0.686},
		{"nfcorpus", mustNew(t, "english"), false, 1, 0.329},
		{"cranfield", mustNew(t, "english"), false, 1, 0.435},
		{"jaquad", ForLanguage("ja"), true, 8, 0.874},
		{"piaf", ForLanguage("fr"), false, 4, 0.804},
		{"dify-docs/en", ForLanguage("en"), false, 1, 0.836},
		{"dify-docs/ja", ForLanguage("ja"), false, 1, 0.846},
		{"dify-docs/zh", ForLanguage("zh"), false, 1, 0.835},
		{"xquad/ar", ForLanguage("ar"), true, 1, 0.925},
		{"xquad/de", ForLanguage("de"), true, 1, 0.925},
		{"xquad/el", ForLanguage("el"), true, 1, 0.935},
		{"xquad/en", ForLanguage("en"), true, 1, 0.960},
		{"xquad/es", ForLanguage("es"), true, 1, 0.952},
		{"xquad/hi", ForLanguage("hi"), true, 1, 0.939},
		{"xquad/ro", ForLanguage("ro"), true, 1, 0.952},
		{"xquad/ru", ForLanguage("ru"), true, 1, 0.940},
		{"xquad/th", ForLanguage("th"), true, 1, 0.957},
		{"xquad/tr", ForLanguage("tr"), true, 1, 0.931},
		{"xquad/vi", ForLanguage("vi"), true, 1, 0.945},
		{"xquad/zh", ForLanguage("zh"), true, 1, 0.959},
	} {
		t.Run(strings.ReplaceAll(set.name, "/", "-"), func(t *testing.T) {
			at := func(file string) string { return filepath.Join(dir, filepath.FromSlash(set.name), file) }
			qrels := at("qrels.tsv.gz")
			if strings.HasPrefix(set.name, "xquad") {
				qrels = filepath.Join(dir, "xquad", "qrels.tsv.gz")
			}
			c := new(judged)
			if base, lang, ok := strings.Cut(set.name, "/"); ok && base == "dify-docs" {
				at = func(file string) string { return filepath.Join(dir, base, file) }
				c = loadJudged(t, at("docs.jsonl.gz"), at("queries.jsonl.gz"), at("qrels.tsv.gz"), lang+"/", 1)
			} else {
				c = loadJudged(t, at("corpus.jsonl.gz"), at("queries.jsonl.gz"), qrels, "", set.nth)
			}
			got, kind := 0.0, "nDCG@10"
			ndcg, mrr := measure(set.a, c)
			if got = ndcg; set.mrr {
				got, kind = mrr, "MRR@10"
			}
			t.Logf("%s with %s: %s %.4f over %d queries", set.name, set.a.Name(), kind, got, len(c.queries))
			if got < set.floor {
				t.Errorf("%s %.4f is under the floor %.4f", kind, got, set.floor)
			}
		})
	}
}
