package segment

import (
	"runtime"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/hnsw"
	"github.com/quarrysearch/quarry/index/filter"
)

// A Schema is what a segment must know of the index's schema. It is immutable.
type Schema struct {
	Text    map[string]*TextField
	Vectors map[string]*VectorField
	Sparse  map[string]bool // names of the fields of sparse vectors
	Meta    map[string]filter.Type
}

// A TextField is a text field of the schema.
type TextField struct {
	Name      string
	Analyzer  *analysis.Analyzer
	NotStored bool
}

// A VectorField is a vector field of the schema. Threads, GraphMin and
// Progress of the options come from each Write and Merge.
type VectorField struct {
	Name    string
	Options hnsw.Options
}

// Options say how a segment is written. None of them changes what a search of
// it finds, except for the approximation of a graph.
type Options struct {
	// Memory says that the segment stays in memory: stored documents are not
	// compressed and vectors get no graph.
	Memory bool
	// Threads bounds the goroutines of a graph build; default GOMAXPROCS. The
	// bytes do not depend on it.
	Threads int
	// GraphMin is the number of vectors below which a field gets no graph.
	GraphMin int
	// Progress, if not nil, is told how far a stage is. It may be called from
	// several goroutines.
	Progress func(stage string, done, total int)
	// Merged, if not nil, is told by Merge how each vector field came by its
	// graph.
	Merged func(field string, report hnsw.MergeReport)
}

func (o Options) threads() int {
	if o.Threads > 0 {
		return o.Threads
	}
	return runtime.GOMAXPROCS(0)
}

func (o Options) vector(f *VectorField) hnsw.Options {
	h := f.Options
	h.Threads = o.threads()
	h.GraphMin = o.GraphMin
	if o.Memory {
		h.GraphMin = -1
	}
	if p := o.Progress; p != nil {
		stage := "graph " + f.Name
		h.Progress = func(done, total int) { p(stage, done, total) }
	}
	return h
}
