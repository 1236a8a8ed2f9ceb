// Command quarry is the engine on the command line: it imports documents,
// searches and inspects an index, and measures the engine.
//
//	quarry demo                                      search Go's own documentation
//	quarry import DIR FILE… [--embed e5]             JSONL into an index, with vectors of a model
//	quarry search DIR words                          keyword, vector and hybrid search
//	quarry embed FILE --out FILE                     texts into vectors
//	quarry model convert | info                      model files
//	quarry get | delete | inspect | check | backup | merge DIR
//	quarry eval --data DIR                           nDCG, MAP, recall, MRR
//	quarry bench vectors | text | open               speed beside quality
//	quarry version
//
// This package holds flags and printing. What import does stands in
// internal/ingest, what concerns models in internal/models, the reading of Go's
// documentation in internal/godocs, the forms of text output in internal/show,
// and the measuring in package bench.
//
// # Promise
//
// Results go to stdout, everything else (progress, notes, errors) to stderr.
// Exit codes: 0 done, 1 failed, found damage, or was interrupted, 2 the command
// line is wrong. An error is one line that names what it is about. Every command
// with --json writes JSON, one object a line, whose keys stay; new ones may
// come. Commands that only read open the index read-only, beside a live writer.
//
// Terminal escapes are written only to a terminal, and not when NO_COLOR is set.
// What is printed for reading never passes control characters of documents on.
//
// Interrupt (Ctrl-C) ends a command at the next place where nothing is half done;
// a second one ends the process at once, which the engine survives too.
package main
