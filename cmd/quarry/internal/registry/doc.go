// Package registry is one data directory of a server: which collections,
// snapshots, knowledge bases and models are in it, and who is using them.
//
// # Promise
//
// A name cannot leave the directory. A collection is there whole or not at all:
// making, deleting and restoring one are each a single rename, and what a crash
// leaves of them is put right at the next Open. Nobody's index is closed or
// replaced while a handle on it is out. Vectors of two models never meet in one
// collection.
//
//	DATA/
//	  LOCK                               held by the one Registry that may write
//	  collections/NAME/                  an index, as every quarry command knows it
//	  collections/NAME.embed.json        the model of its vectors (models.Record)
//	  collections/NAME.embeddings/       embeddings already made
//	  snapshots/COLLECTION/NAME/         an index, hard-linked; NAME.embed.json and
//	                                     NAME.snapshot.json beside it
//	  knowledge/, knowledge.embeddings/  a knowledge.Store and its embeddings
//	  tmp/                               what is being made; emptied at Open
//	  trash/                             what is being removed; see below
//
// # Handles
//
//	Get ─ open at first use ─► Collection ─ work ─► Release
//	Delete, Restore… ─ no new handles ─ wait for those out ─ close ─ rename
//
// A Get during a deletion or a restore waits for its end. Whoever waits does so
// until its context is done; a deletion that finds handles out by then is
// ErrBusy, and nothing has happened.
//
// # A cluster
//
// With Options.Cluster new collections, and the indexes of new knowledge bases, are
// made on a cluster, and a collection that has no directory is looked for there.
// The record of its model and the cache of its embeddings stay in the directory,
// as do catalogs and sources of bases. What is done by files, as snapshots, is
// refused for them (Collection.Local); spaces are published from bases in the
// directory only.
//
// # Replacing a collection
//
// The new index stands in tmp, verified byte for byte, before the old one is
// touched. Then: old record and old index to trash/NAME.old…, new record, new
// index to their place, trash emptied. Open finds trash/NAME.old after a crash:
// with an index in place the replacement was complete, and the old one goes;
// without one, the old one comes back.
//
// # Models
//
// A caller names a model by an alias that the operator gave (Options.Models), so
// that no request can make the program read a file or call an address. A model
// is opened once and shared by all collections and bases that use it.
//
// # Concurrency and cost
//
// All methods may be called from any goroutine. Get of an open collection costs
// a mutex and a map access. Everything that takes long waits outside the mutex.
package registry
