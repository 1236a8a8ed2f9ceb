package cluster

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

// BenchmarkOverhead measures what a search costs beside the bare exchange of the same
// bytes, those of several requests at the same time, with a node that answers at
// once: added-µs at the median, of pairs that take turns. The frequencies of words are
// known, as those of words are that were asked for in the last seconds.
func BenchmarkOverhead(b *testing.B) {
	text, vector := &index.TextQuery{Text: "an old mill by the river"}, &index.VectorQuery{Vector: []float32{0.6, 0.8}}
	for _, c := range []struct {
		name     string
		q        index.Query
		requests int
	}{
		{"vector", index.Query{Vector: vector, K: 10}, 1},
		{"keyword", index.Query{Text: text, K: 10}, 1},
		{"hybrid", index.Query{Text: text, Vector: vector, K: 10}, 2},
		{"hybrid, count and facet", index.Query{Text: text, Vector: vector, K: 10, Count: true, Facets: []index.FacetRequest{{Field: "n"}}}, 3},
	} {
		b.Run(c.name, func(b *testing.B) { overhead(b, c.q, c.requests) })
	}
}

func overhead(b *testing.B, q index.Query, requests int) {
	n := &quick{}
	a := newFake(b, n.ServeHTTP)
	c := connect(b, Options{}, a)
	once := func() {
		if res, err := c.Search(b.Context(), q); err != nil || len(res.Hits) != 10 {
			b.Fatal(res, err)
		}
	}
	once()
	n.asked = nil
	once()
	asked := slices.Clone(n.asked)
	if len(asked) != requests {
		b.Fatalf("%d requests, want %d", len(asked), requests)
	}
	client := &http.Client{Transport: c.client.http.Transport}
	var ours, bare []time.Duration
	for b.Loop() {
		start := time.Now()
		once()
		ours = append(ours, time.Since(start))
		start = time.Now()
		var wg sync.WaitGroup
		for _, body := range asked[1:] {
			wg.Go(func() { exchange(b, client, a.URL, body) })
		}
		exchange(b, client, a.URL, asked[0])
		wg.Wait()
		bare = append(bare, time.Since(start))
	}
	slices.Sort(ours)
	slices.Sort(bare)
	b.ReportMetric(float64((ours[len(ours)/2] - bare[len(bare)/2]).Microseconds()), "added-µs")
	b.ReportMetric(float64(bare[len(bare)/2].Microseconds()), "bare-µs")
}

func exchange(b *testing.B, client *http.Client, url string, body []byte) {
	resp, err := client.Post(url+"/v1/graphql", "application/json", bytes.NewReader(body))
	if err != nil {
		b.Error(err)
		return
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		b.Error(err)
	}
	resp.Body.Close()
}

// A quick is a node that answers each question as it did the first time.
type quick struct {
	mu      sync.Mutex
	asked   [][]byte
	answers map[string][]byte
}

func (n *quick) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // one that is cut off gets an error for its answer
	n.mu.Lock()
	answer := n.answers[string(body)]
	if answer == nil {
		if n.answers == nil {
			n.answers = map[string][]byte{}
		}
		answer = []byte(`{"data":{` + answerTo(string(body)) + `}}`)
		n.answers[string(body)] = answer
	}
	n.asked = append(n.asked, body)
	if len(n.asked) > 10 {
		n.asked = n.asked[:0]
	}
	n.mu.Unlock()
	_, _ = w.Write(answer) // the client may be gone
}

// answerTo gives as many hits as are asked for, best first, or counts.
func answerTo(question string) string {
	_, limit, ranks := strings.Cut(question, "{Get{r:Quarry_c(limit:")
	if !ranks {
		v, _ := filter.Normalize(1, filter.Int64) // an int
		var groups []string
		for k := range v.Keys() {
			groups = append(groups, string(appendString([]byte(`{"meta":{"count":5},"groupedBy":{"value":`), key(k)))+"}}")
		}
		one := `[{"meta":{"count":7}}]`
		return fmt.Sprintf(`"Aggregate":{"total":%s,"f0":[%s],"n0":%[1]s,"n1":%[1]s,"n2":%[1]s,"n3":%[1]s}`, one, strings.Join(groups, ","))
	}
	var n int
	_, _ = fmt.Sscanf(limit, "%d", &n)
	var hits []string
	for i := range n {
		id := fmt.Sprint("doc-", i)
		hits = append(hits, fmt.Sprintf(`{"docid":"%s","_additional":{"id":"%s","distance":%g,"score":"%g"}}`, idKey(id), uuid(id), float64(i)/1000, 9-float64(i)/20))
	}
	return `"Get":{"r":[` + strings.Join(hits, ",") + `]}`
}

// BenchmarkApply measures what this side of an import costs beside the network:
// documents of the sizes in SCALE.md are encoded, and an answer is read that gives all
// of them back, as that of a node does.
func BenchmarkApply(b *testing.B) {
	const n = 250
	c, err := Open(b.Context(), Options{URLs: []string{"http://node"}, Collection: "c", Transport: echo{}})
	if err != nil {
		b.Fatal(err)
	}
	g, batch := newStones(), index.NewBatch()
	for i := range n {
		batch.Put(g.document(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Apply(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/document")
}

// An echo is a node that takes all.
type echo struct{}

func (echo) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := []byte(`{"class":"Quarry_c","description":"{\"quarry\":1,\"collection\":\"c\",\"text\":[{\"name\":\"body\",\"analyzer\":\"standard\",\"boost\":1}],` +
		`\"vectors\":[{\"name\":\"v\",\"dim\":128,\"metric\":0}]}","properties":[{"name":"t_body","dataType":["text"]},` +
		`{"name":"m_kind","description":"{\"field\":\"kind\",\"type\":\"keyword\"}"},{"name":"m_n","description":"{\"field\":\"n\",\"type\":\"int64\"}"}],"vectorConfig":{"v_v":{}}}`)
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		answer = bytes.ReplaceAll(body[len(`{"objects":`):len(body)-1], []byte(`{"class":`), []byte(`{"result":{"status":"SUCCESS"},"class":`))
	}
	return &http.Response{StatusCode: http.StatusOK, ContentLength: int64(len(answer)), Body: io.NopCloser(bytes.NewReader(answer)), Request: r}, nil
}
