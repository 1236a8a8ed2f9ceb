// Package mcp gives a data directory to programs that speak the Model Context
// Protocol: seven tools over its collections and knowledge bases.
//
//	search   the best hits for a query, as numbered sources
//	get      one document, or a stretch of one
//	list     what there is, or the documents of one target
//	stats    counts, fields and values to filter by
//	explain  why a document has its place, or none
//	upsert   put documents (only with Options.Write)
//	delete   remove documents by id (only with Options.Write)
//
//	client ─ stdio, or streamable HTTP ─► sdk.Server ─► tool ─► Data ─► registry ─► index, knowledge
//
// # Promise
//
// A result is bounded: text by max_chars, lists by k or limit; what was left out
// is said in the result, with the way to get it. The marker [n] in a text is
// source n of the structured result. Integers keep 64 bits in both directions.
// Without Options.Write the two tools that change something are not there at
// all, and the directory is opened read-only, beside a server that may be at
// work on it.
//
// A fault of the caller (an unknown collection, a filter that does not parse) is
// a result with isError and a text that says what to do; it never ends the
// session, nor does a panic in a tool. Nothing but protocol goes to stdout: logs
// go to the Logger, which the command sends to stderr.
//
// # Freshness
//
// An index that is open read-only shows what was there when it was opened. So
// Reopening opens the directory anew when what it has is older than a few seconds
// and a call comes; the last call out closes the old one. Behind a server (Fixed)
// every call sees the newest state.
//
// # Concurrency and cost
//
// Tools run at the same time, and each call ends by Options.Timeout. A tool costs
// what its search costs, plus the copying of its texts.
package mcp
