package space

import (
	"cmp"
	"slices"

	"github.com/quarrysearch/quarry/knowledge"
)

// found is an item of a space on its way into the answer.
type found struct {
	space, place int // in the request, and among the items of its space
	item         *knowledge.Item
}

// merge makes one list of the lists of the spaces: by score descending, then by
// the order of the spaces, then by that of their items, then by id; the best n.
// Scores are compared as they are, with no normalization by space.
//
// Spaces may stand on one base. What they find twice is there once, at its best
// place, and the list is filled up.
func merge(spaces []*searched, n int) []found {
	var all []found
	for i, sp := range spaces {
		for j := range sp.items {
			all = append(all, found{i, j, &sp.items[j]})
		}
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.item.Score, a.item.Score), cmp.Compare(a.space, b.space), cmp.Compare(a.place, b.place),
			cmp.Compare(a.item.Metadata.ChunkID, b.item.Metadata.ChunkID))
	})
	type stretch struct {
		base, document, hash string
		start, end           int
	}
	seen := make(map[stretch]bool, n)
	kept := make([]found, 0, min(n, len(all)))
	for _, f := range all {
		if len(kept) == n {
			break
		}
		m := &f.item.Metadata
		k := stretch{m.KnowledgeBaseID, m.DocumentID, m.ArtifactHash, m.StartOffset, m.EndOffset}
		if !seen[k] {
			seen[k] = true
			kept = append(kept, f)
		}
	}
	return kept
}
