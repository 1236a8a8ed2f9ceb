// Package analysis turns text into terms, the same way when a document is
// indexed and when it is searched.
//
//	text ──► segments (UAX #29) ──► parts of identifiers ──► fold ──► stem ──► term, position, byte offsets
//	     └─► runs of unspaced scripts ──► n-grams of folded characters ─────────┘
//
// # Promise
//
// Whatever the text (invalid UTF-8, NUL, lone surrogates, a word of a
// megabyte), an Analyzer neither panics nor fails, takes linear time and gives
// tokens whose terms are valid UTF-8 of 1 to 255 bytes, whose offsets lie in
// the source text and whose starts and positions never decrease. The offsets
// are those of the source, also where folding changes lengths (İ, ﬁ, e with a
// combining accent). The same Identity gives the same tokens for ever.
//
// # Rules
//
// Words are those of UAX #29. ASCII and the Latin, Greek and Cyrillic letters
// go through a hand-written segmenter that a test holds equal to the library.
// Emoji are terms; other symbols and punctuation are not.
//
// Folding is NFKC with full case folding; format characters, Arabic short
// vowels and Hebrew points are dropped and digits of all scripts are 0–9. Then,
// after stemming, accents go from Latin and Greek letters, ё becomes е and the
// hamza leaves Arabic letters, so that "cafe" finds "café" in either normal
// form. "vietnamese" keeps its accents: there they make words. It writes a space
// between syllables, and most words have two: two of them with nothing but a space
// between are a term as well, unless both are stop words.
//
// The Turkish i: "turkish" folds I to ı and İ to i before it stems, as the
// language does, and drops the difference afterwards. All others fold I and İ
// to i and ı to i. So Işık, ışık, IŞIK and İstanbul, istanbul meet under each.
//
// Identifiers are indexed whole, without their separators, and in parts:
// getUserName and get_user_name both give getusername, get, user, name;
// HTTPServer2 gives httpserver2, http, server, 2. A word whose parts would
// hold a single letter (iPhone, mRNA) is not split except by "code". Hyphenated
// words with a digit are indexed whole as well: AR-7 gives ar7, ar, 7. The whole
// stands at the position of its first part. C++ and C# give c++ and c#, and c.
// Numbers keep their points (3.14, 1.2.3) and lose separators of thousands.
// A number with a unit of two to six letters is indexed whole and in parts (5kg,
// 5, kg), and a unit that is one character as its letters (㎏ is kg). Units of one
// letter stay: 2A and 5g name things as often. (Split, SciFact is at .6853, with
// longer units alone at .6862, without at .6885: a few doses among 300 queries.
// Whoever asks for 5 kg counts on finding 5kg.)
// Words part at apostrophes; "english" drops the possessive 's, "french",
// "italian" and "irish" the elided article.
//
// Han, Kana and Hangul are indexed as characters and overlapping pairs, Thai,
// Lao, Khmer and Burmese as clusters, pairs and triples, each at the position
// of its first character. A query takes only the longest n-grams its run has
// room for: 陈景润 asks for 陈景 and 景润, and a document with only one of the
// characters is no hit. A run of five or more characters is a sentence, and its
// single characters that are not Hiragana are asked for too: that costs
// nothing in names and gains what pairs across words miss.
//
// A dictionary (Analyzer.WithDictionary, modules bm25/cjk) adds its words of
// three characters and more to the n-grams.
//
// A Detector tells the language of a text: the declared one, else what the script
// says, else the Latin language whose stop words are a share of the first 400
// words, else none. An index of several languages has a text field for each, of
// which a document fills one.
//
// Stop words are indexed like others. Queries leave them out unless they hold
// nothing else; phrases keep them.
//
// Terms longer than 255 bytes are cut there, at a character, on both sides.
//
// # What was measured
//
// Exhaustive BM25 (k1 1.2, b 0.75, one-byte lengths), nDCG@10 for SciFact,
// NFCorpus, Cranfield, dify-docs and PIAF, MRR@10 for XQuAD and JaQuAD.
// TestQuality holds the floors.
//
//	english                    SciFact NFCorpus Cranfield XQuAD  dify
//	as it is                    .6862   .3313    .4374    .9609  .8395
//	version 1 (no quantities)   .6885   .3313    .4375    .9609  .8395
//	…with Lucene's 33 stop words .6895  .3323    .4306    .9560  .8317
//	…with 33 more stop words     .6862  .3310    .4374    .9605  .8363
//	the rest against the line above (more stop words):
//	stop words kept in queries  .6924   .3246    .4306    .9582  .8330
//	Porter 1                    .6837   .3305    .4372    .9591  .8391
//	plural s only               .6694   .3274    .4271    .9597  .8404
//	no stemming                 .6688   .3127    .4292    .9535  .8314
//	no whole of AR-7            .6820   .3310    .4376    .9605  .8363
//	mRNA split too              .6890   .3310    .4374    .9600  .8363
//	no camelCase parts          .6860   .3310    .4374    .9600  .8314
//
//	others                     as it is   without stemming   stop words kept   accents kept
//	French PIAF (1 in 4)        .8069          .7901             .7940            .8029
//	Arabic                      .9273          .8771             .9168            .9273
//	German                      .9275          .9045             .9252            .9275
//	Romanian                    .9541          .9071             .9580            .9532
//	Russian                     .9424          .8557             .9394            .9424
//	Spanish                     .9546          .9382             .9511            .9541
//	Turkish                     .9339          .8817             .9268            .9343
//	Greek                       .9376          .8916             .9318            .9369
//	Hindi                       .9411          .9337             .9454            .9411
//	Vietnamese                  .9544            –               .9477            .9477 (stripped .9187)
//	…without couples of syllables .9477; the columns behind are without, too
//
//	Chinese and Japanese                     JaQuAD (1 in 8)  XQuAD zh  dify ja  dify zh
//	pairs only                                   .8573          .9545    .8519    .8393
//	and all single characters                    .8775          .9562    .8469    .8381
//	and those of sentences, not Hiragana         .8757          .9586    .8490    .8345
//	and without stop characters and pairs        .8769          .9600    .8495    .8389
//
//	Thai XQuAD: up to pairs .9536, triples .9594, fours .9498; triples asked with pairs .9569.
//
// # Concurrency and cost
//
// An Analyzer is immutable. A Scratch belongs to one goroutine at a time; it
// holds the Snowball environment and a cache of words (4-way, 8192 entries),
// which only saves time. Tokens allocates nothing once the buffers have grown
// and the words are cached; a word of a stemmed language that is not makes at
// most a few small strings in Snowball. Time is linear in the text.
package analysis
