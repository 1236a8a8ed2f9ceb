package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/index/segment"
	"github.com/quarrysearch/quarry/storage"
)

// Ranges and defaults of Options.
const (
	defaultMutableBytes = 64 << 20
	minMutableBytes     = 64 << 10
	maxMutableBytes     = 4 << 30
	defaultGraphMin     = 10_000
	defaultMaxSegments  = 32
	defaultQueryBytes   = 1 << 30
	minQueryBytes       = 64 << 10
	defaultRetry        = time.Second

	// closeFlushBytes is the size of the mutable segment from which Close
	// flushes it: what stays in the WAL is analyzed again by the next Open.
	closeFlushBytes = 1 << 20

	// maxLogs is the number of log files from which a flush is due whatever
	// they hold: every Open starts one.
	maxLogs = 16
)

// An Index is one directory opened. Its methods may be called from any number
// of goroutines.
type Index struct {
	dir  string
	fs   storage.FS
	o    Options // defaults filled in
	lock io.Closer

	// life is held for reading by every call and for writing by Close.
	life   sync.RWMutex
	closed atomic.Bool
	poison atomic.Pointer[error] // why the index takes no more writes

	// Locks are taken in the order of the fields.
	flushMu  sync.Mutex // one flush at a time
	mergeMu  sync.Mutex // one merge of file segments at a time
	memoryMu sync.Mutex // one merge of memory segments at a time
	commitMu sync.Mutex // one manifest at a time: man, saved
	mu       sync.Mutex // the order of batches: wal, unsynced, dirty, flushing, and who may publish
	pub      sync.Mutex // cur, room

	man     *storage.Manifest // last written
	attempt uint64            // generation of the last attempt to write one
	saved   map[uint64]savedTombstones
	number  atomic.Uint64 // last segment number given out
	// Of man, for those who must not wait for a commit.
	walFirst, generation atomic.Uint64
	wal                  *storage.WAL
	unsynced             map[storage.Position]*logged // visible, but not known to be in the log for good
	logSeq               uint64                       // records appended
	dirty                bool                         // the log in use holds a record
	flushing             map[*handle]bool             // memory segments a flush is writing
	cur                  *state
	room                 chan struct{} // closed when a flush or merge has ended

	bg struct {
		ctx          context.Context
		cancel       context.CancelFunc
		wg           sync.WaitGroup
		flush, merge chan struct{}                   // capacity 1: there is work
		err          atomic.Pointer[BackgroundError] // the last one
		failing      [2]atomic.Pointer[error]        // by stage, nil after a success
	}
}

// savedTombstones are the tombstones of a segment as the manifest has them.
type savedTombstones struct {
	deleted *roaring.Bitmap
	entry   storage.TombstoneEntry
}

// logged is a record that was appended to the log. Its batch is visible
// already; a full disk may still take it back, and then failed is set.
type logged struct {
	seq    uint64 // in the order of the log
	failed bool
}

// stage names a kind of background work.
type stage uint8

const (
	stageFlush stage = iota
	stageMerge
)

func (s stage) String() string { return [...]string{"flush", "merge"}[s] }

// A BackgroundError is the last failure of a flush or merge, which lost
// nothing and is retried.
type BackgroundError struct {
	When  time.Time
	Stage string // "flush" or "merge"
	Err   error
}

// Open opens the index in dir, or makes one where there is none; nil options
// are all defaults. One handle at a time may write: another is ErrLocked, in
// this process or any other. A lock file left by a killed process is no
// obstacle.
//
// It maps the segments without reading them and replays the WAL's records
// since the last flush. Files in dir that are not the index's are left alone.
func Open(dir string, o *Options) (*Index, error) {
	ix := &Index{dir: dir, saved: make(map[uint64]savedTombstones), unsynced: make(map[storage.Position]*logged),
		flushing: make(map[*handle]bool), room: make(chan struct{})}
	err := storage.CheckMachine()
	if err == nil {
		ix.o, err = o.normalize()
	}
	if err != nil {
		return nil, err
	}
	ix.fs = ix.o.FS
	if ix.o.ReadOnly {
		err = ix.openReader()
	} else {
		err = ix.openWriter()
	}
	if err != nil {
		ix.discard()
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	ix.startBackground()
	return ix, nil
}

func (o *Options) normalize() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Schema != nil {
		s := out.Schema.clone()
		out.Schema = &s
	}
	if out.MutableBytes == 0 {
		out.MutableBytes = defaultMutableBytes
	}
	if out.Threads == 0 {
		out.Threads = runtime.GOMAXPROCS(0)
	}
	if out.GraphMin == 0 {
		out.GraphMin = defaultGraphMin
	}
	if out.MaxSegments == 0 {
		out.MaxSegments = defaultMaxSegments
	}
	if out.QueryBytes == 0 {
		out.QueryBytes = defaultQueryBytes
	}
	if out.FS == nil {
		out.FS = storage.OS{}
	}
	if out.BackgroundRetry == 0 {
		out.BackgroundRetry = defaultRetry
	}
	switch {
	case out.MutableBytes < minMutableBytes || out.MutableBytes > maxMutableBytes:
		return out, invalidf("Options.MutableBytes %d: want %d to %d", out.MutableBytes, minMutableBytes, int64(maxMutableBytes))
	case out.Threads < 0:
		return out, invalidf("Options.Threads %d is negative", out.Threads)
	case out.QueryBytes < minQueryBytes:
		return out, invalidf("Options.QueryBytes %d: want %d or more", out.QueryBytes, minQueryBytes)
	case out.MaxSegments < 2:
		return out, invalidf("Options.MaxSegments %d: want 2 or more", out.MaxSegments)
	case out.BackgroundRetry < 0:
		return out, invalidf("Options.BackgroundRetry %v is negative", out.BackgroundRetry)
	case out.Sync < storage.SyncNever:
		return out, invalidf("Options.Sync %d", out.Sync)
	}
	return out, nil
}

func (ix *Index) path(name string) string { return filepath.Join(ix.dir, name) }

func (ix *Index) openWriter() error {
	if ix.o.MustExist {
		// Nothing is made where nothing was.
		if _, err := ix.fs.List(ix.dir); err != nil {
			return err
		}
		if g, err := storage.ListManifests(ix.fs, ix.dir); err != nil || len(g) == 0 {
			return errors.Join(err, fmt.Errorf("%w: no index there", ErrNotFound))
		}
	} else if err := ix.fs.MkdirAll(ix.dir); err != nil {
		return fmt.Errorf("not a directory: %w", err)
	}
	var err error
	if ix.lock, err = ix.fs.Lock(ix.path(storage.LockName), true); err != nil {
		return err
	}
	man, err := storage.ReadManifest(ix.fs, ix.dir)
	switch {
	case errors.Is(err, ErrNotFound):
		return ix.createNew()
	case err != nil:
		return err
	}
	report, changed, err := ix.load(man)
	if err != nil {
		return err
	}
	swept, err := storage.Sweep(ix.fs, ix.dir, man)
	if err != nil {
		return err
	}
	if len(swept.Unknown) > 0 && ix.o.Logger != nil {
		ix.o.Logger.Warn("quarry: files that are not the index's were left alone", "dir", ix.dir, "files", swept.Unknown)
	}
	if ix.wal, err = storage.CreateWAL(ix.fs, ix.dir, report, ix.o.Sync); err != nil {
		return err
	}
	ix.dirty = report.Records > 0 || report.Last-report.First >= maxLogs
	if changed {
		return ix.commit(ix.cur.schema, ix.cur.views[:ix.cur.files], man.WALFirst)
	}
	return nil
}

// createNew writes the first manifest. A directory that holds segments or logs
// but no manifest has lost it, and is not overwritten.
func (ix *Index) createNew() error {
	names, err := ix.fs.List(ix.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if k := storage.ParseFileName(name).Kind; k == storage.FileSegment || k == storage.FileWAL {
			return storage.Corruptf(ix.path(name), 0, "no manifest beside it")
		}
	}
	var in Schema
	if ix.o.Schema != nil {
		in = *ix.o.Schema
	}
	sc, err := newSchema(in, false, ix.o.Analyzers...)
	if err != nil {
		return err
	}
	ix.man = &storage.Manifest{}
	ix.publish(newState(sc, nil, nil))
	if err := ix.commit(sc, nil, 0); err != nil {
		return err
	}
	ix.wal, err = storage.CreateWAL(ix.fs, ix.dir, storage.ReplayReport{}, ix.o.Sync)
	return err
}

// readerTries bounds how often a reader starts over because the writer beside
// it has replaced the files it was about to open.
const readerTries = 20

func (ix *Index) openReader() error {
	for try := 0; ; try++ {
		man, err := storage.ReadManifest(ix.fs, ix.dir)
		if err != nil {
			return err
		}
		_, _, err = ix.load(man)
		now, merr := storage.ReadManifest(ix.fs, ix.dir)
		if merr == nil && now.Generation == man.Generation || try == readerTries {
			return err
		}
		// The writer committed meanwhile: files may be gone, and logs that
		// were removed may have been taken for the log's end.
		ix.discard()
		if merr != nil {
			return merr
		}
	}
}

// load opens what the manifest names and replays the log.
func (ix *Index) load(man *storage.Manifest) (storage.ReplayReport, bool, error) {
	var none storage.ReplayReport
	ix.man, ix.attempt = man, man.Generation
	ix.walFirst.Store(man.WALFirst)
	ix.generation.Store(man.Generation)
	stored, err := decodeSchema(ix.path(storage.ManifestName(man.Generation)), man.Schema, ix.o.Analyzers...)
	if err == nil && stored.missing != "" {
		err = lacksAnalyzer(stored)
	}
	if err != nil {
		return none, false, err
	}
	var files []*view
	defer func() {
		for _, v := range files {
			_ = v.h.release() // the state holds its own references
		}
	}()
	last := man.NextNumber
	for _, e := range man.Segments {
		v, err := ix.openEntry(stored, e)
		if err != nil {
			return none, false, err
		}
		files = append(files, v)
		ix.saved[e.Number] = savedTombstones{v.deleted, e.Tombstones}
	}
	names, err := ix.fs.List(ix.dir)
	if err != nil {
		return none, false, err
	}
	for _, name := range names { // a leftover that cannot be removed keeps its number
		if f := storage.ParseFileName(name); f.Kind == storage.FileSegment {
			last = max(last, f.Number)
		}
	}
	ix.number.Store(last)
	ix.publish(newState(stored, files, nil))
	report, err := storage.Replay(ix.fs, ix.dir, man.WALFirst, ix.replay)
	if err != nil {
		return report, false, err
	}
	sc, changed, err := ix.cur.schema.extend(ix.o.Schema)
	if err != nil {
		return report, false, err
	}
	if changed {
		st := ix.cur
		ix.publish(newState(sc, st.views[:st.files], st.views[st.files:]))
	}
	return report, changed, nil
}

func lacksAnalyzer(sc *schema) error {
	return schemaf("the index was built with analyzer %q: it has to be given in Options.Analyzers", sc.missing)
}

// openEntry opens a segment and its tombstones as the manifest has them.
func (ix *Index) openEntry(sc *schema, e storage.SegmentEntry) (*view, error) {
	h, err := ix.openFile(sc, e.Number, e.Info)
	if err != nil {
		return nil, err
	}
	var v *view
	if ix.o.Verify {
		err = h.File.Verify(context.Background())
	}
	if err == nil {
		v, err = ix.withSaved(h, e)
	}
	if err != nil {
		_ = h.release()
	}
	return v, err
}

func (ix *Index) withSaved(h *handle, e storage.SegmentEntry) (*view, error) {
	if h.Docs != e.Docs {
		return nil, storage.Corruptf(ix.path(h.name), 0, "%d documents, the manifest has %d", h.Docs, e.Docs)
	}
	deleted, err := ix.readTombstones(e)
	if err != nil {
		return nil, err
	}
	return newView(h, deleted), nil
}

// readTombstones reads the tombstones of a segment as the manifest has them;
// nil when there are none.
func (ix *Index) readTombstones(e storage.SegmentEntry) (*roaring.Bitmap, error) {
	if e.Tombstones.Generation == 0 {
		return nil, nil
	}
	b, err := storage.ReadTombstones(ix.fs, ix.dir, e.Number, e.Tombstones)
	if err != nil {
		return nil, err
	}
	path := ix.path(storage.TombstoneName(e.Number, e.Tombstones.Generation))
	deleted, err := decodeTombstones(path, b, e.Docs)
	if err != nil {
		return nil, err
	}
	if n := deleted.GetCardinality(); n != uint64(e.Tombstones.Count) {
		return nil, storage.Corruptf(path, 0, "%d tombstones, the manifest has %d", n, e.Tombstones.Count)
	}
	return deleted, nil
}

// decodeTombstones reads a serialized bitmap and checks that it is one, and
// that its docs are in range.
func decodeTombstones(file string, b []byte, docs uint32) (*roaring.Bitmap, error) {
	d := roaring.New()
	n, err := d.ReadFrom(newReader(b))
	if err == nil && n != int64(len(b)) {
		err = fmt.Errorf("%d of %d bytes are the bitmap", n, len(b))
	}
	if err == nil {
		err = d.Validate()
	}
	if err != nil {
		return nil, storage.Corruptf(file, 0, "tombstones: %v", err)
	}
	if !d.IsEmpty() && d.Maximum() >= docs {
		return nil, storage.Corruptf(file, 0, "tombstone of doc %d in a segment of %d", d.Maximum(), docs)
	}
	return d, nil
}

func (ix *Index) openFile(sc *schema, number uint64, info storage.SegmentInfo) (*handle, error) {
	name := storage.SegmentName(number)
	file, err := storage.OpenSegment(ix.fs, ix.path(name), info)
	if err != nil {
		return nil, err
	}
	s, err := segment.Open(file, sc.seg)
	if err != nil {
		return nil, err
	}
	return newHandle(s, name, number, info.Size), nil
}

// replay applies one record of the log, as Apply did when it was logged.
func (ix *Index) replay(record []byte) error {
	st := ix.cur
	p, err := decodeRecord(st.schema, record)
	if err != nil {
		return err
	}
	sc, err := st.schema.grow(p.grown)
	if err != nil {
		return storage.Corruptf("WAL record", 0, "%v", err)
	}
	if err := p.checkRecord(sc); err != nil {
		return err
	}
	h, err := ix.memorySegment(context.Background(), sc, p.docs)
	if err != nil {
		return err
	}
	if h != nil {
		defer h.release()
	}
	dead, _, err := resolve(st, p)
	if err != nil {
		return err
	}
	files, memory := withDead(st, dead)
	if h != nil {
		memory = append(memory, newView(h, nil))
	}
	ix.publish(newState(sc, files, memory))
	return ix.tidyMemory(context.Background())
}

// discard drops everything a failed Open has made.
func (ix *Index) discard() {
	ix.publish(nil)
	if ix.wal != nil {
		_ = ix.wal.Close()
	}
	if ix.lock != nil {
		_ = ix.lock.Close()
	}
	ix.saved = make(map[uint64]savedTombstones)
}

// publish makes st the state that later snapshots see. Writers hold mu.
func (ix *Index) publish(st *state) {
	ix.pub.Lock()
	old := ix.cur
	ix.cur = st
	ix.pub.Unlock()
	if old != nil {
		old.release()
	}
}

func (ix *Index) currentSchema() *schema {
	ix.pub.Lock()
	defer ix.pub.Unlock()
	return ix.cur.schema
}

// enter begins a call; leave ends it. Close waits for the calls that entered.
func (ix *Index) enter() error {
	ix.life.RLock()
	if ix.closed.Load() {
		ix.life.RUnlock()
		return ErrClosed
	}
	return nil
}

func (ix *Index) leave() { ix.life.RUnlock() }

// writable returns why the index takes no writes, or nil.
func (ix *Index) writable() error {
	if ix.o.ReadOnly {
		return fmt.Errorf("%w: opened with Options.ReadOnly", ErrReadOnly)
	}
	if p := ix.poison.Load(); p != nil {
		return *p
	}
	return nil
}

// note keeps an error that makes the index read-only, and returns err.
func (ix *Index) note(err error) error {
	if err != nil && errors.Is(err, ErrReadOnly) {
		ix.poison.CompareAndSwap(nil, &err)
	}
	return err
}

// Snapshot returns the index as it is now. Close it.
func (ix *Index) Snapshot() (*Snapshot, error) {
	ix.pub.Lock()
	st := ix.cur
	if st == nil || ix.closed.Load() {
		ix.pub.Unlock()
		return nil, ErrClosed
	}
	st.refs.Add(1)
	ix.pub.Unlock()
	s := &Snapshot{ix: ix, schema: st.schema, segs: st.views, st: st}
	s.refs.Store(1)
	return s, nil
}

// Schema returns the schema, defaults filled in and grown metadata included.
func (ix *Index) Schema() Schema {
	ix.pub.Lock()
	defer ix.pub.Unlock()
	if ix.cur == nil {
		return Schema{}
	}
	return ix.cur.schema.public.clone()
}

// Close waits for calls in flight, stops the background work, flushes the
// mutable segment if it is larger than a MiB (less is left to the WAL), syncs
// the WAL and gives up the lock. Snapshots that are still open stay readable
// until they are closed. A second Close is ErrClosed.
func (ix *Index) Close() error {
	if ix.closed.Swap(true) {
		return ErrClosed
	}
	ix.bg.cancel()
	ix.wakeWaiters()
	ix.bg.wg.Wait()
	ix.life.Lock()
	defer ix.life.Unlock()
	var err error
	if ix.wal != nil {
		if (ix.cur.memoryBytes() > closeFlushBytes || ix.needsFlush()) && ix.writable() == nil {
			err = ix.flush(context.Background())
		}
		err = errors.Join(err, ix.wal.Close())
	}
	ix.publish(nil)
	if ix.lock != nil {
		err = errors.Join(err, ix.lock.Close())
	}
	return err
}
