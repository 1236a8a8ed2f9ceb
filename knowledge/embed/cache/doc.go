// Package cache keeps embeddings in a directory, so that unchanged text costs
// nothing when it is imported again.
//
// The promise: a cached vector is, bit for bit, what the embedder returned for
// the same text, kind and identity; and nothing that happens to the cache's
// files is ever an error of an Embed call. What is damaged is dropped, with a
// note, and embedded again.
//
//	Embed(texts) ─ key ─┬─ hit: record, checksum verified ──────────┬─ Result, in order
//	                    └─ miss: each text once, in groups ─ inner ─┘
//	                                                          └─ append to the newest log
//
// format.md draws the bytes.
//
// # Invariants
//
//   - The key is 128 bits of SHA-256 over the identity (Floor aside), the kind
//     and the text's bytes: a change of model, revision or prefix misses.
//   - Files are only appended to, and only by the one Cache that holds the
//     lock; a second one, in this process or another, reads what it found and
//     writes nothing.
//   - Every record has a checksum, verified at Open and again at each read. A
//     crash leaves a torn record at the end of a log, which is cut off in
//     memory; a log is never appended to after it was reopened.
//   - The files take at most Options.MaxBytes. Beyond, the oldest log goes;
//     what was hit since it was written moves to the newest, up to half of a full
//     log (a second chance, as in the CLOCK rule of page replacement).
//   - Nothing is synced but a full log and Close: a cache may forget.
//
// # Concurrency and cost
//
// A Cache is safe for concurrent use; one mutex guards it, held for one read or
// append. Two calls that miss the same text at the same time both embed it.
// Open reads all files once. An entry takes some 100 bytes of memory, its vector
// stays on disk.
package cache
