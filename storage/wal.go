package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
)

// WAL format versions, newest last, never reused.
const (
	walVersion1 = 1 // the first
	walVersion  = walVersion1
)

const (
	walMagic = "QUARRYWL"

	walBlock       = 32 << 10 // frames never cross a multiple of it
	walHeaderSize  = 48       // of a file
	walFrameHeader = 24       // of a frame
	walBuffer      = 1 << 20  // appended bytes kept before Append itself writes
	walSmall       = 16 << 10 // size of a write that zeros are laid ahead of
	walAhead       = 128 << 10

	// MaxRecord is the size limit of a WAL record in bytes.
	MaxRecord = 1 << 30
)

// Frame types: a record is one full frame, or a first, any middle and a last.
// A seal is empty and ends the log of a writer that was closed: it tells, as
// every frame does, what was synced before it, the last record included.
const (
	frameFull = 1 + iota
	frameFirst
	frameMiddle
	frameLast
	frameSeal
)

// A SyncPolicy tells what Commit waits for.
type SyncPolicy time.Duration

const (
	// SyncAlways makes Commit return after fsync: a committed record survives
	// a power loss. One fsync serves all commits that wait for it.
	SyncAlways SyncPolicy = 0
	// SyncNever makes Commit return once the operating system has the bytes:
	// a committed record survives the process, but not a power loss before
	// the system writes it out (some 30 s on Linux).
	SyncNever SyncPolicy = -1
)

// SyncEvery makes Commit return once the operating system has the bytes, and
// a goroutine sync them at most d later: a power loss takes at most the last
// d. Values of d below a millisecond count as one.
func SyncEvery(d time.Duration) SyncPolicy { return SyncPolicy(max(d, time.Millisecond)) }

// A Position is the end of an appended record. Only Commit reads it.
type Position struct {
	Log    uint64 // number of the log file
	Offset int64  // of the byte after the record
	epoch  int    // disk-full events before the record was appended
}

// A WAL appends records to numbered log files. Its methods may be called from
// several goroutines; records stand in the log in the order of the Append
// calls.
//
// A write that fails for lack of space takes the records that were not yet
// written with it: their Commits return the error, the log is cut back, and
// goes on. Any other failed write, and any failed sync, poisons the log: all
// later calls return an error matching ErrReadOnly, and nothing is retried,
// since the kernel may report success for pages it has dropped. Whether the
// records in flight survive is known after the next open.
type WAL struct {
	fs     FS
	dir    string
	policy SyncPolicy

	mu       sync.Mutex
	idle     sync.Cond // flushing became false
	flushing bool      // one goroutine writes or syncs with mu released
	err      error     // poisoned or closed: no more writes
	closed   bool

	file    File
	number  uint64
	off     int64  // end of the log, buffered bytes included
	written int64  // end of what the file has
	synced  int64  // end of what is durable
	ahead   int64  // end of the zeros laid behind written, if beyond it
	buf     []byte // bytes [written, off), unless a flush has taken them
	spare   []byte // the other buffer
	records int    // appended since the last flush
	plain   int    // syncs to go before one may yield again
	epoch   int
	drops   []walDrop

	wake chan struct{} // SyncEvery: there is something to sync
	done chan struct{} // closed by Close
	wg   sync.WaitGroup
}

// A walDrop says that the records of an epoch or before which end after
// offset were taken back.
type walDrop struct {
	log    uint64
	offset int64
	epoch  int
	err    error
}

// CreateWAL starts the log file that follows what Replay found (after), or
// log 1 in a directory without logs (a zero after). Its header says where the
// log before ends, so that bytes after a torn tail count for nothing and a
// later cut of that log is found. When it returns, the new file is durable.
func CreateWAL(fs FS, dir string, after ReplayReport, policy SyncPolicy) (*WAL, error) {
	w := &WAL{fs: fs, dir: dir, policy: policy, number: max(after.Next, 1)}
	w.idle.L = &w.mu
	var err error
	if w.file, err = createLog(fs, dir, w.number, after.Last, after.End); err != nil {
		return nil, err
	}
	w.off, w.written, w.synced = walHeaderSize, walHeaderSize, walHeaderSize
	if policy > 0 {
		w.wake, w.done = make(chan struct{}, 1), make(chan struct{})
		w.wg.Go(w.syncLoop)
	}
	return w, nil
}

// createLog makes a log file, durably. A file of that name can only be one
// whose creation was cut short: Replay found no record in it.
func createLog(fs FS, dir string, number, prev uint64, prevEnd int64) (File, error) {
	path := filepath.Join(dir, WALName(number))
	f, err := fs.Create(path)
	if errors.Is(err, iofs.ErrExist) {
		if err := fs.Remove(path); err != nil {
			return nil, err
		}
		f, err = fs.Create(path)
	}
	if err != nil {
		return nil, err
	}
	h := append(make([]byte, 0, walHeaderSize), walMagic...)
	h = AppendU32(h, walVersion)
	h = AppendU32(h, 0) // features
	h = AppendU64(h, number)
	h = AppendU64(h, prev)
	h = AppendU64(h, uint64(prevEnd))
	h = AppendU64(h, xxhash.Sum64(h))
	err = writeAll(f, h)
	if err == nil {
		err = poisoned(f.Sync())
	}
	if err == nil {
		err = poisoned(fs.SyncDir(dir))
	}
	if err != nil {
		_ = f.Close()
		if gone := removeLog(fs, dir, path); gone != nil {
			err = poisoned(errors.Join(err, gone))
		}
		return nil, err
	}
	return f, nil
}

// removeLog makes sure that a log that could not be made is gone for good. Its
// header may be whole: if it came back after a crash, it would say that the
// log before, which goes on meanwhile, ends where it ended then.
func removeLog(fs FS, dir, path string) error {
	if err := fs.Remove(path); err != nil {
		return err
	}
	return fs.SyncDir(dir)
}

func writeAll(f File, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := f.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// Append adds a record of at most MaxRecord bytes to the log and returns its
// end. It keeps no reference to record. The record is neither durable nor
// sure to become so until Commit returns nil. A record of more than 1 MiB is
// written as it is framed, so that memory does not double.
func (w *WAL) Append(record []byte) (Position, error) {
	if len(record) > MaxRecord {
		return Position{}, fmt.Errorf("%w: WAL record of %d bytes, limit %d", ErrTooLarge, len(record), MaxRecord)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	large := len(record)+len(w.buf) > walBuffer
	for large && w.flushing && w.err == nil {
		w.idle.Wait()
	}
	if w.err != nil {
		return Position{}, w.err
	}
	if large {
		w.buf = slices.Grow(w.buf, max(0, walBuffer+2*walBlock-len(w.buf)))
	}
	start := w.off
	for typ, rest := frameFirst, record; ; typ = frameMiddle {
		left := w.skipToFrame()
		n := min(len(rest), left-walFrameHeader)
		if n == len(rest) && typ == frameFirst {
			typ = frameFull
		} else if n == len(rest) {
			typ = frameLast
		}
		w.appendFrame(byte(typ), rest[:n])
		rest = rest[n:]
		if large && len(w.buf) >= walBuffer {
			// Still under the lock: no other record may come in between.
			if err := w.writeLocked(min(start, w.written)); err != nil {
				return Position{}, err
			}
		}
		if typ == frameFull || typ == frameLast {
			w.records++
			return Position{Log: w.number, Offset: w.off, epoch: w.epoch}, nil
		}
	}
}

// skipToFrame appends the zeros before the next frame, if it starts in the next
// block, and returns the bytes left in the block.
func (w *WAL) skipToFrame() int {
	left := walBlock - int(w.off%walBlock)
	if left <= walFrameHeader {
		w.buf = append(w.buf, make([]byte, left)...)
		w.off += int64(left)
		left = walBlock
	}
	return left
}

func (w *WAL) appendFrame(typ byte, payload []byte) {
	at := len(w.buf)
	var h [walFrameHeader]byte
	binary.LittleEndian.PutUint16(h[8:], uint16(len(payload)))
	h[10] = typ
	binary.LittleEndian.PutUint32(h[12:], uint32(w.number))
	binary.LittleEndian.PutUint64(h[16:], uint64(w.synced))
	w.buf = append(w.buf, h[:]...)
	w.buf = append(w.buf, payload...)
	binary.LittleEndian.PutUint64(w.buf[at:], xxhash.Sum64(w.buf[at+8:]))
	w.off += int64(walFrameHeader + len(payload))
}

// writeLocked writes the buffer while mu is held and nobody flushes. When the
// disk is full the log is cut back to cut.
func (w *WAL) writeLocked(cut int64) error {
	err := writeAll(w.file, w.buf)
	if err == nil {
		w.written = w.off
		w.buf = w.buf[:0]
		return nil
	}
	return w.failWrite(err, cut)
}

// failWrite takes the records after cut back when the disk is full, and
// poisons the log otherwise. It returns the error for the caller.
func (w *WAL) failWrite(err error, cut int64) error {
	if !IsDiskFull(err) {
		return w.poison(err)
	}
	if terr := w.file.Truncate(cut); terr != nil {
		return w.poison(errors.Join(err, terr))
	}
	w.off, w.written, w.ahead, w.buf = cut, cut, 0, w.buf[:0]
	for n := len(w.drops); n > 0 && w.drops[n-1].log == w.number && w.drops[n-1].offset >= cut; n-- {
		w.drops = w.drops[:n-1] // the new one covers it
	}
	w.drops = append(w.drops, walDrop{log: w.number, offset: cut, epoch: w.epoch, err: err})
	w.epoch++
	return err
}

func (w *WAL) poison(err error) error {
	if w.err == nil {
		w.err = poisoned(err)
	}
	w.buf = nil
	return w.err
}

// dropped returns the error that took the record at p back, or nil.
func (w *WAL) dropped(p Position) error {
	for _, d := range w.drops {
		if d.log == p.Log && d.epoch >= p.epoch && p.Offset > d.offset {
			return d.err
		}
	}
	return nil
}

// Commit waits until the record that ends at p, and all before it, are as
// durable as the policy says. The first of several waiting goroutines writes
// and syncs for all.
func (w *WAL) Commit(p Position) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if err := w.dropped(p); err != nil {
			return err
		}
		have := w.written
		if w.policy == SyncAlways {
			have = w.synced
		}
		switch {
		case p.Log < w.number, p.Log == w.number && p.Offset <= have:
			w.wakeSyncer()
			return nil // Rotate synced the logs before
		case w.err != nil:
			return w.err
		case p.Log > w.number || p.Offset > w.off:
			return Invalidf("WAL position %d in log %d has not been appended", p.Offset, p.Log)
		case w.flushing:
			w.idle.Wait()
		default:
			w.flush(w.policy == SyncAlways)
		}
	}
}

// Sync makes every record appended before the call durable, under any policy.
func (w *WAL) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := Position{Log: w.number, Offset: w.off, epoch: w.epoch}
	for {
		if err := w.dropped(p); err != nil {
			return err
		}
		switch {
		case p.Log < w.number, p.Offset <= w.synced:
			return nil
		case w.err != nil:
			return w.err
		case w.flushing:
			w.idle.Wait()
		default:
			w.flush(true)
		}
	}
}

// flush writes the buffer, and syncs the file if asked to, with mu released:
// records appended meanwhile wait in the other buffer for the next flush, which
// makes a group. The caller holds mu and has seen flushing false and err nil.
func (w *WAL) flush(sync bool) {
	w.flushing = true
	buf, end, file, records := w.buf, w.off, w.file, w.records
	w.buf, w.spare, w.records = w.spare[:0], nil, 0
	ahead := w.ahead
	reserve := w.policy == SyncAlways && end > ahead && len(buf) <= walSmall
	w.mu.Unlock()
	var err, serr error
	if reserve {
		ahead, err = layAhead(file, end)
	}
	if err == nil {
		err = writeAll(file, buf)
	}
	if err == nil && sync && records > 1 {
		serr = w.yield(file)
	}
	if err == nil && serr == nil && sync {
		serr = file.Sync()
	}
	w.mu.Lock()
	w.flushing = false
	if cap(buf) <= 2*walBuffer {
		w.spare = buf[:0]
	}
	switch {
	case err != nil:
		_ = w.failWrite(err, w.written)
	case serr != nil:
		_ = w.poison(serr)
	default:
		w.written, w.ahead = end, ahead
		if sync {
			w.synced = end
		}
	}
	w.idle.Broadcast()
}

// yield lets the writers of the next group run while the disk writes this one:
// a goroutine in the sync keeps its processor from them. Where it takes long to
// get one back, others than writers use them all, and the next syncs do without.
func (w *WAL) yield(f File) error {
	if w.plain > 0 {
		w.plain--
		return nil
	}
	if err := f.StartSync(); err != nil {
		return err
	}
	start := time.Now()
	if runtime.Gosched(); time.Since(start) > time.Millisecond {
		w.plain = 64
	}
	return nil
}

// layAhead lays zeros behind what is about to be written, up to end, and returns
// where they end: as many as the log has bytes, up to walAhead, and to the end
// of a block. The syncs of what is written over them have no new length of the
// file to write, which costs as much as the bytes. Without space there are none.
func layAhead(f File, end int64) (int64, error) {
	ahead := end + min(end, walAhead)
	ahead += -ahead & (walBlock - 1)
	err := f.Reserve(ahead)
	if IsDiskFull(err) {
		err = nil
	}
	return ahead, err
}

func (w *WAL) wakeSyncer() {
	if w.wake != nil && w.synced < w.written {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// syncLoop serves SyncEvery. An error poisons the log: the next call returns it.
func (w *WAL) syncLoop() {
	for {
		select {
		case <-w.done:
			return
		case <-w.wake:
		}
		select {
		case <-w.done:
			return
		case <-time.After(time.Duration(w.policy)):
		}
		_ = w.Sync()
	}
}

// Rotate syncs the log, starts the next file and returns its number: every
// record appended before is in a file with a lower number, and durable. On a
// full disk the log goes on in the old file.
func (w *WAL) Rotate() (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.syncLocked(); err != nil {
		return 0, err
	}
	f, err := createLog(w.fs, w.dir, w.number+1, w.number, w.off)
	if err != nil {
		if errors.Is(err, ErrReadOnly) {
			return 0, w.poison(err)
		}
		return 0, err
	}
	old := w.file
	w.file, w.number = f, w.number+1
	w.off, w.written, w.synced, w.ahead = walHeaderSize, walHeaderSize, walHeaderSize, 0
	if err := old.Close(); err != nil {
		return 0, w.poison(err)
	}
	return w.number, nil
}

// syncLocked writes and syncs all there is without releasing mu.
func (w *WAL) syncLocked() error {
	for w.flushing {
		w.idle.Wait()
	}
	if w.err != nil {
		return w.err
	}
	if err := w.writeLocked(w.written); err != nil {
		return err
	}
	if w.synced < w.written {
		if err := w.file.Sync(); err != nil {
			return w.poison(err)
		}
		w.synced = w.written
	}
	return nil
}

// RemoveBefore removes the log files below number, oldest first. The manifest
// that makes them needless must be durable. The file in use always stays.
func (w *WAL) RemoveBefore(number uint64) error {
	w.mu.Lock()
	number = min(number, w.number)
	w.mu.Unlock()
	logs, err := listLogs(w.fs, w.dir, 0)
	if err != nil {
		return err
	}
	for _, n := range logs {
		if n >= number {
			break
		}
		// A reader in another process may have removed nothing, but Windows
		// keeps a file that one has open: try the others, report the first.
		err = errors.Join(err, w.fs.Remove(filepath.Join(w.dir, WALName(n))))
	}
	return err
}

// Number returns the number of the file in use.
func (w *WAL) Number() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.number
}

// Size returns the bytes of the file in use, buffered ones included.
func (w *WAL) Size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.off
}

// Err returns nil, or why the log takes no more records.
func (w *WAL) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// seal ends the log and cuts off the zeros behind it. On a full disk it goes
// without, which loses nothing.
func (w *WAL) seal() error {
	if w.off == walHeaderSize {
		return nil
	}
	w.skipToFrame()
	w.appendFrame(frameSeal, nil)
	err := w.writeLocked(w.written)
	if err == nil && w.ahead > w.written {
		err = w.file.Truncate(w.written)
	}
	if IsDiskFull(err) {
		return nil
	}
	return err
}

// Close syncs what was appended, whatever the policy, seals and closes the log.
// Later calls return an error matching ErrClosed. The seal is not synced: a
// crash that takes it leaves what one before Close would.
func (w *WAL) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	w.closed = true
	err := w.syncLocked()
	if err == nil {
		err = w.seal()
	}
	w.err = ErrClosed
	w.buf, w.spare = nil, nil
	if cerr := w.file.Close(); err == nil {
		err = cerr
	}
	w.idle.Broadcast()
	w.mu.Unlock()
	if w.done != nil {
		close(w.done)
		w.wg.Wait()
	}
	return err
}
