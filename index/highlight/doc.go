// Package highlight finds the passages of a text that show why a query found
// it.
//
// The text is analyzed again with its field's own analyzer, so a match here is
// a match of the index: stems, folded accents, CJK bigrams and the parts of
// identifiers included. Offsets are bytes of the source text, exact also where
// folding changed its length, so source[p.Start:p.End] is the passage.
//
// Cost: one analysis of the text, O(matches) memory, no regular expression.
package highlight
