// Package catalog answers who may use which published space, with which
// profile, in which workflow. It is one file of go.etcd.io/bbolt.
//
// The promise: what a call has written is durable and complete when it
// returns, or it is not there at all; a permission, binding or space that was
// taken away serves no run that asks afterwards; and a damaged file is an error
// with its name, never a panic or a wrong answer.
//
//	c, err := catalog.Open(path, nil)
//	_, err = c.CreateSpace("ann", catalog.Space{ID: "docs", Workspace: "acme", Base: "docs"})
//	_, err = c.PublishSpace("ann", "docs", 1, generation, model)
//	snap, err := c.Publish("ann", "support", draft, []string{"docs"})
//	granted, err := c.Authorize(catalog.Run{Kind: catalog.Published, Workflow: "support", Spaces: []string{"docs"}})
//
// # What there is
//
//	workspace ─┬─ account: grants use < edit < publish < admin, on a space or on all
//	           ├─ space: draft profile ──PublishSpace──► publication: profile, generation, model
//	           └─ workflow: draft ──Publish──► snapshot, and bindings to exactly its spaces
//
//	Authorize(run) ─ a draft run: the account's grants       ─┐
//	               └ a published run: snapshot and bindings  ─┴─► publications, or the first space's error
//
// The acting account is the first argument of most calls. The empty account is
// the program itself, which may do everything but bind and publish workflows:
// there is always somebody who answers for a binding. A program that passes a
// name on from outside must not pass an empty one.
//
// A draft run records its use (BindDraft), but only a publication lets published
// runs use a space. So a binding that was revoked serves published runs again
// after the next publication and not before, whatever draft runs do meanwhile.
//
// # Life of a write
//
//	check against memory ─► encode, decode again ─► one bbolt transaction, with the audit entry
//	                                                 └► fsync, meta page, fsync ─► memory, epoch
//
// All state but definitions and audit entries is in memory, as decoded records
// that are never changed. Reads see it under a lock held for microseconds.
//
// # Invariants
//
//   - A write is one transaction with its audit entry; a write that changes
//     nothing is none. Epoch counts them. bbolt's NoSync is not used.
//   - While no write runs, memory is what opening the file would give (Check).
//   - The audit entries kept are the newest MaxAudit, numbered without gaps.
//   - Account, space and workflow of a grant or binding are of one workspace.
//   - An active binding by a publication is to a space of the current snapshot;
//     there are at most MaxSpaces of each origin.
//   - Every value carries a checksum of its bucket, key and bytes, and the format
//     record the sum of all of them: a value that is damaged, missing, or back
//     from an old page is found.
//   - An open walks all pages before bbolt may write to the file, because bbolt
//     trusts them (internal/pages).
//
// # Failures
//
// Refusals are *Error with a stable Code. When a write fails for a reason of the
// disk's, nobody knows what the file holds: all later writes are
// storage.ErrReadOnly until it is opened again, and reads go on with the state
// before. A panic or a memory fault inside bbolt becomes storage.ErrCorrupt, and
// the file is not touched any more; what is in memory is still answered. What
// nobody can catch is a program that writes into the file while it is open and
// makes its pages a circle: bbolt then recurses until the process dies.
//
// One thing bbolt's format cannot tell: a meta page damaged later looks like
// one that was being written when the power failed, and the state before the
// last write is what opens. Epoch shows it.
//
// # Concurrency
//
// All methods may be called from any goroutine. Writes are done one by one, and
// calls that read the file (Workflow, Snapshot, Audit, Check) wait for them; all
// others never wait for the disk.
//
// A file is open in one handle for writing, or in any number for reading: bbolt
// holds an exclusive or a shared lock (flock, LockFileEx) as long as it is open.
// So a reader does not open beside a writer; it gets storage.ErrLocked after
// Options.Timeout, as a second writer does. The lock is the operating system's
// and ends with the process.
//
// # Costs
//
// Open reads and checks the whole file. A write is two fsyncs. Memory is a few
// hundred bytes a record; definitions and audit entries stay on disk. Measured
// (bench_test.go, linux/amd64, two cores under a load of 25, ext4 on a virtual
// disk; for Authorize the processor's time, since its wall time is the load's):
//
//	Authorize, 1 space; 10 spaces                  0.8 µs; 3.2 µs, 1 allocation
//	the same, 2,000 goroutines, while spaces are
//	published and bindings revoked                 5.7 µs, the writers' part included
//	Publish, 10 bindings, with its fsyncs          5 to 7 ms
//	Open, 8 MB: 10,000 audit entries, 1,000 spaces 24 ms
package catalog
