package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/ingest"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

// fieldFlags say what becomes of the keys of a JSON object.
type fieldFlags struct {
	ID         string   `default:"id" help:"Key of the id; _id serves where id is missing."`
	Text       []string `placeholder:"NAME[:ANALYZER][^BOOST]" help:"Text fields; default: those of the index, or title and text."`
	Analyzer   string   `placeholder:"NAME" help:"Analyzer of text fields that name none: ${analyzers}; auto goes by --lang. Default standard."`
	Lang       string   `placeholder:"CODE" help:"Language of the texts (en, pt-BR), for --analyzer auto, which it implies."`
	Vector     []string `placeholder:"NAME:DIM[:METRIC]" help:"Vector fields: lists of numbers in the JSON, or rows of a --vector-file. METRIC is cosine (default), dot or l2."`
	VectorFile []string `placeholder:"NAME=FILE" help:"Vectors of a field from a file (.f32, .f16 or .fvecs, also .gz): row i belongs to line i, counted over all files."`
	Sparse     []string `placeholder:"NAME" help:"Sparse fields (SPLADE and the like): weights by term in the JSON, {\"sparse\": {NAME: {\"12\": 0.5}}} or {\"indices\", \"values\"}."`
	Dim        int      `help:"Dimension of a --vector-file that does not say it (.f32, .f16)."`
	Meta       []string `placeholder:"NAME[:TYPE]" help:"Metadata to take, from the top level or from the object metadata; '*' is everything in that object, and the default. TYPE is keyword, int64, float64, bool or time; default: the type first seen."`
	JSONField  []string `name:"json-field" placeholder:"NAME=KEY" help:"Metadata field from JSON in a string, such as tags=tags_json."`
}

const anyMeta = "*"

// storedSchema is the schema of the index in dir, nil when there is none.
func storedSchema(dir string) (*index.Schema, error) {
	ix, err := index.Open(dir, &index.Options{ReadOnly: true, MustExist: true})
	if errors.Is(err, index.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := ix.Schema()
	return &s, ix.Close()
}

// stored is the schema of the index, nil when there is none.
func (c *importCmd) stored(ctx context.Context) (*index.Schema, error) {
	if len(c.Cluster) == 0 {
		return storedSchema(c.Dir)
	}
	ix, err := c.Reader(ctx)
	if errors.Is(err, index.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := ix.Schema(ctx)
	return &s, errors.Join(err, ix.Close())
}

// resolve makes the schema and the mapping of the flags, on top of the stored
// schema, if there is one. What a flag leaves open is as stored.
func (f *fieldFlags) resolve(stored *index.Schema) (*index.Schema, *ingest.Mapping, error) {
	if f.ID == "" {
		return nil, nil, console.Usagef("--id is empty")
	}
	if stored == nil {
		stored = &index.Schema{}
	}
	s := &index.Schema{Meta: map[string]filter.Type{}}
	m := &ingest.Mapping{ID: f.ID, AllMeta: len(f.Meta) == 0}
	if err := f.text(s, m, stored.Text); err != nil {
		return nil, nil, err
	}
	if err := f.vectors(s, m, stored.Vectors); err != nil {
		return nil, nil, err
	}
	for _, v := range stored.Sparse {
		m.Sparse = append(m.Sparse, v.Name)
	}
	for _, name := range f.Sparse {
		if !slices.Contains(m.Sparse, name) {
			m.Sparse = append(m.Sparse, name)
			s.Sparse = append(s.Sparse, index.SparseField{Name: name})
		}
	}
	if err := f.meta(s, m); err != nil {
		return nil, nil, err
	}
	return s, m, nil
}

func (f *fieldFlags) text(s *index.Schema, m *ingest.Mapping, stored []index.TextField) error {
	analyzer, err := engine.Analyzer(f.Analyzer, f.Lang)
	if err != nil {
		return err
	}
	names := f.Text
	if len(names) == 0 && len(stored) > 0 {
		for _, t := range stored {
			names = append(names, t.Name)
		}
	} else if len(names) == 0 {
		names = []string{"title", "text"}
	}
	for _, spec := range names {
		field, err := parseText("--text", spec)
		if err != nil {
			return err
		}
		if field.Analyzer == "" {
			field.Analyzer = analyzer
		}
		if i := slices.IndexFunc(stored, func(t index.TextField) bool { return t.Name == field.Name }); i >= 0 {
			have := stored[i]
			if field.Analyzer != "" {
				have.Analyzer = field.Analyzer
			}
			if field.Boost != 0 {
				have.Boost = field.Boost
			}
			field = have
		}
		s.Text = append(s.Text, field)
		m.Text = append(m.Text, field.Name)
	}
	return nil
}

// parseText reads NAME[:ANALYZER][^BOOST].
func parseText(flag, spec string) (index.TextField, error) {
	var t index.TextField
	name, boost, boosted := cutLast(spec, "^")
	if boosted {
		b, err := parseBoost(flag, spec, boost)
		if err != nil {
			return t, err
		}
		t.Boost = b
	}
	t.Name = name
	if n, analyzer, ok := cutLast(name, ":"); ok {
		t.Name, t.Analyzer = n, analyzer
		if err := engine.CheckAnalyzer(flag+" "+spec, analyzer); err != nil {
			return t, err
		}
	}
	if t.Name == "" {
		return t, console.Usagef("%s %q: the name is empty", flag, spec)
	}
	return t, nil
}

func parseBoost(flag, spec, boost string) (float64, error) {
	b, err := strconv.ParseFloat(boost, 64)
	if err != nil || !(b > 0) || math.IsInf(b, 0) {
		return 0, console.Usagef("%s %q: boost %q: want a number above 0", flag, spec, boost)
	}
	return b, nil
}

func (f *fieldFlags) vectors(s *index.Schema, m *ingest.Mapping, stored []index.VectorField) error {
	s.Vectors = slices.Clone(stored)
	at := func(name string) int {
		return slices.IndexFunc(s.Vectors, func(v index.VectorField) bool { return v.Name == name })
	}
	for _, spec := range f.Vector {
		v, err := parseVector(spec)
		if err != nil {
			return err
		}
		if i := at(v.Name); i >= 0 {
			s.Vectors[i].Dim, s.Vectors[i].Metric = v.Dim, v.Metric
		} else {
			s.Vectors = append(s.Vectors, v)
		}
	}
	for _, spec := range f.VectorFile {
		name, file, ok := strings.Cut(spec, "=")
		if !ok || name == "" || file == "" {
			return console.Usagef("--vector-file %q: want NAME=FILE", spec)
		}
		dim := f.Dim
		i := at(name)
		if i >= 0 {
			dim = s.Vectors[i].Dim
		}
		rows, err := bench.ReadVectors(file, dim)
		if err != nil {
			return err
		}
		if i < 0 {
			s.Vectors = append(s.Vectors, index.VectorField{Name: name, Dim: rows.Dim})
		}
		if m.Rows == nil {
			m.Rows = map[string]bench.Matrix[float32]{}
		}
		m.Rows[name] = rows
	}
	for _, v := range s.Vectors {
		if _, ok := m.Rows[v.Name]; !ok {
			m.Vectors = append(m.Vectors, v.Name)
		}
	}
	return nil
}

// parseVector reads NAME:DIM[:METRIC].
func parseVector(spec string) (index.VectorField, error) {
	var v index.VectorField
	parts := strings.Split(spec, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" {
		return v, console.Usagef("--vector %q: want NAME:DIM or NAME:DIM:METRIC", spec)
	}
	v.Name = parts[0]
	var err error
	if v.Dim, err = strconv.Atoi(parts[1]); err != nil || v.Dim < 1 {
		return v, console.Usagef("--vector %q: dimension %q: want a number above 0", spec, parts[1])
	}
	if len(parts) == 3 {
		if err := engine.SetMetric(&v, "--vector "+spec, parts[2]); err != nil {
			return v, err
		}
	}
	return v, nil
}

func (f *fieldFlags) meta(s *index.Schema, m *ingest.Mapping) error {
	for _, spec := range f.Meta {
		if spec == anyMeta {
			m.AllMeta = true
			continue
		}
		field := ingest.MetaField{Name: spec}
		if name, typ, ok := cutLast(spec, ":"); ok {
			t, err := filter.ParseType(typ)
			if err != nil {
				return console.Usagef("--meta %q: type %q is none of keyword, int64, float64, bool, time", spec, typ)
			}
			field = ingest.MetaField{Name: name, Type: t}
			s.Meta[name] = t
		}
		if field.Name == "" {
			return console.Usagef("--meta %q: the name is empty", spec)
		}
		m.Meta = append(m.Meta, field)
	}
	for _, spec := range f.JSONField {
		name, key, ok := strings.Cut(spec, "=")
		if !ok || name == "" || key == "" {
			return console.Usagef("--json-field %q: want NAME=KEY", spec)
		}
		m.Encoded = append(m.Encoded, ingest.EncodedField{Name: name, Key: key})
	}
	return nil
}
