package cluster

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/cluster/testcluster"
	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

// What the table of SCALE.md is measured with: documents of about seventy words with
// a vector of 128 dimensions and two fields of metadata.
const (
	sizingDim      = 128
	sizingWords    = 70
	sizingBatch    = 1000
	sizingQueries  = 200
	sizingRecall   = 100 // queries whose recall is measured
	sizingVocab    = 50_000
	sizingClusters = 500
)

// TestSizing prints one row of SCALE.md's table for each number of documents in
// QUARRY_SIZES, such as 20000,200000, and each place: a directory of this machine,
// one node and three.
func TestSizing(t *testing.T) {
	sizes := os.Getenv("QUARRY_SIZES")
	if sizes == "" {
		t.Skip("QUARRY_SIZES is not set")
	}
	nodes := os.Getenv("QUARRY_NODES") // 0 is a directory
	if nodes == "" {
		nodes = "0,1,3"
	}
	for _, s := range strings.Split(sizes, ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range strings.Split(nodes, ",") {
			m, err := strconv.Atoi(m)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprintf("%d/%d", n, m), func(t *testing.T) {
				if m == 0 {
					sizeDirectory(t, n)
					return
				}
				sizeNodes(t, n, m)
			})
		}
	}
}

func sizeDirectory(t *testing.T, n int) {
	dir := t.TempDir()
	l, err := collection.Open(dir, &index.Options{Schema: sizingSchema()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sizing(t, fmt.Sprintf("%d | directory", n), l, n, func() testcluster.Usage {
		u := testcluster.UsageOf(os.Getpid())
		u.CPU, u.Disk = 0, bytesOf(t, dir)
		return u
	})
}

func sizeNodes(t *testing.T, n, nodes int) {
	// 6 KiB a document is what a node needs of memory.
	tc := testcluster.ForTest(t, testcluster.Options{Nodes: nodes, Env: []string{fmt.Sprintf("GOMEMLIMIT=%dMiB", max(1024, n*6/1024))}})
	c, err := Open(t.Context(), Options{URLs: tc.URLs(), Key: tc.Key(), Collection: "Stones", Schema: sizingSchema(), Timeout: 5 * time.Minute, Attempt: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sizing(t, fmt.Sprintf("%d | %d", n, nodes), c, n, func() (most testcluster.Usage) {
		for i := range tc.Nodes() {
			u, err := tc.Usage(i)
			if err != nil {
				t.Fatal(err)
			}
			most.CPU += u.CPU
			most.Resident, most.Disk = max(most.Resident, u.Resident), max(most.Disk, u.Disk)
		}
		return most
	})
}

func sizingSchema() *index.Schema {
	return &index.Schema{
		Text:    []index.TextField{{Name: "body"}},
		Vectors: []index.VectorField{{Name: "v", Dim: sizingDim}},
		Meta:    map[string]filter.Type{"kind": filter.Keyword, "n": filter.Int64},
		Strict:  true,
	}
}

// sizing fills a collection, asks it, and prints a row: cores are told as seconds of
// CPU, of all nodes and of this process, which do not depend on who else is at work
// on the machine; memory and disk are those of the node that uses most.
func sizing(t *testing.T, name string, c collection.Collection, n int, usage func() testcluster.Usage) {
	t.Helper()
	g := newStones()
	docs := make([]*index.Batch, (n+sizingBatch-1)/sizingBatch)
	for i := range docs {
		docs[i] = index.NewBatch()
		for j := i * sizingBatch; j < min(n, (i+1)*sizingBatch); j++ {
			docs[i].Put(g.document(j))
		}
	}
	cpu := func() (nodes, self time.Duration) { return usage().CPU, testcluster.UsageOf(os.Getpid()).CPU }
	start, peak := time.Now(), int64(0)
	nodes, self := cpu()
	for i, b := range docs {
		if err := c.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		docs[i] = nil
		if i%10 == 9 {
			peak = max(peak, usage().Resident)
		}
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	nodes2, self2 := cpu()
	thousands := float64(n) / 1000
	row := fmt.Sprintf("%s | %.2f + %.2f | %.0f/s", name, (nodes2-nodes).Seconds()/thousands, (self2-self).Seconds()/thousands, float64(n)/took.Seconds())
	kind := filter.Eq("kind", "k3")
	for _, query := range []func() index.Query{
		func() index.Query { return index.Query{Text: g.asked(), K: 10} },
		func() index.Query { return index.Query{Vector: &index.VectorQuery{Vector: g.vector()}, K: 10} },
		func() index.Query {
			return index.Query{Vector: &index.VectorQuery{Vector: g.vector()}, Filter: kind, K: 10}
		},
		func() index.Query {
			return index.Query{Text: g.asked(), Vector: &index.VectorQuery{Vector: g.vector()}, K: 10}
		},
	} {
		nodes, self := cpu()
		p50, n := latency(t, c, query)
		nodes2, self2 := cpu()
		row += fmt.Sprintf(" | %.3f + %.3f (%.2f)", (nodes2-nodes).Seconds()*1000/float64(n), (self2-self).Seconds()*1000/float64(n), p50)
	}
	u := usage()
	t.Logf("| %s | %.4f | %d | %d | %d |", row, g.recall(t, c), max(peak, u.Resident)>>20, u.Resident>>20, u.Disk>>20)
}

// latency asks for two seconds, and sizingQueries at least, and returns the median
// in milliseconds and the number of queries.
func latency(t *testing.T, c collection.Collection, query func() index.Query) (p50 float64, n int) {
	t.Helper()
	var took []time.Duration
	for begin := time.Now(); len(took) < sizingQueries || time.Since(begin) < 2*time.Second; {
		q, start := query(), time.Now()
		if _, err := c.Search(context.WithoutCancel(t.Context()), q); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2].Seconds() * 1000, len(took)
}

// stones makes documents and queries: words by a law of Zipf, vectors in clusters.
type stones struct {
	rng     *rand.Rand
	zipf    *rand.Zipf
	centers [][]float32
	made    [][]float32 // vectors of documents, by number
}

// recall is the share of the ten nearest documents that a vector search finds, of
// sizingRecall queries.
func (g *stones) recall(t *testing.T, c collection.Collection) float64 {
	t.Helper()
	found := 0
	for range sizingRecall {
		q := g.vector()
		res, err := c.Search(context.WithoutCancel(t.Context()), index.Query{Vector: &index.VectorQuery{Vector: q}, K: 10})
		if err != nil {
			t.Fatal(err)
		}
		type near struct {
			doc    int
			cosine float32
		}
		best := make([]near, len(g.made))
		for i, v := range g.made {
			var dot, square float32
			for j, x := range v {
				dot += x * q[j]
				square += x * x
			}
			best[i] = near{i, dot / float32(math.Sqrt(float64(square)))}
		}
		slices.SortFunc(best, func(a, b near) int { return cmp.Compare(b.cosine, a.cosine) })
		for _, b := range best[:10] {
			if slices.ContainsFunc(res.Hits, func(h index.Hit) bool { return h.ID == fmt.Sprint("s", b.doc) }) {
				found++
			}
		}
	}
	return float64(found) / 10 / sizingRecall
}

func newStones() *stones {
	rng := rand.New(rand.NewPCG(5, 5))
	g := &stones{rng: rng, zipf: rand.NewZipf(rng, 1.1, 5, sizingVocab)}
	for range sizingClusters {
		g.centers = append(g.centers, g.normal(1))
	}
	return g
}

func (g *stones) normal(scale float64) []float32 {
	v := make([]float32, sizingDim)
	for i := range v {
		v[i] = float32(g.rng.NormFloat64() * scale)
	}
	return v
}

func (g *stones) vector() []float32 {
	v := g.normal(0.6)
	for i, x := range g.centers[g.rng.IntN(len(g.centers))] {
		v[i] += x
	}
	return v
}

func (g *stones) words(n int) string {
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "stone%d ", g.zipf.Uint64())
	}
	return b.String()
}

// asked is a query of three words that are neither the most frequent nor rare.
func (g *stones) asked() *index.TextQuery {
	var b strings.Builder
	for range 3 {
		fmt.Fprintf(&b, "stone%d ", 100+g.rng.IntN(2000))
	}
	return &index.TextQuery{Text: b.String()}
}

func (g *stones) document(i int) index.Document {
	v := g.vector()
	g.made = append(g.made, v)
	return index.Document{ID: fmt.Sprint("s", i), Text: map[string]string{"body": g.words(sizingWords)}, Vectors: map[string][]float32{"v": v},
		Meta: map[string]any{"kind": fmt.Sprint("k", i%10), "n": int64(i)}}
}

// bytesOf is what the files of a folder hold.
func bytesOf(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}
