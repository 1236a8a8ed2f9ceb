package hnsw

import (
	"runtime"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/storage"
)

// Limits and defaults of Options.
const (
	// MaxDim is the largest dimension of a vector field.
	MaxDim = 4096
	// MaxVectors is the largest number of vectors in one field of a segment:
	// an ord shares its 32 bits with the beam's expanded flag.
	MaxVectors = 1<<31 - 2

	defaultM              = 16
	defaultEfConstruction = 200
	defaultGraphMin       = 10_000
	maxM                  = 96
	maxEf                 = 1 << 20
)

// Options say how a field is built. Dim and Metric must be given; a zero in
// any other field takes the default.
type Options struct {
	// Dim is the number of components of a vector, 1 to MaxDim.
	Dim int
	// Metric is the distance the field is searched by.
	Metric quant.Metric
	// M is the degree of a node above level 0, 4 to 96; level 0 has M0 = 2·M.
	// Default 16.
	M int
	// EfConstruction is the beam of the searches that find a new node's
	// neighbors, 8 to 4096. Default 200.
	EfConstruction int
	// Bits of a component in the codes that are searched, 8 or 4. With 4 a row
	// has half the bytes and more candidates are rescored; the graph is built on
	// codes of 8 bits either way. Default: 4 for a graph when rows take fewer
	// cache lines by it (from 57 components on) and the calibration finds the
	// neighbors among few enough candidates, else 8.
	Bits int
	// Seed fixes the order of insertion and the nodes' levels.
	Seed uint64
	// Threads is the number of goroutines that work at once; the bytes do not
	// depend on it. Default GOMAXPROCS.
	Threads int
	// GraphMin is the least number of vectors for which a graph is built;
	// fewer are scanned. Default 10,000; negative builds none at any size.
	GraphMin int
	// Progress, if not nil, is called now and then from the calling goroutine
	// with the number of vectors done and their total. A merge begins with those
	// kept, and anew when the graph that was kept finds too little.
	Progress func(done, total int)
}

// normalize fills in the defaults and checks the ranges.
func (o Options) normalize() (Options, error) {
	if o.Dim < 1 || o.Dim > MaxDim {
		return o, storage.Invalidf("dimension %d is not in 1..%d", o.Dim, MaxDim)
	}
	if !o.Metric.Valid() {
		return o, storage.Invalidf("metric %d is unknown", o.Metric)
	}
	if o.M == 0 {
		o.M = defaultM
	}
	if o.M < 4 || o.M > maxM {
		return o, storage.Invalidf("M %d is not in 4..%d", o.M, maxM)
	}
	if o.EfConstruction == 0 {
		o.EfConstruction = defaultEfConstruction
	}
	if o.EfConstruction < 8 || o.EfConstruction > 4096 {
		return o, storage.Invalidf("efConstruction %d is not in 8..4096", o.EfConstruction)
	}
	if o.Bits != 0 && o.Bits != 4 && o.Bits != 8 {
		return o, storage.Invalidf("codes of %d bits: want 4 or 8", o.Bits)
	}
	if o.GraphMin == 0 {
		o.GraphMin = defaultGraphMin
	}
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	return o, nil
}

// Params are the arguments of one search.
type Params struct {
	// K is the number of neighbors wanted, at least 1. Fewer come back only
	// when the field, or the filter, has fewer.
	K int
	// Ef is the effort: a walk expands about as many nodes as one that exhausts
	// a beam of this width, more for a hard query, up to 1.25 times as many, and
	// fewer for an easy one. It may be less than K: in easy data 10 neighbors need
	// less than a beam of 10. 0 takes it from the segment's calibration for
	// TargetRecall.
	Ef int
	// TargetRecall is the recall@10 that Ef 0 aims at, in (0, 1]. Default 0.95.
	TargetRecall float32
	// Oversample is the number of candidates rescored on float32 vectors, as a
	// multiple of K. 0 takes the segment's calibrated figure.
	Oversample float32
	// Plan is the way that a filtered search in a field with a graph must go,
	// whatever it costs: PlanFlat, PlanGraph or PlanTwoHop. Default PlanNone, the
	// way that is estimated to cost least. It is there to measure the choice.
	Plan Plan
	// Cancel, if not nil, is asked now and then (every 64 hops or some
	// thousand rows); its error ends the search and is returned. Pass ctx.Err.
	Cancel func() error
}

func (p Params) check() error {
	switch {
	case p.K < 1:
		return storage.Invalidf("k %d is less than 1", p.K)
	case p.Ef < 0:
		return storage.Invalidf("ef %d is negative", p.Ef)
	case !(p.TargetRecall >= 0 && p.TargetRecall <= 1):
		return storage.Invalidf("target recall %v is not in 0..1", p.TargetRecall)
	case !(p.Oversample >= 0 && p.Oversample <= 1000):
		return storage.Invalidf("oversample %v is not in 0..1000", p.Oversample)
	case p.Plan > PlanTwoHop:
		return storage.Invalidf("plan %d cannot be asked for", p.Plan)
	}
	return nil
}

// A Neighbor is one result.
type Neighbor struct {
	// Doc is the document's number in the segment.
	Doc uint32
	// Ord is the vector's number in the field.
	Ord uint32
	// Distance is exact, computed on the float32 vectors; lower is nearer.
	Distance float32
}

// A Plan says how a search found its results.
type Plan uint8

const (
	// PlanNone is the plan of a search that had nothing to look at.
	PlanNone Plan = iota
	// PlanFlat scanned every vector, or every accepted one.
	PlanFlat
	// PlanGraph walked the graph, rejected nodes included.
	PlanGraph
	// PlanTwoHop walked over accepted nodes, looking through rejected ones.
	PlanTwoHop
	// PlanAbandoned began a walk that would have cost as much as the exact scan,
	// or found too few, and finished with the scan.
	PlanAbandoned
)

func (p Plan) String() string {
	switch p {
	case PlanFlat:
		return "flat"
	case PlanGraph:
		return "graph"
	case PlanTwoHop:
		return "two-hop"
	case PlanAbandoned:
		return "abandoned"
	}
	return "none"
}

// Stats is the work of one search.
type Stats struct {
	Distances int  // distances computed on codes
	Hops      int  // nodes expanded
	Visited   int  // nodes looked at, rejected ones included
	Rescored  int  // distances computed on float32 vectors
	Ef        int  // the effort, see Params.Ef; 0 when no graph was walked
	Plan      Plan // how the results were found
	Matches   int  // vectors accepted by the filter; 0 without one
	Estimates Estimates
}

// Estimates are what the ways to search were expected to cost, in nanoseconds
// of a machine that no search measures: only their ratios matter. 0 for what
// was not weighed.
type Estimates struct {
	Scan   float64 // compare all accepted vectors
	Graph  float64 // walk through accepted and rejected nodes
	TwoHop float64 // walk over accepted nodes
}

// Add sums the work of another segment's search into s. The plan and ef kept
// are the larger ones.
func (s *Stats) Add(o Stats) {
	s.Distances += o.Distances
	s.Hops += o.Hops
	s.Visited += o.Visited
	s.Rescored += o.Rescored
	s.Ef = max(s.Ef, o.Ef)
	s.Plan = max(s.Plan, o.Plan)
	s.Matches += o.Matches
	s.Estimates.Scan += o.Estimates.Scan
	s.Estimates.Graph += o.Estimates.Graph
	s.Estimates.TwoHop += o.Estimates.TwoHop
}
