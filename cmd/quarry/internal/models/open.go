package models

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/bgesmall"
	"github.com/quarrysearch/quarry/knowledge/embed/cache"
	"github.com/quarrysearch/quarry/knowledge/embed/e5small"
	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/storage"
)

// Names of --embed that are no place: the models carried in the program, one for
// some 100 languages and one for English, and none at all.
const (
	E5   = "e5"
	BGE  = "bge"
	None = "none"
)

// Flags choose an embedder, by the same names in every command.
type Flags struct {
	Embed        string `placeholder:"MODEL" help:"Model: e5 (in this program, 100 languages), bge (in this program, English, better there), a model's DIR or FILE.qem, or a service: openai:NAME, ollama:NAME, cohere:NAME, jina:NAME, voyage:NAME, tei:URL[#NAME]."`
	EmbedURL     string `name:"embed-url" placeholder:"URL" help:"Base URL of the service; default: the provider's own."`
	EmbedKeyEnv  string `name:"embed-key-env" placeholder:"NAME" help:"Environment variable with the service's key; default: the provider's usual one at its own URL, none elsewhere."`
	EmbedKeyFile string `name:"embed-key-file" placeholder:"FILE" help:"File with the service's key."`
}

// A Source says where an embedder is. It holds no secret.
type Source struct {
	// Model is E5, BGE, the path of a directory or file, or provider:model.
	Model string `json:"model"`
	// URL, KeyEnv and KeyFile are for services.
	URL     string `json:"url,omitempty"`
	KeyEnv  string `json:"key_env,omitempty"`
	KeyFile string `json:"key_file,omitempty"`
}

// Source reads the flags; an error is about them. Paths become absolute.
func (f Flags) Source() (Source, error) {
	s := Source{f.Embed, f.EmbedURL, f.EmbedKeyEnv, f.EmbedKeyFile}
	if s.Model == "" {
		return s, errors.New("--embed is missing")
	}
	_, name, isService := s.service()
	switch {
	case isService && name == "":
		return s, fmt.Errorf("--embed %s: nothing behind the colon", s.Model)
	case !isService && (s.URL != "" || s.KeyEnv != "" || s.KeyFile != ""):
		return s, fmt.Errorf("--embed %s is no service: it takes no URL and no key", s.Model)
	}
	for _, path := range []*string{&s.Model, &s.KeyFile} {
		if *path == "" || path == &s.Model && (isService || s.Model == E5 || s.Model == BGE) {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return s, err
		}
		*path = abs
	}
	return s, nil
}

// service tells the provider and what follows it, if s names one.
func (s Source) service() (p service.Provider, name string, ok bool) {
	provider, name, found := strings.Cut(s.Model, ":")
	if !found {
		return 0, "", false
	}
	p, err := service.ParseProvider(provider)
	return p, name, err == nil
}

// Open opens the embedder of the flags, or the one of the given name where they
// name none, behind a cache if there is a directory for it.
func (f Flags) Open(ctx context.Context, otherwise, cacheDir string) (*Model, error) {
	if f.Embed == "" {
		f.Embed = otherwise
	}
	source, err := f.Source()
	if err != nil {
		return nil, console.UsageError{Err: err}
	}
	m, err := Open(ctx, source, 0)
	if err != nil {
		return nil, fmt.Errorf("--embed %s: %w", f.Embed, err)
	}
	if cacheDir == "" {
		return m, nil
	}
	if err := m.Cache(cacheDir, 0); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// A Model is an open embedder.
type Model struct {
	embed.Embedder
	Source Source

	id     embed.Identity
	group  int // texts embedded in one call, between two reports of progress
	cache  *cache.Cache
	closes []func() error
}

// Open opens a source. dim is the dimension it must have, 0 when it is not
// known: a service is then asked for it.
func Open(ctx context.Context, s Source, dim int) (*Model, error) {
	m := &Model{Source: s, group: 64}
	if err := m.open(ctx, dim); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Model) open(ctx context.Context, dim int) error {
	p, name, isService := m.Source.service()
	if isService {
		return m.openService(ctx, p, name, dim)
	}
	var local *embed.Local
	var err error
	switch m.Source.Model {
	case E5:
		local, err = e5small.New()
	case BGE:
		local, err = bgesmall.New(nil)
	default:
		var weights *embed.Model
		if weights, err = OpenFile(m.Source.Model); err != nil {
			return err
		}
		m.closes = append(m.closes, weights.Close)
		local, err = embed.NewLocal(weights, nil)
	}
	if err != nil {
		return err
	}
	m.Embedder, m.id = local, local.Identity()
	return nil
}

// OpenFile opens a hub directory or a compact file.
func OpenFile(path string) (*embed.Model, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("no model at %s: want e5, bge, a directory or .qem file, or provider:model", path)
	case err != nil:
		return nil, err
	case info.IsDir():
		return embed.LoadDir(storage.OS{}, path, nil)
	}
	return embed.OpenModel(storage.OS{}, path)
}

func (m *Model) openService(ctx context.Context, p service.Provider, name string, dim int) error {
	o := service.Options{Model: name, Dim: dim}
	o.Call.BaseURL, o.Call.KeyEnv, o.Call.KeyFile = m.Source.URL, m.Source.KeyEnv, m.Source.KeyFile
	if p == service.TEI { // it serves one model; its place names it unless something after # does
		url, model, found := strings.Cut(name, "#")
		if found {
			o.Model = model
		}
		if o.Call.BaseURL == "" {
			o.Call.BaseURL = url
		}
	}
	s, err := service.New(p, o)
	if err != nil {
		return err
	}
	m.closes = append(m.closes, s.Close)
	m.Embedder, m.group = s, 1024
	m.id, err = s.Probe(ctx)
	return err
}

// Identity is the embedder's; its dimension is known.
func (m *Model) Identity() embed.Identity { return m.id }

// Tokens is the embedder for late interaction, nil when it gives no token
// vectors.
func (m *Model) Tokens() embed.TokenEmbedder {
	t, _ := m.Embedder.(embed.TokenEmbedder)
	return t
}

// Cache puts a cache in dir before the embedder. maxBytes bounds it, 0 means
// the cache's default.
func (m *Model) Cache(dir string, maxBytes int64) error {
	c, err := cache.Open(dir, cache.Options{MaxBytes: maxBytes})
	if err != nil {
		return err
	}
	m.cache, m.Embedder = c, c.Wrap(m.Embedder)
	m.closes = append(m.closes, c.Close)
	return nil
}

// Hits counts the texts that the cache answered.
func (m *Model) Hits() int64 {
	if m.cache == nil {
		return 0
	}
	return m.cache.Stats().Hits
}

// Notes are what went wrong with the cache: no errors, it may forget.
func (m *Model) Notes() []string {
	if m.cache == nil {
		return nil
	}
	return m.cache.Notes()
}

// CloseNoting is Close, with notef told first what the cache could not do: that
// is no failure.
func (m *Model) CloseNoting(notef func(format string, args ...any)) error {
	for _, note := range m.Notes() {
		notef("embeddings: %s", note)
	}
	return m.Close()
}

// Close closes the cache, then the embedder.
func (m *Model) Close() error {
	var errs []error
	for i := len(m.closes) - 1; i >= 0; i-- {
		errs = append(errs, m.closes[i]())
	}
	m.closes = nil
	return errors.Join(errs...)
}
