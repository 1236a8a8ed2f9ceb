package knowledge

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// A group is the documents of one index batch.
type group struct {
	in       *ingest
	versions []*version
	pieces   int
	bytes    []int64 // of their sources, taken from the gate
}

// add takes a finished job. Every error it returns ends the ingest.
func (g *group) add(j *job) error {
	in := g.in
	err := j.err
	if p := j.refused.Load(); err == nil && p != nil {
		err = *p
	}
	switch {
	case errors.Is(err, errUnchanged):
		in.room.give(j.place.size)
		in.done++
		in.report.Unchanged++
		in.tell(Progress{Source: j.place.name, Status: Unchanged})
		return nil
	case err != nil && in.stopped.Err() != nil:
		return in.stopped.Err()
	case err != nil:
		in.room.give(j.place.size)
		in.fail(j.place.name, err)
		return nil
	}
	g.versions, g.bytes = append(g.versions, j.v), append(g.bytes, j.place.size)
	g.pieces += len(j.v.pieces)
	if g.pieces >= applyPieces {
		return g.flush()
	}
	return nil
}

// flush applies the group as one batch; when that is refused, each document
// alone, so that only the one at fault fails.
func (g *group) flush() error {
	versions := g.versions
	g.versions, g.pieces = nil, 0
	if len(versions) == 0 {
		return nil
	}
	defer func() {
		for _, n := range g.bytes {
			g.in.room.give(n)
		}
		g.bytes = g.bytes[:0]
	}()
	if err := g.in.stored(versions); err != nil {
		return err
	}
	err := g.in.put(versions)
	if err == nil || ends(err) {
		return err
	}
	if len(versions) == 1 {
		g.in.fail(versions[0].doc.Source, err)
		return nil
	}
	for _, v := range versions {
		if err := g.in.put([]*version{v}); err != nil {
			if ends(err) {
				return err
			}
			g.in.fail(v.doc.Source, err)
		}
	}
	return nil
}

// stored waits until the bytes of versions are on disk.
func (in *ingest) stored(versions []*version) error {
	for _, v := range versions {
		if err := <-v.stored; err != nil {
			return err
		}
	}
	if in.b.s.o.Sync == storage.SyncNever {
		return nil
	}
	return in.b.s.fs.SyncDir(in.b.path(blobsName))
}

// commit applies versions in one batch.
func (in *ingest) commit(versions []*version) error {
	in.b.batch.Lock()
	defer in.b.batch.Unlock()
	hidden := in.b.disabledIDs()
	batch := index.NewBatch()
	fields := make(map[string]bool)
	types := make(map[string]filter.Type)
	for _, v := range versions {
		_, off := slices.BinarySearch(hidden, v.doc.ID)
		v.doc.Enabled = !off
		in.fit(v, types)
		v.compose(batch, &in.cat)
		if len(v.pieces) > 0 {
			fields[in.cat.textField(v.analyzer)] = true
		}
	}
	if !in.rebuild {
		in.b.hold(fields)
	}
	if err := in.ix.Apply(in.stopped, batch); err != nil {
		return err
	}
	for f, t := range types {
		in.types[f] = t
	}
	return nil
}

// put applies versions in one batch and reports them.
func (in *ingest) put(versions []*version) error {
	if err := in.commit(versions); err != nil {
		return err
	}
	for _, v := range versions {
		in.done++
		status := Added
		if v.isNew {
			in.report.Added++
		} else {
			in.report.Updated++
			status = Updated
			for _, h := range slices.Concat(v.old.history, v.old.texts) {
				if !slices.Contains(v.doc.history, h) && !slices.Contains(v.doc.texts, h) {
					in.gone = append(in.gone, h)
				}
			}
		}
		in.report.Chunks += len(v.pieces)
		in.report.Bytes += v.doc.Bytes
		in.report.Warnings += len(v.doc.Warnings)
		in.tell(Progress{Source: v.doc.Source, Status: status, Chunks: len(v.pieces)})
	}
	return nil
}

// compose adds the operations of one version to a batch: all that the base
// holds of the document goes, and everything of the new version comes.
func (v *version) compose(batch *index.Batch, cat *catalog) {
	if !v.isNew {
		batch.DeleteWhere(ofDocument(v.doc.ID))
	}
	cut := 0
	for i := range v.pieces {
		if v.pieces[i].truncated {
			cut++
		}
	}
	if cut > 0 {
		v.doc.warn("%d of %d chunks are longer than the embedding model reads; their ends are found by keyword only", cut, len(v.pieces))
	}
	batch.Put(index.Document{ID: recordPrefix + v.doc.ID, Meta: v.doc.meta()})
	field := cat.textField(v.analyzer)
	for i := range v.pieces {
		p := &v.pieces[i]
		d := index.Document{ID: chunkPrefix + chunkID(v.doc.ID, i), Text: map[string]string{field: p.text}, Meta: v.pieceMeta(i)}
		if p.vector != nil {
			d.Vectors = map[string][]float32{fieldVector: p.vector}
		}
		batch.Put(d)
	}
}

func (v *version) pieceMeta(i int) map[string]any {
	p := &v.pieces[i]
	m := map[string]any{
		FieldKind: kindChunk, FieldDocument: v.doc.ID, FieldSource: v.doc.Source, FieldFormat: v.doc.Format, FieldVersion: v.doc.Version,
		FieldArtifact: v.doc.ArtifactHash, FieldNodeKind: p.kind, FieldChunk: i, FieldStart: p.start, FieldEnd: p.end,
		fieldSectionStart: p.parent.Start, fieldSectionEnd: p.parent.End, fieldContentAt: p.contentAt,
	}
	if p.page > 0 {
		m[FieldPage] = p.page
	}
	if p.pageEnd > 0 {
		m[FieldPageEnd] = p.pageEnd
	}
	if len(p.path) > 0 {
		m[FieldSection] = p.path
	}
	if len(p.entities) > 0 {
		m[FieldEntities] = p.entities
	}
	if p.from >= 0 {
		m[FieldSourceStart], m[FieldSourceEnd] = p.from, p.to
	}
	v.doc.shared(m)
	return m
}

// fit makes a document's own metadata fit the types that the base has for it
// by now. A value that has no form in its field's type is left out, with a
// warning: what one file says of itself must not keep it, or another, out.
func (in *ingest) fit(v *version, grown map[string]filter.Type) {
	for name, value := range v.doc.Meta {
		field := MetaPrefix + name
		have := typeOf(value)
		want, ok := in.types[field]
		if !ok {
			want, ok = grown[field]
		}
		switch {
		case have == filter.Undeclared: // null, an empty list, or what the index will refuse
		case !ok || want == filter.Undeclared:
			grown[field] = have
		case want == have:
		case want == filter.Keyword:
			v.doc.Meta[name] = keywords(value)
		case want == filter.Float64 && have == filter.Int64:
			if x, ok := value.(int64); ok {
				v.doc.Meta[name] = float64(x)
			}
		default:
			delete(v.doc.Meta, name)
			v.doc.warn("metadata %q is %v here and %v in the base: left out", name, have, want)
		}
	}
}

// typeOf returns the type that the index gives a value.
func typeOf(v any) filter.Type {
	switch v.(type) {
	case string, []string:
		return filter.Keyword
	case bool, []bool:
		return filter.Bool
	case int, int64, []int, []int64:
		return filter.Int64
	case float64, []float64:
		return filter.Float64
	case time.Time, []time.Time:
		return filter.Time
	}
	return filter.Undeclared
}

func keywords(v any) any {
	switch x := v.(type) {
	case time.Time:
		return x.Format(time.RFC3339Nano)
	case bool, int, int64, float64:
		return fmt.Sprint(x)
	case []bool:
		return sprints(x)
	case []int64:
		return sprints(x)
	case []int:
		return sprints(x)
	case []float64:
		return sprints(x)
	}
	return v
}

func sprints[T any](in []T) []string {
	out := make([]string, len(in))
	for i, x := range in {
		out[i] = fmt.Sprint(x)
	}
	return out
}
