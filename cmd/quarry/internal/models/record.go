package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

const recordVersion = 1

// A Record tells which model the vectors of an index are from. It lies beside
// the index, in DIR.embed.json.
type Record struct {
	Version int `json:"version"`
	// Field is the vector field.
	Field string `json:"field"`
	// Source is where the model was; it may be somewhere else now.
	Source Source `json:"source"`
	// Model is what it was.
	Model identity `json:"identity"`
}

// identity is embed.Identity with its keys in the file.
type identity struct {
	Name          string  `json:"name"`
	Revision      string  `json:"revision"`
	Dim           int     `json:"dim"`
	Metric        string  `json:"metric"`
	QueryPrefix   string  `json:"query_prefix"`
	PassagePrefix string  `json:"passage_prefix"`
	Tokenizer     string  `json:"tokenizer"`
	Floor         float64 `json:"floor"`
}

// NewRecord is the record of a field that m fills.
func NewRecord(m *Model, field string) *Record {
	return &Record{recordVersion, field, m.Source, identity(m.Identity())}
}

// RecordFile is the place of the record of the index in dir.
func RecordFile(dir string) string { return filepath.Clean(dir) + ".embed.json" }

// CacheDir is the place of the embeddings of the index in dir.
func CacheDir(dir string) string { return filepath.Clean(dir) + ".embeddings" }

// ReadRecord reads the record of an index, nil when there is none.
func ReadRecord(dir string) (*Record, error) {
	path := RecordFile(dir)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := new(Record)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	if r.Version != recordVersion {
		return nil, fmt.Errorf("%s has version %d, this build reads version %d", path, r.Version, recordVersion)
	}
	if r.Field == "" || r.Source.Model == "" || r.Model.Name == "" || r.Model.Dim < 1 {
		return nil, fmt.Errorf("%s is damaged: field, source or identity is missing", path)
	}
	return r, nil
}

// Write writes the record of the index in dir, whole and durable or not at all.
func (r *Record) Write(dir string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := RecordFile(dir)
	if err := (storage.OS{}).MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	return storage.WriteFileAtomic(storage.OS{}, filepath.Dir(path), filepath.Base(path), append(b, '\n'))
}

// ErrOtherModel is the error of an index and an embedder that do not go
// together.
var ErrOtherModel = errors.New("another model")

// Check compares an embedder with the one on record. The error names both and
// says how to rebuild the index.
func (r *Record) Check(dir string, m *Model) error {
	have, want := m.Identity(), embed.Identity(r.Model)
	have.Floor, want.Floor = 0, 0 // changes no vector
	if have == want {
		return nil
	}
	was, is := Describe(want), Describe(have)
	if was == is {
		was += ", tokenizer " + want.Tokenizer
		is += ", tokenizer " + have.Tokenizer
	}
	return fmt.Errorf("%w: %s was made with %s, and this is %s: rebuild it with: quarry import %s.new FILE… --embed %s",
		ErrOtherModel, dir, was, is, filepath.Clean(dir), m.Source.Model)
}

// Describe is an identity on one line.
func Describe(id embed.Identity) string {
	var b strings.Builder
	b.WriteString(id.Name)
	if rev := id.Revision; rev != "" {
		if len(rev) > 19 { // sha256: and twelve digits
			rev = rev[:19]
		}
		b.WriteString(" " + rev)
	}
	fmt.Fprintf(&b, " (%d dimensions", id.Dim)
	if id.QueryPrefix != "" || id.PassagePrefix != "" {
		fmt.Fprintf(&b, ", prefixes %q and %q", id.QueryPrefix, id.PassagePrefix)
	}
	b.WriteString(")")
	return b.String()
}
