package hnsw

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/quarrysearch/quarry/storage"
)

// A MergeInput is one field of a merge and where its docs go.
type MergeInput struct {
	Field *Field
	// DocMap gives for each old doc the new one, or ^uint32(0) when it is
	// dropped. The docs kept ascend; no new doc occurs twice in a merge.
	DocMap []uint32
}

// A MergeReport tells how a merge came by its graph. All is zero for a field
// without one.
type MergeReport struct {
	// Kept is the number of nodes taken over with their links from the largest
	// graph, Healed of those that had lost neighbors, Inserted of all others.
	Kept, Healed, Inserted int
	// Rebuilt says why the graph was built from nothing, "" when it was not.
	Rebuilt string
	// Recall is the mean recall@10 of the new graph over some widths of the
	// beam, Floor the least with which it is accepted; zero where the graph is
	// too small to be calibrated.
	Recall, Floor float32
}

// Merge writes one field over the vectors of the inputs that DocMap keeps. It
// reads them where they lie: besides what Build holds it needs 24 bytes a
// vector. o.Dim and o.Metric must be those of every input.
//
// The graph of the input with the most nodes left is kept: its dropped nodes
// are taken out, their neighbors healed, and the vectors of the other inputs
// inserted, which costs a part of a Build. The recall of the result is
// measured before anything is written; below the floor, the graph is built
// anew. It is built anew at once where keeping would not pay: under 4,096
// vectors, after half the nodes have died, under another M.
//
// The bytes depend on the inputs and o without Threads and Progress. They are
// those of a Build over the same vectors and docs where no graph is kept. Which
// vectors are there, and so every exact search, never depends on it.
func Merge(ctx context.Context, o Options, inputs []MergeInput, create Creator) (MergeReport, error) {
	o, err := o.normalize()
	if err != nil {
		return MergeReport{}, err
	}
	at, err := mergeRows(o, inputs)
	if err != nil {
		return MergeReport{}, err
	}
	docs := make([]uint32, len(at))
	for i, r := range at {
		docs[i] = r.doc
	}
	// Stored vectors are in the prepared form already: preparing them again
	// could change their last bits, and so the answers, at every merge.
	rows := func(i int, _ []float32) []float32 {
		return inputs[at[i].input].Field.Vector(at[i].ord)
	}
	if err := checkDocs(docs); err != nil {
		return MergeReport{}, err
	}
	b, err := newBuilder(ctx, o, rows, docs)
	if err != nil {
		return MergeReport{}, err
	}
	var rep MergeReport
	if !b.flat() {
		rep.Rebuilt = "first graph"
		if main := largest(o, inputs, at); main >= 0 {
			b.old = &reuse{inputs: inputs, at: at, main: main}
			if err := b.extend(&rep); err != nil {
				return rep, err
			}
		}
		if rep.Rebuilt != "" {
			if b, err = newBuilder(ctx, o, rows, docs); err != nil {
				return rep, err
			}
			if err := b.construct(); err != nil {
				return rep, err
			}
			rep.Recall = b.built.recall
		}
	}
	return rep, b.write(create)
}

// A mergeRow is one vector of a merge: where it goes and where it comes from.
type mergeRow struct{ doc, input, ord uint32 }

// mergeRows lists the vectors that are kept, by new doc.
func mergeRows(o Options, inputs []MergeInput) ([]mergeRow, error) {
	var at []mergeRow
	for i, in := range inputs {
		if in.Field.dim != o.Dim || in.Field.metric != o.Metric {
			return nil, storage.Invalidf("input %d has dimension %d and metric %v, want %d and %v",
				i, in.Field.dim, in.Field.metric, o.Dim, o.Metric)
		}
		for ord, doc := range in.Field.docs {
			if uint64(doc) >= uint64(len(in.DocMap)) {
				return nil, storage.Corruptf(sectionDocs, 4*int64(ord), "doc %d of %d", doc, len(in.DocMap))
			}
			if to := in.DocMap[doc]; to != none {
				at = append(at, mergeRow{doc: to, input: uint32(i), ord: uint32(ord)})
			}
		}
	}
	slices.SortFunc(at, func(x, y mergeRow) int { return int(int64(x.doc) - int64(y.doc)) })
	return at, nil
}

// largest is the input whose graph keeps the most vectors and can be kept
// itself, −1 if there is none.
func largest(o Options, inputs []MergeInput, at []mergeRow) int {
	if len(at) < calibrationLeast {
		return -1
	}
	live := make([]int, len(inputs))
	for _, r := range at {
		live[r.input]++
	}
	main := -1
	for i, in := range inputs {
		f := in.Field
		if f.graph && f.m == o.M && f.m0 == 2*o.M && 2*live[i] >= f.n && (main < 0 || live[i] > live[main]) {
			main = i
		}
	}
	return main
}

// extend makes the graph from the largest one there is, and measures it; when
// that does not do, rep.Rebuilt says why, and the builder is spoiled.
func (b *builder) extend(rep *MergeReport) error {
	rep.Rebuilt = ""
	dup, err := b.group()
	if err != nil {
		return err
	}
	if b.nodes < calibrationLeast {
		rep.Rebuilt = fmt.Sprintf("%d nodes", b.nodes)
		return nil
	}
	spans, held, err := b.old.place(b, dup)
	if err != nil {
		return err
	}
	kept := b.nodes - held
	for _, s := range spans {
		kept -= s.hi - s.lo
	}
	if rep.Healed, err = b.heal(b.nodes - held); err != nil {
		return err
	}
	if err := b.insertAll(kept, spans); err != nil {
		return err
	}
	if err := b.arrange(); err != nil {
		return err
	}
	rep.Kept, rep.Inserted = kept, b.nodes-kept
	b.built = b.old.expected(b.nodes)
	rep.Floor, rep.Recall = b.built.recall-recallMargin, b.measured.recall
	if rep.Recall < rep.Floor {
		rep.Rebuilt = fmt.Sprintf("recall %.4f under %.4f", rep.Recall, rep.Floor)
	}
	return nil
}

const (
	// recallMargin is what a merge may lose of the recall expected of a build.
	// It is no more than what 256 queries can tell, and not lost again at the
	// next merge: what is expected follows from the last builds.
	recallMargin = 0.015
	// growthLoss is what recall at equal width may lose when a graph doubles:
	// 0.005 to 0.01 was measured from 10,000 to 340,000 vectors.
	growthLoss = 0.01
)

// expected is the recall that a build over n nodes would about have: that of
// the builds which the graphs of the inputs stem from, by their sizes.
func (u *reuse) expected(n int) reference {
	var sum, weight float64
	for _, in := range u.inputs {
		f := in.Field
		if f.built.recall == 0 || f.built.nodes == 0 {
			continue
		}
		grown := max(math.Log2(float64(n)/float64(f.built.nodes)), 0)
		sum += float64(f.n) * max(float64(f.built.recall)-growthLoss*grown, 0)
		weight += float64(f.n)
	}
	if weight == 0 {
		return reference{nodes: n}
	}
	return reference{nodes: n, recall: float32(sum / weight)}
}
