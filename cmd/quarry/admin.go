package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
)

type checkCmd struct {
	Dir   string `arg:"" help:"Directory of the index."`
	Quick bool   `xor:"depth" help:"Only manifest, schema, files and log."`
	Full  bool   `xor:"depth" help:"Also every checksum and every invariant of the data (the default)."`
	JSON  bool   `name:"json" help:"Print the report as JSON."`
}

func (checkCmd) Help() string {
	return `Changes nothing and takes no lock: a writer may be at work. Exit code 1 when there is damage, or when it could not be checked.

--json prints {"generation", "documents", "segments": [{"name", "bytes", "docs", "deleted", "problem"}], "wal_records", "wal_bytes", "wal_torn", "leftovers", "unknown", "full", "problems"}.`
}

// Run checks.
func (c *checkCmd) Run(ctx context.Context, e *env) error {
	r, err := index.Check(ctx, c.Dir, nil, !c.Quick)
	if errors.Is(err, index.ErrNotFound) && r == nil {
		return noIndex(c.Dir, err)
	}
	if r == nil {
		return cmp.Or(err, fmt.Errorf("%s: not checked", c.Dir))
	}
	if c.JSON {
		if perr := e.json(r); perr != nil {
			return perr
		}
	} else if perr := e.checked(r); perr != nil {
		return perr
	}
	if err != nil && len(r.Problems) > 0 {
		return fmt.Errorf("%s is damaged, problems: %d", c.Dir, len(r.Problems))
	}
	return err
}

func (e *env) checked(r *index.CheckReport) error {
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
	return e.printf("%s", out)
}

type backupCmd struct {
	Dir string `arg:"" help:"Directory of the index."`
	To  string `arg:"" help:"Directory that is empty or does not exist."`
}

func (backupCmd) Help() string {
	return `The copy is an index of its own, verified before the command ends. Segments are hard links where the file system can. The index is opened read-only: the copy is of the moment of opening, and a writer may go on. The record of the model of an index imported with --embed (DIR.embed.json) is copied too, not the cache of its embeddings (DIR.embeddings), which only saves time.

    quarry backup idx backups/monday`
}

// Run backs up.
func (c *backupCmd) Run(ctx context.Context, e *env) error {
	ix, err := openReader(c.Dir)
	if err != nil {
		return err
	}
	defer ix.Close() // opened for reading: nothing to lose
	if err := ix.Backup(ctx, c.To); err != nil {
		return err
	}
	schema := ix.Schema()
	record, err := recordOf(c.Dir, &schema)
	if err == nil && record != nil {
		err = record.Write(c.To)
	}
	if err != nil {
		return fmt.Errorf("%s is backed up and verified, without the record of its model: %w", c.Dir, err)
	}
	return e.printf("%s: backed up to %s and verified\n", c.Dir, c.To)
}

type mergeCmd struct {
	Dir      string `arg:"" help:"Directory of the index."`
	Segments int    `default:"1" help:"Segments to leave at most."`
}

func (mergeCmd) Help() string {
	return `The engine merges in the background by itself; this is for an index that will not change for a while. Interrupt ends it with nothing lost.`
}

// Run merges.
func (c *mergeCmd) Run(ctx context.Context, e *env) (err error) {
	ix, err := openExisting(c.Dir, &index.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	if err := ix.Merge(ctx, c.Segments); err != nil {
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
	return e.printf("%s: segments: %d, %s, %d documents\n", c.Dir, len(st.Segments), show.Bytes(total), st.Documents)
}

// round keeps the given number of decimal places.
func round(x float64, places int) float64 {
	p := math.Pow10(places)
	return math.Round(x*p) / p
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
