// Package describe says of a text what its author did not: the names it holds,
// and whether it is fresh (its language is told by analysis.Detector). Every
// answer follows from a stated rule; nothing is learned, nothing asked of a
// model, so the same text always has the same description.
//
// # Entities
//
// A text's entities are, in the order in which they first stand there, each once
// and as written:
//
//   - Names: two to five words that begin with a capital, a space between each
//     two, of which particles (of, de, von, …) may join two. Words that open
//     sentences (The, In, If, Das, Les, …) are no part of one. So "Acme Cloud",
//     "Bank of England", "João da Silva"; not "The Refund".
//   - Identifiers: words with an underscore or "::" inside, with a capital behind
//     a small letter (getUserName), or of capitals and digits (AR-7, HTTP2).
//   - Quoted names: what stands in quotation marks or backquotes and is one to
//     five words, at most 60 characters, beginning with a capital or a letter of
//     a script without capitals: “Orbit Pro”, 「京都案内」, `Makefile`. In
//     backquotes a word of small letters counts, too.
//
// Lines that are Markdown headings are passed over: their words begin with
// capitals for another reason. The rule is simple and errs: it finds too much in
// titles and nothing in German nouns, which are single words.
//
// # Freshness
//
// See Freshness.
//
// # Concurrency and cost
//
// Everything here may be called from any goroutine. Entities is linear in the
// text, one pass, and stops when it has as many as were wanted.
package describe
