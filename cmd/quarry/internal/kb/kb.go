package kb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// Commands are the commands of the retrieval layer, to be embedded in a command
// line. Their Run methods want a context.Context bound.
type Commands struct {
	KB       baseCommands     `cmd:"" name:"kb" help:"Knowledge bases: files in, cited passages out."`
	Chunk    chunkCmd         `cmd:"" help:"Show where a file would be cut into chunks."`
	AISearch aiSearchCmd      `cmd:"" name:"aisearch" help:"Search files that no knowledge base holds, by meaning."`
	Space    spaceCommands    `cmd:"" help:"Published spaces on knowledge bases: evidence with citations that can be checked."`
	Profile  profileCommands  `cmd:"" help:"Retrieval Profiles of spaces."`
	Workflow workflowCommands `cmd:"" help:"Workflows kept in a catalogue: import, publish, run."`
	Flow     runCmd           `cmd:"" name:"run" help:"Run a workflow's JSON: search, rerank, agent."`

	// Open opens embedders; nil is OpenEmbedder.
	Open Opener `kong:"-"`
}

// baseCommands are those of quarry kb.
type baseCommands struct {
	Create  createCmd  `cmd:"" help:"Make an empty knowledge base, and the store if there is none."`
	Add     addCmd     `cmd:"" help:"Bring files and folders into a knowledge base: only what changed is read anew."`
	List    listCmd    `cmd:"" help:"List knowledge bases, or the documents of one."`
	Search  searchCmd  `cmd:"" help:"Search knowledge bases together."`
	Get     getCmd     `cmd:"" help:"Print the record of a document, or write its stored source."`
	Expand  expandCmd  `cmd:"" help:"Print a chunk with what stands around it."`
	Disable disableCmd `cmd:"" help:"Hide documents from every search."`
	Enable  enableCmd  `cmd:"" help:"Bring back disabled documents."`
	Freeze  freezeCmd  `cmd:"" help:"Make the state of a knowledge base a generation that never changes."`
	Check   checkCmd   `cmd:"" help:"Prove every chunk against its source; exit code 1 when one does not hold."`
	Rm      rmCmd      `cmd:"" help:"Remove a knowledge base, or documents of it."`
	Prune   pruneCmd   `cmd:"" help:"Remove stored sources that no document names."`
	Rebuild rebuildCmd `cmd:"" help:"Make a knowledge base anew from the sources it keeps."`
}

// AfterApply binds what the commands work with.
func (c *Commands) AfterApply(k *kong.Context) error {
	s := &session{Console: console.New(os.Stdin, k.Stdout, k.Stderr), open: c.Open}
	if s.open == nil {
		s.open = OpenEmbedder
	}
	k.Bind(s)
	return nil
}

// A session is what a command may use of the process.
type session struct {
	*console.Console
	open Opener
}

// jsonAlways is --json of commands whose result is JSON in any case.
type jsonAlways struct {
	JSON bool `name:"json" help:"Print JSON, which this command does in any case."`
}

// A change is what a command did that finds nothing out.
type change struct {
	What string `json:"what"` // the kind of thing: space, workflow
	ID   string `json:"id"`
	Now  string `json:"now"` // what has become of it
}

func (c change) String() string { return fmt.Sprintf("%s %s: %s", c.What, c.ID, c.Now) }

// jsonChange is --json of commands that change something.
type jsonChange struct {
	JSON bool `name:"json" help:"Print {\"what\", \"id\", \"now\"} as JSON."`
}

// told prints a change once it has happened.
func (j jsonChange) told(s *session, err error, what, id, now string) error {
	if err != nil {
		return err
	}
	return s.Result(j.JSON, change{what, show.Line(id, 0), now})
}

// bases lists the bases of a store that must be there.
func bases(ctx context.Context, dir string) (infos []knowledge.BaseInfo, err error) {
	store, err := knowledge.Open(dir, &knowledge.Options{ReadOnly: true})
	if err == nil {
		defer func() { err = errors.Join(err, store.Close()) }()
		infos, err = store.Bases(ctx)
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if len(infos) == 0 {
		return nil, fmt.Errorf("no knowledge base in %s (quarry kb create makes one)", dir)
	}
	return infos, nil
}

// pick returns the bases of the given ids, all without ids. For "ID@N" it is
// that of the generation, if there is one: a base may have got another embedder
// since.
func pick(ctx context.Context, dir string, ids ...string) ([]knowledge.BaseInfo, error) {
	infos, err := bases(ctx, dir)
	if err != nil || len(ids) == 0 {
		return infos, err
	}
	var out []knowledge.BaseInfo
	for _, id := range ids {
		i := slices.IndexFunc(infos, func(b knowledge.BaseInfo) bool { return b.ID == id })
		if i >= 0 {
			out = append(out, infos[i])
			continue
		}
		info, err := frozen(ctx, dir, id)
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	return out, nil
}

// frozen describes a generation by its reference.
func frozen(ctx context.Context, dir, ref string) (info knowledge.BaseInfo, err error) {
	if !strings.Contains(ref, "@") {
		return info, noBase(dir, ref)
	}
	store, err := knowledge.Open(dir, &knowledge.Options{ReadOnly: true})
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	info, err = store.Base(ctx, ref)
	if errors.Is(err, storage.ErrNotFound) {
		err = noBase(dir, ref)
	}
	return info, err
}

func noBase(dir, id string) error {
	return fmt.Errorf("no knowledge base %q in %s (quarry kb list shows them)", id, dir)
}

// resources are what a command has opened: embedders, by name, once each;
// stores; services. They are closed in the opposite order.
type resources struct {
	open    Opener
	cluster []string // nodes that keep the indexes of bases
	cache   string   // of the embedders opened next, "" for none
	names   []string // of the embedders, in the order of opening
	byName  map[string]embed.Embedder
	closers []func() error
}

func (s *session) resources(cluster ...string) *resources {
	return &resources{open: s.open, cluster: cluster, byName: map[string]embed.Embedder{}}
}

// close closes what was opened and adds to *err what fails.
func (r *resources) close(err *error) {
	for _, f := range slices.Backward(r.closers) {
		*err = errors.Join(*err, f())
	}
	r.closers = nil
}

// embedder opens the embedder of a name; nil for none.
func (r *resources) embedder(ctx context.Context, name string) (embed.Embedder, error) {
	if e, ok := r.byName[name]; ok || name == "" {
		return e, nil
	}
	e, closer, err := r.open(ctx, name, r.cache)
	if err != nil {
		return nil, err
	}
	r.names = append(r.names, name)
	r.byName[name] = e
	if closer != nil {
		r.closers = append(r.closers, closer)
	}
	return e, nil
}

// store opens a store for writing or reading, with the embedders named.
func (r *resources) store(ctx context.Context, dir string, write bool, names ...string) (*knowledge.Store, error) {
	embedders := map[string]embed.Embedder{}
	for _, name := range names {
		e, err := r.embedder(ctx, name)
		if err != nil {
			return nil, err
		}
		if e != nil { // a base without one has no name
			embedders[name] = e
		}
	}
	elsewhere, err := engine.Elsewhere(r.cluster)
	if err != nil {
		return nil, err
	}
	store, err := knowledge.Open(dir, &knowledge.Options{ReadOnly: !write, Embedders: embedders, Elsewhere: elsewhere})
	if err == nil {
		r.closers = append(r.closers, store.Close)
	}
	return store, err
}

// reader opens a store that has a base, for reading what needs no embedder.
func (r *resources) reader(ctx context.Context, dir, id string) (*knowledge.Store, error) {
	if _, err := pick(ctx, dir, id); err != nil {
		return nil, err
	}
	return r.store(ctx, dir, false)
}

// writer opens a store for writing, with a cache of embeddings beside it: what
// did not change in a document that did, and a rebuild, cost no embedding.
func (r *resources) writer(ctx context.Context, dir string, names ...string) (*knowledge.Store, error) {
	r.cache = models.CacheDir(dir)
	return r.store(ctx, dir, true, names...)
}

// embeddersOf are the names of the embedders of bases.
func embeddersOf(infos []knowledge.BaseInfo) []string {
	var out []string
	for _, b := range infos {
		out = append(out, b.Embedder)
	}
	return out
}

// clean keeps lines and tabs of a text, and nothing else that controls a
// terminal.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) || r == '\u200c' || r == '\u200d' {
			return r
		}
		return ' '
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

// indent puts spaces before each line of a clean text that is not blank.
func indent(text string) string {
	var b strings.Builder
	for l := range strings.Lines(strings.TrimRight(clean(text), "\n")) {
		if strings.TrimSpace(l) != "" {
			b.WriteString("     ")
		}
		b.WriteString(l)
	}
	return b.String()
}

// reason is an error's text on one line, without the name that sentinels start
// with.
func reason(text string) string {
	return show.Line(strings.ReplaceAll(text, ": quarry: ", ": "), 300)
}
