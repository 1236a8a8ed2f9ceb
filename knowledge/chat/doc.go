// Package chat asks a language model one question, over an OpenAI-compatible
// endpoint.
//
// The promise: a request is one call of "/chat/completions" below the base URL
// that the program gave, and nothing goes anywhere else; an answer is text that
// is not blank and not longer than MaxReplyBytes, and everything else is an
// error that tells a service that is down (call.ErrUnavailable) from one that
// says no (call.ErrRefused) and from one that breaks its contract
// (call.ErrReply).
//
//	Request ─ Model.Complete ─ Reply
//	             └─ Client ─ call.Client ─ POST {base}/chat/completions
//
// # Invariants
//
//   - There is no default address. A key comes from an environment variable
//     that the program names, and goes to the base URL's host only.
//   - No reply is streamed, and no reply is read beyond its bound.
//
// # Concurrency and cost
//
// A Client is safe for concurrent use. A request costs its HTTP call; retries,
// time-outs and waiting are those of package call.
package chat
