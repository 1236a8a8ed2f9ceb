package hnsw

import (
	"context"
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

// Merge writes one field over the vectors of the inputs that DocMap keeps. It
// reads them where they lie: besides what Build holds it needs 12 bytes a
// vector. o.Dim and o.Metric must be those of every input. The bytes are those
// of a Build over the same vectors and docs.
func Merge(ctx context.Context, o Options, inputs []MergeInput, create Creator) error {
	o, err := o.normalize()
	if err != nil {
		return err
	}
	var at []mergeRow
	for i, in := range inputs {
		if in.Field.dim != o.Dim || in.Field.metric != o.Metric {
			return storage.Invalidf("input %d has dimension %d and metric %v, want %d and %v",
				i, in.Field.dim, in.Field.metric, o.Dim, o.Metric)
		}
		for ord, doc := range in.Field.docs {
			if int(doc) >= len(in.DocMap) {
				return storage.Corruptf(sectionDocs, 4*int64(ord), "doc %d of %d", doc, len(in.DocMap))
			}
			if to := in.DocMap[doc]; to != none {
				at = append(at, mergeRow{doc: to, input: uint32(i), ord: uint32(ord)})
			}
		}
	}
	slices.SortFunc(at, func(x, y mergeRow) int { return int(int64(x.doc) - int64(y.doc)) })
	docs := make([]uint32, len(at))
	for i, r := range at {
		docs[i] = r.doc
	}
	// Stored vectors are in the prepared form already: preparing them again
	// could change their last bits, and so the answers, at every merge.
	rows := func(i int, _ []float32) []float32 {
		return inputs[at[i].input].Field.Vector(at[i].ord)
	}
	return build(ctx, o, rows, docs, create)
}

type mergeRow struct{ doc, input, ord uint32 }
