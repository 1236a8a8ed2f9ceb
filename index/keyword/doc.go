// Package keyword turns what a user asks of text into a query of package bm25.
//
//	Clause ─ Build: analyze for each field, expand ─► Query ─┬─ Tree: bm25.Query
//	   ▲                                                     └─ Matcher: which word a term of a text is, for highlights
//	index/querystring, JSON, index.TextQuery
//
// # Promise
//
// Build refuses what is out of its documented range with storage.ErrInvalid or
// ErrTooLarge naming the part, and never panics. A clause whose text holds no
// word (punctuation alone) asks for nothing: it is left out, with a note, rather
// than matching nothing or everything.
//
// # What a clause means
//
// Every clause searches some fields, each with the terms that the field's own
// analyzer makes. Fields joined by sum (the default) are a clause of BM25 each,
// weighted by boost over the sum of boosts; by best, the clause is searched in
// each field alone and a doc has the score of its best field, weighted by boost
// over the greatest boost, plus tie_breaker times the others'; by together, the
// fields are one field (BM25F).
//
// Term, wildcard and regexp are matched against whole index terms: folded
// (lower case, no accents), stemmed where the analyzer stems. Term takes the
// bytes as they are given; the other two are folded first. A fuzzy word is
// looked for as its stem, as it is written, and without its last letter, the
// nearest counting (analysis.Forms). A prefix is compared with stems as well, so
// that runn* finds running, whose term is run, while universit* does not find
// univers.
//
// # Concurrency and cost
//
// A Query is immutable after Build. Build is linear in the text, plus the
// building of automata, which package pattern bounds.
package keyword
