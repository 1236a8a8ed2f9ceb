// Package measure is quarry bench and quarry eval: it puts the engine behind the
// loops of package bench.
//
// Promise: a run uses the public API, as a program would; what it prints with
// --json are the lines of package bench, one object a line, in the same shape for
// every engine that is measured (bench/peers prints them too), so that bench/plot
// can put them side by side.
package measure
