// Package pattern makes automata that say which terms of a dictionary match a
// wildcard pattern, a regular expression, or a word with some errors in it.
//
//	expression ─ regexp/syntax ─► program ─┐
//	wildcard ─► expression                 ├─ subsets, within limits ─► DFA ─► Walk over sorted terms
//	word, errors ─► positions and errors ──┘
//
// # Promise
//
// A DFA accepts exactly the terms that the pattern means, whole terms, in valid
// UTF-8. It is built whole before it is used, within MaxStates states and
// maxWork steps; a pattern that would take more is storage.ErrTooLarge, whatever
// the dictionary holds. So no pattern takes more than some tens of milliseconds
// or a few megabytes, and matching a term takes time linear in its bytes.
//
// # Data flow
//
// Transitions are ranges of characters, ascending, only to states from which
// some term can still be accepted. Hence a Walk over terms in order can tell,
// when a term fails, the least string behind it that might match: the caller
// seeks there in its dictionary. States of the bytes shared with the term
// before are kept.
//
// Errors are those of Damerau and Levenshtein in the restricted form: insert,
// delete or replace a character, or swap two neighbors, no place edited twice.
// The states are sets of (place in the word, errors so far) as in Schulz and
// Mihov, "Fast string correction with Levenshtein automata" (2002), reduced by
// subsumption. A DFA of a fuzzy word tells the number of errors, 0 to 2.
//
// # Concurrency
//
// A DFA is immutable; a Walk belongs to one goroutine.
package pattern
