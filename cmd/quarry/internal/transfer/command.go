package transfer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/cluster"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/ingest"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

// Command is quarry copy.
type Command struct {
	From       string `required:"" placeholder:"DIR|URL,URL" help:"Directory of an index, or the addresses of a cluster's nodes."`
	To         string `required:"" placeholder:"DIR|URL,URL" help:"Likewise; what is not there is made with the schema of the source."`
	Collection string `placeholder:"NAME" help:"Name of the collection on a cluster."`
	Batch      int    `default:"1000" help:"Documents applied at once."`
	Verify     bool   `default:"true" negatable:"" help:"Compare both sides afterwards."`
	Only       bool   `name:"verify-only" help:"Only compare."`
	State      string `placeholder:"FILE" help:"Where an unfinished copy keeps how far it is; default: DIR.copy.json beside the directory that is copied to, or else from."`
	JSON       bool   `name:"json" help:"Print the result as JSON."`
}

// Help is shown by quarry copy --help.
func (Command) Help() string {
	return `Copies all documents with their vectors, in order of their ids. A copy that was cut off goes on behind the last batch that is durable when the same command is run again. Afterwards both sides are read and compared document by document: exit code 1 when they differ, which documents added or deleted meanwhile also make them.

    quarry copy --from idx --to https://n1:8080,https://n2:8080,https://n3:8080 --collection Docs
    quarry copy --from https://n1:8080,https://n2:8080,https://n3:8080 --collection Docs --to idx
    quarry copy --from idx --to other

Documents of the target that the source lacks are told and stay. The record of the model of an index imported with --embed goes with a copy to a directory; a cluster keeps none. The key of a cluster comes from the environment variable QUARRY_CLUSTER_KEY, the certificates of its authorities from the file that QUARRY_CLUSTER_CA names. Vectors that the engines bring to unit length may differ by rounding, at most 1e-6 a component.

--json prints {"documents", "seconds", "documents_per_s", "resumed_behind", "verified", "comparison": {"from": {"documents", "checksum"}, "to", "missing", "extra", "different", "first"}}; the checksum does not depend on the order of documents or fields.`
}

// transferred is what copy did.
type transferred struct {
	Documents int     `json:"documents"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"documents_per_s"`
	Resumed   string  `json:"resumed_behind,omitempty"` // id
	Verified  bool    `json:"verified"`

	Comparison *Comparison `json:"comparison,omitempty"`
}

func (r transferred) String() string {
	out := fmt.Sprintf("%s copied, %.1f s, %.0f a second", console.Count(r.Documents, "document"), r.Seconds, r.PerSecond)
	if r.Resumed != "" {
		out += fmt.Sprintf(", resumed behind %q", r.Resumed)
	}
	if c := r.Comparison; c != nil {
		out += fmt.Sprintf("\nfrom: %s, checksum %s\nto:   %s, checksum %s", console.Count(c.From.Documents, "document"), c.From.Checksum,
			console.Count(c.To.Documents, "document"), c.To.Checksum)
	}
	return out
}

// Run copies and compares.
func (c *Command) Run(ctx context.Context, e *console.Console) (err error) {
	if c.Batch < 1 {
		return console.Usagef("--batch %d: want 1 or more", c.Batch)
	}
	state, err := c.state()
	if err != nil {
		return err
	}
	from, err := c.source(ctx)
	if err != nil {
		return err
	}
	defer from.Close() // only read: nothing to lose
	view, err := from.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	schema, err := view.Schema(ctx)
	if err != nil {
		return err
	}
	if schema, err = Declared(schema); err != nil {
		return err
	}
	to, err := c.target(ctx, &schema)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	r := transferred{}
	if !c.Only {
		if err := c.copy(ctx, e, view, to, state, &r); err != nil {
			return err
		}
	}
	if c.Verify || c.Only {
		if r.Comparison, err = Compare(ctx, view, to, steps(e, "comparing", 0, -1)); err != nil {
			return err
		}
		r.Verified = r.Comparison.Equal()
	}
	if err := e.Result(c.JSON, r); err != nil || r.Comparison == nil || r.Verified {
		return err
	}
	return fmt.Errorf("the sides differ: %d missing, %d extra, %d different (%s)", r.Comparison.Missing, r.Comparison.Extra, r.Comparison.Different,
		strings.Join(r.Comparison.First, ", "))
}

func (c *Command) copy(ctx context.Context, e *console.Console, from collection.Reader, to collection.Collection, file string, r *transferred) error {
	s, err := ReadState(file, c.From, c.To)
	if err != nil {
		return err
	}
	total, err := from.Count(ctx, filter.Filter{})
	if err != nil {
		return err
	}
	r.Resumed = s.Last
	before, start := s.Documents, time.Now()
	step := steps(e, "copying", before, total)
	r.Documents, err = Copy(ctx, Config{From: from, To: to, Batch: c.Batch, After: s.Last, Saved: func(last string, documents int) error {
		s.Last, s.Documents = last, before+documents
		step(documents)
		return s.Write(file)
	}})
	if err != nil {
		return fmt.Errorf("%w (%s copied; run it again to go on)", err, console.Count(s.Documents, "document"))
	}
	if err := to.Flush(ctx); err != nil {
		return err
	}
	took := time.Since(start).Seconds()
	r.Seconds, r.PerSecond = show.Round(took, 3), show.Round(float64(r.Documents)/took, 1)
	return errors.Join(c.record(), ingest.RemoveCheckpoint(file))
}

// steps shows progress on a terminal.
func steps(e *console.Console, stage string, before, total int) func(documents int) {
	show := e.Stages()
	if show == nil {
		return func(int) {}
	}
	return func(documents int) { show(stage, before+documents, total) }
}

// addresses are the nodes of a cluster, nil for a directory.
func addresses(place string) []string {
	if !strings.Contains(place, "://") {
		return nil
	}
	return strings.Split(place, ",")
}

// state is the file for how far the copy is.
func (c *Command) state() (string, error) {
	from, to := addresses(c.From), addresses(c.To)
	switch {
	case (from != nil || to != nil) == (c.Collection == ""):
		return "", console.Usagef("--collection is the name of a collection on a cluster: give it with an address, and only then")
	case from == nil && to == nil && filepath.Clean(c.From) == filepath.Clean(c.To):
		return "", console.Usagef("--from and --to are the same directory")
	case c.State != "":
		return c.State, nil
	case to == nil:
		return filepath.Clean(c.To) + ".copy.json", nil
	case from == nil:
		return filepath.Clean(c.From) + ".copy.json", nil
	}
	return "", console.Usagef("between two clusters: name a file for --state")
}

func (c *Command) source(ctx context.Context) (collection.Collection, error) {
	if urls := addresses(c.From); urls != nil {
		return c.cluster(ctx, urls, nil)
	}
	return c.existing(c.From)
}

func (c *Command) target(ctx context.Context, schema *index.Schema) (collection.Collection, error) {
	urls := addresses(c.To)
	switch {
	case urls == nil && c.Only:
		return c.existing(c.To)
	case urls == nil:
		return collection.Open(c.To, &index.Options{Schema: schema})
	case c.Only:
		schema = nil
	}
	return c.cluster(ctx, urls, schema)
}

func (c *Command) existing(dir string) (collection.Collection, error) {
	ix, err := engine.OpenReader(dir)
	if err != nil {
		return nil, err
	}
	return &collection.Local{Index: ix}, nil
}

// Limits of a call to a cluster: a batch may take long on nodes that are busy, and
// nobody waits for it before a screen.
const (
	callLimit    = 5 * time.Minute
	attemptLimit = time.Minute
)

func (c *Command) cluster(ctx context.Context, urls []string, schema *index.Schema) (collection.Collection, error) {
	o, err := engine.ClusterOptions(urls)
	if err != nil {
		return nil, err
	}
	o.Collection, o.Schema, o.Timeout, o.Attempt = c.Collection, schema, callLimit, attemptLimit
	return cluster.Open(ctx, o)
}

// record copies the record of the model of an index that goes to a directory.
func (c *Command) record() error {
	if addresses(c.From) != nil || addresses(c.To) != nil {
		return nil
	}
	r, err := models.ReadRecord(c.From)
	if err != nil || r == nil {
		return err
	}
	return r.Write(c.To)
}
