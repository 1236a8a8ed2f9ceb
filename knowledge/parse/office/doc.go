// Package office reads the text of Office Open XML files: the paragraphs of a
// DOCX and the rows of an XLSX. It holds what of those formats package parse
// needs and nothing for writing or layout.
//
//	bytes ── zip, budgeted ── XML tokens, depth-checked ── Word{Items} or rows by callback
//
// # Limits
//
// An archive may inflate to Limits.Inflated bytes over all parts read, and to
// Limits.Ratio times its own size once past 1 MiB: a zip bomb is an error that
// matches storage.ErrTooLarge before its bytes are kept. XML nests at most
// Limits.Depth elements. Only parts with known names are opened, inside the
// archive: names that lead out of it lead nowhere. External entities do not
// exist for encoding/xml.
//
// # Concurrency and cost
//
// Functions keep no state. Time is linear in the inflated bytes, some 15 MB/s,
// which is encoding/xml's speed.
package office
