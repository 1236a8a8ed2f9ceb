// Package godocs reads the documentation of Go's standard library from GOROOT:
// one document each for packages, functions, types, methods, constants and
// variables, with what the api files say about when each came.
//
// Promise: no network and no program is run; the documents are those that go doc
// shows on this system (build tags are honored), in an order that depends on
// GOROOT alone.
//
//	GOROOT/src/**  ──go/parser, go/doc──► Documents ──► the caller's index
//	GOROOT/api/go1*.txt ──► since
//
// Internal packages, commands, vendored packages and test data are left out. The
// reading of one GOROOT takes some seconds and holds one package at a time.
package godocs
