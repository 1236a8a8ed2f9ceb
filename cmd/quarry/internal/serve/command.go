package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/page"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/knowledge/chat"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// Commands are those of the server, to be embedded in a command line. Their Run
// methods want a context.Context bound.
type Commands struct {
	Serve serveCmd     `cmd:"" help:"Serve collections and knowledge bases over HTTP."`
	Keys  keysCommands `cmd:"" help:"API keys of a server."`
}

// AfterApply binds what the commands work with.
func (c *Commands) AfterApply(k *kong.Context) error {
	k.Bind(&streams{k.Stdout, k.Stderr})
	return nil
}

// streams are where the commands print.
type streams struct{ out, errs io.Writer }

func (s *streams) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(s.out, format, args...)
	return err
}

func (s *streams) json(v any) error { return json.NewEncoder(s.out).Encode(v) }

type serveCmd struct {
	Data     string   `required:"" placeholder:"DIR" help:"Data directory; made when it does not exist."`
	Listen   string   `default:"127.0.0.1:7700" placeholder:"HOST:PORT" help:"Address to listen on; port 0 takes a free one."`
	ReadOnly bool     `help:"Change nothing; another server, or quarry import, may write beside it."`
	Verify   bool     `help:"Compare every checksum of a collection when it is opened, so that nothing damaged is ever served; it reads all files once."`
	Cluster  []string `placeholder:"URL" help:"Nodes of a cluster, as http://10.0.0.1:8080: new collections and the indexes of new knowledge bases are made there, and its collections are served."`
	Sync     string   `default:"always" placeholder:"always|50ms" help:"When a write is durable: before it is acknowledged, or at most this much later."`

	TLSCert  string `name:"tls-cert" placeholder:"FILE" help:"Certificate chain, PEM."`
	TLSKey   string `name:"tls-key" placeholder:"FILE" help:"Its private key, PEM."`
	Insecure bool   `help:"Listen beyond loopback without TLS."`
	Keys     string `placeholder:"FILE" help:"API keys; default keys.json in the data directory. Given here, a key is always needed."`

	AllowHost   []string `sep:"," placeholder:"NAME" help:"Name under which the server may be asked, beside loopback and --listen; * is any."`
	AllowOrigin []string `sep:"," placeholder:"URL" help:"Pages that may ask from a browser, such as https://app.example; default none but the server's own."`

	Model    []string `sep:"none" placeholder:"NAME=MODEL" help:"Model that requests may name, beside e5; MODEL as in quarry import --embed, or {\"model\", \"url\", \"key_env\", \"key_file\"}."`
	Reranker string   `default:"late" placeholder:"NAME" help:"Reranker: late (token vectors of e5), none, cohere:MODEL, jina:MODEL, voyage:MODEL, or tei:URL."`

	MaxBody       string        `default:"32MiB" placeholder:"SIZE" help:"Largest JSON body, and largest line of an import."`
	MaxFile       string        `default:"64MiB" placeholder:"SIZE" help:"Largest file brought into a knowledge base."`
	MaxConcurrent int           `default:"256" placeholder:"N" help:"Requests at once; those above it get 503."`
	Timeout       time.Duration `default:"60s" help:"Longest a request may take, imports and downloads aside."`

	NoPage      bool   `help:"Serve no page for people."`
	NoMCP       bool   `name:"no-mcp" help:"Serve no MCP clients at /mcp."`
	MCPWrite    bool   `name:"mcp-write" help:"Let MCP clients write, too, whose key may; without it they only read."`
	LogRequests bool   `help:"Log every request."`
	LogLevel    string `enum:"debug,info,warn,error" default:"info" help:"What to log, as JSON on stderr: debug, info, warn, error."`
}

func (serveCmd) Help() string {
	return `    quarry serve --data DIR
    curl -X POST http://127.0.0.1:7700/v1/collections -H 'Content-Type: application/json' -d '{"name": "notes", "schema": {"text": [{"name": "text"}]}, "embed": "e5"}'
    curl -X PUT http://127.0.0.1:7700/v1/collections/notes/documents/1 -H 'Content-Type: application/json' -d '{"text": {"text": "Granite is hard."}}'
    curl -X POST http://127.0.0.1:7700/v1/collections/notes/search -H 'Content-Type: application/json' -d '{"query": "hard stone", "fields": ["*"]}'

DIR/collections/NAME is an index as quarry import makes it, DIR/knowledge a store as quarry kb makes it. /openapi.json describes all there is; /metrics is for Prometheus, /healthz and /readyz for whoever keeps it running.

Beyond loopback the server needs keys, and TLS or --insecure:

    quarry keys create --data DIR --name laptop --access admin
    quarry serve --data DIR --listen 0.0.0.0:7700 --tls-cert cert.pem --tls-key key.pem --allow-host search.example

Certificates and keys are read anew when their files change. A key made with --account acts as that account of the catalogue. MCP clients find the tools at /mcp: they only read, without --mcp-write.

SIGTERM or interrupt stops it within 10 s; a second one ends it at once. Nothing that was acknowledged is lost either way. Agents of workflows ask the service of QUARRY_CHAT_URL, QUARRY_CHAT_MODEL and QUARRY_CHAT_KEY.`
}

// Validate checks the flags.
func (c *serveCmd) Validate() error {
	_, err := c.config(&streams{io.Discard, io.Discard})
	return err
}

// gcPercent is that of a server. Indexes lie in mapped files, so the heap is small,
// and at Go's own 100 it would be collected ten times a second under load.
const gcPercent = 400

// Run serves until ctx is done.
func (c *serveCmd) Run(ctx context.Context, out *streams) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	config, err := c.config(out)
	if err != nil {
		return err
	}
	s, err := New(config)
	if err != nil {
		return err
	}
	l, err := s.Listen()
	if err != nil {
		return errors.Join(err, s.reg.Close(context.WithoutCancel(ctx)))
	}
	return s.Run(ctx, l)
}

func (c *serveCmd) config(out *streams) (Config, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return Config{}, err
	}
	config := Config{Data: c.Data, Listen: c.Listen, TLSCert: c.TLSCert, TLSKey: c.TLSKey, Insecure: c.Insecure, Keys: c.Keys, AllowHost: c.AllowHost, AllowOrigin: c.AllowOrigin,
		Log: slog.New(slog.NewJSONHandler(out.errs, &slog.HandlerOptions{Level: level})), LogRequests: c.LogRequests, MaxConcurrent: c.MaxConcurrent, RequestTimeout: c.Timeout}
	config.Registry.ReadOnly, config.Registry.Verify, config.Registry.Reranker = c.ReadOnly, c.Verify, c.Reranker
	config.API.Version = version()
	config.MCP, config.MCPWrite = !c.NoMCP, c.MCPWrite && !c.ReadOnly
	scheme := "http"
	if c.TLSCert != "" {
		scheme = "https"
	}
	config.Ready = func(address string) {
		_ = out.printf("quarry serves %s at %s://%s\n", c.Data, scheme, address) // nobody may be reading
	}
	if c.MaxConcurrent < 1 || c.Timeout <= 0 {
		return config, errors.New("--max-concurrent and --timeout: want more than 0")
	}
	var err, errs error
	if config.Registry.Sync, err = parseSync(c.Sync); err != nil {
		errs = errors.Join(errs, err)
	}
	if config.API.MaxBody, err = parseSize("--max-body", c.MaxBody); err != nil {
		errs = errors.Join(errs, err)
	}
	if config.API.MaxFile, err = parseSize("--max-file", c.MaxFile); err != nil {
		errs = errors.Join(errs, err)
	}
	if len(c.Cluster) > 0 {
		o, err := engine.ClusterOptions(c.Cluster)
		config.Registry.Cluster, errs = &o, errors.Join(errs, err)
	}
	if config.Registry.Models, err = parseModels(c.Model); err != nil {
		errs = errors.Join(errs, err)
	}
	if config.Registry.Chat, err = openChat(); err != nil {
		errs = errors.Join(errs, err)
	}
	if !c.NoPage {
		if config.Page, err = page.Handler(); err != nil {
			errs = errors.Join(errs, err)
		}
	}
	return config, errs
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

func parseSync(s string) (storage.SyncPolicy, error) {
	if s == "always" {
		return storage.SyncAlways, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("--sync %q: want always, or a duration such as 50ms", s)
	}
	return storage.SyncEvery(d), nil
}

// parseSize reads a number of bytes: 1000, 64KiB, 32MiB, 1GiB.
func parseSize(flag, s string) (int64, error) {
	number, shift := s, 0
	for i, unit := range []string{"KiB", "MiB", "GiB"} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			number, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || n > 1<<40>>shift {
		return 0, fmt.Errorf("%s %q: want a size such as 1000, 64KiB, 32MiB or 1GiB", flag, s)
	}
	return n << shift, nil
}

func parseModels(specs []string) (map[string]models.Source, error) {
	out := map[string]models.Source{}
	for _, spec := range specs {
		name, value, ok := strings.Cut(spec, "=")
		if !ok || registry.CheckName("model", name) != nil || name == models.E5 || name == models.BGE || name == models.None {
			return nil, fmt.Errorf("--model %s: want NAME=MODEL, with a NAME of the form %s that is not e5, bge or none", spec, registry.NamePattern)
		}
		flags := models.Flags{Embed: value}
		if strings.HasPrefix(value, "{") {
			var s models.Source
			dec := json.NewDecoder(strings.NewReader(value))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&s); err != nil {
				return nil, fmt.Errorf("--model %s: %w", name, err)
			}
			flags = models.Flags{Embed: s.Model, EmbedURL: s.URL, EmbedKeyEnv: s.KeyEnv, EmbedKeyFile: s.KeyFile}
		}
		source, err := flags.Source()
		if err != nil {
			return nil, fmt.Errorf("--model %s: %w", name, err)
		}
		out[name] = source
	}
	return out, nil
}

// Environment variables of agents, as quarry run knows them.
const (
	chatURL   = "QUARRY_CHAT_URL"
	chatModel = "QUARRY_CHAT_MODEL"
	chatKey   = "QUARRY_CHAT_KEY"
)

// openChat is the chat service of the environment, nil for none.
func openChat() (chat.Model, error) {
	url := os.Getenv(chatURL)
	if url == "" {
		return nil, nil
	}
	o := chat.Options{Model: os.Getenv(chatModel), Call: call.Options{BaseURL: url}}
	if os.Getenv(chatKey) != "" {
		o.Call.KeyEnv = chatKey
	}
	return chat.New(o)
}

// keysCommands are those of quarry keys.
type keysCommands struct {
	Create createKeyCmd `cmd:"" help:"Make a key; it is shown once."`
	List   listKeysCmd  `cmd:"" help:"List the keys, without their secrets."`
	Revoke revokeKeyCmd `cmd:"" help:"Remove a key; a server that runs takes notice within a second."`
}

// keysFlags say where the keys are.
type keysFlags struct {
	Data string `placeholder:"DIR" help:"Data directory, for keys.json in it."`
	Keys string `placeholder:"FILE" help:"File of keys, instead of keys.json in the data directory."`
	JSON bool   `name:"json" help:"Print JSON."`
}

// Validate checks the flags.
func (f *keysFlags) Validate() error {
	_, err := f.file()
	return err
}

func (f *keysFlags) file() (string, error) {
	switch {
	case (f.Data == "") == (f.Keys == ""):
		return "", errors.New("want either --data or --keys")
	case f.Keys != "":
		return f.Keys, nil
	}
	return filepath.Join(f.Data, keysName), nil
}

type createKeyCmd struct {
	keysFlags
	Name   string `required:"" help:"What the key is for, to know it again."`
	Access string `enum:"read,write,admin" default:"read" help:"What it allows: read, write (documents), admin (all)."`

	Account string `placeholder:"ID" help:"Account of the catalogue of spaces as which requests with the key act."`
}

func (createKeyCmd) Help() string {
	return `    quarry keys create --data DIR --name laptop --access write

The file keeps a salted hash of the key, so that it can be shown this one time only. --json prints {"id", "name", "access", "account", "created", "key"}.`
}

// A shownKey is a key without what is kept of its secret.
type shownKey struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Access  string    `json:"access"`
	Account string    `json:"account,omitempty"`
	Created time.Time `json:"created"`
	Key     string    `json:"key,omitempty"` // only when it is made
}

// Run makes a key.
func (c *createKeyCmd) Run(s *streams) error {
	path, err := c.file()
	if err != nil {
		return err
	}
	access, err := httpapi.ParseAccess(c.Access)
	if err != nil {
		return err
	}
	key, k, err := CreateKey(path, c.Name, c.Account, access)
	if err != nil {
		return err
	}
	if c.JSON {
		return s.json(shownKey{k.ID, k.Name, k.Access, k.Account, k.Created, key})
	}
	if err := s.printf("%s\n", key); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.errs, "quarry: key %s (%s) for %s: it cannot be shown again\n", k.ID, k.Access, k.Name)
	return err
}

type listKeysCmd struct{ keysFlags }

func (listKeysCmd) Help() string {
	return `    quarry keys list --data DIR`
}

// Run lists the keys.
func (c *listKeysCmd) Run(s *streams) error {
	path, err := c.file()
	if err != nil {
		return err
	}
	keys, err := ReadKeys(path)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	if !c.JSON {
		_, err = fmt.Fprintln(w, "ID\tACCESS\tCREATED\tACCOUNT\tNAME")
	}
	for _, k := range keys {
		if c.JSON {
			err = errors.Join(err, s.json(shownKey{k.ID, k.Name, k.Access, k.Account, k.Created, ""}))
			continue
		}
		_, werr := fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", k.ID, k.Access, k.Created.Format("2006-01-02"), cmp.Or(k.Account, "-"), k.Name)
		err = errors.Join(err, werr)
	}
	return errors.Join(err, w.Flush())
}

type revokeKeyCmd struct {
	keysFlags
	ID string `arg:"" name:"id" help:"Id of the key, as quarry keys list shows it."`
}

func (revokeKeyCmd) Help() string {
	return `    quarry keys revoke --data DIR abcd2345`
}

// Run removes a key.
func (c *revokeKeyCmd) Run(s *streams) error {
	path, err := c.file()
	if err != nil {
		return err
	}
	if err := RevokeKey(path, c.ID); err != nil {
		return err
	}
	if c.JSON {
		return s.json(map[string]any{"id": c.ID, "revoked": true})
	}
	return s.printf("key %s revoked\n", c.ID)
}
