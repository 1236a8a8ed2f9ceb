// Package httpapi is the HTTP API of a data directory: what a request under /v1
// wants, and the answer to it. Who may ask, for how long and how much is package
// serve's.
//
// # Promise
//
// One table of routes registers the handlers and makes the OpenAPI document, and
// the Go types of requests and answers both read them and describe them (package
// shape): the document cannot tell anything that the handlers do not do. What a
// request says is done or refused; nothing in it is passed over.
//
//	route table ─┬─ Routes ─► server: access, limits ─► params, body ─ shape ─► handler ─► registry
//	             └─ OpenAPI                                                        │
//	                                answer + took │ problem+json ◄─────────────────┘
//
// # Answers
//
// A JSON object, with the time each stage took, in milliseconds, as "took" and in
// the Server-Timing header. Failures are application/problem+json (RFC 9457):
//
//	{"type": "urn:quarry:problem:invalid_request", "title", "status", "detail",
//	 "code", "request_id", "field"?, "limit"?, "durable"?}
//
// code is stable, and one of Codes; detail is for people. "field" names what is
// wrong in a request, "limit" tells the limit that was exceeded, and "durable"
// what an import had stored for good when it failed.
//
// # Choices
//
//   - Null stands for nothing: a key that has no value is left out.
//   - Writes are acknowledged when they are durable, and each is atomic: one PUT
//     of many documents, one deletion. A bulk import is atomic by batches, and
//     its answer tells the last line that is durable.
//   - A request that ran into its deadline (504) may have been carried out, whole.
//   - Collections made with a model embed documents and queries by themselves;
//     mode "auto" then searches by words and by meaning, as quarry search does.
//   - Requests on spaces act as the account that the key is bound to; an admin
//     key may name any account, or none for the operator. The catalogue itself
//     is package manage.
//   - /v1/retrieval is Dify's External Knowledge API, with its errors (package
//     dify).
//   - Paths in error messages are relative to the data directory.
//
// # Concurrency and cost
//
// An API is immutable. Beside the work of the registry a request costs one copy
// of its body and of its answer.
package httpapi
