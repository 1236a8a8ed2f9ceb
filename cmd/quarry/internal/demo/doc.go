// Package demo is quarry demo: the documentation of a Go installation as a
// collection, questions to it on the terminal, and the server's page on it.
//
//	GOROOT ─ godocs ─► symbols ─ e5 ─► vectors ─► registry (DIR/go1.x-…) ─► answers, prompt
//	                                                                  └─ serve ─► page
//
// Promise: nothing leaves the machine, and nothing needs to be there but Go. The
// collection is made once for each version of Go, in a folder of its own beside
// the place where it goes, and moved there when it is complete; several demos may
// run at once, each reads it only. The server listens on this machine only, on a
// free port, and does not outlive the command.
//
// Where nobody sits before a terminal it answers and ends.
package demo
