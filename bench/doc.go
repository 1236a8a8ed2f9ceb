// Package bench measures: it reads collections and vector files, computes exact
// ground truth, recall, nDCG, MAP, MRR and latencies, and writes reports. It is a
// library of Config structs and Run functions; flags and printing belong to
// cmd/quarry.
//
// Promise: a figure means the same here as in the field's own tools. Recall@k,
// the timed loop and the JSON lines follow the scripts that measure other
// engines; ranking metrics follow trec_eval and BEIR; files are read as they are
// published. A malformed file is an error that names file and line or byte,
// never a figure from half of it.
//
//	files ──► Collection, Matrix ──► Run… ──► lines, reports ──► bench/plot
//	                                  ▲ engine as func-typed fields of the Config
//
//	RunVectors   build, recall against speed, several threads
//	RunFiltered  a grid of filters by share and correlation, against the exact scan
//	RunChurn     everything replaced time and again, against a fresh build
//	RunCold      the first searches with nothing in the page cache
//	RunText      keyword latency
//	RunHybrid    hybrid latency, legs alone, filters
//	RunEval      ranking quality
//
// The engine comes in through functions (Build, Search), so every loop here can
// be run on a stand-in, and on another engine. Lines are JSON objects that say
// what they are ("kind"), of which engine and of which set; bench/peers prints the
// same for other engines.
//
// # Rules of measuring
//
//   - One query thread. The best of several passes counts: the least disturbed
//     one is nearest to what the code costs. Answers come from the same passes
//     that are timed.
//   - Queries are prepared before the clock starts.
//   - Quality stands beside every speed figure.
//
// # Metrics
//
// A query counts when it has at least one judgement above 0, whether or not the
// engine found anything (trec_eval -c); others are left out. With grade(i) the
// grade of the document at rank i, counted from 1, 0 when not judged:
//
//   - nDCG@k: Σ grade(i)/log2(i+1) over the first k, divided by the same sum for
//     the ideal order. The gain is the grade itself, as trec_eval and BEIR have
//     it, not 2^grade−1.
//   - AP: the mean over all relevant documents of the precision at their rank, 0
//     for those not found within the depth. MAP is its mean over queries.
//   - Recall@k: relevant documents in the first k, divided by all relevant ones.
//   - MRR@k: 1/rank of the first relevant document in the first k, or 0.
//
// Everything here is safe for concurrent use except where a type says otherwise.
package bench
