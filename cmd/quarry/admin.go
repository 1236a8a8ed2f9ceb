package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
)

type checkCmd struct {
	engine.FilesArg
	Quick bool `xor:"depth" help:"Only manifest, schema, files and log."`
	Full  bool `xor:"depth" help:"Also every checksum and every invariant of the data (the default)."`
	JSON  bool `name:"json" help:"Print the report as JSON."`
}

func (checkCmd) Help() string {
	return `Changes nothing and takes no lock: a writer may be at work. Exit code 1 when there is damage, or when it could not be checked.

    quarry check idx
    quarry check idx --quick

--json prints {"generation", "documents", "segments": [{"name", "bytes", "docs", "deleted", "problem"}], "wal_records", "wal_bytes", "wal_torn", "leftovers", "unknown", "full", "problems"}.`
}

// Run checks.
func (c *checkCmd) Run(ctx context.Context, e *console.Console) error {
	r, err := index.Check(ctx, c.Dir, nil, !c.Quick)
	if errors.Is(err, index.ErrNotFound) && r == nil {
		return engine.NoIndex(c.Dir, err)
	}
	if r == nil {
		return cmp.Or(err, fmt.Errorf("%s: not checked", c.Dir))
	}
	if c.JSON {
		if perr := e.JSON(r); perr != nil {
			return perr
		}
	} else if perr := printCheck(e, r); perr != nil {
		return perr
	}
	if err != nil && len(r.Problems) > 0 {
		return fmt.Errorf("%s is damaged, problems: %d", c.Dir, len(r.Problems))
	}
	return err
}

func printCheck(e *console.Console, r *index.CheckReport) error {
	rows := [][]string{{"SEGMENT", "SIZE", "DOCUMENTS", "DELETED", "STATE"}}
	for _, s := range r.Segments {
		state := "ok"
		if s.Problem != "" {
			state = "DAMAGED"
		}
		rows = append(rows, []string{s.Name, show.Bytes(s.Bytes), fmt.Sprint(s.Docs), fmt.Sprint(s.Deleted), state})
	}
	out := show.Table(rows, []bool{false, true, true, true, false})
	out += fmt.Sprintf("log: %d records, %s", r.WALRecords, show.Bytes(r.WALBytes))
	if r.WALTorn {
		out += ", its last record cut by a crash (it was never acknowledged)"
	}
	out += "\n"
	for _, f := range r.Leftovers {
		out += "leftover, removed by the next writer: " + show.Line(f, 0) + "\n"
	}
	for _, f := range r.Unknown {
		out += "not the index's: " + show.Line(f, 0) + "\n"
	}
	for _, p := range r.Problems {
		out += "PROBLEM: " + show.Line(p, 0) + "\n"
	}
	kind := "quick check"
	if r.Full {
		kind = "full check"
	}
	if len(r.Problems) == 0 {
		out += fmt.Sprintf("%s: %d documents, no damage found\n", kind, r.Documents)
	}
	return e.Printf("%s", out)
}

type mergeCmd struct {
	engine.FilesArg
	Segments int  `default:"1" help:"Segments to leave at most."`
	Upgrade  bool `help:"Merge nothing, but write the segments that are of an older format anew. Every format opens for ever; a newer one may be smaller or faster, and older builds refuse it."`
	JSON     bool `name:"json" help:"Print {\"dir\", \"segments\", \"bytes\", \"documents\", \"upgraded\"} as JSON."`
}

func (mergeCmd) Help() string {
	return `The engine merges in the background by itself; this is for an index that will not change for a while. Interrupt ends it with nothing lost.

    quarry merge idx
    quarry merge idx --segments 4
    quarry merge idx --upgrade`
}

// Run merges.
func (c *mergeCmd) Run(ctx context.Context, e *console.Console) (err error) {
	ix, err := engine.OpenExisting(c.Dir, &index.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	upgraded := 0
	if c.Upgrade {
		upgraded, err = ix.Upgrade(ctx)
	} else {
		err = ix.Merge(ctx, c.Segments)
	}
	if err != nil {
		return err
	}
	st, err := ix.Stats()
	if err != nil {
		return err
	}
	total := int64(0)
	for _, s := range st.Segments {
		total += s.Bytes
	}
	return e.Result(c.JSON, mergeResult{c.Dir, len(st.Segments), total, st.Documents, upgraded})
}

type mergeResult struct {
	Dir       string `json:"dir"`
	Segments  int    `json:"segments"`
	Bytes     int64  `json:"bytes"`
	Documents int    `json:"documents"`
	Upgraded  int    `json:"upgraded"`
}

func (r mergeResult) String() string {
	return fmt.Sprintf("%s: segments: %d, %s, %d documents", r.Dir, r.Segments, show.Bytes(r.Bytes), r.Documents)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
