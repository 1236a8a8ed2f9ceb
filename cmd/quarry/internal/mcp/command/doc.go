// Package command is quarry mcp: package mcp on stdin and stdout, or behind the
// server of package serve.
//
//	quarry mcp --data DIR                     one client, over stdio
//	quarry mcp --data DIR --listen ADDRESS    many, over HTTP at ADDRESS/mcp
//
// Promise: nothing but protocol is written to stdout while a client is served
// there. Whatever goes wrong before is one line on stderr and exit code 1. The
// end of stdin, or a signal, ends the process well, and nothing that was
// acknowledged is lost.
package command
