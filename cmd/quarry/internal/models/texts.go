package models

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service"
)

// Vectors are those of a list of texts.
type Vectors struct {
	Dim  int
	Data []float32 // a row a text
	// Blank and Truncated tell which texts had nothing to embed, and so a row
	// of zeros, and which were cut at the model's limit.
	Blank, Truncated []bool
}

// Row is row i, nil for a blank text.
func (v *Vectors) Row(i int) []float32 {
	if v.Blank[i] {
		return nil
	}
	return v.Data[i*v.Dim : (i+1)*v.Dim]
}

// Texts embeds texts, in groups, and tells step after each how many are done.
// Blank texts are not given to the embedder: services refuse them, and what a
// local model says about them means nothing.
func (m *Model) Texts(ctx context.Context, kind embed.Kind, texts []string, step func(done int)) (*Vectors, error) {
	dim := m.id.Dim
	v := &Vectors{Dim: dim, Data: make([]float32, len(texts)*dim), Blank: make([]bool, len(texts)), Truncated: make([]bool, len(texts))}
	group, places := make([]string, 0, m.group), make([]int, 0, m.group)
	for i, text := range texts {
		if v.Blank[i] = service.IsBlank(text); !v.Blank[i] {
			group, places = append(group, text), append(places, i)
		}
		if len(group) < m.group && i < len(texts)-1 {
			continue
		}
		r, err := m.Embed(ctx, kind, group)
		if err != nil {
			return nil, atPlace(err, places)
		}
		if len(r.Vectors) != len(group)*dim {
			return nil, fmt.Errorf("the embedder gave %d components for %d texts of dimension %d", len(r.Vectors), len(group), dim)
		}
		for j, place := range places {
			copy(v.Data[place*dim:(place+1)*dim], r.Vectors[j*dim:(j+1)*dim])
		}
		for _, j := range r.Truncated {
			v.Truncated[places[j]] = true
		}
		group, places = group[:0], places[:0]
		if step != nil {
			step(i + 1)
		}
	}
	return v, nil
}

// atPlace makes an error about a text of a group name the caller's text.
func atPlace(err error, places []int) error {
	if t, ok := errors.AsType[*service.TextError](err); ok && t.Index >= 0 && t.Index < len(places) {
		return t.AtText(places[t.Index])
	}
	return err
}

// Documents fills the vector field of documents.
type Documents struct {
	Model *Model
	Field string
	// Texts are the text fields embedded, joined by newlines.
	Texts []string
	// Step is told, while a batch is worked on, how much of it is done.
	Step func(done, total int)

	// Embedded counts documents that got a vector, Blank those without text,
	// Truncated those cut at the model's limit.
	Embedded, Blank, Truncated int
}

// Fill gives each document its vector. Documents that have one already, from
// an earlier call, keep it; those without text get none.
func (d *Documents) Fill(ctx context.Context, docs []index.Document) error {
	var texts []string
	var places []int
	for i := range docs {
		if _, done := docs[i].Vectors[d.Field]; !done {
			texts, places = append(texts, d.text(&docs[i])), append(places, i)
		}
	}
	v, err := d.Model.Texts(ctx, embed.Passage, texts, func(done int) {
		if d.Step != nil {
			d.Step(done, len(texts))
		}
	})
	if t, ok := errors.AsType[*service.TextError](err); ok && t.Index < len(places) {
		return fmt.Errorf("document %q: %w", docs[places[t.Index]].ID, t.Err)
	}
	if err != nil {
		return err
	}
	for j, i := range places {
		row := v.Row(j)
		if row == nil {
			d.Blank++
			continue
		}
		if docs[i].Vectors == nil {
			docs[i].Vectors = make(map[string][]float32, 1)
		}
		docs[i].Vectors[d.Field] = row
		d.Embedded++
		if v.Truncated[j] {
			d.Truncated++
		}
	}
	return nil
}

func (d *Documents) text(doc *index.Document) string {
	parts := make([]string, 0, len(d.Texts))
	for _, name := range d.Texts {
		if s := doc.Text[name]; !service.IsBlank(s) {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "\n")
}
