// Package call makes one JSON request to a model service over HTTP and says,
// when that fails, whether a later try may succeed. Package service (embedders)
// and package rerank stand on it.
//
// The promise: a call ends within the context's deadline, repeats only what may
// succeed, waits as long as the service asks, and shows no secret.
//
//	Post(path, body) ─ gate ─ slot ─ try ─┬─ 2xx: reply, read to a limit
//	       ▲          (429)   (n at once) ├─ 408 425 429 5xx, cut line, no answer: wait, again
//	       └───────── backoff, jitter ────┘─ anything else: an Error
//
// # Invariants
//
//   - The key comes from an environment variable or a file, is sent in one
//     header to one host, and is replaced wherever a message repeats it. It is
//     not sent in clear text except to this machine, unless Options.PlainKey.
//   - Redirects to another host, to another scheme, or of a kind that would
//     turn the POST into a GET are refused.
//   - A wait is at least what Retry-After says. A wait that would pass the
//     deadline or Options.MaxWait is not begun: the call fails at once and
//     leaves the rest of the time to the caller.
//   - No reply is read past its limit; of an error's body 64 KiB are read and a
//     few hundred bytes shown.
//
// # Errors
//
// Every error is an *Error and matches, with errors.Is, exactly one of
// ErrUnavailable (a later try may succeed), ErrRefused (it will not),
// ErrReply (the service broke its contract), or, when the caller's context
// ended the call, context.Canceled or context.DeadlineExceeded. A rate limit
// matches ErrRateLimited beside ErrUnavailable, and a request that is too large
// storage.ErrTooLarge beside ErrRefused.
//
// # Concurrency and cost
//
// A Client is safe for concurrent use and holds at most Options.Concurrent
// requests open. When the service limits its rate, all calls of the Client wait.
// A call holds its body and its reply in memory once.
package call
