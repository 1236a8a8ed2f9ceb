// Package filter answers, exactly, which docs of a segment have the metadata
// that a filter asks for, and how often each value occurs among them.
//
//	Go value ─ Normalize ─► Value ─ Builder.Add, Write ─► sections ─ Open ─► Segment
//	                          │                              ▲                  │ Eval
//	              AppendValue │ DecodeValue                  └──── Merge ◄──────┤ Facet
//	                          ▼                                                 ▼
//	                 WAL, stored documents              roaring bitmap of docs, counts
//
//	text ─ Parse ──────┐
//	JSON ─ ParseJSON ──┼─► Filter ─ Compile(schema) ─► Compiled ─ Eval(segment, live) ─► docs
//	Eq, In, And, … ────┘
//
// # What a field is
//
// A field has one Type: keyword, int64, float64, bool or time. A document
// holds in it nothing at all (missing), null, one value, or a list of values,
// perhaps empty; missing, null and the empty list are three things. A segment
// keeps every field as a column of ords into its sorted distinct values, and
// the same inverted: the docs of each value, as a bitmap where that is smaller
// than a list. format.md draws the bytes.
//
// # What a filter means (semantics S0.7)
//
//   - Equality, in, range, prefix and contains never match a missing or null
//     field or an empty list; on a list they match when any one element does.
//   - Not is the complement among the live docs and so does match those. "!="
//     and "not in" are that complement, nothing else.
//   - Exists is a value or a list, empty or not; IsNull and IsEmpty ask for
//     the other two; missing is Not(Or(Exists, IsNull)).
//   - In without values matches nothing, And() all, Or() none. ContainsAll
//     without values, a range without bounds, comparison with null, an unknown
//     field and a value of the wrong type are errors: a filter never widens
//     and never turns silently into nothing.
//   - Numbers are compared as real numbers, never through a rounded copy:
//     price ≥ 1.5 on integers is price ≥ 2, and 2^53+1 equals no float64. So
//     42 and 42.0 are equal whatever the field's type.
//   - Times are instants, in whole microseconds rounded down, in documents and
//     in filters alike. Keywords are compared and ordered by bytes, case
//     included; so are the names of fields.
//
// # Invariants
//
//   - Every number, bool and time is an int64 key in the order of its type;
//     every comparison is a set of disjoint spans of keys or keywords. Two
//     conditions that mean the same compile to the same spans.
//   - A section is a function of the docs' values: Builder.Write, Merge and
//     Verify share one writer, so a merged segment has the bytes of one built
//     from scratch.
//   - Stored bitmaps are looked through once before their first use and then
//     read as views, which lie on mapped bytes and are never written. What
//     Eval returns is a copy of the caller's own.
//   - Damaged bytes give ErrCorrupt, or a wrong answer that Verify or the
//     container's checksums find, never a panic or a doc beyond the segment.
//   - Match is the plain evaluator over rows, kept as the oracle.
//
// # Concurrency
//
// Value, Filter, Compiled and Segment are immutable and free for all
// goroutines. Builder and Facet belong to one.
//
// # Complexity
//
// For n docs in a segment and m matches: Open is constant a field; eq costs a
// binary search and the size of its bitmap; range and prefix two searches and
// at most min(m, n-m) bits set (single-valued fields; m for lists), plus n/64
// words; and, or, not one pass over containers of 65,536 docs. Facet costs one
// look a match or one intersection a value, whichever is less, and a map
// update a distinct value. Merge is linear in docs, values and dictionary.
package filter
