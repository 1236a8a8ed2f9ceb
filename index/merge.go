package index

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/bits"
	"slices"
	"time"

	"github.com/quarrysearch/quarry/hnsw"
	"github.com/quarrysearch/quarry/index/segment"
	"github.com/quarrysearch/quarry/storage"
)

// How segments are merged: those of about one size together, so that each
// document is rewritten about once a tier.
const (
	memoryTier    = 8  // memory segments of one tier, each of 8 times the docs of the last
	memoryLargest = 16 // a memory segment of 1/16 of the budget waits for the flush
	fileTier      = 4
	fileFloor     = 1 << 20
	maxDeadPart   = 5 // a file segment is rewritten when over 1/5 of its docs are dead
	maxRetryPause = time.Minute
)

// tier is the number of the tier of a segment of size bytes: floor·per^tier.
func tier(size, floor int64, per int) int {
	if size < floor {
		return 0
	}
	return bits.Len64(uint64(size/floor)) / (bits.Len(uint(per)) - 1)
}

// tidyMemory merges memory segments of one tier until no tier is full. When
// another goroutine is at it, it leaves the work to that one.
func (ix *Index) tidyMemory(ctx context.Context) error {
	if !ix.memoryMu.TryLock() {
		return nil
	}
	defer ix.memoryMu.Unlock()
	for {
		st, in := ix.fullMemoryTier()
		if in == nil {
			return nil
		}
		err := ix.mergeMemory(ctx, st, in)
		st.release()
		if err != nil {
			return err
		}
	}
}

// fullMemoryTier returns the segments of the lowest full tier, with the state
// retained, or nil.
func (ix *Index) fullMemoryTier() (*state, []*view) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	tiers := make(map[int][]*view)
	for _, v := range ix.cur.memory() {
		if !ix.flushing[v.h] && v.h.size < ix.o.MutableBytes/memoryLargest {
			t := tier(int64(v.live), 1, memoryTier)
			tiers[t] = append(tiers[t], v)
		}
	}
	for t := range 64 {
		if len(tiers[t]) >= memoryTier {
			ix.cur.refs.Add(1)
			return ix.cur, tiers[t]
		}
	}
	return nil, nil
}

func (ix *Index) mergeMemory(ctx context.Context, st *state, in []*view) error {
	maps := droppedMaps(in)
	var h *handle
	if liveDocs(in) > 0 {
		var err error
		hint := int64(0)
		for _, v := range in {
			hint += v.h.size
		}
		h, err = ix.inMemory(st.schema, hint, func(w *storage.SegmentWriter) error {
			maps, _, err = segment.Merge(ctx, w, st.schema.seg, inputs(in), segment.Options{Memory: true, Threads: ix.o.Threads})
			return err
		})
		if err != nil {
			return err
		}
		defer h.release()
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	files, memory := ix.replaced(in, maps, h)
	ix.publish(newState(ix.cur.schema, files, memory))
	return nil
}

// Merge merges file segments by hand until at most maxSegments are left, and
// rewrites all that hold tombstones, the mutable segment included. It may take
// as long as building the index; ctx ends it between two segments' worth of
// work, with nothing lost. maxSegments is at least 1.
func (ix *Index) Merge(ctx context.Context, maxSegments int) error {
	if maxSegments < 1 {
		return invalidf("merge to %d segments: want at least 1", maxSegments)
	}
	if err := ix.enter(); err != nil {
		return err
	}
	defer ix.leave()
	if err := ix.writable(); err != nil {
		return err
	}
	if err := ix.flush(ctx); err != nil {
		return err
	}
	_, err := ix.mergeFiles(ctx, func(files []*view) []*view { return pickForced(files, maxSegments) })
	return err
}

// Upgrade writes the file segments that are of an older format again, one after
// the other, in the formats of this build, and returns how many. Nothing needs
// it: every format that was released opens for ever. But a newer one may be
// smaller or faster, and older builds open an index until something in it is
// newer, which a merge may bring at any time. A crash or ctx between two
// segments leaves the first ones upgraded, within one it leaves that as it was.
// Analyzers keep the rules an index was made with.
func (ix *Index) Upgrade(ctx context.Context) (int, error) {
	if err := ix.enter(); err != nil {
		return 0, err
	}
	defer ix.leave()
	if err := ix.writable(); err != nil {
		return 0, err
	}
	if err := ix.flush(ctx); err != nil {
		return 0, err
	}
	last := ix.number.Load()
	for n := 0; ; n++ {
		did, err := ix.mergeFiles(ctx, func(files []*view) []*view {
			i := slices.IndexFunc(files, func(v *view) bool { return v.h.number <= last && v.Old() })
			if i < 0 {
				return nil
			}
			return files[i : i+1]
		})
		if !did || err != nil {
			return n, err
		}
	}
}

// pickForced picks the segments with tombstones, and the smallest others as
// far as needed.
func pickForced(files []*view, maxSegments int) []*view {
	bySize := slices.Clone(files)
	slices.SortStableFunc(bySize, func(a, b *view) int { return cmp.Compare(a.h.size, b.h.size) })
	var picked []*view
	for _, v := range bySize {
		if v.deleted != nil {
			picked = append(picked, v)
		}
	}
	for _, v := range bySize {
		if len(files)-len(picked)+min(len(picked), 1) <= maxSegments {
			break
		}
		if v.deleted == nil {
			picked = append(picked, v)
		}
	}
	return picked
}

// pickTier picks what the merge policy wants merged next: a segment with too
// many tombstones, or all segments of the lowest full tier; nil for nothing.
// Sizes count live docs only.
func pickTier(files []*view, maxSegments int) []*view {
	tiers := make(map[int][]*view)
	for _, v := range files {
		dead := int(v.Docs) - v.live
		if dead*maxDeadPart > int(v.Docs) {
			return []*view{v}
		}
		size := v.h.size
		if v.Docs > 0 {
			size = int64(float64(size) * float64(v.live) / float64(v.Docs))
		}
		t := tier(size, fileFloor, fileTier)
		tiers[t] = append(tiers[t], v)
	}
	for t := range 64 {
		if len(tiers[t]) >= fileTier {
			return tiers[t]
		}
	}
	if len(files) > maxSegments {
		return pickForced(files, maxSegments)
	}
	return nil
}

// mergeAll merges until the policy is content.
func (ix *Index) mergeAll(ctx context.Context) error {
	for {
		did, err := ix.mergeFiles(ctx, func(files []*view) []*view { return pickTier(files, ix.o.MaxSegments) })
		if !did || err != nil {
			return err
		}
	}
}

// mergeFiles merges the file segments that pick picks, if any.
func (ix *Index) mergeFiles(ctx context.Context, pick func([]*view) []*view) (bool, error) {
	ix.mergeMu.Lock()
	defer ix.mergeMu.Unlock()
	ix.mu.Lock()
	st := ix.cur
	in := pick(st.views[:st.files])
	if len(in) == 0 {
		ix.mu.Unlock()
		return false, nil
	}
	st.refs.Add(1)
	ix.mu.Unlock()
	defer st.release()
	start := time.Now()
	h, maps, err := ix.mergeToFile(ctx, st.schema, in)
	if err == nil {
		err = ix.install(in, maps, h, 0)
	}
	if err == nil && ix.o.Logger != nil {
		ix.o.Logger.Info("quarry: merged", "dir", ix.dir, "segments", len(in), "documents", liveDocs(in), "seconds", time.Since(start).Seconds())
	}
	return err == nil, err
}

// graphMerged logs how a merge came by a graph; a merge that had to give up the
// graphs it was to keep is worth a warning.
func (ix *Index) graphMerged(field string, r hnsw.MergeReport) {
	if ix.o.Logger == nil || r == (hnsw.MergeReport{}) {
		return
	}
	level := slog.LevelInfo
	if r.Floor > 0 && r.Rebuilt != "" {
		level = slog.LevelWarn
	}
	ix.o.Logger.Log(context.Background(), level, "quarry: graph merged", "dir", ix.dir, "field", field, "kept", r.Kept,
		"healed", r.Healed, "inserted", r.Inserted, "rebuilt", r.Rebuilt, "recall", r.Recall, "floor", r.Floor)
}

func (ix *Index) startBackground() {
	ix.bg.ctx, ix.bg.cancel = context.WithCancel(context.Background())
	ix.bg.flush, ix.bg.merge = make(chan struct{}, 1), make(chan struct{}, 1)
	if ix.o.NoBackground || ix.o.ReadOnly {
		return
	}
	ix.bg.wg.Go(func() {
		ix.loop(stageFlush, ix.bg.flush, func(ctx context.Context) error {
			if err := ix.flush(ctx); err != nil {
				return err
			}
			ix.wake(ix.bg.merge)
			return nil
		})
	})
	ix.bg.wg.Go(func() { ix.loop(stageMerge, ix.bg.merge, ix.mergeAll) })
	if ix.needsFlush() {
		ix.wake(ix.bg.flush)
	}
	ix.wake(ix.bg.merge)
}

// loop runs work whenever it is woken. After a failure it tries again, after a
// pause that doubles up to a minute; a poisoned index is left alone.
func (ix *Index) loop(s stage, wake chan struct{}, work func(context.Context) error) {
	ctx := ix.bg.ctx
	pause := ix.o.BackgroundRetry
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
		err := work(ctx)
		if ctx.Err() != nil {
			return
		}
		ix.report(s, err)
		ix.wakeWaiters()
		switch {
		case err == nil:
			pause = ix.o.BackgroundRetry
		case errors.Is(err, ErrReadOnly):
			return // a waiter finds the poison
		default:
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, maxRetryPause)
			ix.wake(wake)
		}
	}
}

// afterApply keeps the list of memory segments short and sees to it that what
// has grown too large is flushed and merged. Its failures are not the batch's:
// they are reported like those of the background.
func (ix *Index) afterApply(ctx context.Context) {
	ctx = context.WithoutCancel(ctx) // the batch is applied already
	if err := ix.tidyMemory(ctx); err != nil {
		ix.report(stageFlush, err)
	}
	if !ix.o.NoBackground {
		if ix.needsFlush() {
			ix.wake(ix.bg.flush)
		}
		ix.wake(ix.bg.merge)
		return
	}
	if ix.needsFlush() {
		ix.report(stageFlush, ix.flush(ctx))
	}
	ix.report(stageMerge, ix.mergeAll(ctx))
}

func (ix *Index) needsFlush() bool {
	ix.pub.Lock()
	n := ix.cur.memoryBytes()
	ix.pub.Unlock()
	if n > ix.o.MutableBytes || ix.wal.Size() > 2*ix.o.MutableBytes {
		return true
	}
	return ix.wal.Number()-max(ix.walFirst.Load(), 1) >= maxLogs
}

func (ix *Index) wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (ix *Index) wakeWaiters() {
	ix.pub.Lock()
	close(ix.room)
	ix.room = make(chan struct{})
	ix.pub.Unlock()
}

// report keeps and logs a failure of background work; nil clears the alarm
// but leaves LastError.
func (ix *Index) report(s stage, err error) {
	if err == nil {
		ix.bg.failing[s].Store(nil)
		return
	}
	ix.bg.failing[s].Store(&err)
	ix.bg.err.Store(&BackgroundError{When: time.Now(), Stage: s.String(), Err: err})
	if ix.o.Logger != nil {
		ix.o.Logger.Error("quarry: background work failed and will be retried", "dir", ix.dir, "stage", s.String(), "err", err)
	}
}

// waitForRoom makes a writer wait while flush or merge lag too far behind.
// When they fail, waiting would not end: their error is returned.
func (ix *Index) waitForRoom(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if ix.closed.Load() {
			return ErrClosed
		}
		ix.pub.Lock()
		full := ix.cur.memoryBytes() > 2*ix.o.MutableBytes
		many := ix.cur.files > ix.o.MaxSegments
		room := ix.room
		ix.pub.Unlock()
		if !full && !many {
			return nil
		}
		if ix.o.NoBackground {
			return ix.makeRoom(ctx, full)
		}
		if e := ix.bg.failing[stageFlush].Load(); full && e != nil {
			return *e
		}
		if e := ix.bg.failing[stageMerge].Load(); many && e != nil {
			return *e
		}
		ix.wake(ix.bg.flush)
		ix.wake(ix.bg.merge)
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// makeRoom tries again, without a background, what failed after an earlier
// Apply.
func (ix *Index) makeRoom(ctx context.Context, full bool) error {
	if full {
		err := ix.flush(ctx)
		ix.report(stageFlush, err)
		if err != nil {
			return err
		}
	}
	err := ix.mergeAll(ctx)
	ix.report(stageMerge, err)
	return err
}
