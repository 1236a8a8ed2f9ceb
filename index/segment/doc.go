// Package segment is one segment of an index with all its parts: the ids of
// its documents, the documents as stored, and for each field the postings
// (package bm25), vectors (package hnsw), sparse vectors (bm25/sparse) or filter
// index (package index/filter). Write makes one from analyzed documents, Merge one from
// several, Open gives the parts.
//
//	documents, sorted by id
//	   │ ids ──────────► ids/…          doc ⇄ id
//	   │ stored bytes ─► docs/…         blocks of documents
//	   │ metadata ─────► filter/…       columns and bitmaps
//	   │ texts ─ tokens ► text/F/…      one dictionary with postings a field
//	   │ vectors ──────► vector/F/…     codes, vectors, graph
//	   │ sparse vectors ► sparse/F/…    weights by term
//	   ▼
//	storage.SegmentWriter: a file, or bytes in memory
//
// A segment in memory has the same bytes as one in a file, except that its
// stored documents are not compressed and its vectors have no graph, so there
// is one way to read both.
//
// # Invariants
//
//   - Docs are numbered from 0 in strictly ascending order of id bytes, in all
//     parts alike: the order of docs is the order of ids.
//   - Merge(inputs) writes the bytes that Write writes for the documents that
//     are live in the inputs, whatever way they came to be spread (up to the
//     fields of which every document has died), but for graphs: a merge goes on
//     from the largest graph of its inputs, so the order of its vectors and
//     their links depend on how they were spread. Every vector is there all the
//     same, so exact searches and scans give the same answers, and walks find
//     as many true neighbors, within the bound of hnsw.Merge.
//   - The bytes depend on the documents (of a merge: on its inputs), the schema,
//     GraphMin and Memory alone: not on GOMAXPROCS or the CPU.
//   - Open reads the tables of contents, nothing that grows with the documents.
//
// # Concurrency
//
// A Segment is immutable and may be read by any number of goroutines while its
// reference to the file is held. Write and Merge use the SegmentWriter from
// the calling goroutine; they analyze texts,
// encode postings and build graphs in several, at most Options.Threads of each.
//
// # Cost
//
// Find is a binary search over integers and a few compares (some 0.3 µs in a
// million ids, no allocation); id bytes of a doc are found in constant time.
// Write is linear in tokens and, for graphs, n·log n in vectors; Merge is
// linear in bytes but for graphs, where it is a part of a build. A merge holds
// 12 bytes a document beside what the parts need.
package segment
