// Package chunk cuts documents into the pieces that are embedded and cited.
//
// The promise: a chunk is a span. Its text is document[Start:End], byte for
// byte, and its rune and UTF-16 offsets, its pages and its section are those
// of that span; nothing is ever found again by searching for it.
//
//	text ─ units ──────── marks ─────────── windows ──────── placed ─ Chunk
//	       word, token…   sentence, block,  size, overlap,   offsets,
//	       as spans       section starts    token limit      pages, path
//
// Each stage takes spans from the one before and passes spans on; all read the
// text once, side by side.
//
// # Strategies
//
// Count makes windows of Size units, each beginning with the last Overlap units
// of the one before. It stops when the last unit is covered: no chunk is made
// of repeated units only. Divide makes Size windows of a document whose lengths
// differ by one unit at most, longer ones first; a document of fewer units
// gives fewer. Structure is count that never crosses a heading and is cut
// between blocks when the last one starts in the second half of the window,
// else between sentences or lines, else between units; fenced code blocks,
// tables and front matter stay whole up to KeepWhole units. A heading with
// nothing under it but a deeper one stays with that.
//
// # Units
//
// Token: what the Tokenizer given says, with its offsets; Words when none is
// given; a model's tokenizer is passed in by a function that calls emit for each
// of its tokens. Tokens are counted in the text's context, in blocks of 64 KiB: a chunk
// read alone may have one more at its ends. Word: a UAX #29 segment with a
// letter, a digit, or a symbol beyond ASCII; punctuation counts for nothing and
// goes with its word. A Han character and a Thai cluster are words each.
// Paragraph: lines up to a blank line, of \n or \r\n. Custom: text between two
// separators. Page: the pages given, else text between form feeds. Blank
// stretches are no units, except blank pages and the blank tokens of a
// tokenizer that has such.
//
// Sentence: UAX #29 (revision 45 and its later comma rules), tailored to join
// when unsure:
//
//   - A full stop ends nothing behind a title (Dr.), an initial, a number of one
//     or two digits before a capital (29. Juli), a Roman numeral, an abbreviation
//     with inner full stops (U.S.), or a word from a list for eleven languages;
//     unless the next word is an English one that opens sentences (The, He).
//   - No terminator of ASCII ends anything when a letter or sign follows at once
//     (a?b=c, Yes!No), or a lower-case letter after white space.
//   - Footnote marks and Markdown emphasis behind a terminator belong to it; an
//     opening quote or bracket does not.
//   - A line end without a terminator ends a sentence unless both lines look
//     like wrapped prose: the first has 40 bytes or more, and the second starts
//     with a letter, a number or a quote.
//   - Thai and Lao have no terminators: a space between two of their letters
//     ends a unit of 40 letters or more.
//
// # Invariants
//
//   - Starts and ends both grow strictly from chunk to chunk.
//   - Each byte that is neither blank nor a separator at a border is in a
//     chunk. Blank is white space, and U+200B, U+2060, U+FEFF. Chunks have no
//     blank ends, and none is blank.
//   - No rune and no grapheme cluster is cut. A cluster of more tokens than Size
//     is a chunk that exceeds it (a Size below one rune gives one cluster each);
//     only one that reaches the token limit is cut, between two runes.
//   - A chunk has at most Size units; with structure at most max(Size,
//     KeepWhole). It has at most TokenLimit tokens: a longer window ends early,
//     and a longer unit is cut into several, after sentences if possible, each
//     of them then one unit.
//   - Text that is no UTF-8 is cut all the same, an invalid byte being a rune of
//     its own.
//
// # Choices
//
// The separator at the border of a chunk is left out, like the white space
// there. Count cuts at Size exactly, in the middle of a sentence: the unit was
// asked for. AtSentence lets it cut after a sentence. Structure repeats nothing
// unless told to: Parent gives the text around.
//
// # Concurrency and cost
//
// A Chunker is immutable. Time is linear in the text for any options, divide
// reading it twice. Memory: the units of one window, at most TokenLimit, plus a
// few bytes a heading, fence, table and page. An iterator that is left early
// stops within 64 KiB of text.
package chunk
