package measure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// Bench are the commands of quarry bench.
type Bench struct {
	Vectors  vectorsCmd  `cmd:"" help:"Recall and queries a second of vector search, build and memory."`
	Filtered filteredCmd `cmd:"" help:"Vector search among what passes a filter, over a grid of filters."`
	Churn    churnCmd    `cmd:"" help:"Recall and size of an index whose documents are replaced time and again."`
	Cold     coldCmd     `cmd:"" help:"The first searches of an index that is not in memory."`
	Text     textCmd     `cmd:"" help:"Latency of keyword search."`
	Hybrid   hybridCmd   `cmd:"" help:"Latency of hybrid search and of its legs."`
	Open     openCmd     `cmd:"" help:"Time and memory of opening an index, in a process that has done nothing else."`
}

const (
	engineName  = "quarry"
	vectorField = "v"
	// batchBytes of vectors or text go into one batch: above the engine's budget
	// for its mutable part, so that each becomes a segment at once.
	batchBytes = 512 << 20
)

// vectorSet are the flags of a set of vectors and of the index made of it.
type vectorSet struct {
	Base         string `required:"" placeholder:"B.fvecs" help:"Vectors to index; ids are row numbers."`
	Query        string `required:"" placeholder:"Q.fvecs" help:"Query vectors."`
	Dim          int    `help:"Dimension of files that do not say it (.f32, .f16)."`
	Metric       string `enum:"ip,cos,l2" default:"cos" help:"Metric: cos, ip or l2."`
	Set          string `placeholder:"NAME" help:"Name of the set, for the report; default by the base's file."`
	BuildThreads int    `placeholder:"N" help:"Threads of the build, default all."`
	M            int    `name:"m" default:"16" help:"Links of a node; twice as many on level 0."`
	Construct    int    `name:"ef-construction" default:"200" help:"Width of the walk at the build."`
	Bits         int    `enum:"0,4,8" default:"0" help:"Bits of a component of a code: 4 or 8; 0 leaves it to each segment. The report calls the engine quarry-4bit or quarry-8bit then."`
	K            int    `name:"k" default:"10" help:"Hits a query."`
	JSON         bool   `name:"json" help:"Print JSON lines."`
}

// read reads both files and settles the defaults.
func (v *vectorSet) read() (base, queries bench.Matrix[float32], metric bench.Metric, err error) {
	if v.BuildThreads < 0 {
		return base, queries, 0, console.Usagef("--build-threads %d is negative", v.BuildThreads)
	}
	if v.BuildThreads == 0 {
		v.BuildThreads = runtime.GOMAXPROCS(0)
	}
	if v.Set == "" {
		v.Set = setName(v.Base)
	}
	if metric, err = bench.ParseMetric(v.Metric); err != nil {
		return base, queries, 0, err
	}
	if queries, err = bench.ReadVectors(v.Query, v.Dim); err != nil {
		return base, queries, 0, err
	}
	base, err = bench.ReadVectors(v.Base, queries.Dim)
	return base, queries, metric, err
}

// engine is the name in the report.
func (v *vectorSet) engine() string {
	if v.Bits == 0 {
		return engineName
	}
	return fmt.Sprintf("%s-%dbit", engineName, v.Bits)
}

// setName is the name of a base's file, or that of its folder where the file is
// only called base.
func setName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	if name == "base" || name == "b" {
		if abs, err := filepath.Abs(file); err == nil {
			return filepath.Base(filepath.Dir(abs))
		}
	}
	return name
}

// schema is one vector field and numbers.
func (v *vectorSet) schema(dim int, numbers ...string) (*index.Schema, error) {
	field := index.VectorField{Name: vectorField, Dim: dim, M: v.M, Construct: v.Construct, Bits: v.Bits}
	if err := engine.SetMetric(&field, "--metric", v.Metric); err != nil {
		return nil, err
	}
	s := &index.Schema{Vectors: []index.VectorField{field}, Meta: map[string]filter.Type{}}
	for _, name := range numbers {
		s.Meta[name] = filter.Int64
	}
	return s, nil
}

// build makes an index of all rows, merged to one segment, or takes the one that
// is there. meta gives a row's metadata; it may be nil.
func (v *vectorSet) build(ctx context.Context, dir string, base bench.Matrix[float32], s *index.Schema, meta func(row int) map[string]any, progress func(string, int, int)) error {
	ix, err := index.Open(dir, &index.Options{Schema: s, Threads: v.BuildThreads, NoBackground: true, Sync: storage.SyncNever, Progress: progress})
	if err != nil {
		return err
	}
	return errors.Join(v.fill(ctx, ix, dir, base, meta), ix.Close())
}

func (v *vectorSet) fill(ctx context.Context, ix *index.Index, dir string, base bench.Matrix[float32], meta func(row int) map[string]any) error {
	st, err := ix.Stats()
	if err != nil {
		return err
	}
	if st.Documents > 0 {
		if st.Documents != base.Rows() {
			return fmt.Errorf("%s holds %d documents, %s has %d rows", dir, st.Documents, v.Base, base.Rows())
		}
		return nil
	}
	b := index.NewBatch()
	rows := max(1, batchBytes/(4*base.Dim))
	for i := range base.Rows() {
		d := index.Document{ID: rowID(i), Vectors: map[string][]float32{vectorField: base.Row(i)}}
		if meta != nil {
			d.Meta = meta(i)
		}
		b.Put(d)
		if b.Len() == rows || i == base.Rows()-1 {
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

// appendRows appends the rows that the hits are.
func appendRows(dst []int32, r *index.Results) ([]int32, error) {
	for i := range r.Hits {
		row, err := strconv.Atoi(r.Hits[i].ID)
		if err != nil {
			return dst, fmt.Errorf("id %q is no row number", r.Hits[i].ID)
		}
		dst = append(dst, int32(row))
	}
	return dst, nil
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
