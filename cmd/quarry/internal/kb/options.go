package kb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/chunk"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/knowledge/parse"
	"github.com/quarrysearch/quarry/knowledge/rerank"
)

// An Opener opens the embedder of a name, as a base keeps it, with a cache in a
// directory if one is named. The function that closes it may be nil.
type Opener func(ctx context.Context, name, cache string) (embed.Embedder, func() error, error)

// OpenEmbedder opens embedders by package models.
func OpenEmbedder(ctx context.Context, name, cache string) (embed.Embedder, func() error, error) {
	source := models.Source{Model: name}
	if strings.HasPrefix(name, "{") {
		if err := json.Unmarshal([]byte(name), &source); err != nil {
			return nil, nil, fmt.Errorf("embedder %s: %w", name, err)
		}
	}
	m, err := models.Open(ctx, source, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("embedder %s: %w", name, err)
	}
	if cache != "" {
		if err := m.Cache(cache, 0); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("embedder %s: %w", name, err), m.Close())
		}
	}
	return m.Embedder, m.Close, nil
}

// embedderName is how a base keeps what the flags choose, e5 without any: the
// model, or the JSON of its source where that says more; empty for none.
func embedderName(f models.Flags) (string, error) {
	if f.Embed == "" {
		f.Embed = models.E5
	}
	if f.Embed == models.None {
		if f != (models.Flags{Embed: models.None}) {
			return "", errors.New("--embed none takes no URL and no key")
		}
		return "", nil
	}
	source, err := f.Source()
	if err != nil || source == (models.Source{Model: source.Model}) {
		return source.Model, err
	}
	name, err := json.Marshal(source)
	return string(name), err
}

// shortName is an embedder's name for reading.
func shortName(name string) string {
	var source models.Source
	if strings.HasPrefix(name, "{") && json.Unmarshal([]byte(name), &source) == nil {
		name = source.Model
	}
	return show.Line(cmp.Or(name, models.None), 60)
}

// chunkFlags say how texts are cut.
type chunkFlags struct {
	Strategy   string  `enum:",structure,count,divide" default:"" placeholder:"NAME" help:"structure (headings are borders, code and tables stay whole), count (windows of --size units) or divide (--size parts)."`
	Unit       string  `enum:",token,word,sentence,paragraph,custom,page" default:"" placeholder:"NAME" help:"What --size and --overlap count: token (the embedder's own), word, sentence, paragraph, custom, page."`
	Size       *int    `placeholder:"N" help:"Units a chunk, or parts."`
	Overlap    *int    `placeholder:"N" help:"Units that the next chunk repeats."`
	Separator  *string `placeholder:"TEXT" help:"Between two units of --unit custom; \\n, \\t and \\f are read. Default an empty line."`
	KeepWhole  *int    `placeholder:"N" help:"Units up to which structure keeps a code block or a table whole; -1 never."`
	AtSentence bool    `help:"Let count cut after the last sentence of the window."`
}

// options makes options of the flags, for the strategy that holds where none is
// given. By structure, and without flags, they are those of knowledge.DefaultChunk.
func (f *chunkFlags) options(strategy chunk.Strategy) chunk.Options {
	o := chunk.Options{Strategy: strategy}
	if f.Strategy != "" {
		o.Strategy = chunk.Strategy(f.Strategy)
	}
	if std := knowledge.DefaultChunk(); o.Strategy == chunk.Structure {
		o.MaxChunks = std.MaxChunks
		if f.Unit == "" || f.Unit == string(chunk.Token) {
			o.Size, o.KeepWhole = std.Size, std.KeepWhole
		}
	}
	o.Unit, o.AtSentence = chunk.Token, f.AtSentence
	if f.Unit != "" {
		o.Unit = chunk.Unit(f.Unit)
	}
	if f.Size != nil {
		o.Size, o.KeepWhole = f.Size, 0
	}
	if f.KeepWhole != nil {
		o.KeepWhole = *f.KeepWhole
	}
	o.Overlap = f.Overlap
	if f.Separator != nil {
		sep := strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\f`, "\f").Replace(*f.Separator)
		o.Separator = &sep
	}
	return o
}

// validate tells what is wrong with the flags.
func (f *chunkFlags) validate(strategy chunk.Strategy) error {
	o := f.options(strategy)
	_, err := chunk.New(&o)
	return err
}

// parseFlags say how files are read.
type parseFlags struct {
	Format   string        `placeholder:"NAME" help:"Read every file as markdown, html, text, pdf, docx, csv, xlsx or jsonl, whatever it looks like."`
	Charset  string        `placeholder:"NAME" help:"Encoding of text files that state none, such as windows-1251; default by their bytes."`
	MaxPages int           `placeholder:"N" help:"Pages of a PDF that are read; default 20000."`
	PDFTime  time.Duration `placeholder:"TIME" help:"Time for the pages of one PDF, such as 30s; default 2m."`
}

func (f *parseFlags) options() parse.Options {
	return parse.Options{Format: parse.Format(f.Format), Charset: f.Charset, MaxPages: f.MaxPages, Time: f.PDFTime}
}

// analyzerFlags choose how words are made of a text.
type analyzerFlags struct {
	Analyzer string `placeholder:"NAME" help:"Analyzer: ${analyzers}; auto goes by the language of each document. Default auto."`
	Lang     string `placeholder:"CODE" help:"Language of all documents (en, pt-BR), instead of --analyzer."`
}

func (f *analyzerFlags) validate() error {
	if f.Lang != "" && f.Analyzer != "" {
		return fmt.Errorf("--analyzer %s and --lang %s are given both", f.Analyzer, f.Lang)
	}
	if f.Analyzer != "" && f.Analyzer != knowledge.AnalyzerAuto {
		_, err := analysis.New(f.Analyzer)
		return err
	}
	return nil
}

func (f *analyzerFlags) name() string {
	if f.Lang != "" {
		return analysis.ForLanguage(f.Lang).Name()
	}
	return f.Analyzer
}

// Late is the reranker that needs no service.
const late = "late"

// rerankFlag chooses a reranker.
type rerankFlag struct {
	Rerank string `placeholder:"NAME" help:"Reranker: late (token vectors of the embedder), the DIR or FILE.qem of a cross-encoder, cohere:MODEL, jina:MODEL, voyage:MODEL, or tei:URL; keys come from the service's environment variable."`
}

func (f *rerankFlag) validate() error {
	if f.Rerank == "" || f.Rerank == late || f.Rerank == models.None {
		return nil
	}
	name, model, ok := strings.Cut(f.Rerank, ":")
	if _, err := os.Stat(f.Rerank); err == nil {
		return nil
	}
	if _, err := rerank.ParseProvider(name); err != nil || !ok || model == "" {
		return fmt.Errorf("--rerank %s: want late, a cross-encoder's directory or file, cohere:MODEL, jina:MODEL, voyage:MODEL or tei:URL", f.Rerank)
	}
	return nil
}

// reranker opens the reranker chosen, nil for none. The late one uses the first
// embedder in use that gives token vectors, or else the program's own.
func (f *rerankFlag) reranker(ctx context.Context, open *resources) (rerank.Reranker, error) {
	switch f.Rerank {
	case "", models.None:
		return nil, nil
	case late:
		for _, name := range append(slices.Clone(open.names), models.E5) {
			e, err := open.embedder(ctx, name)
			if err != nil {
				return nil, err
			}
			if t, ok := e.(embed.TokenEmbedder); ok {
				return rerank.LateInteraction(t, rerank.LateOptions{})
			}
		}
		return nil, errors.New("--rerank late: no embedder in use gives token vectors")
	}
	name, model, _ := strings.Cut(f.Rerank, ":")
	p, err := rerank.ParseProvider(name)
	if err != nil {
		m, err := models.OpenFile(f.Rerank)
		if err != nil {
			return nil, fmt.Errorf("--rerank %s: %w", f.Rerank, err)
		}
		open.closers = append(open.closers, m.Close)
		c, err := embed.NewCrossEncoder(m, nil)
		if err != nil {
			return nil, fmt.Errorf("--rerank %s: %w", f.Rerank, err)
		}
		return rerank.CrossEncoder(c), nil
	}
	o := rerank.Options{Model: model}
	if p == rerank.TEI {
		o = rerank.Options{Call: call.Options{BaseURL: model}}
	}
	r, err := rerank.NewHTTP(p, o)
	if err != nil {
		return nil, err
	}
	open.closers = append(open.closers, r.Close)
	return r, nil
}

// getenv reads an environment variable of the program.
func getenv(name string) string { return strings.TrimSpace(os.Getenv(name)) }
