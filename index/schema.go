package index

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/hnsw"
	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/index/segment"
	"github.com/quarrysearch/quarry/storage"
)

// Defaults of a schema.
const (
	defaultAnalyzer = "standard"
	defaultK1       = 1.2
	defaultB        = 0.75
	defaultM        = 16
	defaultEfC      = 200
)

// A schema is a Schema made ready: checked, defaults filled in, analyzers
// made. It never changes; growth makes a new one.
type schema struct {
	public  Schema // with the metadata that documents brought
	seg     *segment.Schema
	text    map[string]*textField
	vectors map[string]*vectorField
	// custom are the analyzers with dictionaries; missing is the name of one
	// that the index needs and Options.Analyzers lacks.
	custom  []*analysis.Analyzer
	missing string
}

type textField struct {
	TextField
	analyzer *analysis.Analyzer
	k1, b    float64
}

type vectorField struct {
	VectorField
}

func (s Schema) clone() Schema {
	s.Text = slices.Clone(s.Text)
	for i := range s.Text {
		s.Text[i].K1, s.Text[i].B = cloneFloat(s.Text[i].K1), cloneFloat(s.Text[i].B)
	}
	s.Vectors = slices.Clone(s.Vectors)
	s.Sparse = slices.Clone(s.Sparse)
	s.Meta = maps.Clone(s.Meta)
	return s
}

func cloneFloat(p *float64) *float64 {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// newSchema checks a schema and makes it ready. grown allows metadata of a
// type not known yet, as a stored schema may hold.
func newSchema(in Schema, grown bool, custom ...*analysis.Analyzer) (*schema, error) {
	s := &schema{
		custom:  custom,
		public:  in.clone(),
		seg:     &segment.Schema{Text: map[string]*segment.TextField{}, Vectors: map[string]*segment.VectorField{}, Sparse: map[string]bool{}},
		text:    make(map[string]*textField, len(in.Text)),
		vectors: make(map[string]*vectorField, len(in.Vectors)),
	}
	if s.public.Meta == nil {
		s.public.Meta = map[string]filter.Type{}
	}
	s.seg.Meta = s.public.Meta
	if len(in.Text) > MaxFields || len(in.Vectors) > MaxFields || len(in.Sparse) > MaxFields || len(in.Meta) > MaxMetaFields {
		return nil, tooLargef("schema of %d text, %d vector, %d sparse and %d metadata fields, the limits are %d for each kind and %d for metadata",
			len(in.Text), len(in.Vectors), len(in.Sparse), len(in.Meta), MaxFields, MaxMetaFields)
	}
	for i := range s.public.Text {
		if err := s.addText(&s.public.Text[i]); err != nil {
			return nil, err
		}
	}
	for i := range s.public.Vectors {
		if err := s.addVector(&s.public.Vectors[i]); err != nil {
			return nil, err
		}
	}
	for _, f := range in.Sparse {
		if err := s.newName(f.Name); err != nil {
			return nil, err
		}
		s.seg.Sparse[f.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(in.Meta)) {
		if err := s.newName(name); err != nil {
			return nil, err
		}
		if t := in.Meta[name]; t > filter.Time || t == filter.Undeclared && !grown {
			return nil, schemaf("metadata field %q: %v is not a type a field can be declared with", name, t)
		}
	}
	return s, nil
}

func (s *schema) addText(f *TextField) error {
	if err := s.newName(f.Name); err != nil {
		return err
	}
	if f.Analyzer == "" {
		f.Analyzer = defaultAnalyzer
	}
	if f.Boost == 0 {
		f.Boost = 1
	}
	t := &textField{TextField: *f, k1: defaultK1, b: defaultB}
	if f.K1 != nil {
		t.k1 = *f.K1
	}
	if f.B != nil {
		t.b = *f.B
	}
	switch {
	case !(f.Boost > 0) || math.IsInf(f.Boost, 0):
		return schemaf("text field %q: boost %v: want a finite number above 0", f.Name, f.Boost)
	case !(t.k1 >= 0 && t.k1 <= 1000):
		return schemaf("text field %q: k1 %v: want 0 to 1000", f.Name, t.k1)
	case !(t.b >= 0 && t.b <= 1):
		return schemaf("text field %q: b %v: want 0 to 1", f.Name, t.b)
	}
	var err error
	if i := slices.IndexFunc(s.custom, func(a *analysis.Analyzer) bool { return a.Name() == f.Analyzer }); i >= 0 {
		t.analyzer = s.custom[i]
	} else if t.analyzer, err = analysis.New(f.Analyzer); err != nil {
		return fmt.Errorf("%w: text field %q: %w", ErrSchema, f.Name, err)
	}
	s.text[f.Name] = t
	s.seg.Text[f.Name] = &segment.TextField{Name: f.Name, Analyzer: t.analyzer, NotStored: f.NotStored}
	return nil
}

func (s *schema) addVector(f *VectorField) error {
	if err := s.newName(f.Name); err != nil {
		return err
	}
	if f.M == 0 {
		f.M = defaultM
	}
	if f.Construct == 0 {
		f.Construct = defaultEfC
	}
	switch {
	case f.Dim < 1 || f.Dim > quant.MaxDim:
		return schemaf("vector field %q: dimension %d: want 1 to %d", f.Name, f.Dim, quant.MaxDim)
	case !f.Metric.Valid():
		return schemaf("vector field %q: unknown metric %d", f.Name, f.Metric)
	case f.M < 4 || f.M > 64:
		return schemaf("vector field %q: m %d: want 4 to 64", f.Name, f.M)
	case f.Construct < 8 || f.Construct > 2000:
		return schemaf("vector field %q: ef_construction %d: want 8 to 2000", f.Name, f.Construct)
	case f.Bits != 0 && f.Bits != 4 && f.Bits != 8:
		return schemaf("vector field %q: codes of %d bits: want 4 or 8", f.Name, f.Bits)
	}
	s.vectors[f.Name] = &vectorField{*f}
	s.seg.Vectors[f.Name] = &segment.VectorField{Name: f.Name, Options: hnsw.Options{
		Dim: f.Dim, Metric: f.Metric, M: f.M, EfConstruction: f.Construct, Bits: f.Bits,
	}}
	return nil
}

// newName checks the name of a text, vector, sparse or metadata field, in this
// order.
func (s *schema) newName(name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("%w: %w", ErrSchema, err)
	}
	if s.declared(name) {
		return schemaf("field %q is declared twice", name)
	}
	return nil
}

// declared tells whether a field is one of text, vectors or sparse vectors.
func (s *schema) declared(name string) bool {
	return s.text[name] != nil || s.vectors[name] != nil || s.seg.Sparse[name]
}

func checkName(name string) error {
	switch {
	case name == "":
		return invalidf("field name is empty")
	case len(name) > MaxName:
		return tooLargef("field name %.40q… has %d bytes, the limit is %d", name, len(name), MaxName)
	case !utf8.ValidString(name):
		return invalidf("field name %q is not UTF-8", name)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return invalidf("field name %q holds a control character", name)
		}
	}
	return nil
}

// A grownField is metadata that documents brought, or whose type they showed.
type grownField struct {
	name string
	typ  filter.Type
}

// grow returns the schema with more metadata; s itself when there is none. A
// field whose type is known keeps it; another type for it is ErrSchema.
func (s *schema) grow(fields []grownField) (*schema, error) {
	var meta map[string]filter.Type
	for _, f := range fields {
		have, ok := s.public.Meta[f.name]
		if ok && (have == f.typ || f.typ == filter.Undeclared) {
			continue
		}
		if ok && have != filter.Undeclared {
			return nil, schemaf("metadata field %q is %v, not %v", f.name, have, f.typ)
		}
		if s.declared(f.name) {
			return nil, schemaf("field %q is no metadata", f.name)
		}
		if meta == nil {
			meta = maps.Clone(s.public.Meta)
		}
		meta[f.name] = f.typ
	}
	if meta == nil {
		return s, nil
	}
	if len(meta) > MaxMetaFields {
		return nil, tooLargef("%d metadata fields, the limit is %d", len(meta), MaxMetaFields)
	}
	g := *s
	g.public.Meta = meta
	seg := *s.seg
	seg.Meta = meta
	g.seg = &seg
	return &g, nil
}

// extend returns the stored schema s with what add, given to Open, adds, and
// whether they differ. Fields may be added, boosts changed, Strict turned on,
// and fields left out of add stay; everything else that differs is ErrSchema.
func (s *schema) extend(add *Schema) (*schema, bool, error) {
	if add == nil {
		return s, false, nil
	}
	a, err := newSchema(*add, false, s.custom...)
	if err != nil {
		return nil, false, err
	}
	out, changed := s.public.clone(), false
	for _, f := range a.public.Text {
		have := s.text[f.Name]
		i := slices.IndexFunc(out.Text, func(o TextField) bool { return o.Name == f.Name })
		switch {
		case have == nil:
			out.Text = append(out.Text, f)
			changed = true
		case have.Analyzer != f.Analyzer:
			return nil, false, schemaf("text field %q: stored analyzer %q, opened with %q", f.Name, have.Analyzer, f.Analyzer)
		case have.k1 != a.text[f.Name].k1 || have.b != a.text[f.Name].b:
			return nil, false, schemaf("text field %q: stored k1 %v and b %v, opened with %v and %v",
				f.Name, have.k1, have.b, a.text[f.Name].k1, a.text[f.Name].b)
		case have.NotStored != f.NotStored:
			return nil, false, schemaf("text field %q: stored not_stored %v, opened with %v", f.Name, have.NotStored, f.NotStored)
		case have.Boost != f.Boost:
			out.Text[i].Boost = f.Boost
			changed = true
		}
	}
	for _, f := range a.public.Vectors {
		if have := s.vectors[f.Name]; have == nil {
			out.Vectors = append(out.Vectors, f)
			changed = true
		} else if have.VectorField != f {
			return nil, false, schemaf("vector field %q: stored as %+v, opened with %+v", f.Name, have.VectorField, f)
		}
	}
	for _, f := range a.public.Sparse {
		if !s.seg.Sparse[f.Name] {
			out.Sparse = append(out.Sparse, f)
			changed = true
		}
	}
	for name, t := range a.public.Meta {
		switch have, ok := s.public.Meta[name]; {
		case !ok || have == filter.Undeclared:
			out.Meta[name] = t
			changed = true
		case have != t:
			return nil, false, schemaf("metadata field %q: stored type %v, opened with %v", name, have, t)
		}
	}
	if add.Strict && !out.Strict {
		out.Strict, changed = true, true
	}
	// Names that add gives to another kind of field show here.
	sc, err := newSchema(out, true, s.custom...)
	if err != nil {
		return nil, false, err
	}
	for name, t := range s.text {
		sc.analyze(name, t.analyzer) // perhaps of an earlier version
	}
	return sc, changed, nil
}

// analyze sets the analyzer of a text field.
func (s *schema) analyze(name string, a *analysis.Analyzer) {
	s.text[name].analyzer, s.seg.Text[name].Analyzer = a, a
}

// storedSchema is the form of a schema in the manifest (format.md). The types
// are written by name, so that the file does not depend on the numbers of
// another package.
type storedSchema struct {
	Version int               `json:"version"`
	Text    []storedText      `json:"text"`
	Vectors []storedVector    `json:"vectors"`
	Sparse  []SparseField     `json:"sparse,omitempty"` // version 2
	Meta    map[string]string `json:"meta"`
	Strict  bool              `json:"strict"`
}

type storedText struct {
	Name      string  `json:"name"`
	Analyzer  string  `json:"analyzer"`
	Identity  string  `json:"identity"`
	Boost     float64 `json:"boost"`
	K1        float64 `json:"k1"`
	B         float64 `json:"b"`
	NotStored bool    `json:"not_stored"`
}

type storedVector struct {
	Name      string `json:"name"`
	Dim       int    `json:"dim"`
	Metric    string `json:"metric"`
	M         int    `json:"m"`
	Construct int    `json:"ef_construction"`
	Bits      int    `json:"bits,omitempty"`
}

// schemaVersion is the newest version of a stored schema. One has the least that
// can say what it holds.
//
//	1: first version
//	2: sparse fields
const schemaVersion = 2

func (s *schema) encode() ([]byte, error) {
	st := storedSchema{Version: 1, Sparse: s.public.Sparse, Meta: make(map[string]string), Strict: s.public.Strict}
	for _, f := range s.public.Text {
		t := s.text[f.Name]
		st.Text = append(st.Text, storedText{
			Name: f.Name, Analyzer: f.Analyzer, Identity: t.analyzer.Identity(),
			Boost: f.Boost, K1: t.k1, B: t.b, NotStored: f.NotStored,
		})
	}
	for _, f := range s.public.Vectors {
		st.Vectors = append(st.Vectors, storedVector{f.Name, f.Dim, f.Metric.String(), f.M, f.Construct, f.Bits})
	}
	if len(st.Sparse) > 0 {
		st.Version = 2
	}
	for name, t := range s.public.Meta {
		st.Meta[name] = t.String()
	}
	return json.Marshal(st)
}

// decodeSchema is the inverse of encode; file is named in errors. Analyzers have
// the rules of the version that the index was built by; one that this build does
// not know is ErrSchema: its terms would not be found. For one with a dictionary
// that custom lacks stands one without; missing names it.
func decodeSchema(file string, b []byte, custom ...*analysis.Analyzer) (*schema, error) {
	var st storedSchema
	if err := json.Unmarshal(b, &st); err != nil {
		return nil, fmt.Errorf("%w: %s: schema: %w", ErrCorrupt, file, err)
	}
	if st.Version < 1 || st.Version > schemaVersion {
		return nil, fmt.Errorf("%w: %s: schema has version %d, this build reads 1 to %d", ErrVersion, file, st.Version, schemaVersion)
	}
	missing := ""
	for _, f := range st.Text {
		base, dictionary, ok := strings.Cut(f.Analyzer, "+")
		if !ok || slices.ContainsFunc(custom, func(a *analysis.Analyzer) bool { return a.Name() == f.Analyzer }) {
			continue
		}
		missing = f.Analyzer
		if a, err := analysis.New(base); err == nil {
			if a, err = a.WithDictionary(dictionary, func(string, func(int, int)) {}); err == nil {
				custom = append(slices.Clone(custom), a)
			}
		}
	}
	in := Schema{Strict: st.Strict, Sparse: st.Sparse, Meta: make(map[string]filter.Type, len(st.Meta))}
	for _, f := range st.Text {
		in.Text = append(in.Text, TextField{
			Name: f.Name, Analyzer: f.Analyzer, Boost: f.Boost, K1: &f.K1, B: &f.B, NotStored: f.NotStored,
		})
	}
	for _, f := range st.Vectors {
		m, err := quant.ParseMetric(f.Metric)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: vector field %q: %w", ErrCorrupt, file, f.Name, err)
		}
		in.Vectors = append(in.Vectors, VectorField{f.Name, f.Dim, m, f.M, f.Construct, f.Bits})
	}
	for name, t := range st.Meta {
		typ, err := filter.ParseType(t)
		if err != nil && t != filter.Undeclared.String() {
			return nil, fmt.Errorf("%w: %s: metadata field %q: %w", ErrCorrupt, file, name, err)
		}
		in.Meta[name] = typ
	}
	s, err := newSchema(in, true, custom...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	s.missing = missing
	for _, f := range st.Text {
		if s.text[f.Name].analyzer.Identity() == f.Identity {
			continue
		}
		a, err := analysis.Stored(f.Identity)
		if err != nil || a.Name() != f.Analyzer {
			return nil, schemaf("text field %q was indexed by analyzer %s, which this build does not have: build the index anew", f.Name, f.Identity)
		}
		s.analyze(f.Name, a)
	}
	return s, nil
}

// compile checks a filter against the schema.
func (s *schema) compile(f filter.Filter) (filter.Compiled, error) {
	return filter.Compile(f, func(field string) (filter.Type, bool) {
		t, ok := s.public.Meta[field]
		return t, ok
	})
}

// Record of a batch in the WAL (format.md).
const recordVersion = 1

// appendRecord appends the record of the batch but for its last list, the ids
// that DeleteWheres hit, which is known only under the lock.
func (p *prepared) appendRecord(b []byte) []byte {
	b = slices.Grow(b, int(p.bytes)+64)
	b = append(b, recordVersion)
	b = storage.AppendUvarint(b, uint64(len(p.grown)))
	for _, g := range p.grown {
		b = storage.AppendBytes(b, g.name)
		b = append(b, byte(g.typ))
	}
	b = storage.AppendUvarint(b, uint64(len(p.docs)))
	for i := range p.docs {
		b = segment.AppendDoc(b, &p.docs[i])
	}
	return appendIDs(b, p.gone)
}

func appendIDs(b []byte, ids []string) []byte {
	b = storage.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		b = storage.AppendBytes(b, id)
	}
	return b
}

// decodeRecord reads a record back into the prepared batch it came from.
func decodeRecord(sc *schema, record []byte) (*prepared, error) {
	d := storage.NewDecoder("WAL record", 0, record)
	if v := d.Byte(); d.Err() == nil && v != recordVersion {
		return nil, fmt.Errorf("%w: WAL record has version %d, this build reads %d", ErrVersion, v, recordVersion)
	}
	p := &prepared{base: sc, bytes: int64(len(record))}
	for range d.Count(2) {
		p.grown = append(p.grown, grownField{d.String(), filter.Type(d.Byte())})
	}
	var dd segment.DocDecoder
	for range d.Count(4) {
		p.docs = append(p.docs, dd.ReadDoc(d))
		if d.Err() != nil {
			return nil, d.Err()
		}
	}
	for range 2 {
		for range d.Count(1) {
			p.gone = append(p.gone, d.String())
		}
	}
	if d.End(); d.Err() != nil {
		return nil, d.Err()
	}
	for i := range p.docs {
		if i > 0 && p.docs[i].ID <= p.docs[i-1].ID {
			return nil, storage.Corruptf("WAL record", 0, "document %q is not above the one before", p.docs[i].ID)
		}
		p.dead = append(p.dead, p.docs[i].ID)
	}
	p.dead = append(p.dead, p.gone...)
	slices.Sort(p.dead)
	return p, nil
}

// checkRecord holds a decoded record against the schema: a record that passed
// its checksum and names what the schema lacks comes from another index.
func (p *prepared) checkRecord(sc *schema) error {
	for i := range p.docs {
		d := &p.docs[i]
		for _, t := range d.Texts {
			if sc.text[t.Field] == nil {
				return storage.Corruptf("WAL record", 0, "document %q: unknown text field %q", d.ID, t.Field)
			}
		}
		for _, v := range d.Vectors {
			if f := sc.vectors[v.Field]; f == nil || f.Dim != len(v.Vec) {
				return storage.Corruptf("WAL record", 0, "document %q: vector field %q unknown or of another dimension", d.ID, v.Field)
			}
		}
		for _, v := range d.Sparse {
			if !sc.seg.Sparse[v.Field] {
				return storage.Corruptf("WAL record", 0, "document %q: unknown sparse field %q", d.ID, v.Field)
			}
		}
		for _, m := range d.Metas {
			if t, ok := sc.public.Meta[m.Field]; !ok || m.Value.Type() != t && m.Value.Type() != filter.Undeclared {
				return storage.Corruptf("WAL record", 0, "document %q: metadata field %q is not %v", d.ID, m.Field, m.Value.Type())
			}
		}
	}
	return nil
}
