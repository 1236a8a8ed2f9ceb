// Package conformance is one set of tests for everything that is a
// collection.Collection.
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Options{Open: …})
//	}
//
// # What is held
//
// Documents, ids, filters, counts, deletions, facets, pages, schemas and errors:
// exactly, against values worked out here (filter.Match, exact distances) or
// against an index of this machine that was given the same batches. Ranks: the
// ten best of a keyword search overlap with those of the index by
// Options.Overlap on average, vectors have a recall@10 of 0.99, and the scores of
// a hybrid search are those that the ranks of its legs make.
//
// The data are made up from fixed seeds.
package conformance
