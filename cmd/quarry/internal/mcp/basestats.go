package mcp

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge"
)

// baseFields are those of a base's chunks that a filter can ask for.
func baseFields() []fieldOut {
	var out []fieldOut
	for _, f := range []struct {
		typ   filter.Type
		names []string
	}{
		{filter.Keyword, []string{knowledge.FieldDocument, knowledge.FieldSource, knowledge.FieldTitle, knowledge.FieldFormat, knowledge.FieldLanguage, knowledge.FieldTags,
			knowledge.FieldAuthors, knowledge.FieldEntities, knowledge.FieldFreshness, knowledge.FieldNodeKind, knowledge.FieldSourceID, knowledge.FieldSection}},
		{filter.Int64, []string{knowledge.FieldPage, knowledge.FieldChunk, knowledge.FieldVersion}},
		{filter.Time, []string{knowledge.FieldCreated, knowledge.FieldModified}},
	} {
		for _, name := range f.names {
			out = append(out, fieldOut{Name: name, Kind: "metadata", Type: f.typ.String()})
		}
	}
	return out
}

// maxCounted bounds the documents of a base whose metadata is counted.
const maxCounted = 2000

// A tally counts the values of fields over documents.
type tally map[string]map[any]int

func (t tally) add(field string, values ...any) {
	for _, v := range values {
		if v == "" {
			continue
		}
		if t[field] == nil {
			t[field] = map[any]int{}
		}
		if _, known := t[field][v]; known || len(t[field]) < 1000 {
			t[field][v]++
		}
	}
}

// top is the most frequent values of a field.
func (t tally) top(field string) []index.FacetCount {
	var out []index.FacetCount
	for v, n := range t[field] {
		out = append(out, index.FacetCount{Value: v, Count: n})
	}
	slices.SortFunc(out, func(a, b index.FacetCount) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(fmt.Sprint(a.Value), fmt.Sprint(b.Value)))
	})
	return out[:min(len(out), topValues)]
}

func baseStats(ctx context.Context, r *registry.Registry, id string) (*statsOut, error) {
	store, err := r.Knowledge(ctx)
	if err != nil {
		return nil, err
	}
	info, err := store.Base(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &statsOut{KnowledgeBase: id, Documents: info.Documents, Chunks: info.Chunks, Modes: baseModes(&info), Fields: baseFields()}
	if info.Model != nil {
		out.Model = info.Model.Name
	}
	t, types := tally{}, map[string]string{}
	n := 0
	for d, err := range store.Documents(ctx, id) {
		if err != nil {
			return nil, err
		}
		if n++; n > maxCounted {
			out.Notes = append(out.Notes, fmt.Sprintf("values are those of the first %d documents", maxCounted))
			break
		}
		count(t, types, &d)
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		if len(out.Fields) == maxFields {
			out.Notes = append(out.Notes, "more fields are left out")
			break
		}
		out.Fields = append(out.Fields, fieldOut{Name: name, Kind: "metadata", Type: types[name]})
	}
	for i := range out.Fields {
		out.Fields[i].Values = t.top(out.Fields[i].Name)
	}
	return out, nil
}

// count adds what a document says of itself.
func count(t tally, types map[string]string, d *knowledge.Document) {
	t.add(knowledge.FieldFormat, d.Format)
	t.add(knowledge.FieldLanguage, d.Language)
	for _, v := range d.Tags {
		t.add(knowledge.FieldTags, show.Line(v, 100))
	}
	for _, v := range d.Authors {
		t.add(knowledge.FieldAuthors, show.Line(v, 100))
	}
	for name, v := range d.Meta {
		name = knowledge.MetaPrefix + name
		switch v := v.(type) {
		case string:
			types[name] = filter.Keyword.String()
			t.add(name, show.Line(v, 100))
		case bool:
			types[name] = filter.Bool.String()
			t.add(name, v)
		case int64:
			types[name] = filter.Int64.String()
		case float64:
			types[name] = filter.Float64.String()
		case time.Time:
			types[name] = filter.Time.String()
		case []string:
			types[name] = filter.Keyword.String()
			for _, x := range v {
				t.add(name, show.Line(x, 100))
			}
		}
	}
}
