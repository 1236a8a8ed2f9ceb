package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/demo"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/kb"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/manual"
	mcp "github.com/quarrysearch/quarry/cmd/quarry/internal/mcp/command"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/measure"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/serve"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/transfer"
)

// cli is the command line; see each command's own type.
type cli struct {
	Import  importCmd        `cmd:"" help:"Read documents from JSONL files into an index."`
	Search  searchCmd        `cmd:"" help:"Search an index by words, by a vector, by a filter, or by all of them."`
	Get     getCmd           `cmd:"" help:"Print documents by id."`
	Delete  deleteCmd        `cmd:"" help:"Delete documents by id or by filter."`
	Inspect inspectCmd       `cmd:"" help:"Show schema, segments, sections, fields and log of an index."`
	Check   checkCmd         `cmd:"" help:"Check an index for damage; exit code 1 when there is any."`
	Backup  backupCmd        `cmd:"" help:"Copy an index to another directory, beside a live writer."`
	Restore restoreCmd       `cmd:"" help:"Make an index what a backup of it holds."`
	Copy    transfer.Command `cmd:"" help:"Copy an index to another directory or to a cluster, and back."`
	Repair  repairCmd        `cmd:"" help:"Salvage what is readable of a damaged index into another directory."`
	Merge   mergeCmd         `cmd:"" help:"Merge the segments of an index and drop deleted documents."`
	Eval    measure.Eval     `cmd:"" help:"Measure ranking quality on a test collection."`
	Bench   measure.Bench    `cmd:"" help:"Measure speed beside quality."`
	Embed   embedCmd         `cmd:"" help:"Turn texts into vectors, in a file."`
	Model   modelCmd         `cmd:"" help:"Make and describe model files."`
	kb.Commands
	Server     serve.Commands    `embed:""`
	MCP        mcp.Command       `cmd:"" name:"mcp" help:"Serve a data directory to clients of the Model Context Protocol."`
	Demo       demo.Command      `cmd:"" help:"Index the documentation of Go's standard library and search it."`
	Version    versionCmd        `cmd:"" help:"Print version, revision, Go and SIMD level."`
	Completion manual.Completion `cmd:"" help:"Print a script that completes command lines in a shell."`
	Man        manual.Man        `cmd:"" help:"Print the manual page."`
}

const description = `quarry searches documents by words, vectors and filters, in one directory, without a server.

Start with: quarry demo

Exit codes: 0 done, 1 failed, 2 wrong command line. NO_COLOR turns colors off.`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process
	e := console.New(os.Stdin, os.Stdout, os.Stderr)
	os.Exit(run(ctx, e, os.Args[1:]))
}

// run runs one command line and returns its exit code.
func run(ctx context.Context, e *console.Console, args []string) int {
	var c cli
	left := -1 // the code kong wants to leave with: it has printed help
	parser, err := newParser(ctx, e, &c, func(code int) { left = code })
	if err != nil {
		return e.Fail(err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	k, err := parser.Parse(args)
	switch {
	case left >= 0:
		return left
	case err != nil:
		return e.Fail(console.UsageError{Err: err})
	}
	err = k.Run()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	return e.Fail(err)
}

func newParser(ctx context.Context, e *console.Console, c *cli, exit func(int)) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("quarry"),
		kong.Description(description),
		kong.Writers(e.Stdout, e.Stderr),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(e),
		kong.Vars{"analyzers": strings.Join(analysis.Names(), ", ")},
	)
}
