// Package knowledge turns files into cited evidence: bases of documents, cut
// into chunks, searched by meaning, by words or by both, many bases at once.
//
// The promise: what a search returns is there in the source, at the offsets and
// on the page it says, in the version whose hash it names; a document is found
// in one version or not at all; and a failure is said, never hidden in a shorter
// list.
//
//	s, err := knowledge.Open(dir, &knowledge.Options{Embedder: e})
//	info, err := s.Create(ctx, "docs", nil)
//	report, err := s.Ingest(ctx, knowledge.IngestRequest{Base: "docs", Folders: …})
//	res, err := s.Search(ctx, knowledge.Request{Bases: …, Query: …, Mode: knowledge.Hybrid})
//	text, err := knowledge.AssembleContext(res.Items, knowledge.ContextOptions{MaxTokens: 3000})
//
// # Life of a document
//
//	bytes ─ SHA-256: as before? ─► parse ─► chunk ─► embed, batches across documents
//	   └──────────► blobs, synced ─────────────────────────┴─► one index batch: the old
//	                                                           version out, the new one in
//
// A document's id is its name: its path in the folder, or what the caller says.
// What decides about a new version is the hash of the bytes and a fingerprint of
// everything that cuts and embeds them; time and size of a file decide nothing.
// Its version number grows with its content. Source bytes are kept by hash, those
// of the last versions too (Options.KeepVersions), so a citation can be checked
// when the document has moved on; deleting a document removes them all.
//
// # Life of a search
//
//	query ─ embedded once a model ─► every base: keyword leg, vector leg ─ fused
//	      ─► merged ─► repeats dropped, filled up ─► rerank ─► threshold ─► top k
//
// Base lists are merged by score where the scores compare: one model and metric,
// or keywords only. Where they do not, they are merged by rank, 61/(60+rank), and
// Response.Merge says so. Every base has its own snapshot, and is read once for
// each item returned.
//
// Scores are those of package index, in [0,1]; a cosine is rescaled by the floor
// its model declares. They depend neither on TopK nor on the other hits, except
// that ranks do in a hybrid search, whose scores also depend on Depth; the default
// Depth grows with TopK from 13 on.
//
// # What is indexed
//
// Keyword and vector legs see one text: title and section path, then the content.
// A chunk is so found by the words of its headings, while Item.Content stays what
// the document says. An automatic base has one text field for each analyzer, each
// searched with its own statistics; a chunk is in one of them.
//
// # What was measured
//
// The dify-docs pages and their known-item queries, nDCG@10 by page (English
// alone, encoder multilingual-e5-small; and three languages as three bases,
// searched together, by keyword):
//
//	                                        keyword  vector  hybrid   three bases, keyword
//	structure, 300 tokens (DefaultChunk)     .780     .800    .838        .805
//	count, 300 tokens, overlap 50            .804     .790    .830        .824
//	structure, without headings                                           .768
//	structure, analyzer standard                                          .802
//
// So headings are indexed, and structure is the default for what hybrid gains.
//
// # Invariants
//
//   - A base is there exactly as long as its catalog file (format.md).
//   - The model of a base is fixed before its first chunk is written; another is
//     ErrModel, and Rebuild the way out.
//   - Blobs are durable before the version that names them, and removed after
//     the last version that does. Store.Prune removes what a crash leaves.
//   - content == text[start:end], and == source[source_start:source_end] where
//     those are given; Store.Check proves it for every chunk.
//   - A folder's files are read through os.Root: nothing outside is.
//
// # Concurrency
//
// All methods may be called from any goroutine. One ingest, delete or rebuild of
// a base runs at a time; searches never wait for them. Locks are taken in the
// order base.write, Store.mu, base.mu. Progress is called from the goroutine that
// called Ingest.
//
// # Cost
//
// Search: two legs of Depth hits a base, Options.Threads bases at a time, and a
// document read an item. Ingest: linear in the bytes; the encoder is what bounds
// it (Report.EmbedSeconds against Seconds). Memory of an ingest: 64 sources or
// 128 MiB of them on the way, a few times over.
package knowledge
