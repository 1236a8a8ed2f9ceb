package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
)

type backupCmd struct {
	engine.FilesArg
	To     string `arg:"" help:"Directory that is empty or does not exist, or with --update an earlier backup."`
	Update bool   `help:"Bring an earlier backup of this index up to date: segments it has are verified and kept."`
	JSON   bool   `name:"json" help:"Print the result as JSON."`
}

func (backupCmd) Help() string {
	return `The copy is an index of its own, verified before the command ends. Segments are hard links where the file system can. The index is opened read-only: the copy is of the moment of opening, and a writer may go on. The record of the model of an index imported with --embed (DIR.embed.json) is copied too, not the cache of its embeddings (DIR.embeddings), which only saves time. An update that is cut short leaves the earlier backup.

    quarry backup idx backups/monday
    quarry backup idx backups/daily --update

--json prints {"dir", "to"}, with --update also {"generation", "documents", "kept", "linked", "copied", "bytes"}.`
}

// Run backs up.
func (c *backupCmd) Run(ctx context.Context, e *console.Console) error {
	ix, err := engine.OpenReader(c.Dir)
	if err != nil {
		return err
	}
	defer ix.Close() // opened for reading: nothing to lose
	out := copied{Dir: c.Dir, To: c.To, did: "backed up to"}
	if c.Update {
		r, err := ix.UpdateBackup(ctx, c.To)
		if err != nil {
			return err
		}
		out.BackupReport = &r
	} else if err := ix.Backup(ctx, c.To); err != nil {
		return err
	}
	schema := ix.Schema()
	if err := copyRecord(c.Dir, c.To, &schema); err != nil {
		return fmt.Errorf("%s is backed up and verified, without the record of its model: %w", c.Dir, err)
	}
	return e.Result(c.JSON, out)
}

// copyRecord copies the record of the model of an index, if it has one.
func copyRecord(from, to string, schema *index.Schema) error {
	record, err := recordOf(from, schema)
	if err != nil || record == nil {
		return err
	}
	return record.Write(to)
}

// copied is what backup and restore did.
type copied struct {
	Dir string `json:"dir"`
	To  string `json:"to"`
	*index.BackupReport
	did string
}

func (r copied) String() string {
	out := fmt.Sprintf("%s: %s %s and verified", r.Dir, r.did, r.To)
	if b := r.BackupReport; b != nil {
		out += fmt.Sprintf(", %s; segments: %d kept, %d linked, %d copied (%s)", console.Count(b.Documents, "document"), b.Kept, b.Linked, b.Copied, show.Bytes(b.Bytes))
	}
	return out
}

type restoreCmd struct {
	Backup string `arg:"" help:"Directory of a backup."`
	Dir    string `arg:"" name:"to" help:"Directory of the index to replace, or one that does not exist."`
	JSON   bool   `name:"json" help:"Print the result as JSON."`
}

func (restoreCmd) Help() string {
	return `The backup is verified in full first. Then the directory becomes what the backup holds, in one step: a crash leaves the old index or the restored one. The old index may be damaged; no writer may be at work on it.

    quarry restore backups/monday idx

--json prints {"dir", "to", "generation", "documents", "kept", "linked", "copied", "bytes"}.`
}

// Run restores.
func (c *restoreCmd) Run(ctx context.Context, e *console.Console) error {
	r, err := index.Restore(ctx, c.Backup, c.Dir, nil)
	if err != nil {
		return err
	}
	schema, err := storedSchema(c.Dir)
	if err == nil {
		err = copyRecord(c.Backup, c.Dir, schema)
	}
	if err != nil {
		return fmt.Errorf("%s is restored and verified, without the record of its model: %w", c.Dir, err)
	}
	return e.Result(c.JSON, copied{Dir: c.Backup, To: c.Dir, BackupReport: &r, did: "restored to"})
}

type repairCmd struct {
	Dir    string `arg:"" name:"from" help:"Directory of the damaged index."`
	To     string `arg:"" help:"Directory that is empty or does not exist."`
	Schema string `placeholder:"FILE" help:"The schema as JSON, as inspect --json shows it, where no manifest can be read."`
	JSON   bool   `name:"json" help:"Print the report as JSON."`
}

func (repairCmd) Help() string {
	return `Salvages what is readable of a damaged index into a new directory, and changes nothing in the old one. No writer may be at work there. Exit code 1 when something was damaged or lost, which the report tells.

    quarry repair idx saved
    quarry repair idx saved --json

--json prints {"documents", "segments": [{"name", "whole", "saved", "lost"}], "wal_records", "lost", "lost_documents": [{"id", "segment", "doc", "why"}], "partial", "partial_documents", "problems"}.`
}

// Run repairs.
func (c *repairCmd) Run(ctx context.Context, e *console.Console) error {
	o := &index.Options{}
	if c.Schema != "" {
		data, err := os.ReadFile(c.Schema)
		if err != nil {
			return err
		}
		o.Schema = new(index.Schema)
		if err := json.Unmarshal(data, o.Schema); err != nil {
			return fmt.Errorf("--schema %s: %w", c.Schema, err)
		}
	}
	r, err := index.Repair(ctx, c.Dir, c.To, o)
	if r == nil {
		return err
	}
	if c.JSON {
		if perr := e.JSON(r); perr != nil {
			return perr
		}
	} else if perr := e.Printf("%s", repaired(r)); perr != nil {
		return perr
	}
	if err != nil {
		return err
	}
	if schema, serr := storedSchema(c.To); serr != nil {
		return serr
	} else if rerr := copyRecord(c.Dir, c.To, schema); rerr != nil {
		e.Notef("without the record of its model: %s", console.OneLine(rerr))
	}
	if r.Lost > 0 || len(r.Problems) > 0 {
		return fmt.Errorf("%s was damaged: %s in %s, %d lost, problems: %d", c.Dir, console.Count(r.Documents, "document"), c.To, r.Lost, len(r.Problems))
	}
	return nil
}

// listed bounds the documents that are named for reading.
const listed = 20

func repaired(r *index.RepairReport) string {
	var b strings.Builder
	for _, s := range r.Segments {
		state := fmt.Sprintf("saved %d, lost %d", s.Saved, s.Lost)
		if s.Whole {
			state = "whole"
		}
		fmt.Fprintf(&b, "%s: %s\n", show.Line(s.Name, 0), state)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "PROBLEM: %s\n", show.Line(p, 0))
	}
	documents(&b, "lost", r.LostDocuments)
	documents(&b, "without a vector", r.PartialDocuments)
	fmt.Fprintf(&b, "%s saved, %d lost, %d without a vector, log records: %d\n", console.Count(r.Documents, "document"), r.Lost, r.Partial, r.WALRecords)
	return b.String()
}

func documents(b *strings.Builder, what string, list []index.LostDocument) {
	for i, d := range list {
		if i == listed {
			fmt.Fprintf(b, "%s: %d more (--json names them)\n", what, len(list)-listed)
			break
		}
		fmt.Fprintf(b, "%s: %s (%s, document %d): %s\n", what, show.Line(d.ID, 80), show.Line(d.Segment, 0), d.Doc, show.Line(d.Why, 200))
	}
}
