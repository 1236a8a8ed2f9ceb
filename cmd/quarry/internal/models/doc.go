// Package models is the part of quarry's commands that has to do with models:
// it opens the embedder that a flag names, records which one an index was made
// with, embeds documents, and makes and describes model files.
//
// # Promise
//
// Vectors of two models never meet in one index: the model's identity is
// written beside it (DIR.embed.json) before the first vector goes in, and an
// embedder of another identity is an error that names both. Text that did not
// change is not embedded again as long as the cache beside the index
// (DIR.embeddings) has it.
//
//	--embed ─ Flags.Source ─ Source ─ Open ─ Model ─┬─ Record, Check     which model this index has
//	                                                ├─ Cache             what was embedded before
//	                                                └─ Documents, Texts  vectors in order, blank ones left out
//
// # Concurrency and cost
//
// A Model may be used by several goroutines; Documents by one. Opening e5 takes
// some 0.1 s, a compact file less, a hub directory is quantized first.
package models
