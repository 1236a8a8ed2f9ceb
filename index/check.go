package index

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/index/segment"
	"github.com/quarrysearch/quarry/storage"
)

// Stats describes an index at one moment.
type Stats struct {
	Generation   uint64         `json:"generation"`    // commits so far
	Documents    int            `json:"documents"`     // live
	Deleted      int            `json:"deleted"`       // tombstones no merge has dropped yet
	Segments     []SegmentStats `json:"segments"`      // file segments, then memory segments
	MutableBytes int64          `json:"mutable_bytes"` // of the memory segments
	WALBytes     int64          `json:"wal_bytes"`     // of all log files
	Fields       []FieldStats   `json:"fields"`
	// LastError is the last failure of a flush or merge since Open, nil for
	// none. ReadOnly tells why the index takes no writes.
	LastError *BackgroundError `json:"last_error,omitempty"`
	ReadOnly  error            `json:"-"`
}

// SegmentStats describes one segment.
type SegmentStats struct {
	Name    string `json:"name"` // file name, or "mutable"
	Bytes   int64  `json:"bytes"`
	Docs    int    `json:"docs"`    // tombstoned ones included
	Deleted int    `json:"deleted"` // tombstones
}

// FieldStats counts the documents that hold a field, tombstoned ones included.
type FieldStats struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"` // "text", "vector" or "metadata"
	Type      string `json:"type"` // analyzer, metric and dimension, or type
	Documents int    `json:"documents"`
}

// Stats describes the index as it is now. It costs a bitmap operation a
// metadata field and segment.
func (ix *Index) Stats() (Stats, error) {
	var st Stats
	s, err := ix.Snapshot()
	if err != nil {
		return st, err
	}
	defer s.Close()
	st.Generation = ix.generation.Load()
	st.LastError, st.ReadOnly = ix.bg.err.Load(), ix.writable()
	for _, v := range s.segs {
		d := SegmentStats{Name: v.name, Bytes: v.h.size, Docs: int(v.Docs), Deleted: int(v.Docs) - v.live}
		st.Segments = append(st.Segments, d)
		st.Documents += v.live
		st.Deleted += d.Deleted
	}
	st.MutableBytes = s.st.memoryBytes()
	if st.WALBytes, err = ix.walBytes(); err != nil {
		return st, err
	}
	err = guard(func() error {
		st.Fields, err = s.fieldStats()
		return err
	})
	return st, err
}

func (ix *Index) walBytes() (int64, error) {
	names, err := ix.fs.List(ix.dir)
	var total int64
	for _, name := range names {
		if storage.ParseFileName(name).Kind != storage.FileWAL {
			continue
		}
		n, err := ix.fs.Stat(ix.path(name))
		if err != nil && !errors.Is(err, ErrNotFound) { // removed meanwhile
			return 0, err
		}
		total += n
	}
	return total, err
}

func (s *Snapshot) fieldStats() ([]FieldStats, error) {
	var out []FieldStats
	for _, f := range s.schema.public.Text {
		fs := FieldStats{Name: f.Name, Kind: "text", Type: f.Analyzer}
		for _, v := range s.segs {
			if t := v.Text[f.Name]; t != nil {
				fs.Documents += int(t.Stats().DocsWithField)
			}
		}
		out = append(out, fs)
	}
	for _, f := range s.schema.public.Vectors {
		fs := FieldStats{Name: f.Name, Kind: "vector", Type: fmt.Sprintf("%v %d", f.Metric, f.Dim)}
		for _, v := range s.segs {
			if t := v.Vectors[f.Name]; t != nil {
				fs.Documents += t.Len()
			}
		}
		out = append(out, fs)
	}
	n := len(out)
	for name, typ := range s.schema.public.Meta {
		fs := FieldStats{Name: name, Kind: "metadata", Type: typ.String()}
		c, err := s.schema.compile(filter.Or(filter.Exists(name), filter.IsNull(name)))
		if err != nil {
			return nil, err
		}
		for _, v := range s.segs {
			m, err := c.Eval(v.Filter, nil, v.Docs)
			if err != nil {
				return nil, err
			}
			fs.Documents += int(m.GetCardinality())
		}
		out = append(out, fs)
	}
	slices.SortFunc(out[n:], func(a, b FieldStats) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// A CheckReport is what Check found.
type CheckReport struct {
	Generation uint64           `json:"generation"`
	Documents  int              `json:"documents"` // live, those in the WAL included
	Segments   []CheckedSegment `json:"segments"`
	WALRecords int              `json:"wal_records"`
	WALBytes   int64            `json:"wal_bytes"` // of the records
	// WALTorn tells that the log ends in a record that was cut by a crash; it
	// was never acknowledged.
	WALTorn bool `json:"wal_torn"`
	// Leftovers are files of the index that the manifest does not name; the
	// next Open for writing removes them. Unknown files are not the index's.
	Leftovers []string `json:"leftovers,omitempty"`
	Unknown   []string `json:"unknown,omitempty"`
	Full      bool     `json:"full"`
	Problems  []string `json:"problems,omitempty"`
}

// A CheckedSegment is a segment in a CheckReport.
type CheckedSegment struct {
	Name    string `json:"name"`
	Bytes   int64  `json:"bytes"`
	Docs    int    `json:"docs"`
	Deleted int    `json:"deleted"`
	Problem string `json:"problem,omitempty"`
}

// Check reads the index in dir and recomputes what it promises: manifest,
// schema, segment and tombstone files present and as the manifest says, every
// record of the WAL readable and applicable; with full also every checksum,
// ids ascending and unique over the live documents of all segments, stored
// documents, postings, vectors, graphs and filter indexes. It changes nothing
// and takes no lock; a writer may be at work. nil fs is storage.OS.
//
// It goes on after a problem; the error joins all, and is nil when there are
// none. A directory without an index is ErrNotFound.
func Check(ctx context.Context, dir string, fs storage.FS, full bool) (*CheckReport, error) {
	if fs == nil {
		fs = storage.OS{}
	}
	for try := 0; ; try++ {
		c := &checkRun{CheckReport: CheckReport{Full: full}, ctx: ctx, fs: fs, dir: dir}
		man, err := storage.ReadManifest(fs, dir)
		if err != nil {
			return nil, err
		}
		c.run(man)
		now, err := storage.ReadManifest(fs, dir)
		if err == nil && now.Generation != man.Generation && try < readerTries {
			continue // a writer beside us has replaced files
		}
		return &c.CheckReport, errors.Join(append(c.errs, ctx.Err())...)
	}
}

type checkRun struct {
	CheckReport
	ctx  context.Context
	fs   storage.FS
	dir  string
	errs []error
}

func (c *checkRun) problem(err error) {
	c.errs = append(c.errs, err)
	c.Problems = append(c.Problems, err.Error())
}

func (c *checkRun) run(man *storage.Manifest) {
	c.Generation = man.Generation
	c.files(man)
	sc, err := decodeSchema(filepath.Join(c.dir, storage.ManifestName(man.Generation)), man.Schema)
	if err != nil {
		c.problem(err)
		return
	}
	ix := &Index{dir: c.dir, fs: c.fs, room: make(chan struct{})}
	ix.o, _ = (&Options{FS: c.fs, ReadOnly: true, NoBackground: true}).normalize()
	defer ix.publish(nil)
	var views []*view
	for _, e := range man.Segments {
		s := CheckedSegment{Name: storage.SegmentName(e.Number), Bytes: e.Info.Size, Docs: int(e.Docs), Deleted: int(e.Tombstones.Count)}
		v, err := ix.openEntry(sc, e)
		if err == nil && c.Full {
			err = v.Verify(c.ctx)
		}
		if err != nil {
			s.Problem = err.Error()
			c.problem(err)
		}
		if v != nil {
			views = append(views, v)
		}
		c.Segments = append(c.Segments, s)
	}
	ix.publish(newState(sc, views, nil))
	for _, v := range views {
		_ = v.h.release()
	}
	if len(c.errs) > 0 {
		return // the log applies to segments that are whole
	}
	report, err := storage.Replay(c.fs, c.dir, man.WALFirst, ix.replay)
	if err != nil {
		c.problem(err)
	}
	c.WALRecords, c.WALBytes, c.WALTorn = report.Records, report.Bytes, report.Torn
	for _, v := range ix.cur.views {
		c.Documents += v.live
	}
	if c.Full {
		if err := guard(func() error { return uniqueIDs(c.ctx, ix.cur.views) }); err != nil {
			c.problem(err)
		}
	}
}

// files sorts the names in the directory into what the manifest names,
// leftovers and unknown.
func (c *checkRun) files(man *storage.Manifest) {
	names, err := c.fs.List(c.dir)
	if err != nil {
		c.problem(err)
		return
	}
	live := make(map[string]bool)
	for _, e := range man.Segments {
		live[storage.SegmentName(e.Number)] = true
		if g := e.Tombstones.Generation; g != 0 {
			live[storage.TombstoneName(e.Number, g)] = true
		}
	}
	for _, name := range names {
		f := storage.ParseFileName(strings.TrimSuffix(name, "/"))
		switch {
		case f.Kind == storage.FileUnknown || strings.HasSuffix(name, "/"):
			c.Unknown = append(c.Unknown, name)
		case f.Kind == storage.FileLock, live[name],
			f.Kind == storage.FileManifest && f.Generation >= man.Generation,
			f.Kind == storage.FileWAL && f.Number >= man.WALFirst:
		default:
			c.Leftovers = append(c.Leftovers, name)
		}
	}
}

// uniqueIDs checks that no id is live twice.
func uniqueIDs(ctx context.Context, views []*view) error {
	cur := newMergeCursor(views, "")
	var last []byte
	for n := 0; ; n++ {
		v, doc, ok := cur.next()
		if !ok {
			return nil
		}
		id := v.IDs.Bytes(doc)
		if n > 0 && bytes.Compare(last, id) >= 0 {
			return storage.Corruptf(v.name, 0, "id %q is live twice, or out of order", id)
		}
		if last = id; n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// Backup writes the index as it is now to a directory that is empty or does
// not exist: an index of its own, with the mutable segment as a file. File
// segments are hard-linked where the file system can, and copied otherwise;
// either way the two indexes share nothing that is ever written again. It
// syncs, verifies every checksum of the copy, and blocks nobody. When it
// fails, what it has written is removed.
func (ix *Index) Backup(ctx context.Context, dir string) (err error) {
	s, err := ix.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	if err := ix.fs.MkdirAll(dir); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	names, err := ix.fs.List(dir)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if len(names) > 0 {
		return invalidf("backup: directory %s is not empty", dir)
	}
	b := &backup{ix: ix, dir: dir}
	defer func() {
		if err != nil {
			for _, name := range b.made {
				err = errors.Join(err, ignoreNotFound(ix.fs.Remove(name)))
			}
			err = fmt.Errorf("backup: %w", err)
		}
	}()
	m := &storage.Manifest{Generation: 1}
	if m.Schema, err = s.schema.encode(); err != nil {
		return err
	}
	for i, v := range s.segs {
		if i >= s.st.files {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := b.file(v, uint64(i)+1)
		if err != nil {
			return err
		}
		m.Segments = append(m.Segments, e)
	}
	e, ok, err := b.memory(ctx, s, uint64(s.st.files)+1)
	if err != nil {
		return err
	}
	if ok {
		m.Segments = append(m.Segments, e)
	}
	m.NextNumber = uint64(s.st.files) + 2
	b.made = append(b.made, filepath.Join(dir, storage.ManifestName(1)))
	if err := storage.WriteManifest(ix.fs, dir, m); err != nil {
		return err
	}
	_, err = Check(ctx, dir, ix.fs, true)
	return err
}

func ignoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

type backup struct {
	ix   *Index
	dir  string
	made []string // files to remove when it fails
}

// file brings one file segment and its tombstones over.
func (b *backup) file(v *view, number uint64) (storage.SegmentEntry, error) {
	e := storage.SegmentEntry{Number: number, Info: v.File.Info(), Docs: v.Docs}
	from, to := b.ix.path(v.name), filepath.Join(b.dir, storage.SegmentName(number))
	b.made = append(b.made, to)
	if err := b.ix.fs.Link(from, to); err != nil {
		if err := b.copy(from, to); err != nil {
			return e, err
		}
	}
	if v.deleted == nil {
		return e, nil
	}
	bits, err := v.deleted.ToBytes()
	if err != nil {
		return e, err
	}
	b.made = append(b.made, filepath.Join(b.dir, storage.TombstoneName(number, 1)))
	e.Tombstones, err = storage.WriteTombstones(b.ix.fs, b.dir, number, 1, bits, uint32(v.deleted.GetCardinality()))
	return e, err
}

// memory writes the memory segments as one file; false when they are empty.
func (b *backup) memory(ctx context.Context, s *Snapshot, number uint64) (storage.SegmentEntry, bool, error) {
	views := s.st.memory()
	n := liveDocs(views)
	if n == 0 {
		return storage.SegmentEntry{}, false, nil
	}
	path := filepath.Join(b.dir, storage.SegmentName(number))
	b.made = append(b.made, path)
	info, err := storage.CreateSegment(b.ix.fs, path, func(w *storage.SegmentWriter) error {
		return guard(func() error {
			_, _, err := segment.Merge(ctx, w, s.schema.seg, inputs(views), b.ix.segmentOptions())
			return err
		})
	})
	return storage.SegmentEntry{Number: number, Info: info, Docs: uint32(n)}, true, err
}

func (b *backup) copy(from, to string) error {
	in, err := b.ix.fs.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	size, err := in.Size()
	if err != nil {
		return err
	}
	out, err := b.ix.fs.Create(to)
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for off := int64(0); off < size && err == nil; {
		p := buf[:min(int64(len(buf)), size-off)]
		if _, err = in.ReadAt(p, off); err == nil {
			_, err = out.Write(p)
		}
		off += int64(len(p))
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
