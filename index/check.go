package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quarrysearch/quarry/index/segment"
	"github.com/quarrysearch/quarry/storage"
)

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
		if err != nil {
			c.problem(err)
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
func (ix *Index) Backup(ctx context.Context, dir string) error {
	s, err := ix.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	if err := emptyDir(ix.fs, dir); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	c := newCopier(ix.fs, dir, ix.segmentOptions())
	c.extra, err = ix.backupMark()
	if err == nil {
		err = c.write(ctx, s)
	}
	if err == nil {
		_, err = Check(ctx, dir, ix.fs, true)
	}
	if err != nil {
		return fmt.Errorf("backup: %w", c.undo(err))
	}
	return nil
}

// emptyDir makes a directory; ErrInvalid when it holds anything.
func emptyDir(fs storage.FS, dir string) error {
	if err := fs.MkdirAll(dir); err != nil {
		return err
	}
	names, err := fs.List(dir)
	if err == nil && len(names) > 0 {
		err = invalidf("directory %s is not empty", dir)
	}
	return err
}

// A BackupReport tells what was written to a directory.
type BackupReport struct {
	Generation uint64 `json:"generation"` // of the state written
	Documents  int    `json:"documents"`
	Kept       int    `json:"kept"`   // segments the directory had already
	Linked     int    `json:"linked"` // segments that are hard links
	Copied     int    `json:"copied"`
	Bytes      int64  `json:"bytes"` // of segments copied, and of the mutable one
}

// UpdateBackup brings an earlier backup of this index up to date, or makes one
// where dir is empty or does not exist. Segments the backup has already are
// verified and kept; one that is damaged there is brought over again. The
// checksums of all are compared before the new state is named, and the old one
// holds until then, also when the update fails or is cut short.
// ErrInvalid when dir holds anything but a backup of the index in this
// directory, ErrLocked while another process writes there.
func (ix *Index) UpdateBackup(ctx context.Context, dir string) (BackupReport, error) {
	s, err := ix.Snapshot()
	if err != nil {
		return BackupReport{}, err
	}
	defer s.Close()
	c := newCopier(ix.fs, dir, ix.segmentOptions())
	if c.extra, err = ix.backupMark(); err == nil {
		err = c.replace(ctx, s, c.isBackup)
	}
	if err != nil {
		err = fmt.Errorf("backup: %w", err)
	}
	return c.BackupReport, err
}

// isBackup allows a directory to be updated: one that holds a backup of the
// same index which nobody has written to, or segments alone, left by a backup
// that was cut short.
func (c *copier) isBackup(man *storage.Manifest, err error) error {
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	from := uint64(0)
	if man != nil {
		if !bytes.Equal(man.Extra, c.extra) {
			return invalidf("%s holds an index that is no %s (it says %q)", c.dir, c.extra, man.Extra)
		}
		from = man.WALFirst
	}
	log, err := storage.Replay(c.fs, c.dir, from, func([]byte) error { return nil })
	if err == nil && (log.Records > 0 || man == nil && log.Next > 1) {
		err = invalidf("%s was written to after it was made", c.dir)
	}
	return err
}

// backupMark is what the manifest of a backup says of its origin. The first
// commit of an index opened in its place drops it.
func (ix *Index) backupMark() ([]byte, error) {
	dir, err := filepath.Abs(ix.dir)
	return []byte("backup of " + filepath.ToSlash(dir)), err
}

// Restore makes the index in dir what backup holds, or makes one there. The
// backup is checked in full first, each segment brought over is verified, and
// only then the old state is given up, in one step: a crash or a failure
// leaves the old index or the restored one. The old index may be damaged.
// Readers keep what they have open; ErrLocked while a process writes to dir.
// Hard links serve where the file system has them. Of the options FS,
// Analyzers, Threads and GraphMin count; nil is all defaults.
func Restore(ctx context.Context, backup, dir string, o *Options) (BackupReport, error) {
	opt, err := o.normalize()
	if err != nil {
		return BackupReport{}, err
	}
	fs := opt.FS
	fail := func(err error) (BackupReport, error) { return BackupReport{}, fmt.Errorf("restore: %w", err) }
	if filepath.Clean(backup) == filepath.Clean(dir) {
		return fail(invalidf("%s over itself", dir))
	}
	if _, err := Check(ctx, backup, fs, true); err != nil {
		return fail(err)
	}
	opt.Schema, opt.ReadOnly = nil, true
	ix, err := Open(backup, &opt)
	if err != nil {
		return fail(err)
	}
	defer ix.Close() // opened for reading: nothing to lose
	s, err := ix.Snapshot()
	if err != nil {
		return fail(err)
	}
	defer s.Close()
	c := newCopier(fs, dir, ix.segmentOptions())
	if err := c.replace(ctx, s, mayBeDamaged); err != nil {
		return fail(err)
	}
	return c.BackupReport, nil
}

// mayBeDamaged allows any directory that this build could read if it were whole.
func mayBeDamaged(_ *storage.Manifest, err error) error {
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// A copier writes a snapshot to a directory as its next state.
type copier struct {
	BackupReport
	fs       storage.FS
	dir      string
	o        segment.Options
	extra    []byte
	have     map[storage.SegmentInfo]uint64 // segments the directory has
	next     storage.NextNames
	walFirst uint64
	copyOnly bool     // no hard links
	made     []string // files to remove when it fails
}

func newCopier(fs storage.FS, dir string, o segment.Options) *copier {
	return &copier{fs: fs, dir: dir, o: o, have: make(map[storage.SegmentInfo]uint64), next: storage.NextNames{Generation: 1, Segment: 1}}
}

// replace writes the snapshot over what the directory holds, unless allow
// objects to its manifest, or the error for which there is none.
func (c *copier) replace(ctx context.Context, s *Snapshot, allow func(*storage.Manifest, error) error) error {
	if err := c.fs.MkdirAll(c.dir); err != nil {
		return err
	}
	lock, err := c.fs.Lock(filepath.Join(c.dir, storage.LockName), true)
	if err != nil {
		return err
	}
	defer lock.Close()
	man, err := storage.ReadManifest(c.fs, c.dir)
	if err := allow(man, err); err != nil {
		return err
	}
	if c.next, err = storage.ListNextNames(c.fs, c.dir); err != nil {
		return err
	}
	if man != nil {
		c.next.Segment = max(c.next.Segment, man.NextNumber)
		for _, e := range man.Segments {
			c.have[e.Info] = e.Number
		}
	}
	if err = c.newLog(man); err == nil {
		err = c.write(ctx, s)
	}
	if err != nil {
		return c.undo(err)
	}
	now, err := storage.ReadManifestAt(c.fs, c.dir, c.Generation)
	if err == nil {
		_, err = storage.Sweep(c.fs, c.dir, now)
	}
	return err
}

// newLog starts the log of the new state, which shuts out those of the old.
// The old state goes on in it if the new one never comes to be.
func (c *copier) newLog(man *storage.Manifest) error {
	if c.next.Log == 1 {
		return nil // no logs
	}
	after := storage.ReplayReport{Next: c.next.Log}
	if man != nil {
		r, err := storage.Replay(c.fs, c.dir, man.WALFirst, func([]byte) error { return nil })
		if errors.Is(err, ErrIO) {
			return err
		}
		if err == nil {
			after = r
		}
	}
	w, err := storage.CreateWAL(c.fs, c.dir, after, storage.SyncAlways)
	if err != nil {
		return err
	}
	c.walFirst = w.Number()
	return w.Close()
}

func (c *copier) write(ctx context.Context, s *Snapshot) (err error) {
	m := &storage.Manifest{Generation: c.next.Generation, WALFirst: c.walFirst, Extra: c.extra}
	if m.Schema, err = s.schema.encode(); err != nil {
		return err
	}
	for _, v := range s.segs[:s.st.files] {
		e, err := c.file(ctx, v)
		if err != nil {
			return err
		}
		m.Segments = append(m.Segments, e)
	}
	e, ok, err := c.memory(ctx, s)
	if err != nil {
		return err
	}
	if ok {
		m.Segments = append(m.Segments, e)
	}
	m.NextNumber = c.next.Segment
	c.Generation, c.Documents = m.Generation, s.Len()
	c.made = append(c.made, filepath.Join(c.dir, storage.ManifestName(m.Generation)))
	return storage.WriteManifest(c.fs, c.dir, m)
}

// undo removes what a failed write has made and returns err: the manifest
// first and for good, so that no crash leaves it without its files.
func (c *copier) undo(err error) error {
	for i, name := range slices.Backward(c.made) {
		rerr := ignoreNotFound(c.fs.Remove(name))
		if storage.ParseFileName(filepath.Base(name)).Kind == storage.FileManifest {
			if rerr = errors.Join(rerr, c.fs.SyncDir(c.dir)); rerr != nil {
				return errors.Join(err, rerr) // it may name the others
			}
		}
		c.made = c.made[:i]
		err = errors.Join(err, rerr)
	}
	return err
}

func ignoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// file brings one file segment and its tombstones over.
func (c *copier) file(ctx context.Context, v *view) (storage.SegmentEntry, error) {
	e := storage.SegmentEntry{Info: v.File.Info(), Docs: v.Docs}
	number, kept := c.have[e.Info]
	if kept = kept && c.verify(ctx, number, e.Info) == nil; kept {
		c.Kept++
	} else {
		number = c.next.Segment
		c.next.Segment++
		if err := c.bring(v, number); err != nil {
			return e, err
		}
		if err := c.verify(ctx, number, e.Info); err != nil {
			return e, err
		}
	}
	e.Number = number
	if v.deleted == nil {
		return e, ctx.Err()
	}
	bits, err := v.deleted.ToBytes()
	if err != nil {
		return e, err
	}
	c.made = append(c.made, filepath.Join(c.dir, storage.TombstoneName(number, c.next.Generation)))
	e.Tombstones, err = storage.WriteTombstones(c.fs, c.dir, number, c.next.Generation, bits, uint32(v.deleted.GetCardinality()))
	return e, err
}

func (c *copier) bring(v *view, number uint64) error {
	from, to := v.File.Name(), filepath.Join(c.dir, storage.SegmentName(number))
	c.made = append(c.made, to)
	if !c.copyOnly && c.fs.Link(from, to) == nil {
		c.Linked++
		return nil
	}
	c.Copied++
	c.Bytes += v.File.Info().Size
	return c.copy(from, to)
}

// verify compares the checksums of a segment in the directory.
func (c *copier) verify(ctx context.Context, number uint64, want storage.SegmentInfo) error {
	s, err := storage.OpenSegment(c.fs, filepath.Join(c.dir, storage.SegmentName(number)), want)
	if err != nil {
		return err
	}
	return errors.Join(s.Verify(ctx), s.Release())
}

// memory writes the memory segments as one file; false when they are empty.
func (c *copier) memory(ctx context.Context, s *Snapshot) (storage.SegmentEntry, bool, error) {
	views := s.st.memory()
	n := liveDocs(views)
	if n == 0 {
		return storage.SegmentEntry{}, false, nil
	}
	e := storage.SegmentEntry{Number: c.next.Segment, Docs: uint32(n)}
	c.next.Segment++
	path := filepath.Join(c.dir, storage.SegmentName(e.Number))
	c.made = append(c.made, path)
	var err error
	e.Info, err = storage.CreateSegment(c.fs, path, func(w *storage.SegmentWriter) error {
		return guard(func() error {
			_, _, err := segment.Merge(ctx, w, s.schema.seg, inputs(views), c.o)
			return err
		})
	})
	if err == nil {
		err = c.verify(ctx, e.Number, e.Info)
	}
	c.Bytes += e.Info.Size
	return e, true, err
}

func (c *copier) copy(from, to string) error {
	in, err := c.fs.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	size, err := in.Size()
	if err != nil {
		return err
	}
	out, err := c.fs.Create(to)
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
