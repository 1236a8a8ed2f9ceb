package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/storage"
)

// Options of a server; the zero value is read-only with all defaults.
type Options struct {
	// Version is told to clients.
	Version string
	// Write adds the tools upsert and delete.
	Write bool
	// Logger gets failures; nil logs nothing. It must not write to stdout.
	Logger *slog.Logger
	// Timeout bounds a call; default 2 minutes.
	Timeout time.Duration
}

const instructions = `Search over the collections (documents with metadata) and knowledge bases (files, cut into passages) of one data directory.
Start with list. Then search; results are numbered [1], [2], … and marker [n] is source n: cite by it, with source and page.
get reads more of what a search found. stats tells the fields and values that a filter can use. explain tells why a document is missing.
A filter is text: lang = "de" and year >= 2020; tags contains any ["CLI"]; created between 2024-01-01 and 2024-06-30; not exists draft.`

type server struct {
	*sdk.Server
	o    Options
	data Data
}

// New makes a server with the tools over a data directory. It serves any number
// of sessions, through Run, or through a handler of Handler's.
func New(data Data, o Options) (*sdk.Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Minute
	}
	s := &server{o: o, data: data}
	s.Server = sdk.NewServer(&sdk.Implementation{Name: "quarry", Title: "quarry", Version: o.Version},
		&sdk.ServerOptions{Instructions: instructions, Logger: o.Logger, Capabilities: &sdk.ServerCapabilities{}})
	err := errors.Join(s.addReading(), s.addAsking())
	if o.Write {
		err = errors.Join(err, s.addWriting())
	}
	return s.Server, err
}

func no() *bool  { f := false; return &f }
func yes() *bool { t := true; return &t }

// reading are the annotations of tools that change nothing here or elsewhere.
func reading(title string) sdk.ToolAnnotations {
	return sdk.ToolAnnotations{Title: title, ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: no(), OpenWorldHint: no()}
}

func (s *server) addReading() error {
	page := func(in *jsonschema.Schema) { limits(in, "limit", 1, maxList) }
	return errors.Join(
		add(s, spec{name: "list", title: "List", description: "Lists the collections and knowledge bases, or, with a target, its documents in the order of their ids, a page at a time.",
			annotations: reading("List"), refine: page}, list),
		add(s, spec{name: "get", title: "Get", description: "Reads one document of a collection, or passages of a document of a knowledge base. Long texts come in parts: the result says how to go on.",
			annotations: reading("Get"), refine: func(in *jsonschema.Schema) {
				limits(in, "max_chars", minChars, maxChars)
				limits(in, "offset", 0, 1<<40)
				limits(in, "chunk", 0, 1<<31)
				limits(in, "chunks", 1, 50)
			}}, get),
		add(s, spec{name: "stats", title: "Statistics", description: "Counts of a collection or knowledge base, its fields with their types, and the values that occur most: what a filter can ask for.",
			annotations: reading("Statistics")}, stats))
}

func (s *server) addAsking() error {
	refine := func(in *jsonschema.Schema) {
		choices(in, "mode", "keyword", "vector", "hybrid")
		limits(in, "min_score", 0, 1)
		for _, name := range []string{"query", "filter"} {
			in.Properties[name].MaxLength = jsonschema.Ptr(maxQuery)
		}
	}
	return errors.Join(
		add(s, spec{name: "search", title: "Search", description: "Searches a collection, or one or more knowledge bases together, by words, by meaning, or by both. Sources are numbered; marker [n] is source n.",
			annotations: reading("Search"), refine: func(in *jsonschema.Schema) {
				refine(in)
				limits(in, "k", 1, maxK)
				limits(in, "group_size", 1, maxK)
				limits(in, "max_chars", minChars, maxChars)
			}}, search),
		add(s, spec{name: "explain", title: "Explain", description: "Tells how a document's score for a query came about, or where the document was lost.",
			annotations: reading("Explain"), refine: func(in *jsonschema.Schema) {
				refine(in)
				limits(in, "k", 1, maxK)
			}}, explain))
}

func (s *server) addWriting() error {
	return errors.Join(
		add(s, spec{name: "upsert", title: "Put documents", description: "Puts documents into a collection or a knowledge base; one of the same id (name, in a knowledge base) is replaced. All of a call are there afterwards, durable, or the error says which are not.",
			annotations: sdk.ToolAnnotations{Title: "Put documents", IdempotentHint: true, DestructiveHint: yes(), OpenWorldHint: no()}}, upsert),
		add(s, spec{name: "delete", title: "Delete documents", description: "Removes documents by id from a collection or a knowledge base, and tells which were not there.",
			annotations: sdk.ToolAnnotations{Title: "Delete documents", IdempotentHint: true, DestructiveHint: yes(), OpenWorldHint: no()}}, remove))
}

// A target names what a call is about.
type target struct {
	Collection    string `json:"collection,omitempty" jsonschema:"name of a collection; may be left out when there is one target only"`
	KnowledgeBase string `json:"knowledge_base,omitempty" jsonschema:"id of a knowledge base, instead of a collection"`
}

func errBoth() error { return storage.Invalidf("give a collection or a knowledge base, not both") }

// pick fills in a target that was left out, if there is one candidate only.
func (t *target) pick(ctx context.Context, r *registry.Registry) error {
	switch {
	case t.Collection != "" && t.KnowledgeBase != "":
		return errBoth()
	case t.Collection != "" || t.KnowledgeBase != "":
		return nil
	}
	names, err := r.Names()
	if err != nil {
		return err
	}
	bases, err := basesOf(ctx, r)
	if err != nil {
		return err
	}
	switch {
	case len(names) == 1 && len(bases) == 0:
		t.Collection = names[0]
	case len(names) == 0 && len(bases) == 1:
		t.KnowledgeBase = bases[0].ID
	case len(names)+len(bases) == 0:
		return fmt.Errorf("%w: there is no collection and no knowledge base yet", storage.ErrNotFound)
	default:
		return storage.Invalidf("say where: %s", inventory(names, bases))
	}
	return nil
}

// inventory names what there is, for errors.
func inventory(names []string, bases []knowledge.BaseInfo) string {
	const most = 20
	var parts []string
	if len(names) > 0 {
		parts = append(parts, "collection: "+strings.Join(names[:min(len(names), most)], ", "))
	}
	var ids []string
	for _, b := range bases[:min(len(bases), most)] {
		ids = append(ids, b.ID)
	}
	if len(ids) > 0 {
		parts = append(parts, "knowledge_base: "+strings.Join(ids, ", "))
	}
	if len(names) > most || len(bases) > most {
		parts = append(parts, "and more (list)")
	}
	return strings.Join(parts, "; ")
}

// basesOf lists the knowledge bases; none where there is no store.
func basesOf(ctx context.Context, r *registry.Registry) ([]knowledge.BaseInfo, error) {
	store, err := r.Knowledge(ctx)
	if err == nil {
		var out []knowledge.BaseInfo
		if out, err = store.Bases(ctx); err == nil {
			return out, nil
		}
	}
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	return nil, err
}
