// Package collection is what a program asks of a set of documents, wherever
// they are: in a directory of this machine (package index) or on a cluster
// (package cluster).
//
//	            ┌─ Local{*index.Index}   a directory: snapshots, atomic batches
//	Collection ─┤
//	            └─ *cluster.Collection   Weaviate nodes: replicas, no snapshots
//
// # Promise
//
// It has the calls that package knowledge, the server and the command line make,
// and no more. Documents, batches, queries and answers are those of package
// index on both sides. What a side cannot do it refuses with an error that names
// it; package collection/conformance holds both to the same tests.
//
// # What a cluster does not promise
//
//   - A batch is not atomic: a search may see half of it, and a failed Apply may
//     have carried out a part. It can be applied again, which ends as once.
//   - A Snapshot is a view of the collection as it is at each call.
//   - Keyword ranks differ (package cluster says how); filters, ids, counts,
//     facets and documents do not.
//
// # Concurrency and cost
//
// All methods may be called from any goroutine. The interface is called once a
// search or batch, never a document or posting.
package collection
