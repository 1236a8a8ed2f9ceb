// Package pdf reads the text of PDF files, page by page, under budgets of time,
// work and memory. It draws nothing and writes nothing.
//
//	bytes ─ xref tables or a look through the file ─ objects ─ page tree ─ content ─ glyphs ─ lines ─ text
//	           object streams, decryption               fonts, CMaps ──────────┘
//
// # What is read
//
// Cross-reference tables and streams, hybrid files, object streams; damaged tables
// are built anew by looking for objects. Filters: Flate, LZW, ASCII85, ASCIIHex,
// RunLength with PNG and TIFF predictors. Encryption with the empty user password:
// RC4 and AES, versions 1, 2, 4 and 5. Text operators, form XObjects, ActualText.
// Fonts: ToUnicode first; then the base encodings with their differences, the
// encoding built into a Type 1 or CFF font program, and for composite fonts the
// CMaps of Unicode, GBK, Shift-JIS, EUC, Big5 and Korean. A character without any
// of these is counted in Page.Unknown and left out.
//
// Not read: annotations and forms' values, pictures of text (a page that has only
// those says so with Images), tables as tables, vertical writing as columns.
//
// # Order and spaces
//
// Glyphs stay in the order that the page shows them, for sorting them by place
// tears columns apart. A glyph on the same baseline continues the line, with a
// space where the gap is wider than 0.16 of the size; else a line ends, and a
// paragraph where the step is larger than two sizes. A hyphen between a letter and
// a small letter at a line end is undone, as poppler does; full lines of Chinese
// and Japanese join without a break. Letters printed twice for boldness count once.
//
// # Invariants
//
// Reading ends: references, page trees, bookmarks and forms may lead to themselves
// and are cut there; searches outside of the ordinary reading are counted, and a
// file that makes them too many is storage.ErrCorrupt. Output is bounded by
// Limits. Input is never trusted: no length is allocated before it is checked.
//
// # Concurrency and cost
//
// Extract keeps no state. A page costs its content and the fonts it is the first to
// use: some 1 ms for a page of dense text, 1,325 pages in 1.2 s on one core.
package pdf
