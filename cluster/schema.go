package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// Names in the cluster. What the user named is escaped behind a prefix.
const (
	classPrefix = "Quarry_"

	propID     = "docid"
	propStored = "stored"
	propStates = "states"

	prefixText   = "t_"
	prefixMeta   = "m_"
	prefixNoType = "u_" // metadata that has shown no value yet
	prefixVector = "v_"
)

const formatVersion = 1

// A layout is a schema as the cluster holds it. It never changes.
type layout struct {
	schema index.Schema
	text   map[string]textField
	props  map[string]bool
	class  json.RawMessage // as the cluster told it
}

type textField struct {
	index.TextField
	analyzer *analysis.Analyzer
	prop     string
}

// className is the name of a collection's class.
func className(name string) string { return classPrefix + escape(name) }

// escape makes a name of letters a-z, digits and _ of any string: another byte
// is _ and two hexadecimal digits. Names do not differ in case alone, for which
// the cluster has no eyes. Long ones are a hash.
func escape(s string) string {
	b := make([]byte, 0, len(s)+8)
	for _, c := range []byte(s) {
		if alphanumeric(c) && (c < 'A' || c > 'Z') {
			b = append(b, c)
		} else {
			b = append(append(b, '_'), hex.EncodeToString([]byte{c})...)
		}
	}
	if len(b) > 200 {
		sum := sha256.Sum256([]byte(s))
		return "_h" + hex.EncodeToString(sum[:20])
	}
	return string(b)
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// A class is a class of the cluster's schema, with what this package reads or
// writes of it.
type class struct {
	Class       string                     `json:"class"`
	Description string                     `json:"description"`
	Properties  []property                 `json:"properties"`
	Vectors     map[string]json.RawMessage `json:"vectorConfig,omitempty"`
	Inverted    any                        `json:"invertedIndexConfig,omitempty"`
	Replication any                        `json:"replicationConfig,omitempty"`
	Sharding    any                        `json:"shardingConfig,omitempty"`
}

type property struct {
	Name         string   `json:"name"`
	Description  string   `json:"description,omitempty"`
	DataType     []string `json:"dataType"`
	Tokenization string   `json:"tokenization"`
	Filterable   bool     `json:"indexFilterable"`
	Searchable   bool     `json:"indexSearchable"`
}

// described is the description of a class: what the cluster has no place for.
type described struct {
	Quarry  int                 `json:"quarry"` // format version
	Name    string              `json:"collection"`
	Text    []index.TextField   `json:"text,omitempty"`
	Vectors []index.VectorField `json:"vectors,omitempty"`
	Strict  bool                `json:"strict,omitempty"`
}

// metaDescribed is the description of a property of metadata.
type metaDescribed struct {
	Field string `json:"field"`
	Type  string `json:"type"`
}

// checkSchema refuses what the cluster cannot hold.
func checkSchema(s *index.Schema) error {
	if len(s.Sparse) > 0 {
		return fmt.Errorf("%w: sparse field %q: a cluster has no sparse vectors", storage.ErrSchema, s.Sparse[0].Name)
	}
	for i, f := range s.Text {
		if k, b := number(f.K1, 1.2), number(f.B, 0.75); k != number(s.Text[0].K1, 1.2) || b != number(s.Text[0].B, 0.75) {
			return fmt.Errorf("%w: text field %q: k1 %v and b %v: a cluster has one pair for all text fields, and field %q has others",
				storage.ErrSchema, f.Name, k, b, s.Text[0].Name)
		} else if i == 0 && (k <= 0 || b < 0) {
			return fmt.Errorf("%w: text field %q: k1 %v and b %v: a cluster takes k1 above 0", storage.ErrSchema, f.Name, k, b)
		}
	}
	return nil
}

func number(p *float64, standard float64) float64 {
	if p == nil {
		return standard
	}
	return *p
}

func propText(field string) property {
	return property{Name: prefixText + escape(field), DataType: []string{"text"}, Tokenization: "whitespace", Filterable: true, Searchable: true}
}

func propMeta(field string, t filter.Type) property {
	d, _ := json.Marshal(metaDescribed{field, t.String()}) // two strings
	p := property{Name: prefixMeta + escape(field), Description: string(d), DataType: []string{"text[]"}, Tokenization: "field", Filterable: true}
	if t == filter.Undeclared {
		p.Name, p.Filterable = prefixNoType+escape(field), false
	}
	return p
}

func vectorConfig(f index.VectorField) json.RawMessage {
	distance := "cosine"
	switch f.Metric {
	case quant.Dot:
		distance = "dot"
	case quant.L2:
		distance = "l2-squared"
	}
	data, _ := json.Marshal(map[string]any{"vectorizer": map[string]any{"none": map[string]any{}}, "vectorIndexType": "hnsw",
		"vectorIndexConfig": map[string]any{"distance": distance, "maxConnections": f.M, "efConstruction": f.Construct}}) // words and numbers
	return data
}

// newClass makes the class of a schema whose defaults are filled in.
func (c *Collection) newClass(s *index.Schema, replicas int) (class, error) {
	d, err := describe(c.name, s)
	if err != nil {
		return class{}, err
	}
	out := class{Class: c.class, Description: d, Vectors: make(map[string]json.RawMessage),
		Properties: []property{
			{Name: propID, DataType: []string{"text"}, Tokenization: "field", Filterable: true},
			{Name: propStates, DataType: []string{"text[]"}, Tokenization: "field", Filterable: true},
			{Name: propStored, DataType: []string{"text"}, Tokenization: "field"},
		},
		Replication: map[string]any{"factor": replicas, "asyncEnabled": replicas > 1, "deletionStrategy": "TimeBasedResolution"},
	}
	k1, b := 1.2, 0.75
	if len(s.Text) > 0 {
		k1, b = number(s.Text[0].K1, k1), number(s.Text[0].B, b)
	}
	out.Inverted = map[string]any{"bm25": map[string]any{"k1": k1, "b": b}, "stopwords": map[string]any{"preset": "none"}}
	if c.o.Shards > 0 {
		out.Sharding = map[string]any{"desiredCount": c.o.Shards}
	}
	for _, f := range s.Text {
		out.Properties = append(out.Properties, propText(f.Name))
	}
	for _, f := range s.Vectors {
		out.Vectors[prefixVector+escape(f.Name)] = vectorConfig(f)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Meta)) {
		out.Properties = append(out.Properties, propMeta(name, s.Meta[name]))
	}
	if len(out.Vectors) == 0 {
		// A class without a named vector could never get one.
		out.Vectors[prefixNone] = vectorConfig(index.VectorField{M: 4, Construct: 8})
	}
	return out, nil
}

// prefixNone is the vector of a collection that was made without vectors.
const prefixNone = "none"

func describe(name string, s *index.Schema) (string, error) {
	d, err := json.Marshal(described{formatVersion, name, s.Text, s.Vectors, s.Strict})
	return string(d), err
}

// decodeClass reads the cluster's answer about a class.
func decodeClass(data []byte, analyzers []*analysis.Analyzer) (*layout, error) {
	var c class
	var d described
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("%w: schema of the cluster: %w", storage.ErrCorrupt, err)
	}
	if err := json.Unmarshal([]byte(c.Description), &d); err != nil || d.Quarry < 1 {
		return nil, fmt.Errorf("%w: class %s was not made by this program", storage.ErrSchema, c.Class)
	}
	if d.Quarry != formatVersion {
		return nil, fmt.Errorf("%w: class %s has version %d, this build reads %d", storage.ErrVersion, c.Class, d.Quarry, formatVersion)
	}
	l := &layout{props: make(map[string]bool), text: make(map[string]textField), class: data,
		schema: index.Schema{Text: d.Text, Vectors: d.Vectors, Strict: d.Strict, Meta: make(map[string]filter.Type)}}
	for _, p := range c.Properties {
		l.props[p.Name] = true
		typed := strings.HasPrefix(p.Name, prefixMeta)
		if !typed && !strings.HasPrefix(p.Name, prefixNoType) {
			continue
		}
		var m metaDescribed
		if err := json.Unmarshal([]byte(p.Description), &m); err != nil || m.Field == "" {
			return nil, fmt.Errorf("%w: class %s: property %s is not described", storage.ErrCorrupt, c.Class, p.Name)
		}
		t, err := filter.ParseType(m.Type)
		if typed && err != nil {
			return nil, fmt.Errorf("%w: class %s: metadata field %q: %w", storage.ErrCorrupt, c.Class, m.Field, err)
		}
		if _, known := l.schema.Meta[m.Field]; typed || !known {
			l.schema.Meta[m.Field] = t
		}
	}
	for _, f := range d.Text {
		t := textField{TextField: f, prop: prefixText + escape(f.Name)}
		if i := slices.IndexFunc(analyzers, func(a *analysis.Analyzer) bool { return a.Name() == f.Analyzer }); i >= 0 {
			t.analyzer = analyzers[i]
		} else {
			a, err := analysis.New(f.Analyzer)
			if err != nil {
				return nil, fmt.Errorf("%w: text field %q: %w", storage.ErrSchema, f.Name, err)
			}
			t.analyzer = a
		}
		l.text[f.Name] = t
	}
	return l, nil
}

// decodeNames reads the names of this package's collections from a schema.
func decodeNames(data []byte) ([]string, error) {
	var s struct {
		Classes []struct {
			Class       string `json:"class"`
			Description string `json:"description"`
		} `json:"classes"`
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%w: schema of the cluster: %w", storage.ErrCorrupt, err)
	}
	var names []string
	for _, c := range s.Classes {
		var d described
		if strings.HasPrefix(c.Class, classPrefix) && json.Unmarshal([]byte(c.Description), &d) == nil && d.Quarry > 0 && d.Name != "" {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (c *Collection) schemaPath() string { return "/v1/schema/" + url.PathEscape(c.class) }

// open makes or extends the collection and learns its layout.
func (c *Collection) open(ctx context.Context) error {
	l, err := c.refresh(ctx)
	if errors.Is(err, storage.ErrNotFound) && c.o.Schema != nil {
		if err := c.create(ctx); err != nil {
			return err
		}
		l, err = c.refresh(ctx)
	}
	if err != nil || c.o.Schema == nil {
		return err
	}
	next, changed, err := l.schema.Extend(c.o.Schema, c.o.Analyzers...)
	if err != nil || !changed {
		return err
	}
	if err := checkSchema(&next); err != nil {
		return err
	}
	if err := c.extend(ctx, l, &next); err != nil {
		return err
	}
	return c.grow(ctx, next.Meta)
}

// refresh reads the layout from the cluster.
func (c *Collection) refresh(ctx context.Context) (*layout, error) {
	data, err := c.client.call(ctx, request{method: http.MethodGet, path: c.schemaPath()})
	if err != nil {
		return nil, err
	}
	l, err := decodeClass(data, c.o.Analyzers)
	if err == nil {
		c.known.Store(l)
	}
	return l, err
}

// create makes the class and waits until each node has it: a node that does not
// refuses the documents it is given.
func (c *Collection) create(ctx context.Context) error {
	s, _, err := index.Schema{}.Extend(c.o.Schema, c.o.Analyzers...)
	if err != nil {
		return err
	}
	if err := checkSchema(&s); err != nil {
		return err
	}
	replicas, err := c.replicas(ctx)
	if err != nil {
		return err
	}
	cl, err := c.newClass(&s, replicas)
	if err != nil {
		return err
	}
	body, err := json.Marshal(cl)
	if err != nil {
		return err
	}
	_, err = c.client.call(ctx, request{method: http.MethodPost, path: "/v1/schema", body: body, write: true})
	if err != nil && !strings.Contains(err.Error(), "already exists") { // by another, or by an attempt that was not heard of
		return err
	}
	return c.await(ctx, func(*layout) bool { return true })
}

// replicas is how many copies a new collection gets.
func (c *Collection) replicas(ctx context.Context) (int, error) {
	if c.o.Replicas > 0 {
		return c.o.Replicas, nil
	}
	data, err := c.client.call(ctx, request{method: http.MethodGet, path: "/v1/nodes"})
	if err != nil {
		return 0, err
	}
	var n struct {
		Nodes []struct{} `json:"nodes"`
	}
	if err := json.Unmarshal(data, &n); err != nil || len(n.Nodes) == 0 {
		return 0, fmt.Errorf("%w: the cluster names no nodes", storage.ErrCorrupt)
	}
	return min(len(n.Nodes), defaultReplicas), nil
}

// extend adds text fields and vectors to the class, and sets the description.
func (c *Collection) extend(ctx context.Context, l *layout, next *index.Schema) error {
	for _, f := range next.Text {
		if p := propText(f.Name); !l.props[p.Name] {
			if err := c.addProperty(ctx, p); err != nil {
				return err
			}
		}
	}
	l, err := c.refresh(ctx)
	if err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(l.class, &all); err != nil {
		return err
	}
	vectors := make(map[string]json.RawMessage)
	if err := json.Unmarshal(all["vectorConfig"], &vectors); err != nil {
		return fmt.Errorf("%w: vectors of the cluster: %w", storage.ErrCorrupt, err)
	}
	for _, f := range next.Vectors {
		if name := prefixVector + escape(f.Name); vectors[name] == nil {
			vectors[name] = vectorConfig(f)
		}
	}
	d, err := describe(c.name, next)
	if err != nil {
		return err
	}
	if all["description"], err = json.Marshal(d); err != nil {
		return err
	}
	if all["vectorConfig"], err = json.Marshal(vectors); err != nil {
		return err
	}
	body, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if _, err := c.client.call(ctx, request{method: http.MethodPut, path: c.schemaPath(), body: body, write: true}); err != nil {
		return err
	}
	return c.await(ctx, func(l *layout) bool {
		return len(l.schema.Vectors) == len(next.Vectors) && len(l.text) == len(next.Text)
	})
}

// grow adds metadata that is not known, or gets its type. Of two programs that
// give a field two types one finds the other's there: ErrSchema.
func (c *Collection) grow(ctx context.Context, fields map[string]filter.Type) error {
	l := c.known.Load()
	var added []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if have, ok := l.schema.Meta[name]; ok && (have == fields[name] || fields[name] == filter.Undeclared) {
			continue
		}
		p := propMeta(name, fields[name])
		if err := c.addProperty(ctx, p); err != nil {
			return err
		}
		added = append(added, p.Name)
	}
	if len(added) == 0 {
		return nil
	}
	if err := c.await(ctx, func(l *layout) bool {
		return !slices.ContainsFunc(added, func(p string) bool { return !l.props[p] })
	}); err != nil {
		return err
	}
	l = c.known.Load()
	for name, t := range fields {
		if have := l.schema.Meta[name]; t != filter.Undeclared && have != t {
			return fmt.Errorf("%w: metadata field %q is %v, not %v", storage.ErrSchema, name, have, t)
		}
	}
	return nil
}

func (c *Collection) addProperty(ctx context.Context, p property) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = c.client.call(ctx, request{method: http.MethodPost, path: c.schemaPath() + "/properties", body: body, write: true})
	if err != nil && strings.Contains(err.Error(), "already in use") {
		return nil
	}
	return err
}

// await waits until every node that can be reached has a layout that ready
// accepts, for Options.Attempt at most, and keeps the last of them.
func (c *Collection) await(ctx context.Context, ready func(*layout) bool) error {
	var wg sync.WaitGroup
	errs := make([]error, len(c.client.nodes))
	for i, n := range c.client.nodes {
		wg.Go(func() { errs[i] = c.awaitNode(ctx, n, ready) })
	}
	wg.Wait()
	if slices.Contains(errs, nil) {
		return nil // writes to one that is late are sent again
	}
	return errors.Join(errs...)
}

func (c *Collection) awaitNode(ctx context.Context, n *node, ready func(*layout) bool) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Attempt)
	defer cancel()
	_, err := c.client.call(ctx, request{method: http.MethodGet, path: c.schemaPath(), only: n, check: func(data []byte) error {
		l, err := decodeClass(data, c.o.Analyzers)
		if err == nil && !ready(l) {
			return transientf("%s does not know the schema yet", n.url)
		}
		if err == nil {
			c.known.Store(l)
		}
		return err
	}})
	return err
}

// wrap names the collection in an error.
func (c *Collection) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s collection %q: %w", what, c.name, err)
}

// integers gives boosts as whole numbers of the same proportions.
func integers(boosts []float64) ([]int, bool) {
	least := math.Inf(1)
	for _, b := range boosts {
		least = min(least, b)
	}
	for m := 1; m <= 100; m++ {
		out, ok := make([]int, len(boosts)), true
		for i, b := range boosts {
			x := b / least * float64(m)
			out[i] = int(math.Round(x))
			ok = ok && x < 1e6 && math.Abs(x-math.Round(x)) < 1e-9*x
		}
		if ok {
			return out, true
		}
	}
	return nil, false
}
