// Command goclient imports the same documents by package cluster and by Weaviate's
// own Go client, over REST and over gRPC, in turns, into nodes that it starts, and
// prints documents a second of each, without the making of the class, and CPU:
//
//	cd cluster/goclient && go run . -nodes 3
//
// The client's class is what its user would make: a text, a keyword, a number and a
// vector, without what package cluster adds (the id as a property, the document as
// JSON, the states of its fields). Both have the same graph, replicas, batches and
// writers. It is a module of its own, so that the engine gains no dependency.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/weaviate/weaviate-go-client/v5/weaviate"
	"github.com/weaviate/weaviate-go-client/v5/weaviate/auth"
	"github.com/weaviate/weaviate-go-client/v5/weaviate/grpc"
	"github.com/weaviate/weaviate/entities/models"

	"github.com/quarrysearch/quarry/cluster"
	"github.com/quarrysearch/quarry/cluster/testcluster"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

const (
	dim       = 128
	words     = 70
	writers   = 4   // as cluster.Options.Writers
	batchSize = 250 // as cluster.Options.Documents
	links     = 16
	construct = 128
)

func main() {
	nodes := flag.Int("nodes", 3, "number of nodes")
	documents := flag.Int("documents", 20_000, "documents of each import")
	rounds := flag.Int("rounds", 3, "imports by each")
	flag.Parse()
	if err := run(context.Background(), *nodes, *documents, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, nodes, documents, rounds int) (err error) {
	binary := os.Getenv("QUARRY_WEAVIATE")
	if binary == "" {
		if binary, err = testcluster.Cached(); err != nil {
			return err
		}
	}
	tc, err := testcluster.Start(ctx, testcluster.Options{Nodes: nodes, Binary: binary})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tc.Close()) }()
	docs := stones(documents)
	ways := []struct {
		name string
		best float64
		open func(context.Context, *testcluster.Cluster) (send func([]stone) error, err error)
	}{{"package cluster", 0, byCluster}, {"Go client, REST", 0, byREST}, {"Go client, gRPC", 0, byGRPC}}
	for range rounds {
		for i, w := range ways {
			send, err := w.open(ctx, tc)
			if err != nil {
				return err
			}
			time.Sleep(time.Second) // until all nodes know the class
			cpu, start := used(tc), time.Now()
			if err := parallel(docs, send); err != nil {
				return err
			}
			took := time.Since(start).Seconds()
			rate := float64(documents) / took
			ways[i].best = max(w.best, rate)
			now := used(tc)
			fmt.Printf("%s: %.0f documents a second; CPU for 1,000: nodes %.2f s, caller %.3f s\n", w.name, rate,
				(now[0]-cpu[0]).Seconds()*1000/float64(documents), (now[1]-cpu[1]).Seconds()*1000/float64(documents))
			if err := drop(ctx, tc); err != nil {
				return err
			}
		}
	}
	fmt.Printf("%d documents, %d nodes, best of %d:", documents, nodes, rounds)
	for _, w := range ways {
		fmt.Printf(" %s %.0f/s (%.2f)", w.name, w.best, w.best/ways[0].best)
	}
	fmt.Println()
	return nil
}

// parallel sends documents in batches, by so many writers.
func parallel(docs []stone, send func([]stone) error) error {
	batches, errs := make(chan []stone), make(chan error, writers)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for b := range batches {
				if err := send(b); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for from := 0; from < len(docs); from += batchSize {
		select {
		case batches <- docs[from:min(from+batchSize, len(docs))]:
		case err := <-errs:
			return err
		}
	}
	close(batches)
	wg.Wait()
	close(errs)
	return <-errs
}

// used is the CPU of all nodes since they were started, and that of this process.
func used(tc *testcluster.Cluster) (sum [2]time.Duration) {
	for i := range tc.Nodes() {
		if u, err := tc.Usage(i); err == nil {
			sum[0] += u.CPU
		}
	}
	sum[1] = testcluster.UsageOf(os.Getpid()).CPU
	return sum
}

// A stone is one document.
type stone struct {
	id, body, kind string
	n              int
	vector         []float32
}

func stones(n int) []stone {
	rng := rand.New(rand.NewPCG(5, 5))
	zipf := rand.NewZipf(rng, 1.1, 5, 50_000)
	out := make([]stone, n)
	for i := range out {
		var b strings.Builder
		for range words {
			fmt.Fprintf(&b, "stone%d ", zipf.Uint64())
		}
		v := make([]float32, dim)
		for j := range v {
			v[j] = float32(rng.NormFloat64())
		}
		out[i] = stone{fmt.Sprintf("00000000-0000-4000-8000-%012x", i), b.String(), fmt.Sprint("k", i%10), i, v}
	}
	return out
}

const ours, theirs = "Stones", "Theirs"

func byCluster(ctx context.Context, tc *testcluster.Cluster) (func([]stone) error, error) {
	c, err := cluster.Open(ctx, cluster.Options{URLs: tc.URLs(), Key: tc.Key(), Collection: ours, Timeout: 5 * time.Minute, Attempt: time.Minute, Schema: &index.Schema{
		Text:    []index.TextField{{Name: "body"}},
		Vectors: []index.VectorField{{Name: "v", Dim: dim, M: links, Construct: construct}},
		Meta:    map[string]filter.Type{"kind": filter.Keyword, "n": filter.Int64}, Strict: true}})
	if err != nil {
		return nil, err
	}
	return func(docs []stone) error {
		b := index.NewBatch()
		for _, d := range docs {
			b.Put(index.Document{ID: d.id, Text: map[string]string{"body": d.body}, Meta: map[string]any{"kind": d.kind, "n": d.n}, Vectors: map[string][]float32{"v": d.vector}})
		}
		return c.Apply(ctx, b)
	}, nil
}

func byREST(ctx context.Context, tc *testcluster.Cluster) (func([]stone) error, error) {
	return byClient(ctx, tc, func(int) *grpc.Config { return nil })
}

func byGRPC(ctx context.Context, tc *testcluster.Cluster) (func([]stone) error, error) {
	return byClient(ctx, tc, func(node int) *grpc.Config { return &grpc.Config{Host: tc.GRPC(node)} })
}

// byClient has a client a node, which take turns.
func byClient(ctx context.Context, tc *testcluster.Cluster, config func(node int) *grpc.Config) (func([]stone) error, error) {
	var clients []*weaviate.Client
	for i, address := range tc.URLs() {
		u, err := url.Parse(address)
		if err != nil {
			return nil, err
		}
		c, err := weaviate.NewClient(weaviate.Config{Host: u.Host, Scheme: u.Scheme, AuthConfig: auth.ApiKey{Value: tc.Key()}, GrpcConfig: config(i)})
		if err != nil {
			return nil, err
		}
		clients = append(clients, c)
	}
	replicas, yes := min(3, tc.Nodes()), true
	err := clients[0].Schema().ClassCreator().WithClass(&models.Class{Class: theirs,
		Properties: []*models.Property{{Name: "body", DataType: []string{"text"}, Tokenization: "whitespace"},
			{Name: "kind", DataType: []string{"text"}, Tokenization: "field", IndexFilterable: &yes}, {Name: "n", DataType: []string{"int"}, IndexFilterable: &yes}},
		VectorConfig: map[string]models.VectorConfig{"v": {Vectorizer: map[string]any{"none": map[string]any{}}, VectorIndexType: "hnsw",
			VectorIndexConfig: map[string]any{"distance": "cosine", "maxConnections": links, "efConstruction": construct}}},
		ReplicationConfig: &models.ReplicationConfig{Factor: int64(replicas), AsyncEnabled: replicas > 1, DeletionStrategy: "TimeBasedResolution"}}).Do(ctx)
	var turn atomic.Uint32
	return func(docs []stone) error { return send(ctx, clients[int(turn.Add(1))%len(clients)], docs) }, err
}

func send(ctx context.Context, c *weaviate.Client, docs []stone) error {
	objects := make([]*models.Object, len(docs))
	for i, d := range docs {
		objects[i] = &models.Object{Class: theirs, ID: strfmt.UUID(d.id), Properties: map[string]any{"body": d.body, "kind": d.kind, "n": d.n}, Vectors: models.Vectors{"v": d.vector}}
	}
	results, err := c.Batch().ObjectsBatcher().WithObjects(objects...).WithConsistencyLevel("QUORUM").Do(ctx)
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.Result != nil && r.Result.Errors != nil {
			return fmt.Errorf("object %s: %s", r.ID, r.Result.Errors.Error[0].Message)
		}
	}
	return nil
}

// drop removes what an import made.
func drop(ctx context.Context, tc *testcluster.Cluster) error {
	if err := cluster.Drop(ctx, cluster.Options{URLs: tc.URLs(), Key: tc.Key(), Collection: ours}); err == nil {
		return nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, tc.URLs()[0]+"/v1/schema/"+theirs, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+tc.Key())
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	return a.Body.Close()
}
