// Package engine is what several commands ask of the engine: an index that must
// be there, opened with a plain word where it is not, and the engine's values
// for the words of the command line.
package engine
