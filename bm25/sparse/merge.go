package sparse

import (
	"io"
	"slices"

	"github.com/quarrysearch/quarry/storage"
)

// Dropped marks a deleted doc in a DocMap.
const Dropped = ^uint32(0)

// A MergeInput is the field of one segment to merge, and where its docs go:
// DocMap[old] is the new doc or Dropped. No two docs go to one.
type MergeInput struct {
	Field  *Field
	DocMap []uint32
}

// Merge writes the field of a segment of docs docs from its inputs, a term after
// the other: it holds the postings of one. The bytes equal those of Write given
// the surviving docs. Errors: ErrInvalid for a bad DocMap, ErrCorrupt.
func Merge(create func(section string) (io.Writer, error), inputs []MergeInput, docs uint32) error {
	for i, in := range inputs {
		if len(in.DocMap) < int(in.Field.stats.Bound) {
			return storage.Invalidf("sparse: DocMap of input %d has %d docs, the field %d", i, len(in.DocMap), in.Field.stats.Bound)
		}
		for old, d := range in.DocMap {
			if d != Dropped && d >= docs {
				return storage.Invalidf("sparse: DocMap of input %d sends doc %d to %d of %d", i, old, d, docs)
			}
		}
	}
	w, err := newWriter(create)
	if err != nil {
		return err
	}
	at := make([]int, len(inputs)) // the next term of each input
	var list []posting
	for {
		term, found := uint32(0), false
		for i, in := range inputs {
			if at[i] < in.Field.terms() {
				if t := in.Field.term(at[i]); !found || t < term {
					term, found = t, true
				}
			}
		}
		if !found {
			return w.finish()
		}
		list = list[:0]
		for i, in := range inputs {
			if at[i] < in.Field.terms() && in.Field.term(at[i]) == term {
				if list, err = in.postings(list, at[i]); err != nil {
					return err
				}
				if at[i]++; at[i] < in.Field.terms() && in.Field.term(at[i]) <= term {
					return storage.Corruptf("terms", int64(at[i])*termSize, "terms do not ascend")
				}
			}
		}
		slices.Sort(list)
		if err := w.list(term, list); err != nil {
			return err
		}
	}
}

// postings appends the surviving postings of the n-th term, docs renumbered.
func (in *MergeInput) postings(dst []posting, n int) ([]posting, error) {
	l, err := in.Field.list(n)
	if err != nil {
		return dst, err
	}
	var c cursor
	c.open(l, 1)
	for c.nextBlock() {
		for i, old := range c.docs[:c.n] {
			code := c.code(i)
			if !validCode(code) {
				return dst, storage.Corruptf("lists", l.off, "a code is out of range")
			}
			if d := in.DocMap[old]; d != Dropped {
				dst = append(dst, posting(d)<<16|posting(code))
			}
		}
	}
	return dst, c.err()
}
