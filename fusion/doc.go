// Package fusion joins ranked lists into one: reciprocal rank fusion (RRF),
// weighted fusion, and the mapping of each leg's raw score into [0,1].
//
// Promise: pure functions over lists the caller owns. The answer depends on the
// lists and the options alone, never on a map's iteration order, the time, the
// CPU or what a Fuser did before. No score depends on which other hits came
// back, nor on how many were asked for: a score shown on page one is the same on
// page nine.
//
//	leg "text"   [b, c, Y]  w=1 ─┐
//	                             ├─ join by key ─ Σ w/(60+rank) ─ ÷ Σ w/61 ─ sort ─ hits
//	leg "vector" [X, a, Y]  w=1 ─┘                 (leg order)
//
// # Terms
//
// A leg is one ranked list, best item first, with a weight. An item has a key, a
// leg score in [0,1] and the raw value it was made from. A rank counts from 1
// and counts distinct keys: an item that repeats a key is skipped, takes no rank
// and keeps the place of its first, best occurrence. Absence from a leg adds 0;
// no rank is made up for it. A leg of weight 0 is switched off: it adds nothing
// and brings in no hit, though its ranks are still reported.
//
// Keys are uint64 so that joining needs neither strings nor a Go map; the engine
// packs segment and doc into one. Keys say nothing about order: equal scores are
// ordered by Options.Compare (the engine compares external ids), and by
// ascending key without one.
//
// # Invariants
//
//   - 0 ≤ score ≤ 1; 1 only where the item is first in every leg of positive
//     weight (RRF) or has leg score 1 in each (weighted). Both bounds are exact
//     in floating point, because rounding is monotone and the norm is summed in
//     the same order as the score.
//   - Scores are compared exactly, without an epsilon: nearness is not
//     transitive, so it orders nothing.
//   - Products are rounded before they are added (explicit conversions), so a
//     CPU with a fused multiply-add gives the same bits as one without.
//   - Weights are scaled by one power of two before use. That is exact, changes
//     no bit of a result, and keeps huge and tiny weights from overflowing.
//
// # Concurrency and cost
//
// A Fuser holds scratch: one goroutine at a time; the zero value is ready.
// Functions without a Fuser are safe for concurrent use. Fusing n items of l
// legs costs O(n·l + n log n) time and, once warm, no allocation.
//
// RRF is from Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms
// Condorcet and individual Rank Learning Methods", SIGIR 2009. Dividing by the
// best possible sum is ours: raw RRF of two legs tops out at 0.033, which makes
// any threshold a user would think of drop everything.
package fusion
