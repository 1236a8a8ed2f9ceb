package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

type benchCmd struct {
	Vectors benchVectorsCmd `cmd:"" help:"Recall and queries a second of vector search."`
	Text    benchTextCmd    `cmd:"" help:"Latency of keyword search."`
	Open    benchOpenCmd    `cmd:"" help:"Time and memory of opening an index, in a process that has done nothing else."`
}

const (
	engineName  = "quarry"
	vectorField = "v"
	// batchBytes of vectors or text go into one batch: above the engine's budget
	// for its mutable part, so that each becomes a segment at once.
	batchBytes = 512 << 20
)

type benchVectorsCmd struct {
	Base         string `required:"" placeholder:"B.fvecs" help:"Vectors to index; ids are row numbers."`
	Query        string `required:"" placeholder:"Q.fvecs" help:"Query vectors."`
	Truth        string `required:"" placeholder:"T.ivecs" help:"Nearest rows of each query; may be of the first queries only. Gzip is read too."`
	Metric       string `enum:"ip,cos,l2" default:"cos" help:"Metric: cos, ip or l2."`
	BuildThreads int    `placeholder:"N" help:"Threads of the build, default all."`
	M            int    `name:"m" default:"16" help:"Links of a node; twice as many on level 0."`
	Construct    int    `name:"ef-construction" default:"200" help:"Width of the walk at the build."`
	Ef           []int  `placeholder:"10,16,…" help:"Widths of the walk to measure; default those of the peer scripts."`
	Passes       int    `default:"3" help:"Timed passes a width; the fastest counts."`
	K            int    `name:"k" default:"10" help:"Hits a query."`
	Dir          string `help:"Keep the index here, and use the one that is here; default a temporary one."`
	JSON         bool   `name:"json" help:"Print JSON lines."`
}

func (benchVectorsCmd) Help() string {
	return `Builds an index by the public API (as few batches as fit, merged to one segment), closes it, opens it again, and searches with one thread.

    quarry bench vectors --base base.fvecs --query query.fvecs --truth gt.ivecs --json

--json prints {"engine", "build_s", "threads", "vectors", "bytes"}, then {"engine", "open_ms", "rss_bytes"}, then for each width {"engine", "ef", "recall", "qps", "distances"}. rss_bytes is the resident memory of this process after the opening, with the base vectors given back and the queries still held (0 where the system does not tell; bench open has it for a fresh process). distances are codes compared a query.`
}

// openLine tells what opening took.
type openLine struct {
	Engine   string  `json:"engine"`
	OpenMs   float64 `json:"open_ms"`
	RSSBytes int64   `json:"rss_bytes"`
}

func (l openLine) String() string {
	return fmt.Sprintf("%s open %.2f ms, resident %s", l.Engine, l.OpenMs, show.Bytes(l.RSSBytes))
}

// report prints one line of a measurement.
func (e *env) report(asJSON bool) func(line any) error {
	return func(line any) error {
		if asJSON {
			return e.json(line)
		}
		return e.printf("%v\n", line)
	}
}

// vectorBench is one run of bench vectors.
type vectorBench struct {
	c    *benchVectorsCmd
	dir  string
	base bench.Matrix[float32]
	snap *index.Snapshot

	progress func(stage string, done, total int)
	seen     distances
}

// Run measures.
func (c *benchVectorsCmd) Run(ctx context.Context, e *env) (err error) {
	if c.BuildThreads < 0 {
		return usagef("--build-threads %d is negative", c.BuildThreads)
	}
	if c.BuildThreads == 0 {
		c.BuildThreads = runtime.GOMAXPROCS(0)
	}
	v := &vectorBench{c: c, progress: e.stages()}
	config := bench.VectorConfig{Engine: engineName, K: c.K, EF: c.Ef, Threads: c.BuildThreads, Build: v.build, Search: v.search,
		// The pass that counts distances is not the one that is timed.
		Passes: c.Passes + 1}
	if config.Queries, err = bench.ReadVectors(c.Query, 0); err != nil {
		return err
	}
	if config.Truth, err = bench.ReadIvecs(c.Truth); err != nil {
		return err
	}
	if v.base, err = bench.ReadVectors(c.Base, config.Queries.Dim); err != nil {
		return err
	}
	v.seen.queries = min(config.Queries.Rows(), config.Truth.Rows())
	dir, remove, err := tempDir(c.Dir)
	if err != nil {
		return err
	}
	v.dir = dir
	defer func() { err = errors.Join(err, remove()) }()
	report := e.report(c.JSON)
	var ix *index.Index
	defer func() {
		if ix != nil {
			err = errors.Join(err, v.snap.Close(), ix.Close())
		}
	}()
	config.Report = func(line any) error {
		if err := report(line); err != nil {
			return err
		}
		if _, built := line.(bench.VectorBuild); !built {
			return nil
		}
		v.base = bench.Matrix[float32]{}
		var opened openLine
		var err error
		if ix, v.snap, opened, err = openMeasured(v.dir); err != nil {
			return err
		}
		return report(opened)
	}
	return bench.RunVectors(ctx, config)
}

// openMeasured opens an index and tells what it took. Memory that is free is
// given back before, so that what is resident is in use.
func openMeasured(dir string) (*index.Index, *index.Snapshot, openLine, error) {
	debug.FreeOSMemory()
	start := time.Now()
	ix, err := openReader(dir)
	if err != nil {
		return nil, nil, openLine{}, err
	}
	snap, err := ix.Snapshot()
	if err != nil {
		return nil, nil, openLine{}, errors.Join(err, ix.Close())
	}
	took := time.Since(start)
	return ix, snap, openLine{engineName, round(float64(took)/float64(time.Millisecond), 2), resident()}, nil
}

// resident is the resident memory of this process in bytes, 0 when the system
// does not tell.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	if fields := strings.Fields(string(b)); len(fields) > 1 {
		if pages, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			return pages * int64(os.Getpagesize())
		}
	}
	return 0
}

// build makes the index, or takes the one that is there.
func (v *vectorBench) build(ctx context.Context) (int, int64, error) {
	field := index.VectorField{Name: vectorField, Dim: v.base.Dim, M: v.c.M, Construct: v.c.Construct}
	if err := setMetric(&field, "--metric", v.c.Metric); err != nil {
		return 0, 0, err
	}
	ix, err := index.Open(v.dir, &index.Options{
		Schema: &index.Schema{Vectors: []index.VectorField{field}}, Threads: v.c.BuildThreads, NoBackground: true, Sync: storage.SyncNever,
		Progress: v.progress,
	})
	if err != nil {
		return 0, 0, err
	}
	err = v.fill(ctx, ix)
	if err := errors.Join(err, ix.Close()); err != nil {
		return 0, 0, err
	}
	size, err := dirBytes(v.dir)
	return v.base.Rows(), size, err
}

func (v *vectorBench) fill(ctx context.Context, ix *index.Index) error {
	st, err := ix.Stats()
	if err != nil {
		return err
	}
	if st.Documents > 0 {
		if st.Documents != v.base.Rows() {
			return fmt.Errorf("%s holds %d documents, %s has %d rows", v.dir, st.Documents, v.c.Base, v.base.Rows())
		}
		return nil
	}
	b := index.NewBatch()
	rows := max(1, batchBytes/(4*v.base.Dim))
	for i := range v.base.Rows() {
		b.Put(index.Document{ID: rowID(i), Vectors: map[string][]float32{vectorField: v.base.Row(i)}})
		if b.Len() == rows || i == v.base.Rows()-1 {
			if err := ix.Apply(ctx, b); err != nil {
				return err
			}
			b.Reset()
		}
	}
	return ix.Merge(ctx, 1)
}

// rowID makes a row's id. Padded, ids ascend as rows do, so that equal distances
// are ordered by row as in the ground truth.
func rowID(row int) string { return fmt.Sprintf("%09d", row) }

// search answers one query.
func (v *vectorBench) search(ctx context.Context, query []float32, k, ef int, dst []int32) ([]int32, int, error) {
	count := v.seen.counting(ef)
	r, err := v.snap.Search(ctx, index.Query{K: k, Explain: count, Vector: &index.VectorQuery{Field: vectorField, Vector: query, Ef: ef}})
	if err != nil {
		return dst, 0, err
	}
	for i := range r.Hits {
		row, err := strconv.Atoi(r.Hits[i].ID)
		if err != nil {
			return dst, 0, fmt.Errorf("id %q is no row number", r.Hits[i].ID)
		}
		dst = append(dst, int32(row))
	}
	return dst, v.seen.of(r.Plan), nil
}

// distances remembers how many distances each query cost at one width: plans
// come with explanations, which the timed passes do without.
type distances struct {
	queries int
	ef      int
	at      int   // the query that comes next, counted on from the first pass
	counts  []int // of the first pass
}

// counting tells whether this query is of the pass that counts.
func (d *distances) counting(ef int) bool {
	if ef != d.ef {
		d.ef, d.at, d.counts = ef, 0, d.counts[:0]
	}
	return len(d.counts) < d.queries
}

func (d *distances) of(p *index.Plan) int {
	at := d.at % d.queries
	d.at++
	if at == len(d.counts) {
		n := 0
		if p != nil {
			for _, s := range p.Segments {
				n += s.Distances
			}
		}
		d.counts = append(d.counts, n)
	}
	return d.counts[at]
}

// tempDir returns dir, or a temporary one that remove takes away.
func tempDir(dir string) (_ string, remove func() error, err error) {
	if dir != "" {
		return dir, func() error { return nil }, nil
	}
	if dir, err = os.MkdirTemp("", "quarry-"); err != nil {
		return "", nil, err
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

// dirBytes is the size of all files below dir.
func dirBytes(dir string) (int64, error) {
	total := int64(0)
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		total += info.Size()
		return nil
	})
	return total, err
}

type benchOpenCmd struct {
	Dir  string `arg:"" help:"Directory of an index."`
	JSON bool   `name:"json" help:"Print JSON."`
}

func (benchOpenCmd) Help() string {
	return `--json prints {"engine", "open_ms", "rss_bytes"}: opening read-only with a snapshot taken, and the resident memory of the process right after it, the program's own included.`
}

// Run measures.
func (c *benchOpenCmd) Run(e *env) error {
	ix, snap, line, err := openMeasured(c.Dir)
	if err != nil {
		return err
	}
	return errors.Join(e.report(c.JSON)(line), snap.Close(), ix.Close())
}
