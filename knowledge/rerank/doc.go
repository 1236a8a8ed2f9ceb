// Package rerank puts passages in a better order for a query: through services
// (Cohere, Jina, Voyage, TEI), by late interaction over a local encoder's token
// vectors, or by any model that scores pairs.
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
// A score lies in [0,1] and depends on the query and its passage alone, unless
// a Reranker is fused (Fuse). Raw is what the model gave. Services that answer
// with logits go through a sigmoid: TEI is asked for logits, for the others
// Scale says so. Whether values are logits is declared, never guessed from
// them: a guess would make a score depend on the other passages.
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
//
// # What to choose, measured
//
// Late interaction (mean over query tokens of the best cosine, 100 queries, top
// 30 of the hybrid), nDCG@10 before, pure, and fused with the first order:
//
//	              NFCorpus              SciFact               Cranfield
//	bge-small     0.373  0.392  0.390   0.706  0.723  0.728   0.472  0.460  0.472
//	e5-small-v2   0.365  0.388  0.378   0.708  0.718  0.717   0.456  0.439  0.454
//
// Pure loses on Cranfield what it wins elsewhere; fused never loses more than
// 0.002. So fuse it.
//
// # Concurrency and cost
//
// Rerankers are safe for concurrent use. HTTP sends one request for as many
// passages as the service takes. LateInteraction costs the encoding of the
// passages and q·p·dim multiplications for q and p tokens.
package rerank
