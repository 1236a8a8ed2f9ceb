// Package rerank puts passages in a better order for a query: through services
// (Cohere, Jina, Voyage, TEI), by a local cross-encoder, by late interaction over
// a local encoder's token vectors, or by any model that scores pairs.
//
// The promise: a reranker changes an order and adds scores; it loses no passage
// and invents none. When it fails, the first order is still there, within the
// deadline, and says that it is the first order.
//
//	passages in their first order ─ Reranker ─ []Scored, checked ─ Apply ─ scored, best first
//	                                   │ fails, late, nonsense               then the rest as it was
//	                                   └─ Keep: the first order, flagged; Fail: an error
//
// # Scores
//
// A score lies in [0,1] and depends on the query and its passage alone; that of
// a fused Reranker (Fuse) also on the passage's place in the first order. Raw is
// what the model gave. Services that answer with logits go through a sigmoid: TEI
// is asked for logits, for the others Scale says so. Whether values are logits is
// declared, never guessed from them: a guess would make a score depend on the
// other passages.
//
// # Invariants
//
//   - Indices are unique and in range, scores finite and in [0,1]; else the
//     whole answer is an error matching call.ErrReply.
//   - Order: score descending, then raw descending, then the first order. No
//     epsilon.
//   - Fewer scored passages than asked for are allowed; the rest keeps its
//     order behind them.
//   - A blank query is an error matching storage.ErrInvalid. Blank passages are
//     not sent, and stay unscored.
//   - A local model tells which passages it could not read to their end
//     (Scored.Truncated). Services do not.
//
// # What to choose, measured
//
// Late interaction needs no further model. nDCG@10 of hybrid search before, of
// its first 20 hits by late interaction alone, and fused with the first order
// (LateInteraction's default). Cranfield: all 225 queries; NFCorpus and SciFact:
// the first 100, the weight having been chosen on these:
//
//	                        first   alone   fused
//	e5small     Cranfield   0.455   0.445   0.462
//	            NFCorpus    0.391   0.398   0.405
//	            SciFact     0.748   0.770   0.766
//	bge-small   Cranfield   0.484   0.472   0.491
//	            NFCorpus    0.408   0.418   0.420
//	            SciFact     0.774   0.789   0.794
//
// So fuse it. On queries the weight was not chosen on, e5small gained as well:
// NFCorpus (the other 223) 0.320 → 0.327, SciFact (the next 100) 0.692 → 0.703.
// Of what else was tried, nothing gained more on all of them: vectors less their
// mean, weights of query tokens by their rarity, leaving out stop words, vectors
// of an earlier layer (half the time, but worse than the first order on
// Cranfield), reciprocal rank fusion, 30 hits or 10.
//
// A cross-encoder of that size costs the same. No registry of packages has one:
// CrossEncoder is proved equal to PyTorch on random weights, and what it gains
// was not measured here.
//
// # Concurrency and cost
//
// Rerankers are safe for concurrent use. HTTP sends one request for as many
// passages as the service takes. LateInteraction and CrossEncoder cost the
// encoding of the passages, for each query: some 40 ms a passage of 250 tokens and
// a core with 12 layers of 384 dimensions, on all cores.
package rerank
