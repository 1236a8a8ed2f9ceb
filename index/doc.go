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
// published. The checksums of its inputs come first, so that damage never gets
// a new one. A batch larger than Options.MutableBytes goes straight to a file.
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
// # Damage
//
// Manifest, schema, tombstones, log and stored documents are compared with
// their checksums whenever they are read, the rest of a segment by a merge, a
// Backup, Check and, with Options.Verify, by Open: then nothing damaged is ever
// served. An error of damaged bytes matches ErrCorrupt, that of a file cut or
// unreadable under a query ErrIO; both name file and offset, and only the query
// that meets them fails. Of what a killed writer logged last, whose sync nothing
// written later attests, damage cannot be told from the leavings of a crash;
// Close attests it. Repair saves what is readable; Restore goes back to a backup.
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
//   - Weights of sparse vectors are kept, and given back, in half precision.
//   - Metadata that is not declared gets the type it first shows. Null and empty
//     lists show none; the field takes its type from the first value.
//   - Times are kept in microseconds and given back in UTC.
//
// # Limits
//
//	document id                 512 bytes of UTF-8, at least 1
//	field name                  128 bytes of UTF-8, at least 1, no control characters
//	text fields                 1,024, and as many vector fields and sparse fields
//	metadata fields             65,536
//	document in the WAL         67,108,864 bytes
//	batch in the WAL            1,073,741,824 bytes
//	vector                      4,096 finite components, at least 1
//	sparse vector               65,536 terms, weights above 0 up to 65,504
//	keyword value               32,768 bytes
//	list of values              65,536
//	documents in a segment      2,147,483,647
//	segments                    Options.MaxSegments, default 32; writers wait above
//	hits of a query             10,000 (K)
//	offset and hits together    100,000
//	candidates of a leg         10,000 (Depth)
//	width of a graph walk       10,000 (Ef)
//	query text                  1,048,576 bytes
//	terms of a sparse query     4,096
//	filter nesting              64
//	filter nodes and values     65,536
//	clauses of a query          4,096, 12 deep
//	automata of a query         96: one a pattern, up to 3 a fuzzy word
//	terms of a query            16,384 after expansion
//	slop of a phrase            1,000
//	memory of a query           Options.QueryBytes, default 1 GiB
//	facets                      64 fields, 10,000 values each
//
// One past a limit is ErrTooLarge or ErrInvalid, before anything is written.
//
// On a 32-bit machine all files that are open are mapped into the two or three
// GiB of addresses of the process: an index beyond them is ErrIO, at Open or as
// the error of the merge that would have made it, which then leaves all as it
// was. The formats and the answers are the same.
package index
