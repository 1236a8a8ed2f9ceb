// Package kb holds the commands of the retrieval layer: knowledge bases, the dry
// run of the chunker, the one-shot AI Search and the workflow runner.
//
//	quarry kb create | add | list | search | get | expand | … STORE …
//	quarry chunk FILE                        where a file would be cut
//	quarry aisearch QUERY FILE…              passages of files that no base holds
//	quarry run WORKFLOW.json --var NAME=…    start, search, rerank, agent, end
//
// Promise: that of the command line as a whole (results to stdout, all else to
// stderr, one line an error, stable JSON). What a base needs to be searched is
// written in the base: the embedder chosen by kb create is opened again by its
// name, and a keyword search opens none. Commands that only read open the store
// read-only, beside a writer. Nothing is sent anywhere unless a flag or an
// environment variable names the service.
//
// Commands is embedded in the program's own command line; it takes its output
// from kong, so that it knows nothing of the program. Wrong values of flags are
// found by Validate, before anything is opened, and so are usage errors.
package kb
