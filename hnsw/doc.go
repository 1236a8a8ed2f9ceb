// Package hnsw is the vector side of one segment: given a vector, the docs
// whose vectors are nearest, from bytes that never change.
//
// A field is written once, by Build or Merge, in the form in which it is
// searched: codes in rows of whole cache lines, the float32 vectors,
// and, from Options.GraphMin vectors on, a graph after Malkov & Yashunin,
// "Efficient and robust approximate nearest neighbor search using
// Hierarchical Navigable Small World graphs" (arXiv 1603.09320).
//
//	             query ── encode ──┐
//	                               ▼
//	upper levels (greedy) ─► level 0 (beam of ef) ─► k·c nearest by code
//	   nodes, links            links0, codes              │ groups: add duplicates
//	                                                      ▼
//	                              raw: exact float32 distance ─► (distance, doc)
//
// # Names
//
// A doc is the segment's number of a document, an ord the field's number of a
// vector, 0 to Len−1. Docs without a vector have no ord. In a field with a
// graph ords follow the graph, breadth first, so that nodes met together lie
// together; in one without they follow the docs. Lower distance is nearer.
//
// # Invariants
//
//   - The bytes are a function of the vectors, docs and Options without
//     Threads and Progress, those of a Merge of its inputs: every CPU and every
//     GOMAXPROCS writes the same.
//   - A search returns min(K, vectors, accepted) neighbors, never fewer, with
//     exact distances, ordered by (distance, doc). A walk that finds fewer is
//     finished by a scan; one that costs as much as the scan is given up.
//   - Every node is reached from the entry point over level 0.
//   - Vectors with equal 8-bit codes are one node. The others of the group are found
//     through it, in doc order, so copies neither crowd each other's links out
//     nor hide the rest.
//   - Bytes are not trusted: Open checks meta and lengths, the search every
//     link and doc it reads. Damage gives storage.ErrCorrupt or neighbors that
//     are in the field, not a panic, nor an endless loop. Verify finds it all.
//
// # Building
//
// Nodes are inserted in a seeded shuffle, in batches no larger than the graph
// so far and than 1,024. Each node of a batch walks the frozen graph and is
// compared with the earlier nodes of its batch, all in parallel; then links
// back are added, sorted by target, in parallel by target (prefix doubling, as
// in ParlayANN, arXiv 2305.04359). Rows have slack while they grow, so that a
// row is pruned once in sixteen additions. Level l holds the first ⌈n/M^l⌉
// nodes of the shuffle.
//
// The last 256 nodes, before they are inserted, serve as queries to measure
// recall and cost by ef and the oversampling the codes need: the calibration
// in meta, by which Params.TargetRecall chooses ef and the planner weighs a
// walk against a scan. It holds counts, not times. Of queries that hardly any
// effort answers, what they take from the recall is given back in part.
//
// The graph is built on 8-bit codes. What is searched is 4-bit ones where they
// make rows shorter and the calibration finds the neighbors among few enough of
// them (Options.Bits): half the bytes of the rows that come from memory, and
// some twenty more candidates to rescore.
//
// # Merging
//
// Merge goes on from the graph that keeps the most vectors. Its dropped nodes
// are taken out; a node that linked to one chooses anew among its links left
// and the neighbors of those gone, by the diversity rule of an insertion, so a
// row is as good however often it is healed. What it gains, it gains both ways.
// The other vectors are inserted, a walk starting from the neighbors they had in
// their own graph, with half the beam. 256 nodes, old and new, are held out as
// in a build, and recall is measured with them before anything is written: it
// may lie 0.015 under what the last builds of the inputs had, less 0.01 for each
// doubling since; else the graph is built anew (MergeReport). That expectation
// is carried in meta, so a loss cannot add up over merges.
//
// Measured in CPU time beside a build of the result (88,945 × 384, cosine, M 16):
// two equal halves 0.44, a tenth dropped 0.22; on 60,000 × 784 (L2), which holds for
// two and three seeds, 0.38 to 0.39 and 0.19 to 0.21. Recall@10 at equal ef, with one
// seed, was 0.003 (ef 128) to 0.010 (ef 16) under that of the build; builds
// differ among themselves by 0.02 at ef 10 from seed to seed. After ten
// replacements of everything, in steps of a half, recall is that of a build
// (TestChurn).
//
// # Searching
//
// The beam is one sorted array of (distance, ord) keys with an expanded flag.
// Each turn expands the four nearest candidates not yet expanded, and scores
// all their unvisited neighbors in one kernel call: with a beam of some hundred
// nearly all candidates get expanded anyway, so the order costs 2 % more
// distances, while four rows of links and some sixty rows of codes come from
// memory at once.
//
// The walk ends at the first candidate farther than d·(1 + slack), d the
// distance of the k-th nearest so far: an easy query ends soon, a hard one goes
// on. On 340,000 × 100 (cosine), M 16, distances a query and recall@10:
//
//	plain beam       ef 120  2,770  .949      ef 500  8,742  .990
//	slack 0.13, 0.2          2,017  .948              4,528  .988
//
// and on 88,945 × 384 a beam of 48 takes 843 for .9895, a slack of 0.12 698 for
// .9897. A bound d + constant needs more than one of d·(1 + slack): 2,199
// distances for .942 on the first set. M 24 reaches .99 with about the distances
// of M 16 (5,042 for .991) and a third more memory for links. On 60,000 × 784
// (L2) M 8 takes 248 distances for .957 and 338 for .991, M 16 320 for .979 and
// 371 for .991. Candidates that will be rescored are kept, but not expanded,
// beyond the bound: at 784 dimensions 7 % fewer distances for the same recall.
//
// A slack below 0 ends the walk before a beam of k would: on 60,000 × 784 recall
// is .945 after 275 distances at −0.05, .979 after 319 at 0. At −0.2 it is .72.
// It is what a small Params.Ef asks for; TargetRecall takes none below 0, since
// queries that are unlike the vectors find little with it.
//
// The beam's capacity bounds what a hard query may cost. A tighter one with more
// slack gives the same recall for more distances and a shorter tail, on hard sets
// alone. Mean distances, and those of the query at 99 % over those of the median:
//
//	capacity / effort       1.75       1.5        1.25       1.15
//	340,000 × 100, .99      5,762 3.3  6,049 3.0  6,277 2.6  6,423 2.4
//	340,000 × 100, .95      2,182 2.6  2,201 2.3  2,254 2.1  2,266 2.0
//	399,000 × 50, .99       3,081 2.4  3,155 2.1  3,199 1.9  3,229 1.7
//	88,945 × 384, .99       671 2.8    677 2.7    670 2.5    685 2.5
//	60,000 × 784, .99       365 2.0    367 1.9    374 1.8    375 1.8
//
// all at the slack that a curve calibrated with 1.75 gives. It is 1.25 times the
// effort: a curve calibrated with that has more slack and a still shorter tail (first
// line: 6,501 2.3). Times spread some 1.2 times more than distances: a long beam
// takes longer to be sorted into. p99 is then 2.9 times p50 on the first set at .99
// and 2.3 times at .95, on the others less than 2.5 times. Giving a query up when its
// nearest have not changed for a while (patience) bounds nothing: at equal recall it
// takes as many distances, and their p99 grows to 3.6 to 3.9 times p50.
//
// Links to nodes seen before are passed over without a branch, and the row of
// each new one is asked for at once (simd.Unseen): 8 to 15 % less time than a
// loop in Go. What is scored is picked out without a branch on the bound before it
// is sorted in, for which of them stay is a toss-up: 5 to 8 % less at 100 dimensions.
//
// Of the candidates that the calibration asks for, only those are rescored that may
// be among the k nearest for all that codes err (blurs): 12.9 of 16 rows of 3 KiB at
// 784 dimensions, 8 % of the time.
//
// Where the time goes at recall .979 on 60,000 × 784 (AMD EPYC, shared, us of 19):
// encoding the query 1.1, upper levels 2.5 (104 distances), level 0 10.5 (215), 16
// rows rescored 4.6 (before blurs: now it is 13). Some 5 to 7 ns a cache line
// everywhere: bytes are what counts.
//
// What was tried and did not pay: codes, links and float32 rows in huge pages (2 to
// 9 % of the walk at 784 dimensions, nothing at 50 and 100: within the noise); 2,
// 3, 4 or 7 lines of a row asked for by simd.Unseen; 1, 2, 3 or 6 candidates a turn
// (784-d: 1 takes 295 distances for .974, 4 takes 319 for .979, 6 takes 342 for
// .982, in the same time); the beginnings of the rows to be rescored, and their
// docs, asked for together before the first is compared; starting level 0 with all
// nodes met on level 1 (384-d, recall .94: 20 distances more than the wider beam
// that finds as much); marks of nodes met on upper levels (70 distances there
// instead of 104, the same time: what is compared again is in cache); float16 rows
// for rescoring (exact distances of the k need the float32 rows anyway: only 3 of
// 13 rows could be half as long).
//
// # Filters
//
// A filtered search goes one of three ways: it scans the accepted rows; or walks
// through rejected nodes and keeps accepted ones; or walks over accepted nodes
// and looks through rejected ones to their neighbors (after Patel et al.,
// "ACORN", arXiv 2403.04871). What each would cost follows from the number
// accepted, the calibration, and the accepted share around the place where a
// walk would begin, two links wide: low where filter and query repel each other.
// Then walks drown in rejected nodes, and the two-hop walk needs a beam of some 300
// and has to begin in many places. With 1,024 accepted nodes from all over instead
// of 16, half of 60,000 × 784 (cosine), repelled, were found to .98 instead of .80,
// of 88,945 × 384 to .965 instead of .948 with a beam a third shorter.
//
// Estimates of a walk err two or three times, for queries are not the vectors that
// the field was calibrated with. So a walk is begun that may cost twice the scan, and
// looked at on the way (trial): what is left of it is about the candidates under the
// limit not expanded yet, each at the mean cost so far. Once an eighth of the scan's
// cost is spent, what then is left, divided by that, is for three queries in five .7
// to 1.3 on 340,000 × 100 and .3 to 1 on the other sets, more among sparse accepted
// nodes. A walk that would end beyond the cost of the scan is given up then, so no
// search costs more than twice the scan. All this is counted, not timed, and nothing
// is remembered from one search to the next: equal searches go equal ways.
//
// Descending ends far from the query now and then, once in some fifty searches on
// 88,945 × 384. A filter that goes with the query then looks as if it repelled it,
// and the search takes a way of thirty times the cost. So where hardly anything is
// accepted around the beginning, and what is left costs 16 times as much as a walk
// with a beam of 24, such a walk looks for a better beginning first. Mean times over
// those of the best way, without and with it, 50 odd queries attracted by half the
// vectors 1.94 and 0.89, by a fifth 1.25 and 0.96, by a tenth 1.14 and 0.97.
//
// A short beam has nothing to spare where links between accepted nodes are few: on
// 88,945 × 384 a two-hop walk over 5 %, indifferent, found .942 (60 odd
// queries, 28 µs); with a beam some eight nodes wider .968 (120 of them, 33 µs).
//
// The grid of BenchmarkGrid, shares of 50 to 0.1 %, attracted, indifferent and
// repelled, on 340,000 × 100, 88,945 × 384 and 60,000 × 784 (cosine), with filters and
// 44 queries that no constant was chosen with, on a machine at other work: the way
// chosen costs at most 1.16 times the best of those that find .95 in all cells but
// one. That is 20 % indifferent on the first set, 1.2 to 1.3 (1.0 for its first
// queries, of common words): a walk through rejected nodes would be faster there than
// the two-hop walk. Before there were trials, 2 % attracted and 5 % indifferent of
// that set were at 1.5. Recall is .95 or more but for .93 to .95, half repelled on the
// first set, and half or a fifth attracted on the second: what the calibration
// promises is a mean over other queries. The two-hop walk wins where the share is 5 to
// 20 % and indifferent, two to four times, and where half are accepted and repelled.
// Where caches are contended a distance of a walk takes up to twice as long and one of
// a scan does not, so the scan is the better way sooner than the counts say: no trial
// sees that.
//
// # Concurrency and cost
//
// A Field is immutable: any number of goroutines may search it, each with its
// own Scratch. A warm search takes no lock and allocates nothing. A walk costs
// some 20·ef distances of one code row each; a scan one a vector. Memory
// touched per vector: the code row and 4·M0 bytes of links; raw is read for
// the rescored candidates only.
package hnsw
