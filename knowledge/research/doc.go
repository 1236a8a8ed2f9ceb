// Package research finds the evidence of a question in a few bounded steps, of
// which at most two ask a language model, whatever the number of documents.
//
// The promise: fast and deep searches never come here; a direct question costs
// at most one model call, a complex one at most two; without a model the same
// steps run offline and give the same answer each time. Evidence is found and
// ordered, never written: no answer is generated.
//
//	text ─ Classify ─ Question ─┬─ direct ──────────────┐
//	                            └─ complex ─ Plan ≤ 1 ──┤ the question and ≤ 3 queries
//	                                                    ▼
//	     Search (one embedding batch) ─ weighted RRF ─ Expand ─ Rerank ─ threshold ─ top K
//	                     ▲                                                     │
//	                     └── ≤ 3 queries, once ── insufficient ── Judge ≤ 1 ◄──┘
//
// A Searcher does the searching, of one published space say; the caller owns
// what a passage is, and this package knows its ID, its text and its score.
//
// # Classification
//
// Classify is local and has no model. A text is parted at question marks,
// semicolons, line ends and the ends of sentences, in any script; a sentence
// that asks nothing goes with the one behind it. Several parts that ask are a
// complex question. One part is looked at further, by rules for English and some
// other languages with spaces, and for Chinese and Japanese:
//
//   - two things compared: "difference between A and B in C", "compare A with
//     B", "A vs B", A和B的区别, AとBの違い;
//   - things asked about one by one: A和B分别, AとBはそれぞれ, "respectively";
//   - an enumeration of three or more in a question: "support A, B and C", A、B和C;
//   - a conjunction, or a comma, before another question word: "and how",
//     ，怎么, 、どう;
//   - a conjunction with two or more words that say something on either side:
//     "configure single sign-on and audit logs"; 以及, および with two characters.
//
// Each clause can be searched for alone: what both sides of a comparison share
// is put behind each, what stands before an enumeration before each item, and
// the subject of the first clause behind one that has only a pronoun. What no
// rule parts is direct: it is still judged, and searched for as a whole.
//
// # Fusion
//
// The question counts 1, each query of the plan and of the judge ½, with rank
// constant 1: queries ask for different things, so that two lists agree says
// little and the head of each list must come first. With one list its scores
// stay as they are.
//
// Measured on dify-docs (no reranker, top 10, pages): 758 questions made of two
// known-item queries of one language, joined by "and", 以及, および or as two
// questions, and the 379 queries alone. nDCG@10, and for pairs the share that
// has both pages. Offline planner and judge; "deep" is one search.
//
//	BM25                  pairs en      zh            ja            alone en  zh    ja
//	deep                  .684 / .537   .682 / .456   .620 / .405   .802   .785   .777
//	rank constant 60      .645 / .578   .637 / .539   .620 / .504   .796   .777   .777
//	as it is              .763 / .731   .751 / .645   .723 / .664   .800   .785   .777
//
//	BM25 and e5-small     pairs en      zh            ja            alone en  zh    ja
//	deep                  .659 / .493   .722 / .575   .659 / .496   .829   .827   .803
//	rank constant 60      .652 / .593   .688 / .671   .664 / .607   .810   .819   .801
//	as it is              .761 / .757   .795 / .776   .762 / .752   .824   .827   .801
//
// # Invariants
//
//   - A planner or judge can ask a model through a Budget only, and Run makes
//     one with one call for each of the two. A failed call counts. There is no
//     model call a document, a heading or a query.
//   - There are at most two rounds, each with one call of Search, Expand and
//     Rerank. No passage is reranked twice; scores of a reranker and of a fusion
//     are never put into one order.
//   - A planner or judge that fails, is late or says something that was not
//     asked for is replaced by the offline one, with a flag. The end of the
//     context and an error of the Searcher end the run without evidence.
//   - What a model is shown is JSON in the message of the user, and called data
//     there. What it says can only be one JSON object with at most three queries
//     of at most MaxQueryRunes, whatever the passages say: the most that a
//     passage can reach is another search.
//   - The order is by score, then by place in the fusion, which falls by list
//     and rank: the same for the same lists.
//
// # Concurrency and cost
//
// A run uses one goroutine; runs are independent. Classify, the offline planner
// and judge are linear in their texts; a run costs two rounds of its Searcher.
// Limits.Candidates bounds what is reranked in a round, together with Seeds ×
// Neighbors.
package research
