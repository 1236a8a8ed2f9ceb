// Package service embeds texts through services over HTTP: OpenAI and all that
// speak its /v1/embeddings (vLLM, LM Studio, llama.cpp, Ollama), Ollama's own
// interface, Cohere v2, Jina, Voyage and Text Embeddings Inference (TEI).
//
// The promise: vector i belongs to text i, has the right length, is finite and
// of unit length, and stands for the whole text; whatever a service does
// otherwise is an error that names the text. Every text is sent until it was
// answered once, and no longer.
//
//	texts ─ blank? cut? ─ batches (count, bytes) ─ requests (n at once) ─ order, check ─ unit length ─ Result
//	                          ▲        │ 413: in halves    │ 429, 5xx, cut line: this batch again
//	                          └────────┘                   ▼
//	                                                  package call
//
// # Invariants
//
//   - A blank text (IsBlank) is never sent: the call fails with a TextError
//     before the first request.
//   - No request has more texts or bytes than Options say. A text that fills a
//     request alone is an error, not a shorter text.
//   - Nothing is cut in silence. Services are asked to refuse what is longer
//     than their model takes; Options.MaxTextBytes cuts before sending, and the
//     Result tells which texts. A server behind the OpenAI interface cannot be
//     asked: Ollama's cuts in silence there, so use its own interface.
//   - Replies are put in order by the index of their items; by position only
//     when no item has one. Counts, repeated indices, dimensions, null, NaN and
//     infinite components are checked.
//   - The key is read from the environment or a file and shown nowhere; see
//     package call.
//
// # Limits
//
// Defaults, as documented by the providers; a token is at least one byte, so a
// bound in bytes keeps a bound in tokens:
//
//	           texts  bytes     the provider's words
//	openai      2048  300,000   2048 inputs, 300,000 tokens a request
//	ollama        64  1 MiB     none documented; one model run at a time
//	cohere        96  1 MiB     96 texts
//	jina         512  1 MiB     512 items for jina-embeddings-v4, 2048 for v3
//	voyage      1000  120,000   1000 texts, 120,000 tokens for the larger models
//	tei           32  1 MiB     --max-client-batch-size 32, --payload-limit 2 MB
//
// When a service refuses a batch as too large (413), it is sent in halves, and
// later batches of the same call are no larger than what it took. Jina and
// Voyage say 400 instead, which is an error: lower MaxTexts or MaxBytes.
//
// # Concurrency and cost
//
// A Service is safe for concurrent use. Embed holds a request's body and reply
// for each open request (4 by default) and the vectors; its goroutines have ended
// when it returns.
package service
