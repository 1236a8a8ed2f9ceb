// Command plot draws what quarry bench and bench/peers have measured: JSON lines
// in, SVG files and a Markdown table out. It is a module of its own, so that what
// draws never comes into a program that uses the engine.
//
//	go run -C bench/plot . all -o DIR runs/*.jsonl     everything below
//	go run -C bench/plot . curves -o DIR FILE…         queries a second over recall, a file a set
//	go run -C bench/plot . build -o DIR FILE…          build times, a file a set
//	go run -C bench/plot . filtered -o DIR FILE…       the filtered grid, a file a set
//	go run -C bench/plot . table FILE…                 Markdown on stdout
//
// Promise: equal lines give equal bytes, in whatever order the files come. Of
// several runs of one setting the median counts. An engine that was measured with
// several numbers of links is shown by the best of them at each recall. Where a
// line has a net speed (what calling the engine from a slow language costs is
// taken off), that is what is drawn. Lines of kinds that are not drawn are
// skipped; a line that is no JSON is an error that names file and line.
package main
