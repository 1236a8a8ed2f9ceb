package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/mcp"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/serve"
)

// Command is "quarry mcp", to be put into a command line. Its Run wants a
// context.Context bound.
type Command struct {
	Data    string `required:"" placeholder:"DIR" help:"Data directory, as quarry serve has it."`
	Write   bool   `help:"Let clients put and delete documents. Without it the directory is opened read-only, beside a server."`
	Listen  string `placeholder:"HOST:PORT" help:"Serve streamable HTTP at HOST:PORT/mcp instead of stdio; port 0 takes a free one."`
	Verbose bool   `short:"v" help:"Log more to stderr."`
}

// Help is shown by quarry mcp --help.
func (Command) Help() string {
	return `Speaks the Model Context Protocol on stdin and stdout; logs go to stderr. Tools: search, get, list, stats, explain, and with --write upsert and delete.

    quarry mcp --data data
    quarry mcp --data data --listen 127.0.0.1:7701

In the configuration of a client:

    {"mcpServers": {"quarry": {"command": "quarry", "args": ["mcp", "--data", "/path/to/data"]}}}

With --listen it is quarry serve without the page, with the same checks of Host, Origin and keys; its API is read-only, too, without --write.`
}

// Run serves until the client goes away, or ctx is done.
func (c *Command) Run(ctx context.Context) error {
	if info, err := os.Stat(c.Data); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is no directory", c.Data)
	}
	level := slog.LevelWarn
	if c.Verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	o := mcp.Options{Version: version(), Write: c.Write, Logger: log}
	if c.Listen != "" {
		return c.listen(ctx, o)
	}
	// Whatever else might print must not reach the client.
	out := os.Stdout
	os.Stdout = os.Stderr
	defer func() { os.Stdout = out }()
	return c.stdio(ctx, o, os.Stdin, out)
}

// registry opens the data directory.
func (c *Command) registry(log *slog.Logger) (*registry.Registry, error) {
	return registry.Open(c.Data, &registry.Options{ReadOnly: !c.Write, Logger: log})
}

func (c *Command) stdio(ctx context.Context, o mcp.Options, in io.ReadCloser, out io.WriteCloser) (err error) {
	open := func() (*registry.Registry, error) { return c.registry(o.Logger) }
	age := mcp.Fresh
	if c.Write {
		age = mcp.Forever // nobody else writes
	}
	data, err := mcp.Reopening(open, age)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	s, err := mcp.New(data, o)
	if err != nil {
		return err
	}
	err = s.Run(ctx, &sdk.IOTransport{Reader: in, Writer: out})
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil // the client went away, or this process is to end
	}
	return err
}

func (c *Command) listen(ctx context.Context, o mcp.Options) (err error) {
	access := httpapi.Read
	if c.Write {
		access = httpapi.Write
	}
	var s *sdk.Server
	server, err := serve.New(serve.Config{Data: c.Data, Registry: registry.Options{ReadOnly: !c.Write}, API: httpapi.Options{Version: o.Version}, Listen: c.Listen, Log: o.Logger,
		Mounts: mcp.Routes(func() *sdk.Server { return s }, access),
		Ready: func(address string) {
			fmt.Printf("quarry serves %s to MCP clients at http://%s%s\n", c.Data, address, mcp.Path)
		}})
	if err != nil {
		return err
	}
	data := mcp.Fixed(server.Registry())
	if !c.Write { // another process may be writing
		if data, err = mcp.Reopening(func() (*registry.Registry, error) { return c.registry(o.Logger) }, mcp.Fresh); err != nil {
			return errors.Join(err, server.Registry().Close(ctx))
		}
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	if s, err = mcp.New(data, o); err != nil {
		return errors.Join(err, server.Registry().Close(ctx))
	}
	l, err := server.Listen()
	if err != nil {
		return errors.Join(err, server.Registry().Close(ctx))
	}
	return server.Run(ctx, l)
}

// version is that of the program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
