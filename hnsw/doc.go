// Package hnsw is the vector side of one segment: given a vector, the docs
// whose vectors are nearest, from bytes that never change.
//
// A field is written once, by Build or Merge, in the form in which it is
// searched: 8-bit codes in rows of whole cache lines, the float32 vectors,
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
//     Threads and Progress: every CPU and every GOMAXPROCS writes the same.
//   - A search returns min(K, vectors, accepted) neighbors, never fewer, with
//     exact distances, ordered by (distance, doc). A walk that finds fewer is
//     finished by a scan; one that costs as much as the scan is given up.
//   - Every node is reached from the entry point over level 0.
//   - Vectors with equal codes are one node. The others of the group are found
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
// walk against a scan. It holds counts, not times.
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
// A filtered search passes through rejected nodes but keeps accepted ones
// only. It scans the accepted rows instead when that is cheaper.
//
// # Concurrency and cost
//
// A Field is immutable: any number of goroutines may search it, each with its
// own Scratch. A warm search takes no lock and allocates nothing. A walk costs
// some 20·ef distances of one code row each; a scan one a vector. Memory
// touched per vector: the code row and 4·M0 bytes of links; raw is read for
// the rescored candidates only.
package hnsw
