// Command quarry is the engine on the command line: it imports documents,
// searches and inspects an index, serves, and measures the engine.
//
//	quarry demo                                      search Go's own documentation, page included
//	quarry import DIR FILE… [--embed e5]             JSONL into an index, with vectors of a model
//	quarry search DIR words                          keyword, vector and hybrid search
//	quarry embed FILE --out FILE                     texts into vectors
//	quarry model convert | info                      model files
//	quarry get | delete | inspect | check | merge DIR
//	quarry backup | restore | repair FROM TO
//	quarry kb | chunk | aisearch                     files in, cited passages out
//	quarry space | profile | workflow | run          published spaces, workflows
//	quarry serve | keys | mcp --data DIR             over HTTP, and to MCP clients
//	quarry eval --data DIR                           nDCG, MAP, recall, MRR
//	quarry bench vectors | filtered | churn | cold | text | hybrid | open
//	quarry completion SHELL; quarry man; quarry version
//
// This package holds flags and printing of the commands on one index; the others
// stand in packages of their own under internal, and share internal/console. What
// import does stands in internal/ingest, what concerns models in internal/models,
// the forms of text output in internal/show, and the loops that measure in package
// bench.
//
// # Promise
//
// Results go to stdout, everything else (progress, notes, errors) to stderr.
// Exit codes: 0 done, 1 failed, found damage, or was interrupted, 2 the command
// line is wrong. An error is one line that names what it is about. Every command
// with a result takes --json and then writes JSON, one object a line, whose keys
// stay; new ones may come. Every command has help with an example. Where an index
// or a store is named, --data names it by the data directory of a server that it
// lies in. Commands that only read open the index read-only, beside a live writer.
// TestManner holds all this.
//
// Terminal escapes are written only to a terminal, and not when NO_COLOR is set.
// What is printed for reading never passes control characters of documents on.
//
// Interrupt (Ctrl-C) ends a command at the next place where nothing is half done;
// a second one ends the process at once, which the engine survives too.
package main
