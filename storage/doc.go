// Package storage keeps an index's bytes alive: the file system seam, the
// write-ahead log, the manifest, the segment container, stored documents. It
// knows no terms and no vectors.
//
// The promise: what Commit and WriteManifest have acknowledged survives a
// power loss, and damage is an error with file and offset, never a panic, an
// unbounded allocation or a wrong answer.
//
//	LOCK                          its lock is held by the writer
//	wal-N.log                     records since the last flush ──┐ replay
//	seg-N.qry                     immutable segments ◄───────────┤ flush, merge
//	seg-N.G.del                   tombstones of segment N        │
//	MANIFEST-G                    the whole state: names all of the above
//
// format.md draws the bytes of each.
//
// # Invariants
//
//   - Nothing is overwritten, and nothing is written through a map. A file
//     gets its final name once, and only the newest manifest gives it meaning.
//   - A manifest is synced before it has its name, and the directory before
//     and after the rename: whatever a readable manifest names is durable.
//   - A log's header is synced before its first record and tells where the
//     log before ends. Every frame tells how much of its log had been synced,
//     and a seal does at the end of a log that was closed. So a torn tail and
//     damage can be told apart (see Replay), but for what a killed writer
//     logged last. The length of the file tells nothing: zeros may be laid
//     ahead of the records.
//   - A failed fsync is never retried: the kernel may have dropped the pages
//     and report success the next time. Errors after which the state of the
//     disk is unknown match ErrReadOnly; a full disk does not.
//   - Lengths are compared with the bytes there are before they are used.
//   - Salvage (SalvageSegment, Damage, SalvageLogs) gives out what has its
//     checksum and tells of the rest; nothing else reads past damage.
//
// # Concurrency
//
// OS, MemFS, Segment, Docs and WAL may be used by several goroutines; writers
// (SegmentWriter, DocWriter), DocCursor and File.Write by one. Goroutines
// that read mapped bytes run under Guard, which turns the fault of a cut file
// or a broken device into ErrIO. Tried on linux/amd64: a map cut under its
// reader is recovered in any goroutine.
//
// # Costs
//
// OpenSegment and OpenDocs read header, footer and TOC, not the data.
// Docs.Get decodes one block of 8 KiB, or none when the last one serves; a
// DocCursor decodes each block once. WAL.Append copies the record; Commit
// waits for one fsync, shared with all that wait. Verify reads everything.
//
// # Choices, measured
//
// Stored documents use zstd's fastest level without a trained dictionary. On
// four staged collections (documents of 0.7–1.2 KiB of JSON, 16 KiB blocks,
// klauspost/compress 1.20.4, two shared cores):
//
//	                         nfcorpus  dify-docs  cranfield  tldr    write     read
//	fastest                  2.92      3.72       2.82       3.83    1         1
//	default                  3.02      3.88       2.93       3.99    0.5–1.1   0.6–1.1
//	fastest, dictionary 16K  3.24      4.04       3.20       3.95    0.5–1.1   0.4–0.9
//
// (ratios of size; speed relative to the first row of each collection.) The
// default level saves 3–4 % and writes at about two thirds of the speed. A
// dictionary saves 3–13 %, but training on 1 MiB takes 0.2–0.5 s a segment,
// as long as compressing 30 MB or more, and every decoder needs its copy. Stored documents
// are a part of an index beside vectors, codes and postings, so neither pays.
//
// Blocks are of 8 KiB: a search that returns ten documents decodes ten blocks.
// Ratio of size and time to decode a block, zstd fastest and S2 (better) of the
// same module:
//
//	               tldr              dify-docs         nfcorpus
//	zstd 16 KiB    4.20  17–58 us    3.82  28–43 us    2.92  21 us
//	zstd 8 KiB     3.79  15          3.35  12          2.73  12
//	zstd 4 KiB     3.28   7          2.86   7          2.46  12
//	S2 16 KiB      3.41  10          3.20  10          2.18  15
//	S2 8 KiB       3.08   5          2.83   5          1.98   7
//
// With 16 writers of single documents (BenchmarkSixteenWriters) SyncAlways
// reaches 0.76 of what SyncEvery does on an idle machine. A sync costs 70 µs of
// CPU, and for most of the rest of its time one of the two cores, until the
// scheduler takes it back from the call; half of the writers prepare while the
// others wait. Medians of runs in turns, at real-time priority on a machine full
// of other work:
//
//	                                    documents/s   of SyncEvery   CPU a document
//	append and fsync                    17,000        0.45           71 µs
//	over zeros laid ahead               22,700        0.62           66
//	and a yield while the disk writes   26,600        0.70           60
//	SyncEvery                           38,000                       47
//
// The zeros spare a sync the write of the file's new length: 110 instead of 180
// µs. The yield lets the others run while the disk takes the bytes, so that the
// sync, of which the flush of the disk's cache is left, holds its core for 60 µs
// instead of 110. Goroutines that search without pause on every core would make
// each yield wait for their time slices: a yield of a millisecond is followed by
// 64 syncs without one, and 16 writers beside 4 such searches do as many
// documents as before.
//
// Tried and left out: up to three syncs at once, each on a handle of its own,
// twice as fast on a machine full of other work, and 0.6 times where the writers
// keep both cores to themselves; kernel AIO, no faster; fdatasync, and a write
// with RWF_DSYNC instead of write and sync, no faster; the yield without zeros,
// where the file's length is what takes time, 0.53; a yield before the write
// too, for groups of 7 instead of 6, 5 % less CPU and no faster; the wait for the
// disk taken over by the next that comes to commit, groups of 4 and 0.5.
//
// Letting the one who syncs wait for the writers that the sync before has set
// free, up to half of a sync's time, made larger groups (10 documents a sync
// instead of 8 with 16 writers) and was 5–20 % slower with syncs of half a
// millisecond: it is left out.
//
// The frame checksum of the log is the whole xxhash64: with 8 bytes of 24, a
// frame found by chance in damaged bytes, which would turn a torn tail into
// an error, needs 2^64 tries rather than 2^32, for 4 bytes a record.
package storage
