package cluster

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/index"
)

// BenchmarkOverhead measures what a search costs beside the bare exchange of the
// same bytes with a node that answers at once: added-µs at the median, of pairs
// that take turns.
func BenchmarkOverhead(b *testing.B) {
	var hits []string
	for i := range 10 {
		hits = append(hits, fmt.Sprintf(`{"docid":"%s","_additional":{"id":"%s","distance":0.%d}}`, idKey(fmt.Sprint("doc-", i)), uuid(fmt.Sprint("doc-", i)), i+1))
	}
	answer := `{"data":{"Get":{"r":[` + strings.Join(hits, ",") + `]}}}`
	var question []byte
	a := newFake(b, func(w http.ResponseWriter, r *http.Request) {
		question, _ = io.ReadAll(r.Body) // a short answer shows below
		io.WriteString(w, answer)
	})
	c := connect(b, Options{}, a)
	q := index.Query{Vector: &index.VectorQuery{Vector: []float32{0.6, 0.8}}, K: 10}
	client := &http.Client{Transport: c.client.http.Transport}
	var ours, bare []time.Duration
	for b.Loop() {
		start := time.Now()
		res, err := c.Search(b.Context(), q)
		ours = append(ours, time.Since(start))
		if err != nil || len(res.Hits) != 10 {
			b.Fatal(res, err)
		}
		start = time.Now()
		resp, err := client.Post(a.URL+"/v1/graphql", "application/json", bytes.NewReader(question))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
		bare = append(bare, time.Since(start))
	}
	slices.Sort(ours)
	slices.Sort(bare)
	b.ReportMetric(float64((ours[len(ours)/2] - bare[len(bare)/2]).Microseconds()), "added-µs")
	b.ReportMetric(float64(bare[len(bare)/2].Microseconds()), "bare-µs")
}
