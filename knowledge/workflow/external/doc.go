// Package external answers Dify's External Knowledge API, so that a Dify
// installation can point at bases and spaces of quarry.
//
//	POST {mounted}/retrieval ─ Handler ─ ParseRequest ─ Retriever ─ records
//	Authorization: Bearer …                 │             ├─ Store: knowledge_id is a base
//	                                        │             └─ Spaces: it is a published space
//	                                        └─ metadata_condition ─ Filter ─ index/filter and a rest
//
// The promise: an answer is {"records": […]} of at most top_k records, best
// first, each with content, a score in [0,1] not below score_threshold, a title
// and metadata that is an object and never null; or {"error_code", "error_msg"}
// with a status that is not 200. What went wrong inside is never told outside.
//
// The API is read from Dify's documentation ("External Knowledge API", 2026).
//
// # Codes
//
//	1001  403  no "Authorization: Bearer <key>"
//	1002  403  the key may not do this
//	2001  404  there is no such base or space
//	4000  400  the request is wrong; 413 when it is too large; 405 for another method
//	5000  500  something failed inside; 503 when a service behind is down or late
//
// # Conditions
//
// A name is a field of quarry ("tags", "created", …), one of Dify's own
// (document_name, upload_date, last_update_date), or what documents say of
// themselves. A list of names means any of them. All 18 operators:
//
//	is, in, =                    equal to the value, or to one of the values
//	is not, not in, ≠            all but those: documents without the field, too
//	start with                   text that starts with the value
//	contains, end with           text with the value in it or at its end; of a list, contains means
//	                             that it holds the value
//	not contains                 all but those
//	>, <, ≥, ≤                   numbers; the value is a number or a text that is one
//	before, after                times, neither with the time itself; RFC 3339, or a date in UTC
//	empty, not empty             no value: missing, null, an empty list or an empty text; or not so
//
// In a list one element that meets the condition is enough. Case counts.
//
// The index answers all of them but contains and end with on text, for which
// items that were found are looked at: up to MaxLooked of them. A question for a
// rare suffix may so give fewer records than there are.
//
// # Concurrency and cost
//
// A Handler is safe for concurrent use. A request costs its body, at most
// MaxBodyBytes, and one retrieval; two at most with conditions of the kind
// above.
package external
