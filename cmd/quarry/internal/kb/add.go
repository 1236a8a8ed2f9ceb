package kb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/knowledge"
)

type addCmd struct {
	engine.StoreArg
	ID    string   `arg:"" name:"id" help:"Base."`
	Paths []string `arg:"" name:"path" help:"Files and folders."`

	Prefix       string `placeholder:"NAME" help:"Put NAME/ before the names of a folder's documents."`
	KeepVanished bool   `help:"Keep documents whose files are gone from their folder."`
	Replace      bool   `help:"Let a file take over the name of a document that came from elsewhere."`
	MaxBytes     int64  `placeholder:"N" help:"Largest file that is read; default 64 MiB."`
	KeepGoing    bool   `help:"Exit code 0 also when files failed."`
	JSON         bool   `name:"json" help:"Print the report as JSON."`
}

func (addCmd) Help() string {
	return `Reads Markdown, HTML, text, PDF, DOCX, CSV, XLSX and JSONL. A file of a folder is a document named by its path in the folder; hidden files, other kinds, and links out of the folder are skipped. What has changed is told by the hash of the bytes: run it again whenever you like. Documents whose files are gone from a folder are removed.

    quarry kb add store docs handbook/
    quarry kb add store docs handbook/ notes.md paper.pdf
    quarry kb add store wiki export/ --prefix 2024 --keep-going

A file that cannot be read is reported and the others go on; exit code 1 then, unless --keep-going. Interrupt stops between two documents; the next run does the rest. STORE.embeddings beside the store keeps what was embedded, so that the parts of a document that did not change are not embedded again; it may be deleted.

--json prints {"added", "updated", "unchanged", "removed", "failed": [{"source", "reason"}], "skipped": [{"source", "reason"}], "warnings", "chunks", "bytes", "seconds", "embed_seconds"}.`
}

// Run ingests.
func (c *addCmd) Run(ctx context.Context, s *session) (err error) {
	req := knowledge.IngestRequest{Base: c.ID, KeepVanished: c.KeepVanished, Replace: c.Replace, MaxFileBytes: c.MaxBytes}
	for _, path := range c.Paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return err
		case info.IsDir():
			req.Folders = append(req.Folders, knowledge.Folder{Path: path, Name: c.Prefix})
		default:
			req.Files = append(req.Files, knowledge.File{Path: path})
		}
	}
	infos, err := pick(ctx, c.Store, c.ID)
	if err != nil {
		return err
	}
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	store, err := open.writer(ctx, c.Store, embeddersOf(infos)...)
	if err != nil {
		return err
	}
	progress, done := s.bar("reading")
	req.Progress = progress
	r, err := store.Ingest(ctx, req)
	done()
	return errors.Join(s.report(c.ID, r, c.JSON), failed(r, err, c.KeepGoing))
}

// failed is the error of an ingest: its own, or that sources failed.
func failed(r *knowledge.Report, err error, keepGoing bool) error {
	n := len(r.Failed)
	if err != nil || n == 0 || keepGoing {
		return err
	}
	first := ""
	if n > 1 {
		first = ", the first"
	}
	return fmt.Errorf("%s failed%s: %s: %s", console.Count(n, "source"), first, show.Line(r.Failed[0].Source, 0), reason(r.Failed[0].Reason))
}

const maxSkips = 10 // shown for reading

// report prints what an ingest did.
func (s *session) report(id string, r *knowledge.Report, asJSON bool) error {
	if asJSON {
		return s.JSON(r)
	}
	out := ""
	for _, f := range r.Failed {
		out += fmt.Sprintf("failed: %s: %s\n", show.Line(f.Source, 0), reason(f.Reason))
	}
	for i, f := range r.Skipped {
		if i == maxSkips {
			out += fmt.Sprintf("skipped: %d more (--json lists them)\n", len(r.Skipped)-i)
			break
		}
		out += fmt.Sprintf("skipped: %s: %s\n", show.Line(f.Source, 0), reason(f.Reason))
	}
	out += fmt.Sprintf("%s: %d added, %d updated, %d unchanged, %d removed, %d failed", id, r.Added, r.Updated, r.Unchanged, r.Removed, len(r.Failed))
	if r.Chunks > 0 {
		out += fmt.Sprintf("; %s of %s", console.Count(r.Chunks, "chunk"), show.Bytes(r.Bytes))
	}
	out += fmt.Sprintf(" in %.1f s", r.Seconds)
	if r.EmbedSeconds > 0 {
		out += fmt.Sprintf(" (embedding %.1f s)", r.EmbedSeconds)
	}
	if r.Warnings > 0 {
		out += fmt.Sprintf("; %s (kb list %s shows them)", console.Count(r.Warnings, "warning"), id)
	}
	return s.Printf("%s\n", out)
}

// bar shows the progress of an ingest when somebody looks at stderr; done ends
// it.
func (s *session) bar(what string) (progress func(knowledge.Progress), done func()) {
	if !s.Progress {
		return nil, func() {}
	}
	var b *progressbar.ProgressBar
	start, chunks := time.Now(), 0
	progress = func(p knowledge.Progress) {
		if b == nil {
			b = progressbar.NewOptions(p.Total, progressbar.OptionSetWriter(s.Stderr), progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionSetPredictTime(true), progressbar.OptionSetWidth(24), progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription(what))
		}
		if p.Status == knowledge.Failed && p.Err != nil {
			_ = b.Clear()
			s.Notef("failed: %s: %s", show.Line(p.Source, 80), reason(p.Err.Error()))
		}
		chunks += p.Chunks
		b.Describe(fmt.Sprintf("%s %s, %.0f chunks/s", what, show.Line(p.Source, 40), float64(chunks)/time.Since(start).Seconds()))
		_ = b.Set(min(p.Done, p.Total)) // a bar that cannot be drawn is no reason to stop
	}
	return progress, func() {
		if b != nil {
			_ = b.Finish()
		}
	}
}

type rebuildCmd struct {
	engine.StoreArg
	ID string `arg:"" name:"id" help:"Base."`

	Reset bool `help:"Take the options below, those not given at their defaults; otherwise the base keeps its own."`
	baseFlags

	JSON bool `name:"json" help:"Print the report as JSON."`
}

func (rebuildCmd) Help() string {
	return `Reads the sources that the base keeps, not the files they came from. Needed when the embedder has changed; with --reset also the way to other chunk options, another analyzer or embedder. Searches see the old base until the new one is complete; when a document fails, the old one stays.

    quarry kb rebuild store docs
    quarry kb rebuild store docs --reset --size 200 --lang de

--json prints the report of kb add.`
}

// Validate checks the flags.
func (c *rebuildCmd) Validate() error {
	if !c.Reset && c.baseFlags != (baseFlags{}) {
		return errors.New("options are for --reset")
	}
	return c.validate()
}

// Run rebuilds.
func (c *rebuildCmd) Run(ctx context.Context, s *session) (err error) {
	infos, err := pick(ctx, c.Store, c.ID)
	if err != nil {
		return err
	}
	name := infos[0].Embedder
	var o *knowledge.BaseOptions
	if c.Reset {
		if o, err = c.options(); err != nil {
			return err
		}
		name = o.Embedder
	}
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	store, err := open.writer(ctx, c.Store, name)
	if err != nil {
		return err
	}
	progress, done := s.bar("rebuilding")
	r, err := store.Rebuild(ctx, c.ID, o, progress)
	done()
	if r == nil {
		return err
	}
	return errors.Join(s.report(c.ID, r, c.JSON), failed(r, err, false))
}
