// Package aisearch answers one question about texts that no base holds: they are
// cut into chunks, each is compared with the query by the cosine of their
// embeddings, and the best come back with their places.
//
//	passages, err := aisearch.Search(ctx, aisearch.Request{Query: q, Input: texts}, embedder, reranker)
//
// # Data flow
//
//	texts ─ chunk ─► chunks, blank ones dropped ─┐
//	query ──────────────────────────────────────┴─ embed ─► cosines ─► best k ─ rerank? ─► passages
//
// # Invariants
//
//   - Text == document[Start:End] in the offset unit of the request.
//   - Equal scores come in the order of document, then chunk. Cosines are sums in
//     one fixed order (internal/simd), so the answer is the same on every
//     processor; scores do not depend on the other chunks.
//   - More than 50,000 searchable chunks are refused as soon as there is one too
//     many: what is read and embedded is bounded.
//   - One failure fails the call; the result is never nil without an error.
//
// # Concurrency
//
// Search keeps nothing between calls. It may be called from any goroutine, if
// the embedder and the reranker may.
//
// # Cost
//
// Chunking, linear in the text; the embedder; one pass over the vectors. Beside
// the vectors it holds some 100 bytes a chunk: texts are not copied.
package aisearch
