package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/ingest"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

// checkpointEvery is the number of batches after which an import without a sync
// a batch makes its documents durable and writes its checkpoint: a checkpoint
// must not promise what a power loss can take.
const checkpointEvery = 64

type importCmd struct {
	engine.IndexArg
	Files []string `arg:"" help:"JSONL files, plain or gzip; - is standard input."`

	fieldFlags
	models.Flags

	EmbedField string `placeholder:"NAME" help:"Vector field that --embed fills; default: embedding."`

	Batch   int    `default:"1000" help:"Documents applied at once; each batch is atomic."`
	Sync    string `default:"always" placeholder:"always|never|50ms" help:"When a batch is durable: with an fsync a batch, when the system likes, or at most this much later."`
	SkipBad bool   `help:"Report bad lines and go on; otherwise the first one ends the import."`
	Resume  bool   `help:"Go on behind the last acknowledged line of an import that was interrupted."`
	JSON    bool   `name:"json" help:"Print the summary as JSON."`
}

func (importCmd) Help() string {
	return `Each line is a JSON object with an id. A document replaces the one of the same id, so an import may be repeated. An index that exists keeps its schema; flags may add fields.

--embed gives each document a vector of its text fields, joined by newlines and cut at the model's limit (the summary counts how many were), so that quarry search finds by meaning too. DIR.embed.json beside the index records the model; later imports and searches take it from there (--embed none imports without), and another model is an error. DIR.embeddings keeps up to 512 MiB of embeddings: text that did not change is not embedded again.

Without flags it reads the usual form of test collections, {"id" or "_id", "title", "text", "metadata": {…}}: title and text become text fields, everything in metadata becomes metadata.

    quarry import idx corpus.jsonl.gz --analyzer english --text title^2,text
    quarry import idx tldr/docs.jsonl.gz --meta '*,created:time'
    quarry import idx records.jsonl.gz --text title:english^2,content:english --vector-file minilm=embeddings.f32 --dim 384 --meta category,lastModified:time --json-field tags=tags_json
    quarry import idx scifact/corpus.jsonl.gz --lang en --embed e5
    zcat *.gz | quarry import idx - --vector embedding:768:dot --skip-bad

While an import is unfinished, DIR.import.json beside the index holds the last acknowledged line for --resume. Interrupt stops after the current batch.

--json prints {"documents", "bad", "lines", "resumed_from", "text_bytes", "seconds", "mb_per_s", "interrupted", "model", "embedded", "cached", "truncated"}; text_bytes are the bytes of text fields, mb_per_s is 10^6 of them a second, opening and closing included.`
}

// importSummary is the result of import.
type importSummary struct {
	Documents   int     `json:"documents"`
	Bad         int     `json:"bad"`
	Lines       int     `json:"lines"`
	ResumedFrom int     `json:"resumed_from"`
	TextBytes   int64   `json:"text_bytes"`
	Seconds     float64 `json:"seconds"`
	MBPerS      float64 `json:"mb_per_s"`
	Interrupted bool    `json:"interrupted"`

	Model     string `json:"model,omitempty"` // that embedded them; the rest is 0 without
	Embedded  int    `json:"embedded"`        // documents that got a vector
	Cached    int64  `json:"cached"`          // texts that had been embedded before
	Truncated int    `json:"truncated"`       // texts cut at the model's limit
}

func (s importSummary) String() string {
	out := fmt.Sprintf("%s, %.1f MB of text, %.1f s, %.1f MB/s", console.Count(s.Documents, "document"), float64(s.TextBytes)/1e6, s.Seconds, s.MBPerS)
	if s.Bad > 0 {
		out += ", " + console.Count(s.Bad, "bad line")
	}
	if s.ResumedFrom > 0 {
		out += fmt.Sprintf(", resumed behind line %d", s.ResumedFrom)
	}
	if s.Model != "" {
		out += fmt.Sprintf(", %d embedded by %s (%d from the cache)", s.Embedded, s.Model, s.Cached)
		if s.Truncated > 0 {
			out += fmt.Sprintf(", %s cut at the model's limit", console.Count(s.Truncated, "text"))
		}
	}
	return out
}

// Run imports.
func (c *importCmd) Run(ctx context.Context, e *console.Console) (err error) {
	if c.Batch < 1 {
		return console.Usagef("--batch %d: want 1 or more", c.Batch)
	}
	policy, err := parseSync(c.Sync)
	if err != nil {
		return err
	}
	sources, err := ingest.Stat(c.Files)
	if err != nil {
		return err
	}
	checkpoint := ingest.Checkpoint{Version: 1, Sources: sources}
	file := filepath.Clean(c.Dir) + ".import.json"
	if c.Resume {
		if checkpoint, err = ingest.ReadCheckpoint(file, sources); err != nil {
			return err
		}
	}
	stored, err := c.stored(ctx)
	if err != nil {
		return err
	}
	schema, mapping, err := c.resolve(stored)
	if err != nil {
		return err
	}
	embedding, err := c.openEmbedding(ctx, stored, schema, mapping)
	if err != nil {
		return err
	}
	start := time.Now()
	ix, err := c.IndexArg.Open(ctx, &index.Options{Schema: schema, Sync: policy})
	if err != nil {
		return errors.Join(err, embedding.close(e))
	}
	p, err := c.run(ctx, e, ix, mapping, embedding, checkpoint, file, policy)
	err = errors.Join(err, ix.Close(), embedding.close(e))
	if err == nil {
		err = ingest.RemoveCheckpoint(file)
	}
	took := time.Since(start).Seconds()
	sum := importSummary{Documents: p.Documents, Bad: p.Bad, Lines: p.Lines, ResumedFrom: checkpoint.Lines, TextBytes: p.TextBytes,
		Seconds: show.Round(took, 3), MBPerS: show.Round(float64(p.TextBytes)/1e6/took, 2), Interrupted: errors.Is(err, ingest.ErrStopped)}
	embedding.tell(&sum)
	if sum.Interrupted {
		err = fmt.Errorf("%w after line %d: go on with --resume", err, p.Lines)
	}
	return errors.Join(e.Result(c.JSON, sum), err)
}

func (c *importCmd) run(ctx context.Context, e *console.Console, ix collection.Collection, m *ingest.Mapping, em *embedding, cp ingest.Checkpoint, file string, policy storage.SyncPolicy) (ingest.Progress, error) {
	total := int64(0)
	for _, s := range cp.Sources {
		if s.Size < 0 {
			total = -1
			break
		}
		total += s.Size
	}
	bar := newBar(e, total)
	defer bar.done()
	em.show(bar)
	// What was begun is ended: the batch in hand is not cut by an interrupt,
	// except while it is embedded, which takes long and changes nothing.
	work := context.WithoutCancel(ctx)
	b := index.NewBatch()
	config := ingest.Config{
		Sources: cp.Sources, Stdin: e.Stdin, Mapping: m, Batch: c.Batch, Skip: cp.Lines,
		Apply: func(docs []index.Document) error {
			if err := em.fill(ctx, docs); err != nil {
				return err
			}
			b.Reset()
			for _, d := range docs {
				b.Put(d)
			}
			return ix.Apply(work, b)
		},
		Refused: func(err error) bool {
			return errors.Is(err, index.ErrInvalid) || errors.Is(err, index.ErrSchema) || errors.Is(err, index.ErrTooLarge)
		},
	}
	if c.SkipBad {
		config.Bad = func(source string, line int, err error) {
			bar.clear()
			e.Notef("skipped %s:%d: %s", source, line, console.OneLine(err))
		}
	}
	batches, saved := 0, cp.Lines
	save := func(p ingest.Progress) error {
		saved, cp.Lines = p.Lines, p.Lines
		return cp.Write(file)
	}
	config.Done = func(p ingest.Progress) error {
		bar.set(p)
		batches++
		if policy != storage.SyncAlways {
			if batches%checkpointEvery != 0 {
				return nil
			}
			if err := ix.Flush(work); err != nil {
				return err
			}
		}
		return save(p)
	}
	p, err := ingest.Run(ctx, config)
	if errors.Is(err, ingest.ErrStopped) {
		err = ingest.ErrStopped // where does not matter
	}
	if p.Lines > saved && policy != storage.SyncAlways {
		if ferr := ix.Flush(work); ferr != nil {
			return p, errors.Join(err, ferr)
		}
		err = errors.Join(err, save(p))
	}
	return p, err
}

func parseSync(s string) (storage.SyncPolicy, error) {
	switch s {
	case "always":
		return storage.SyncAlways, nil
	case "never":
		return storage.SyncNever, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, console.Usagef("--sync %q: want always, never or a duration such as 50ms", s)
	}
	return storage.SyncEvery(d), nil
}

// bar is the progress bar of an import, nothing when stderr is no terminal.
type bar struct {
	b     *progressbar.ProgressBar
	start time.Time
}

func newBar(e *console.Console, total int64) *bar {
	if !e.Progress {
		return &bar{}
	}
	return &bar{start: time.Now(), b: progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(e.Stderr),
		progressbar.OptionShowBytes(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(24),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetDescription("importing"))}
}

func (b *bar) set(p ingest.Progress) {
	if b.b == nil {
		return
	}
	took := time.Since(b.start).Seconds()
	b.b.Describe(fmt.Sprintf("%d documents, %.0f/s, %.1f MB text/s", p.Documents, float64(p.Documents)/took, float64(p.TextBytes)/1e6/took))
	_ = b.b.Set64(p.RawBytes) // a bar that cannot be drawn is no reason to stop
}

func (b *bar) clear() {
	if b.b != nil {
		_ = b.b.Clear()
	}
}

func (b *bar) done() {
	if b.b != nil {
		_ = b.b.Finish()
	}
}

// cutLast cuts s at the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
