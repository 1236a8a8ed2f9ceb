package index

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/index/segment"
	"github.com/quarrysearch/quarry/storage"
)

// A RepairReport tells what a repair saved and what it could not.
type RepairReport struct {
	Documents  int               `json:"documents"` // live in the new index
	Segments   []RepairedSegment `json:"segments"`
	WALRecords int               `json:"wal_records"` // batches of the log that were applied
	// Lost counts documents that are known to be gone; LostDocuments names the
	// first 10,000 of them. What a lost batch of the log held is not known.
	Lost          int            `json:"lost"`
	LostDocuments []LostDocument `json:"lost_documents,omitempty"`
	// Partial counts documents that were saved without a vector, and
	// PartialDocuments names the first 10,000 of them.
	Partial          int            `json:"partial"`
	PartialDocuments []LostDocument `json:"partial_documents,omitempty"`
	Problems         []string       `json:"problems"` // all that was found wrong
}

// A RepairedSegment is a segment of the damaged index.
type RepairedSegment struct {
	Name  string `json:"name"`
	Whole bool   `json:"whole"` // copied as it was
	Saved int    `json:"saved"` // live documents in the new index
	Lost  int    `json:"lost"`
}

// A LostDocument is a document of which all or some was not readable.
type LostDocument struct {
	ID      string `json:"id,omitempty"` // "" when the id is lost too
	Segment string `json:"segment"`
	Doc     uint32 `json:"doc"` // its number in the segment
	Why     string `json:"why"`
}

const (
	repairNamed = 10_000   // documents a RepairReport names
	repairBatch = 32 << 20 // bytes of salvaged documents a new segment is made of
)

// Repair salvages what is readable of the index in src into a new index in
// dst, a directory that is empty or does not exist, and changes nothing in
// src, where no writer may be at work. Segments that pass every check are
// copied; of the others each document whose bytes have their checksums is
// indexed again; of the log every whole batch is applied. What is lost is in
// the report, which is returned with an error too. A damaged tombstone file
// may let deleted documents come back; the report says so. The new index is
// checked in full before Repair returns.
//
// Of the options FS, Analyzers, Threads, GraphMin and Progress count, and
// Schema when no manifest can be read: then it must declare the text and
// vector fields, metadata is found again by itself; without it that is
// ErrSchema. A healthy index is copied. ErrNotFound when src holds no index.
func Repair(ctx context.Context, src, dst string, o *Options) (*RepairReport, error) {
	opt, err := o.normalize()
	if err != nil {
		return &RepairReport{}, err
	}
	r := &repair{ctx: ctx, doubts: make(map[int]bool), given: opt.Schema, fs: opt.FS}
	r.src = &Index{dir: src, fs: r.fs, o: opt}
	r.out = &Index{dir: dst, fs: r.fs, o: opt, room: make(chan struct{})}
	man, err := r.state()
	if err == nil {
		err = emptyDir(r.fs, dst)
	}
	if err != nil {
		return &r.RepairReport, fmt.Errorf("repair: %w", err)
	}
	c := newCopier(r.fs, dst, r.out.segmentOptions())
	c.copyOnly = true // the two must not share a file that has begun to rot
	defer r.out.publish(nil)
	if err = r.salvage(man); err == nil {
		err = r.write(c)
	} else {
		c.made = r.made
	}
	if err != nil {
		return &r.RepairReport, fmt.Errorf("repair: %w", c.undo(err))
	}
	return &r.RepairReport, nil
}

type repair struct {
	RepairReport
	ctx    context.Context
	fs     storage.FS
	src    *Index // only the paths
	out    *Index
	given  *Schema
	listed bool // no manifest: the segments are those found
	sc     *schema
	views  []*view
	of     []int        // of each view the place in Segments
	doubts map[int]bool // segments whose tombstones are lost
	docs   []segment.Doc
	bytes  int64 // of docs
	made   []string
}

func (r *repair) problem(err error) { r.Problems = append(r.Problems, err.Error()) }

// state returns the newest manifest, or makes one of what is there.
func (r *repair) state() (*storage.Manifest, error) {
	generations, err := storage.ListManifests(r.fs, r.src.dir)
	if err != nil {
		return nil, err
	}
	if r.given != nil {
		if r.sc, err = newSchema(*r.given, false, r.out.o.Analyzers...); err != nil {
			return nil, err
		}
	}
	for i, g := range slices.Backward(generations) {
		man, err := storage.ReadManifestAt(r.fs, r.src.dir, g)
		if errors.Is(err, ErrVersion) {
			return nil, err
		}
		var sc *schema
		if err == nil {
			sc, err = decodeSchema(r.src.path(storage.ManifestName(g)), man.Schema, r.out.o.Analyzers...)
		}
		if err == nil && sc.missing != "" {
			return nil, lacksAnalyzer(sc)
		}
		if err != nil {
			r.problem(err)
			continue
		}
		if r.sc == nil || i == len(generations)-1 {
			r.sc = sc
		}
		if i == len(generations)-1 {
			return man, nil
		}
		break
	}
	return r.list(len(generations) > 0)
}

// list makes a manifest of the files there are.
func (r *repair) list(ours bool) (*storage.Manifest, error) {
	names, err := r.fs.List(r.src.dir)
	if err != nil {
		return nil, err
	}
	man := &storage.Manifest{NextNumber: 1}
	tombstones := make(map[uint64]uint64)
	for _, name := range names { // ascending by number
		switch f := storage.ParseFileName(name); f.Kind {
		case storage.FileSegment:
			ours, man.NextNumber = true, f.Number+1
			man.Segments = append(man.Segments, storage.SegmentEntry{Number: f.Number})
		case storage.FileTombstone:
			tombstones[f.Number] = max(tombstones[f.Number], f.Generation)
		case storage.FileWAL:
			ours = true
		}
	}
	switch {
	case !ours:
		return nil, fmt.Errorf("%w: no index in %s", ErrNotFound, r.src.dir)
	case r.sc == nil:
		return nil, schemaf("%s has no readable manifest: the schema must be given", r.src.dir)
	}
	r.listed = true
	for i := range man.Segments {
		e := &man.Segments[i]
		e.Tombstones.Generation = tombstones[e.Number]
		r.doubts[i] = true // a merge may have replaced it
	}
	r.problem(fmt.Errorf("no manifest: every segment file found is taken for live, and deleted documents may be back"))
	return man, nil
}

// salvage makes a state of the segments and the log.
func (r *repair) salvage(man *storage.Manifest) error {
	r.out.number.Store(man.NextNumber)
	defer func() {
		for _, v := range r.views {
			_ = v.h.release() // the state holds its own references
		}
	}()
	for i, e := range man.Segments {
		r.Segments = append(r.Segments, RepairedSegment{Name: storage.SegmentName(e.Number)})
		if err := r.segment(i, e); err != nil {
			return err
		}
	}
	if err := guard(r.shadow); err != nil {
		return err
	}
	for i, v := range r.views {
		r.Segments[r.of[i]].Saved += v.live
	}
	r.out.publish(newState(r.sc, r.views, nil))
	return r.log(man.WALFirst)
}

func (r *repair) add(i int, v *view) { r.views, r.of = append(r.views, v), append(r.of, i) }

// segment opens a segment, or indexes again what is readable of it.
func (r *repair) segment(i int, e storage.SegmentEntry) error {
	h, err := r.src.openFile(r.sc, e.Number, e.Info)
	if err == nil {
		if err = h.Verify(r.ctx); err == nil {
			err = r.learn(h)
		}
		if err == nil {
			e.Docs = h.Docs
			r.Segments[i].Whole = true
			r.add(i, newView(h, r.tombstones(i, e)))
			return nil
		}
		_ = h.release()
	}
	switch {
	case r.ctx.Err() != nil:
		return r.ctx.Err()
	case errors.Is(err, ErrSchema):
		return err // the schema that was given
	}
	r.problem(err)
	return r.reindex(i, e)
}

// tombstones reads those of a segment; they are told lost when it cannot.
func (r *repair) tombstones(i int, e storage.SegmentEntry) *roaring.Bitmap {
	n := e.Tombstones.Count
	if r.listed && e.Tombstones.Generation != 0 {
		path := r.src.path(storage.TombstoneName(e.Number, e.Tombstones.Generation))
		b, err := storage.ReadTombstones(r.fs, r.src.dir, e.Number, e.Tombstones)
		var deleted *roaring.Bitmap
		if err == nil {
			deleted, err = decodeTombstones(path, b, e.Docs)
		}
		if err != nil {
			r.problem(err)
		}
		return deleted
	}
	deleted, err := r.src.readTombstones(e)
	if err != nil {
		r.problem(fmt.Errorf("%w: up to %d deleted documents may be back", err, n))
		r.doubts[i] = true
	}
	return deleted
}

// learn adds the metadata fields of a segment found without a manifest.
func (r *repair) learn(h *handle) error {
	if !r.listed {
		return nil
	}
	return guard(func() error {
		var grown []grownField
		for name, typ := range h.Filter.Fields {
			grown = append(grown, grownField{name, typ})
		}
		sc, err := r.sc.grow(grown)
		if err == nil {
			r.sc = sc
		}
		return err
	})
}

// reindex indexes the readable documents of a damaged segment again.
func (r *repair) reindex(i int, e storage.SegmentEntry) error {
	out := &r.Segments[i]
	file, err := storage.SalvageSegment(r.fs, r.src.path(out.Name), e.Info)
	if err == nil {
		defer file.Release()
		if e.Docs == 0 {
			e.Docs = segment.MaxDocs
		}
		deleted := r.tombstones(i, e)
		var damage storage.Damage
		var texts []string
		if damage, err = file.Damage(r.ctx); err == nil {
			texts, err = segment.Salvage(r.ctx, file, damage, r.sc.seg, func(s segment.Salvaged) error {
				if deleted != nil && deleted.Contains(s.Doc) {
					return nil
				}
				if r.take(s, out); r.bytes < repairBatch {
					return nil
				}
				return r.file(i)
			})
		}
		for _, name := range texts {
			if f := r.sc.text[name]; f != nil && f.NotStored {
				r.problem(fmt.Errorf("%s: the text of field %q, which is not stored, is lost", out.Name, name))
			}
		}
	}
	switch {
	case r.ctx.Err() != nil:
		return r.ctx.Err()
	case errors.Is(err, ErrVersion):
		return err
	case err != nil && len(r.docs) == 0:
		r.problem(fmt.Errorf("%s: nothing of it is readable: %w", out.Name, err))
		if !r.listed {
			out.Lost += int(e.Docs - e.Tombstones.Count)
			r.Lost += out.Lost
		}
		return nil
	case err != nil:
		return err
	}
	return r.file(i)
}

// file writes the documents taken so far as a segment of the new index.
func (r *repair) file(i int) error {
	if len(r.docs) == 0 {
		return nil
	}
	h, err := r.out.writeFile(r.ctx, r.sc, func(w *storage.SegmentWriter) error {
		return segment.Write(r.ctx, w, r.sc.seg, r.docs, r.out.segmentOptions())
	})
	if err != nil {
		return err
	}
	r.made = append(r.made, r.out.path(h.name))
	r.docs, r.bytes = nil, 0
	r.add(i, newView(h, nil))
	return nil
}

// take keeps a salvaged document, or tells that it is lost.
func (r *repair) take(s segment.Salvaged, out *RepairedSegment) {
	p := prepared{docs: []segment.Doc{s.Content}}
	err := s.Err
	if err == nil {
		for _, m := range s.Content.Metas {
			if _, ok := r.sc.public.Meta[m.Field]; !ok {
				p.grown = append(p.grown, grownField{m.Field, m.Value.Type()})
			}
		}
		var sc *schema
		if sc, err = r.sc.grow(p.grown); err == nil {
			err = p.checkRecord(sc)
		}
		if n := len(r.docs); err == nil && n > 0 && r.docs[n-1].ID >= s.Content.ID {
			err = storage.Corruptf(out.Name, 0, "id %q is out of order", s.Content.ID)
		}
		if err == nil {
			r.sc = sc
		}
	}
	told := LostDocument{ID: s.Content.ID, Segment: out.Name, Doc: s.Doc}
	if err != nil {
		out.Lost++
		if r.Lost++; len(r.LostDocuments) < repairNamed {
			told.Why = err.Error()
			r.LostDocuments = append(r.LostDocuments, told)
		}
		return
	}
	if len(s.Missing) > 0 {
		if r.Partial++; len(r.PartialDocuments) < repairNamed {
			told.Why = fmt.Sprintf("vectors of fields %q are damaged", s.Missing)
			r.PartialDocuments = append(r.PartialDocuments, told)
		}
	}
	r.docs = append(r.docs, s.Content)
	r.bytes += docBytes(&s.Content)
}

// shadow lets the documents die whose tombstones are lost and whose id lives
// elsewhere. Of two doubtful segments the later one holds.
func (r *repair) shadow() error {
	for i, v := range r.views {
		if !r.doubts[r.of[i]] {
			continue
		}
		dead := roaring.New()
		for doc := range v.Docs {
			if id := v.IDs.String(doc); v.isLive(doc) && r.livesBeside(id, i) {
				dead.Add(doc)
			}
		}
		r.views[i] = v.with(dead)
	}
	return r.ctx.Err()
}

// livesBeside reports whether an id is live in a view other than number i.
func (r *repair) livesBeside(id string, i int) bool {
	for j, v := range r.views {
		if _, ok := v.find(id); ok && j != i {
			return true
		}
	}
	return false
}

// log applies every batch of the log that can be found.
func (r *repair) log(from uint64) error {
	apply := func(record []byte) error {
		if err := r.out.replay(record); err != nil {
			r.problem(fmt.Errorf("a batch of the log is lost: %w", err))
			return nil
		}
		r.WALRecords++
		return r.ctx.Err()
	}
	_, err := storage.Replay(r.fs, r.src.dir, from, func([]byte) error { return r.ctx.Err() })
	if err == nil {
		_, err = storage.Replay(r.fs, r.src.dir, from, apply)
		return err
	}
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	r.problem(err)
	return storage.SalvageLogs(r.fs, r.src.dir, from, apply, func(file string, off, n int64) {
		r.problem(storage.Corruptf(file, off, "%d bytes hold no whole batch: what they held is lost", n))
	})
}

// write brings the state to the new directory and checks it.
func (r *repair) write(c *copier) error {
	s, err := r.out.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	c.made, c.next.Segment = r.made, r.out.number.Load()+1
	for _, v := range s.segs[:s.st.files] {
		if filepath.Dir(v.File.Name()) == filepath.Clean(c.dir) {
			c.have[v.File.Info()] = v.h.number
		}
	}
	if err := c.write(r.ctx, s); err != nil {
		return err
	}
	report, err := Check(r.ctx, c.dir, r.fs, true)
	if err == nil {
		r.Documents = report.Documents
	}
	return err
}
