package index

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/quarrysearch/quarry/index/segment"
	"github.com/quarrysearch/quarry/storage"
)

func newReader(b []byte) io.Reader { return bytes.NewReader(b) }

func (st *state) memory() []*view { return st.views[st.files:] }

func (st *state) memoryBytes() int64 {
	if st == nil {
		return 0
	}
	var n int64
	for _, v := range st.memory() {
		n += v.h.size
	}
	return n
}

// inMemory opens what write writes as a memory segment, of about hint bytes.
func (ix *Index) inMemory(sc *schema, hint int64, write func(*storage.SegmentWriter) error) (*handle, error) {
	w := storage.NewMemorySegmentWriter(hint)
	if err := write(w); err != nil {
		return nil, err
	}
	file, err := w.Memory("mutable segment")
	if err != nil {
		return nil, err
	}
	s, err := segment.Open(file, sc.seg)
	if err != nil {
		return nil, err
	}
	return newHandle(s, "mutable", 0, file.Info().Size), nil
}

// memorySegment makes a memory segment of docs, in order of id; nil for none.
func (ix *Index) memorySegment(ctx context.Context, sc *schema, docs []segment.Doc) (*handle, error) {
	if len(docs) == 0 {
		return nil, nil
	}
	hint := int64(0)
	for i := range docs {
		hint += int64(2*len(docs[i].Stored) + 64)
		for _, v := range docs[i].Vectors {
			hint += int64(5 * len(v.Vec)) // with codes of a byte
		}
	}
	return ix.inMemory(sc, hint, func(w *storage.SegmentWriter) error {
		return segment.Write(ctx, w, sc.seg, docs, segment.Options{Memory: true, Threads: ix.o.Threads})
	})
}

func inputs(views []*view) []segment.Input {
	in := make([]segment.Input, len(views))
	for i, v := range views {
		in[i] = segment.Input{Segment: v.Segment, Deleted: v.deleted}
	}
	return in
}

func liveDocs(views []*view) int {
	n := 0
	for _, v := range views {
		n += v.live
	}
	return n
}

// droppedMaps maps every doc of the views to nothing.
func droppedMaps(views []*view) [][]uint32 {
	maps := make([][]uint32, len(views))
	for i, v := range views {
		maps[i] = slices.Repeat([]uint32{segment.Dropped}, int(v.Docs))
	}
	return maps
}

// mergeToFile writes the live docs of views as a new file segment, syncs it,
// opens it again and compares every checksum. nil when there are none. The
// checksums of its inputs come first: a merge would give damage new ones.
func (ix *Index) mergeToFile(ctx context.Context, sc *schema, views []*view) (h *handle, maps [][]uint32, err error) {
	if liveDocs(views) == 0 {
		return nil, droppedMaps(views), nil
	}
	for _, v := range views {
		if err := v.File.Verify(ctx); err != nil {
			return nil, nil, err
		}
	}
	h, err = ix.writeFile(ctx, sc, func(w *storage.SegmentWriter) error {
		maps, _, err = segment.Merge(ctx, w, sc.seg, inputs(views), ix.segmentOptions())
		return err
	})
	return h, maps, err
}

func (ix *Index) segmentOptions() segment.Options {
	return segment.Options{Threads: ix.o.Threads, GraphMin: ix.o.GraphMin, Progress: ix.o.Progress, Merged: ix.graphMerged}
}

func (ix *Index) writeFile(ctx context.Context, sc *schema, write func(*storage.SegmentWriter) error) (*handle, error) {
	number := ix.number.Add(1)
	path := ix.path(storage.SegmentName(number))
	info, err := storage.CreateSegment(ix.fs, path, func(w *storage.SegmentWriter) error {
		return guard(func() error { return write(w) })
	})
	if err != nil {
		return nil, ix.note(err)
	}
	h, err := ix.openFile(sc, number, info)
	if err == nil {
		if err = h.File.Verify(ctx); err != nil {
			_ = h.release()
		}
	}
	if err != nil {
		_ = ix.fs.Remove(path) // no manifest names it
		return nil, err
	}
	return h, nil
}

// Flush writes the mutable segment to a file and commits it, with all
// tombstones. After it, the WAL holds nothing that was applied before.
func (ix *Index) Flush(ctx context.Context) error {
	if err := ix.enter(); err != nil {
		return err
	}
	defer ix.leave()
	if err := ix.writable(); err != nil {
		return err
	}
	return ix.flush(ctx)
}

func (ix *Index) flush(ctx context.Context) error {
	ix.flushMu.Lock()
	defer ix.flushMu.Unlock()
	st, memory, first, err := ix.beginFlush()
	if err != nil || first == 0 {
		return err
	}
	defer st.release()
	defer func() {
		ix.mu.Lock()
		clear(ix.flushing)
		ix.mu.Unlock()
	}()
	h, maps, err := ix.mergeToFile(ctx, st.schema, memory)
	if err != nil {
		return err
	}
	return ix.install(memory, maps, h, first)
}

// beginFlush starts a new log and takes the memory segments of that moment:
// all that the logs before hold. first is the new log's number, 0 when there
// is nothing to flush. The state is retained for the caller.
func (ix *Index) beginFlush() (st *state, memory []*view, first uint64, err error) {
	ix.memoryMu.Lock() // no memory segment is being merged away
	defer ix.memoryMu.Unlock()
	ix.mu.Lock()
	defer ix.mu.Unlock()
	memory = ix.cur.memory()
	if len(memory) == 0 && !ix.dirty {
		return nil, nil, 0, nil
	}
	if first, err = ix.wal.Rotate(); err != nil {
		return nil, nil, 0, ix.note(err)
	}
	for _, v := range memory {
		ix.flushing[v.h] = true
	}
	ix.dirty = false
	st = ix.cur
	st.refs.Add(1)
	return st, memory, first, nil
}

// install makes h stand for the views in, in the manifest and then in memory.
// maps leads from their docs to h's; walFirst is the first log that is still
// needed, 0 for the one in the manifest. It takes over h.
func (ix *Index) install(in []*view, maps [][]uint32, h *handle, walFirst uint64) (err error) {
	if h != nil {
		defer func() {
			if err != nil && !errors.Is(err, ErrReadOnly) {
				ix.removeOnRelease(h) // surely in no manifest
			}
			_ = h.release()
		}()
	}
	ix.commitMu.Lock()
	defer ix.commitMu.Unlock()
	if walFirst == 0 {
		walFirst = ix.man.WALFirst
	}
	ix.mu.Lock()
	sc := ix.cur.schema
	files, _ := ix.replaced(in, maps, h)
	unsynced := ix.unsyncedFrom(walFirst)
	ix.mu.Unlock()

	if err := ix.syncLog(unsynced); err != nil {
		return err
	}
	if err := ix.commit(sc, files, walFirst); err != nil {
		return err
	}
	for _, v := range in {
		if v.h.number != 0 {
			ix.removeOnRelease(v.h)
		}
	}
	ix.mu.Lock()
	files, memory := ix.replaced(in, maps, h)
	ix.publish(newState(ix.cur.schema, files, memory))
	ix.forgetBefore(walFirst)
	ix.mu.Unlock()
	ix.wakeWaiters()
	_ = ix.wal.RemoveBefore(walFirst) // what stays is swept by the next Open
	return nil
}

// unsyncedFrom returns the records in log first and later that are visible
// but not known to be in the log for good.
func (ix *Index) unsyncedFrom(first uint64) []storage.Position {
	var out []storage.Position
	for p := range ix.unsynced {
		if p.Log >= first {
			out = append(out, p)
		}
	}
	return out
}

// forgetBefore forgets records whose documents a manifest now has.
func (ix *Index) forgetBefore(first uint64) {
	for p := range ix.unsynced {
		if p.Log < first {
			delete(ix.unsynced, p)
		}
	}
}

// syncLog makes sure that the log holds every record that is visible. Without
// that, the manifest could keep the tombstones of a batch whose documents a
// crash takes. A record that a full disk took back stays visible in memory;
// until a flush has written its documents, nothing else can be committed.
func (ix *Index) syncLog(unsynced []storage.Position) error {
	if err := ix.wal.Sync(); err != nil {
		return ix.note(err)
	}
	for _, p := range unsynced {
		if err := ix.wal.Commit(p); err != nil {
			ix.wake(ix.bg.flush)
			return ix.note(err)
		}
	}
	return nil
}

// replaced returns the views of the next state: h in the place of in, with
// the tombstones that in's docs got since. mu is held.
func (ix *Index) replaced(in []*view, maps [][]uint32, h *handle) (files, memory []*view) {
	now := make(map[*handle]*view, len(ix.cur.views))
	for _, v := range ix.cur.views {
		now[v.h] = v
	}
	gone := make(map[*handle]bool, len(in))
	late := roaring.New()
	for i, v := range in {
		gone[v.h] = true
		addLate(late, v, now[v.h], maps[i])
	}
	var out *view
	if h != nil {
		out = newView(h, late)
	}
	for i, v := range ix.cur.views {
		switch {
		case gone[v.h]:
			// A merged file takes the place of its first input.
			if out != nil && i < ix.cur.files && out.h.number != 0 {
				files = append(files, out)
				out = nil
			}
		case i < ix.cur.files:
			files = append(files, v)
		default:
			memory = append(memory, v)
		}
	}
	if out != nil {
		if out.h.number != 0 {
			files = append(files, out)
		} else if out.live > 0 {
			memory = append([]*view{out}, memory...)
		}
	}
	return files, memory
}

// addLate adds, in the new numbering, the docs that died since the view was
// taken; all of them when it is no longer published, for then none is live.
func addLate(late *roaring.Bitmap, then, now *view, m []uint32) {
	if now != nil && now.deleted == then.deleted {
		return
	}
	for doc, to := range m {
		if to != segment.Dropped && (now == nil || !now.isLive(uint32(doc))) {
			late.Add(to)
		}
	}
}

func (ix *Index) removeOnRelease(h *handle) {
	path := ix.path(h.name)
	f := func() error { return ix.fs.Remove(path) }
	h.remove.Store(&f)
}

// commit writes the next manifest. commitMu is held; the log has been synced.
func (ix *Index) commit(sc *schema, files []*view, walFirst uint64) error {
	ix.attempt = max(ix.attempt, ix.man.Generation) + 1
	m := &storage.Manifest{Generation: ix.attempt, WALFirst: walFirst, NextNumber: ix.number.Load() + 1}
	saved := make(map[uint64]savedTombstones, len(files))
	for _, v := range files {
		t, err := ix.saveTombstones(v, m.Generation)
		if err != nil {
			return ix.note(err)
		}
		saved[v.h.number] = t
		m.Segments = append(m.Segments, storage.SegmentEntry{
			Number: v.h.number, Info: v.File.Info(), Docs: v.Docs, Tombstones: t.entry,
		})
	}
	var err error
	if m.Schema, err = sc.encode(); err != nil {
		return err
	}
	if err := storage.WriteManifest(ix.fs, ix.dir, m); err != nil {
		return ix.note(err)
	}
	ix.removeOld(m)
	ix.man, ix.saved = m, saved
	ix.walFirst.Store(walFirst)
	ix.generation.Store(m.Generation)
	return nil
}

func (ix *Index) saveTombstones(v *view, generation uint64) (savedTombstones, error) {
	if v.deleted == nil {
		return savedTombstones{}, nil
	}
	if s, ok := ix.saved[v.h.number]; ok && s.deleted != nil && (s.deleted == v.deleted || s.deleted.Equals(v.deleted)) {
		return s, nil
	}
	b, err := v.deleted.ToBytes()
	if err != nil {
		return savedTombstones{}, err
	}
	e, err := storage.WriteTombstones(ix.fs, ix.dir, v.h.number, generation, b, uint32(v.deleted.GetCardinality()))
	return savedTombstones{v.deleted, e}, err
}

// removeOld removes the manifest before m, and tombstone files that m has
// replaced. What cannot be removed is swept by the next Open.
func (ix *Index) removeOld(m *storage.Manifest) {
	keep := make(map[string]bool)
	for _, e := range m.Segments {
		keep[storage.TombstoneName(e.Number, e.Tombstones.Generation)] = true
	}
	for n, s := range ix.saved {
		if name := storage.TombstoneName(n, s.entry.Generation); s.entry.Generation != 0 && !keep[name] {
			_ = ix.fs.Remove(ix.path(name))
		}
	}
	if ix.man.Generation != 0 {
		_ = ix.fs.Remove(ix.path(storage.ManifestName(ix.man.Generation)))
	}
}

// applyLarge is the way of a batch that exceeds the mutable segment's budget:
// straight into a file segment, durable through the manifest. The log cannot
// order it, so everything logged before is flushed first.
func (ix *Index) applyLarge(ctx context.Context, p *prepared) error {
	sc, err := p.base.grow(p.grown)
	if err != nil {
		return err
	}
	if err := ix.flush(ctx); err != nil {
		return err
	}
	var h *handle
	if len(p.docs) > 0 {
		h, err = ix.writeFile(ctx, sc, func(w *storage.SegmentWriter) error {
			return segment.Write(ctx, w, sc.seg, p.docs, ix.segmentOptions())
		})
		if err != nil {
			return err
		}
	}
	err = ix.commitLarge(ctx, p, h)
	if h != nil {
		if err != nil && !errors.Is(err, ErrReadOnly) {
			ix.removeOnRelease(h)
		}
		_ = h.release()
	}
	if err == nil {
		ix.afterApply(ctx)
	}
	return err
}

// commitLarge stops all writers, flushes the little they have written since,
// and commits.
func (ix *Index) commitLarge(ctx context.Context, p *prepared, h *handle) error {
	ix.flushMu.Lock()
	defer ix.flushMu.Unlock()
	ix.memoryMu.Lock()
	defer ix.memoryMu.Unlock()
	ix.commitMu.Lock()
	defer ix.commitMu.Unlock()
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if err := ix.writable(); err != nil {
		return err
	}
	sc, err := p.rebase(ix.cur.schema)
	if err != nil {
		return err
	}
	if memory := ix.cur.memory(); len(memory) > 0 {
		m, maps, err := ix.mergeToFile(ctx, ix.cur.schema, memory)
		if err != nil {
			return err
		}
		files, rest := ix.replaced(memory, maps, m)
		ix.publish(newState(ix.cur.schema, files, rest))
		if m != nil {
			_ = m.release()
		}
	}
	dead, _, err := resolve(ix.cur, p)
	if err != nil {
		return err
	}
	first, err := ix.wal.Rotate()
	if err != nil {
		return ix.note(err)
	}
	files, memory := withDead(ix.cur, dead)
	if h != nil {
		files = append(files, newView(h, nil))
	}
	if err := ix.commit(sc, files, first); err != nil {
		ix.dirty = true // the log before still counts
		return err
	}
	ix.dirty = false
	ix.publish(newState(sc, files, memory))
	ix.forgetBefore(first)
	ix.wakeWaiters()
	_ = ix.wal.RemoveBefore(first)
	return nil
}

// commitWAL waits until a record is durable, and those it builds on with it.
func (ix *Index) commitWAL(ctx context.Context, pos storage.Position) error {
	err := ix.note(ix.wal.Commit(pos))
	ix.mu.Lock()
	mine := ix.unsynced[pos]
	var before []storage.Position
	switch {
	case mine == nil:
		err = nil // a flush has made it durable meanwhile
	case err != nil:
		mine.failed = true
	default:
		delete(ix.unsynced, pos)
		for p, l := range ix.unsynced {
			if l.seq < mine.seq {
				before = append(before, p)
			}
		}
	}
	ix.mu.Unlock()
	if err != nil {
		ix.wake(ix.bg.flush) // it may still save what is visible
		return err
	}
	for _, p := range before {
		if err := ix.wal.Commit(p); err == nil {
			continue
		}
		// A full disk took an earlier batch back just before this one was
		// logged.
		ix.mu.Lock()
		l := ix.unsynced[p]
		if l != nil {
			l.failed = true
		}
		ix.mu.Unlock()
		if l != nil { // else a flush has made it durable
			return ix.flush(ctx)
		}
	}
	return nil
}
