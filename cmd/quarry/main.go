package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/kb"
	mcp "github.com/quarrysearch/quarry/cmd/quarry/internal/mcp/command"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/serve"
	"github.com/quarrysearch/quarry/index"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// cli is the command line; see each command's own type.
type cli struct {
	Import  importCmd  `cmd:"" help:"Read documents from JSONL files into an index."`
	Search  searchCmd  `cmd:"" help:"Search an index by words, by a vector, by a filter, or by all of them."`
	Get     getCmd     `cmd:"" help:"Print documents by id."`
	Delete  deleteCmd  `cmd:"" help:"Delete documents by id or by filter."`
	Inspect inspectCmd `cmd:"" help:"Show schema, segments, sections, fields and log of an index."`
	Check   checkCmd   `cmd:"" help:"Check an index for damage; exit code 1 when there is any."`
	Backup  backupCmd  `cmd:"" help:"Copy an index to another directory, beside a live writer."`
	Merge   mergeCmd   `cmd:"" help:"Merge the segments of an index and drop deleted documents."`
	Eval    evalCmd    `cmd:"" help:"Measure ranking quality on a test collection."`
	Bench   benchCmd   `cmd:"" help:"Measure speed beside quality."`
	Embed   embedCmd   `cmd:"" help:"Turn texts into vectors, in a file."`
	Model   modelCmd   `cmd:"" help:"Make and describe model files."`
	kb.Commands
	Server  serve.Commands `embed:""`
	MCP     mcp.Command    `cmd:"" name:"mcp" help:"Serve a data directory to clients of the Model Context Protocol."`
	Demo    demoCmd        `cmd:"" help:"Index the documentation of Go's standard library and search it."`
	Version versionCmd     `cmd:"" help:"Print version, revision, Go and SIMD level."`
}

const description = `quarry searches documents by words, vectors and filters, in one directory, without a server.

Start with: quarry demo

Exit codes: 0 done, 1 failed, 2 wrong command line. NO_COLOR turns colors off.`

// env is what a command may use of the process.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	color          bool // stdout shows colors
	progress       bool // stderr shows progress bars
	interactive    bool // somebody sits before stdin and stdout
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process
	e := &env{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	out := term.IsTerminal(int(os.Stdout.Fd()))
	e.color = out && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	e.progress = term.IsTerminal(int(os.Stderr.Fd()))
	e.interactive = out && term.IsTerminal(int(os.Stdin.Fd()))
	os.Exit(run(ctx, e, os.Args[1:]))
}

// run runs one command line and returns its exit code.
func run(ctx context.Context, e *env, args []string) int {
	var c cli
	left := -1 // the code kong wants to leave with: it has printed help
	parser, err := newParser(ctx, e, &c, func(code int) { left = code })
	if err != nil {
		return e.fail(err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	k, err := parser.Parse(args)
	switch {
	case left >= 0:
		return left
	case err != nil:
		return e.fail(usageError{err})
	}
	err = k.Run()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	return e.fail(err)
}

func newParser(ctx context.Context, e *env, c *cli, exit func(int)) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("quarry"),
		kong.Description(description),
		kong.Writers(e.stdout, e.stderr),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(e),
		kong.Vars{"analyzers": strings.Join(analysis.Names(), ", ")},
	)
}

// fail prints an error, if there is one, and returns the exit code.
func (e *env) fail(err error) int {
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintf(e.stderr, "quarry: %s\n", oneLine(err))
	var usage usageError
	if errors.As(err, &usage) {
		_, _ = fmt.Fprintln(e.stderr, "quarry: see quarry --help, or quarry COMMAND --help")
		return exitUsage
	}
	return exitFailed
}

// oneLine is an error's text on one line and without our name, which the
// sentinels start with, again.
func oneLine(err error) string {
	s := strings.ReplaceAll(err.Error(), "\n", "; ")
	return strings.TrimPrefix(strings.ReplaceAll(s, ": quarry: ", ": "), "quarry: ")
}

// openReader opens an index that must be there for reading, beside a writer that
// may be at work.
func openReader(dir string) (*index.Index, error) {
	return openExisting(dir, &index.Options{ReadOnly: true})
}

func openExisting(dir string, o *index.Options) (*index.Index, error) {
	o.MustExist = true
	ix, err := index.Open(dir, o)
	if errors.Is(err, index.ErrNotFound) {
		return nil, noIndex(dir, err)
	}
	return ix, err
}

// noIndex says plainly what a missing index is to the engine.
func noIndex(dir string, err error) error {
	if info, serr := os.Stat(dir); serr == nil && info.IsDir() {
		return fmt.Errorf("no index in %s (quarry import makes one)", dir)
	}
	return fmt.Errorf("no index: %w", err)
}

// count is a number and what it counts.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// A usageError is about the command line itself.
type usageError struct{ err error }

func (u usageError) Error() string { return u.err.Error() }
func (u usageError) Unwrap() error { return u.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// printf writes to stdout; a closed pipe is found out by the command's end.
func (e *env) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(e.stdout, format, args...)
	return err
}

// notef tells something beside the results.
func (e *env) notef(format string, args ...any) {
	_, _ = fmt.Fprintf(e.stderr, "quarry: "+format+"\n", args...)
}
