// Package console is what a command may use of the process: where results go,
// where notes go, and who is looking.
//
// Promise: all commands speak alike. Results go to stdout, all else to stderr;
// with --json a result is one JSON object on a line. Escapes are written to a
// terminal only, and not with NO_COLOR set (to anything) or TERM=dumb. Progress is
// shown on a terminal only. A command line that is wrong is a UsageError, which
// ends the process with 2; any other error with 1.
//
// A Console is not for several goroutines at once, except the function that
// Stages returns.
package console
