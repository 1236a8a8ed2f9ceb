// Package tokenize turns texts into the token ids that encoders of the BERT
// and XLM-RoBERTa families were trained on, with the bytes of the source each
// token was made from.
//
//	text ─ added tokens ─┬─ WordPiece: rune table ─ words ─ longest pieces ────┬─ []Token
//	                     └─ Unigram: charsmap ─ words ─ best path by score ────┘
//
// Promise: ids and offsets are those of Hugging Face's tokenizers for the same
// tokenizer.json, tie for tie and quirk for quirk, since a model knows only
// what it was trained on. testdata/golden.json.gz holds the reference's answers
// for lines in twelve languages and for what is hard in Unicode, and hashes of
// its answers for the staged texts. Known differences:
//   - A text whose first characters Unigram's charsmap removes (control
//     characters) makes the reference lose count of the source; offsets here
//     stay right, ids are the same.
//   - The reference sorts combining marks by canonical class before WordPiece
//     strips accents. Here they stay in the order of the source, which tells
//     only beside the few marks with a class that are not stripped: spacing ones
//     (U+302E, Balinese) and those newer than the reference's tables.
//   - Added tokens that are marked normalized are looked for in the source and
//     not in the normalized text.
//
// Offsets follow the reference too: a token's bytes are the source of its
// first to that of its last rune; what was removed between them is covered,
// what was removed after is not, and U+2581 standing for a space comes from
// that space.
//
// Invariants: offsets lie within the text and starts never descend; every id
// is below Size; in a double array every base plus a byte is in range. An
// invalid UTF-8 byte counts as U+FFFD that is one byte long.
//
// Concurrency: tokenizers are immutable, and any number of goroutines may use
// one. Scratch memory is pooled: a call allocates nothing when dst has room
// and the text is valid UTF-8.
//
// Complexity: time is linear in the text for any input, because pieces are at
// most 512 bytes and WordPiece gives up on words of more than 100 runes.
// Memory is some 10 bytes for each byte of a text in Unigram, and the longest
// word in WordPiece. Opening takes time linear in the compact form.
//
// The tables bert.tab and nmt_nfkc.tab and the goldens are made by the scripts
// in _gen from the reference; they do not change with the Go release. Bytes
// are described in format.md.
package tokenize
