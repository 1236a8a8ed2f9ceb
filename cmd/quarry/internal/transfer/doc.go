// Package transfer copies the documents of a collection to another place, here or
// on a cluster, and compares two collections.
//
//	Documents of one snapshot, by id ──batches──► Apply ──► Saved(last id)
//	two collections, by id ──► merged walk ──► counts, checksums, first differences
//
// # Resuming
//
// Both sides give documents in ascending order of id, so how far a copy is, is one
// id. It is saved after the batch it ends is durable; a copy that was cut off goes
// on behind it, and applies at most one batch again, which changes nothing. What a
// live source took below that id meanwhile is not copied: Compare finds it.
//
// # What equal means
//
// A document is its id, texts, vectors and metadata with their types. Its hash does
// not depend on the order of its fields, the checksum of a collection, the sum of its
// documents' hashes in two lanes of 64 bits, not on the order of its documents.
// Vectors under cosine are brought to unit length by each engine they enter, which
// may turn the last bit of one in thousands: such a document counts as equal where
// no component differs by more than Tolerance, and gives the source's hash.
//
// # Cost
//
// Memory is two batches. A comparison reads both sides once.
package transfer
