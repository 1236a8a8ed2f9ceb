// Package bm25 is the text side of one segment: an inverted index per field
// with positions, and exact BM25 search over it that skips what cannot win.
//
// # Promise
//
// TopK returns the same docs, scores and order, bit for bit, as Exhaustive,
// which reads every posting; for every query, k, filter and floor, however the
// collection is cut into segments and on every CPU. Build and Merge are
// deterministic: a merge gives the bytes that a Builder gives for the docs
// that survive. Nothing in the bytes can make a reader panic or loop; broken
// rules are reported as ErrCorrupt where they are met, all of them by Verify.
//
// # Picture
//
//	tokens ─► Builder ─┐  ranges of terms        ┌─ dict   term → df, tf, where
//	                   ├─► fieldWriter ─ create ─┼─ docs   blocks of 256 docs and tf, skips, impacts
//	fields ─► Merge ───┘                         ├─ pos    positions of each block
//	                                             ├─ norms  a byte a doc
//	                                             └─ meta   counts
//	                                                  │
//	Query ─► Bind(all segments) ─► Bound ─► TopK(segment) ◄─ Field (Open)
//	            idf, weights                  ├─ or      windowed block-max MAXSCORE
//	                                          ├─ and     rarest word's blocks lead
//	                                          ├─ phrase  positions of survivors
//	                                          └─ tree    anything else, by windows
//
// Package pattern makes the automata of wildcards, regular expressions and words
// with errors; EachMatch walks the dictionary with one.
//
// # Scores
//
// A score is a sum over clauses, a clause being a word in a field: weight −
// weight/(1 + tf/(k1·(1 − b + b·length/average))), in float32, where weight is
// idf · boost/Σ boosts and idf = ln(1 + (N − n + ½)/(n + ½)), as in Lucene, with
// no factor of k1+1. Each contribution is rounded once to a multiple of 2^-20
// and at least that; sums are sums of integers, so that neither the order of
// clauses nor pruning can change a bit, and a doc matches exactly when its sum
// is positive. N, n and the average length are sums over all segments given to
// Bind, deleted docs included until a merge drops them. Hence:
//
//   - C01: idf is positive for a word in every doc, and so is its score.
//   - C02: an empty field, or one of empty docs only, has N = 0 and an average
//     length of 0, which counts as 1: nothing matches, nothing is NaN.
//   - C03: deleted docs weigh in N, n and the average until they are merged
//     away; afterwards scores are those of a collection that never had them.
//
// A length is the number of a doc's tokens, also of several at one position
// (bigrams beside unigrams, parts beside a whole identifier). It is coded in a
// byte, exact to 39.
//
// # Bounds
//
// Headers of blocks, of groups of 32 blocks and of lists hold impacts: the
// Pareto set of (tf up, norm down). The contribution is monotone in both, in
// float32 and after rounding, so the greatest contribution under a set bounds
// every posting of the block, whatever the statistics are by then. Scores
// themselves are never stored.
//
// A doc that ties with the k-th best score of a full heap has lost when it
// comes later in the segment, as docs are numbered by id; a Floor carried over
// from another segment keeps ties, as ids decide there.
//
// # Filters
//
// A filter is a bit a doc or, below one doc in FewDocs, a list. A list leads: its
// docs are sought in every postings list that can lift them. Of bits, a sample tells
// in each window whether at most three fifths of the docs pass. If so, the docs of a
// block that do not are dropped before a freq is read or anything is scored, those
// of a bitset without decoding it; else they are masked when all is scored.
//
// The 600 unions that take 240 µs over 1,231,039 passages take 158 among 1 % of
// them, 178 among 10 % and 227 among 50 %. They took 314, 255 and 254 when docs were
// masked in the end and a list led, or was a mask, below one doc in 64; a list of 1 %
// that always leads takes no less. Intersections take 64 µs over all, 31, 46 and 65
// among 1, 10 and 50 %; they took 88, 60 and 90.
//
// # Disjunctions of a small segment
//
// Five words on 88,945 short rows in all scripts, where pruning leaves 2,600 of
// 24,000 postings to score and 1,600 candidates: the time goes to candidates in
// the lists of the other clauses (40 %), scoring (25 %) and the lookup of the words
// (15 %). Hence candidates of a block are sought together, in a bitset as it is,
// and their freqs and contributions computed together: 16 % less time than one by
// one, 30 % less where all words are in a fifth of the docs. Windows begin small,
// as the first has no floor and is scored whole: 3 % less. A floor from the sums of
// the rarest words (up to 1,024 postings) saved no more than it cost; closer bounds
// by the length of each candidate drop one in seven, those of the blocks that a
// candidate's block overlaps none.
//
// # Order of docs
//
// Docs keep the order of their ids; no merge reorders them. Recursive graph
// bisection (Dhulipala et al. 2016) of 307,760 passages, every fourth of a corpus
// that lies document by document, made section docs 0.3 % smaller than the given
// order, OR 4 % and AND 1 % faster, phrases no faster, in 33 s of work where the
// whole index takes 8 s. Against a random order it saves 15 % of section docs, 6.5 %
// of the segment and 5 % of the time of OR: as much as ids that follow the documents'
// places (source and number of the passage, say) save for nothing. It would also cost
// the rule that ties by doc are ties by id, and with it a second numbering.
//
// # Concurrency and cost
//
// Field and Bound are immutable and safe for concurrent use; a Scratch and a
// Builder serve one goroutine at a time. WriteAll and Merge cut the terms into
// ranges of about 1 MiB, encode them in several goroutines and write them in
// order, so that the bytes are those of one goroutine. A warm search with a Scratch that has
// seen as many terms allocates nothing. The unit of work is a decoded block of
// up to 256 postings; no interface is called a posting. A lookup costs
// O(log terms) plus half a block of 16 terms; skipping costs a header a group.
// Where a sum might exceed 32 bits (hundreds of rare words), the unit of scores is
// made coarser by a power of two for that query.
//
// The bytes are described in format.md.
package bm25
