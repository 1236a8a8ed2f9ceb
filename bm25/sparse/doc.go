// Package sparse is learned sparse vectors of one segment: for each document a
// weight for some terms of a learned vocabulary (SPLADE, uniCOIL, DeepImpact),
// and exact search by dot product that skips what cannot win.
//
// # Promise
//
// TopK returns the same docs, scores and order, bit for bit, as Exhaustive,
// which reads every posting; for every query, k, filter and floor, however the
// collection is cut into segments and on every CPU. Write and Merge are
// deterministic: a merge gives the bytes that Write gives for the docs that
// survive. Nothing in the bytes can make a reader panic or loop; broken rules
// are reported as ErrCorrupt where they are met, all of them by Verify.
//
// # Picture
//
//	vectors ─► Write ─┐                ┌─ terms  term → df, where, greatest weight
//	                  ├─ listWriter ───┼─ lists  blocks of 256 docs and weights, their maxima
//	fields ──► Merge ─┘                └─ meta   counts
//	                                       │
//	query ─► Bind(all segments) ─► Bound ─► TopK(segment) ◄─ Field (Open)
//
// # Weights and scores
//
// A weight is a positive number up to MaxWeight. It is stored, and given back,
// as an IEEE half-precision number: rounded to the nearest with 11 significant
// bits, at most one part in 2,048 away, and no less than 2^-24. Round does that;
// the weights of a query are kept as they are.
//
// The score of a doc is Σ query weight · stored weight over the terms that both
// have. Each product is exact in float64 and rounded once to fixed point, to at
// least one unit; sums are sums of integers, so that neither the order of terms
// nor pruning can change a bit. The unit is a power of two that depends on the
// query alone: 2^-62 of what its terms could reach, so that some 46 bits of a
// usual sum count. The sum is then rounded to float32, which is the score; docs
// of equal score are ordered by doc, across segments by id.
//
// A leg score is m/(1+m), where m is the score divided by the sum of the query's
// weights, i.e. the mean of the doc's weights as the query weighs them. It is
// strictly monotone and depends on the query and the doc alone. 0.5 is a doc that
// gives every term of the query weight 1.
//
// # Pruning
//
// Windowed MAXSCORE (Turtle and Flood 1995; windows as in Lucene's
// MaxScoreBulkScorer, block maxima as in Ding and Suel 2011): in each window of
// docs the terms whose maxima together cannot reach the k-th best score are not
// read, save where a doc that the other terms brought may still reach it; where
// such docs are many, the term is read after all, as to add a posting costs a
// quarter of seeking one. The greatest weight of a block is one of its weights, so
// bounds are tight. For 100,000 docs of 100 terms, 25 terms a query and k = 10,
// 65,000 of 217,000 postings are read.
//
// # Concurrency and cost
//
// Field and Bound are immutable and safe for concurrent use; a Scratch serves one
// goroutine at a time. A warm search allocates nothing. A lookup costs
// O(log terms); a skip a binary search in an array of last docs.
//
// # Limits
//
//	term id                     0 to 4,294,967,295
//	weight                      above 0, at most 65,504
//	terms of a document         65,536
//	terms of a query            4,096
//
// The bytes are described in format.md.
package sparse
