// Package index is the engine: one directory that takes documents (text,
// vectors, typed metadata) in atomic batches and answers keyword, vector,
// hybrid and filtered queries on one consistent snapshot. It survives crashes
// at any moment: what Apply acknowledged is there, and of no batch a part.
//
//	ix, err := index.Open(dir, &index.Options{Schema: …})
//	b := index.NewBatch()
//	b.Put(index.Document{ID: "a", Text: …, Vectors: …, Meta: …})
//	err = ix.Apply(ctx, b)
//	res, err := ix.Search(ctx, index.Query{…})
//	err = ix.Close()
//
// # Life of a write
//
//	Apply ─► check all documents ─► analyze, build a memory segment      side by side
//	      ─► under the lock: tombstones of what it replaces, WAL record, publish
//	      ─► wait for the disk (one fsync for all who wait)
//	memory segments ─ merged in tiers of 8 ─► flush ─► file segment ─ merged in tiers of 4 ─►
//
// The mutable part is a short list of small immutable segments in memory, in
// the format of the files. So readers know one kind of segment, a snapshot is
// a list of them, and text scores the same wherever it lies.
//
// A flush starts a new log, merges the memory segments into a file, syncs it,
// opens it again, compares its checksums, and only then names it in a new
// manifest; the older logs go. A merge of files does the same without the log.
// Tombstones that arrive meanwhile are carried over before the result is
// published. A batch larger than Options.MutableBytes goes straight to a file.
//
// # Life of a query
//
// Search takes a snapshot, compiles the filter, counts its live matches in
// each segment, plans each leg, runs the legs on the same views, fuses, and
// copies the hits out. Nothing of a mapped file leaves the engine.
//
// # Invariants
//
//   - An id is live in at most one segment of a snapshot.
//   - Views, states and snapshots never change once published; tombstones are
//     copied on write.
//   - The manifest names only files that were synced and checked. Its segments
//     with their tombstones, and the records of the logs from its WALFirst on,
//     applied in order, are the index: records may be applied twice, since they
//     say what became of which id.
//   - Before a manifest is written the log holds every visible record, so no
//     manifest keeps the tombstones of a batch whose documents a crash takes.
//   - A record holds ids, typed values and the types its batch brought, never a
//     condition: replaying it asks nothing of the index.
//   - After a failed fsync nothing is written any more until the index is
//     opened again (ErrReadOnly). A full disk fails the call, and only that.
//
// # Concurrency
//
// Every method of Index and Snapshot may be called from any goroutine. Readers
// never wait for writers: a snapshot costs a mutex held for nanoseconds. Locks
// are taken in this order: flushMu, mergeMu, memoryMu, commitMu, mu, pub. Close
// waits for calls in flight; snapshots outlive it. Files a merge has replaced
// are unmapped and removed when the last snapshot that sees them is closed.
// One process may write, any number may read beside it (Options.ReadOnly).
//
// # Choices a user sees
//
//   - Durability: a batch is visible a moment before it is durable. If its
//     Apply then fails, it may stay visible, and is there whole or not at all
//     after a restart.
//   - Statistics of keyword scores count tombstoned documents until a merge
//     drops them, as in Lucene; Merge(ctx, 1) drops all.
//   - Vectors under cosine are kept, and given back, in unit length.
//   - Metadata that is not declared gets the type it first shows. Null and empty
//     lists show none; the field takes its type from the first value.
//   - Times are kept in microseconds and given back in UTC.
//
// # Limits
//
//	document id                 1–512 bytes of UTF-8
//	field name                  1–128 bytes of UTF-8, no control characters
//	text fields, vector fields  1,024 each
//	metadata fields             65,536
//	document in the WAL         64 MiB
//	batch in the WAL            1 GiB
//	vector                      1–4096 components, finite
//	keyword, list of values     32 KiB, 65,536 values
//	documents in a segment      2³¹−1
//
// One past a limit is ErrTooLarge or ErrInvalid, before anything is written.
package index
