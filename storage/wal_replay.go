package storage

import (
	"encoding/binary"
	"errors"
	"math"
	"path/filepath"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// A ReplayReport tells what Replay found. CreateWAL takes it to go on.
type ReplayReport struct {
	First, Last uint64 // numbers of the logs read; 0 when there were none
	End         int64  // end of the last whole record in log Last, in bytes
	Next        uint64 // number of the log to create next
	Records     int    // records given to fn
	Bytes       int64  // their size

	// Torn is set when the last log ends in bytes that are no whole record, nor
	// zeros laid ahead: the writer stopped within a write. TornFile holds
	// TornBytes of them from TornOffset on. They had not been synced.
	Torn       bool
	TornFile   string
	TornOffset int64
	TornBytes  int64
}

// Replay gives the records in log files from and above to fn, in the order
// they were appended. The slice is dead after fn returns. from is the
// manifest's WALFirst: that file must exist, unless from is 0, which starts
// at the lowest there is, or at nothing. Replay only reads.
//
// A torn tail is normal after a crash: its bytes count for nothing, the report
// says where, and the next log's header shuts them out for good (nothing is
// overwritten, so the file itself keeps them). Everything else is ErrCorrupt
// with file and offset: damage before an offset that a good frame or the next
// log's header says was synced; a missing file; and damage that whole frames
// follow, unless an unwritten sector lies between, which is how a power loss
// leaves pages it wrote out of order. fn may have seen records from before the
// damage; an error of fn ends the replay and is returned as it is.
//
// Beside a writer Replay finds the records of some moment of the call: what
// looks like damage because bytes were read before the writer put them there,
// and later ones after, is read again.
func Replay(fs FS, dir string, from uint64, fn func(record []byte) error) (ReplayReport, error) {
	var report ReplayReport
	logs, err := listLogs(fs, dir, from)
	if err != nil {
		return report, err
	}
	switch {
	case from != 0 && (len(logs) == 0 || logs[0] != from):
		return report, Corruptf(filepath.Join(dir, WALName(from)), 0, "log file is missing")
	case len(logs) == 0:
		report.Next = 1
		return report, nil
	}
	var r *walReader // of the log before
	defer func() { r.close() }()
	for i, number := range logs {
		if number != logs[0]+uint64(i) {
			return report, Corruptf(filepath.Join(dir, WALName(logs[0]+uint64(i))), 0, "log file is missing")
		}
		next, torn, err := openLog(fs, dir, number, i == len(logs)-1 && number != from)
		if err != nil {
			return report, err
		}
		if torn {
			break // created by a writer that stopped: as if it were not there
		}
		if r != nil {
			if next.prev != r.number {
				next.close()
				return report, Corruptf(next.path, 24, "follows log %d, want %d", next.prev, r.number)
			}
			err = r.replay(next.prevEnd, fn, &report)
			r.close()
		}
		r = next
		if err != nil {
			return report, err
		}
	}
	if r == nil {
		report.Next = logs[0]
		return report, nil
	}
	err = r.replay(-1, fn, &report)
	report.First, report.Last, report.Next = logs[0], r.number, r.number+1
	return report, err
}

// SalvageLogs gives every record it can find in the log files from and above
// to fn, in the order they were appended, and tells lost of each stretch of
// bytes between them that holds none. It is for logs that Replay calls
// corrupt: of what stood in a lost stretch nothing is known. A file that
// cannot be opened, or of a newer format, is lost as a whole. An error of fn
// ends it.
func SalvageLogs(fs FS, dir string, from uint64, fn func(record []byte) error, lost func(file string, off, n int64)) error {
	logs, err := listLogs(fs, dir, from)
	if err != nil {
		return err
	}
	var readers []*walReader
	defer func() {
		for _, r := range readers {
			r.close()
		}
	}()
	for _, number := range logs {
		path := filepath.Join(dir, WALName(number))
		f, err := fs.Open(path)
		if err != nil {
			lost(path, 0, 0)
			continue
		}
		r := &walReader{f: f, path: path, number: number, blockOff: -1, prevEnd: -1}
		readers = append(readers, r)
		if r.size, err = f.Size(); err == nil {
			err = r.readHeader()
		}
		switch {
		case errors.Is(err, ErrVersion):
			lost(path, 0, r.size)
			r.size = 0
		case err != nil:
			lost(path, 0, min(r.size, walHeaderSize))
			r.prev, r.prevEnd = 0, -1
		}
	}
	for i, r := range readers {
		end := int64(-1)
		if i+1 < len(readers) && readers[i+1].prev == r.number && readers[i+1].prevEnd >= walHeaderSize {
			end = readers[i+1].prevEnd
		}
		if err := r.salvage(end, fn, lost); err != nil {
			return err
		}
	}
	return nil
}

// salvage gives the whole records to fn. end is as for replay: beyond it are
// the leavings of a crash.
func (r *walReader) salvage(end int64, fn func([]byte) error, lost func(string, int64, int64)) error {
	limit := r.size
	if end >= 0 {
		limit = min(limit, end)
	}
	var record []byte
	open := false
	good := int64(walHeaderSize) // everything before it was given out or told lost
	tell := func(end int64) {
		if end > good {
			lost(r.path, good, end-good)
		}
	}
	for off := good; off < limit; {
		if left := walBlock - off%walBlock; left <= walFrameHeader {
			if off += left; !open && good == off-left {
				good = off
			}
			continue
		}
		fr, ok, err := r.frameAt(off)
		if err == nil && !ok {
			next := limit
			err = r.scan(off, func(at int64, _ walFrame) bool { next = at; return false })
			if err == nil {
				off, open = min(next, limit), false
				continue
			}
		}
		if err != nil { // a block that cannot be read
			off, open = off-off%walBlock+walBlock, false
			continue
		}
		next := off + int64(walFrameHeader+len(fr.payload))
		if fr.typ == frameSeal {
			if off = next; !open && good+walFrameHeader == next {
				good = next
			}
			open = false
			continue
		}
		switch {
		case fr.typ == frameFull || fr.typ == frameFirst:
			tell(off)
			good, open, record = off, true, record[:0]
		case !open:
			off = next // the rest of a record whose start is lost
			continue
		}
		record = append(record, fr.payload...)
		if off = next; fr.typ == frameFull || fr.typ == frameLast {
			good, open = off, false
			if err := fn(record); err != nil {
				return err
			}
		}
	}
	if clean, err := r.laidAhead(good); end >= 0 || !clean || err != nil {
		tell(limit)
	}
	return nil
}

// listLogs returns the numbers of the log files from and above, ascending.
func listLogs(fs FS, dir string, from uint64) ([]uint64, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	var out []uint64
	for _, name := range names {
		if f := ParseFileName(name); f.Kind == FileWAL && f.Number >= from {
			out = append(out, f.Number)
		}
	}
	slices.Sort(out)
	return out, nil
}

// A walReader reads one log file, a block at a time.
type walReader struct {
	f        File
	path     string
	number   uint64
	size     int64
	prev     uint64 // the log before, and where its records end
	prevEnd  int64
	block    []byte // bytes of the block at blockOff
	blockOff int64  // -1 for none
}

func (r *walReader) close() {
	if r != nil && r.f != nil {
		_ = r.f.Close() // opened for reading: nothing to lose
		r.f = nil
	}
}

// openLog opens a log file and checks its header. torn is true when mayTear
// and the file is one whose creation was cut short: the header, which is one
// write within one sector, is missing or zero, and there is not one good frame.
func openLog(fs FS, dir string, number uint64, mayTear bool) (_ *walReader, torn bool, err error) {
	path := filepath.Join(dir, WALName(number))
	f, err := fs.Open(path)
	if err != nil {
		return nil, false, err
	}
	r := &walReader{f: f, path: path, number: number, blockOff: -1}
	if r.size, err = f.Size(); err == nil {
		err = r.readHeader()
	}
	if err == nil {
		return r, false, nil
	}
	defer r.close()
	if !mayTear || !errors.Is(err, ErrCorrupt) || r.size >= walHeaderSize && firstNonZero(r.block[:walHeaderSize]) >= 0 {
		return nil, false, err
	}
	torn = true
	if serr := r.scan(0, func(int64, walFrame) bool { torn = false; return false }); serr != nil {
		return nil, false, serr
	}
	if torn {
		return nil, true, nil
	}
	return nil, false, err
}

func (r *walReader) readHeader() error {
	if r.size < walHeaderSize {
		return Corruptf(r.path, r.size, "want at least %d bytes, have %d", walHeaderSize, r.size)
	}
	if err := r.load(0); err != nil {
		return err
	}
	h, le := r.block, binary.LittleEndian
	if string(h[:8]) != walMagic {
		return Corruptf(r.path, 0, "not a log: magic %q", h[:8])
	}
	if v := le.Uint32(h[8:]); v != walVersion {
		return &VersionError{File: r.path, Have: v, Min: walVersion1, Max: walVersion}
	}
	if f := le.Uint32(h[12:]); f != 0 {
		return &VersionError{File: r.path, Have: walVersion, Min: walVersion1, Max: walVersion, Features: uint64(f)}
	}
	if le.Uint64(h[40:]) != xxhash.Sum64(h[:40]) {
		return Corruptf(r.path, 40, "header checksum mismatch")
	}
	if n := le.Uint64(h[16:]); n != r.number {
		return Corruptf(r.path, 16, "header of log %d in a file named for %d", n, r.number)
	}
	r.prev = le.Uint64(h[24:])
	end := le.Uint64(h[32:])
	if end > math.MaxInt64 {
		return Corruptf(r.path, 32, "end %d of log %d", end, r.prev)
	}
	r.prevEnd = int64(end)
	return nil
}

// load makes r.block the block that holds off, which is below r.size.
func (r *walReader) load(off int64) error {
	start := off - off%walBlock
	if r.blockOff == start {
		return nil
	}
	n := min(walBlock, r.size-start)
	if r.block == nil {
		r.block = make([]byte, walBlock)
	}
	r.block = r.block[:n]
	r.blockOff = -1
	clear(r.block)
	// A file that is shorter by now was cut by a writer beside us: what it cut
	// off, zeros laid ahead or a write that failed, counts for nothing.
	if err := readFull(r.f, r.path, r.block, start); err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	r.blockOff = start
	return nil
}

// A walFrame is a frame whose checksum is right. payload is dead after the
// next load.
type walFrame struct {
	typ     byte
	synced  int64
	payload []byte
}

// frameAt reads the frame at off, which must not be within a block's padding;
// ok is false when there is no good one.
func (r *walReader) frameAt(off int64) (fr walFrame, ok bool, err error) {
	if err := r.load(off); err != nil {
		return walFrame{}, false, err
	}
	fr, ok = parseFrame(r.block[off-r.blockOff:], r.number, off)
	return fr, ok, nil
}

// parseFrame reads the frame that starts at b[0], byte off of log number; b
// ends with the block or the file.
func parseFrame(b []byte, number uint64, off int64) (walFrame, bool) {
	if len(b) < walFrameHeader {
		return walFrame{}, false
	}
	le := binary.LittleEndian
	n, synced := int(le.Uint16(b[8:])), le.Uint64(b[16:])
	// Cheap tests first: scan calls this at every byte.
	if le.Uint32(b[12:]) != uint32(number) || b[10] < frameFull || b[10] > frameSeal || b[11] != 0 ||
		n > len(b)-walFrameHeader || synced > uint64(off) {
		return walFrame{}, false
	}
	if xxhash.Sum64(b[8:walFrameHeader+n]) != le.Uint64(b) {
		return walFrame{}, false
	}
	return walFrame{typ: b[10], synced: int64(synced), payload: b[walFrameHeader : walFrameHeader+n]}, true
}

// replay gives the records to fn. end is where the next log says this one
// ends, or -1 when this is the last.
func (r *walReader) replay(end int64, fn func([]byte) error, report *ReplayReport) error {
	limit := r.size
	if end >= 0 {
		if end > r.size {
			return Corruptf(r.path, r.size, "want %d bytes, have %d", end, r.size)
		}
		limit = end
	}
	var record []byte
	open, sealed := false, false // within a record; behind a seal
	good := int64(walHeaderSize)
	synced := int64(0)
	off := good
	report.End = good
	for off < limit {
		if left := walBlock - off%walBlock; left <= walFrameHeader {
			off += left
			continue
		}
		fr, ok, err := r.frameAt(off)
		if err != nil {
			return err
		}
		if !ok && end >= 0 {
			break
		}
		if !ok {
			err := r.judgeTail(good, off, synced, report)
			if errors.Is(err, ErrCorrupt) && r.written(off) {
				continue // by a writer beside us, after we read zeros there
			}
			return err
		}
		synced = max(synced, fr.synced)
		if fr.typ == frameSeal && !open && len(fr.payload) == 0 {
			off, sealed = off+walFrameHeader, fr.synced == good
			break
		}
		if starts := fr.typ == frameFull || fr.typ == frameFirst; starts == open {
			return Corruptf(r.path, off, "frame of type %d out of order", fr.typ)
		} else if starts {
			record = record[:0]
		}
		record = append(record, fr.payload...)
		off += int64(walFrameHeader + len(fr.payload))
		if open = fr.typ == frameFirst || fr.typ == frameMiddle; open {
			continue
		}
		good, report.End = off, off
		report.Records++
		report.Bytes += int64(len(record))
		if err := fn(record); err != nil {
			return err
		}
	}
	if end >= 0 {
		if good != end {
			return Corruptf(r.path, off, "bad frame: log %d has records up to %d", r.number+1, end)
		}
		return nil
	}
	if sealed {
		if clean, err := r.laidAhead(off); clean || err != nil {
			return err
		}
	}
	return r.judgeTail(good, off, synced, report)
}

// written reports whether a good frame stands at off by now.
func (r *walReader) written(off int64) bool {
	r.blockOff = -1
	_, ok, err := r.frameAt(off)
	return ok && err == nil
}

// laidAhead reports whether nothing follows from from on but zeros that a
// writer has laid ahead: those end with a block.
func (r *walReader) laidAhead(from int64) (bool, error) {
	if from < r.size && r.size%walBlock != 0 {
		return false, nil
	}
	for from < r.size {
		if err := r.load(from); err != nil {
			return false, err
		}
		if firstNonZero(r.block[from-r.blockOff:]) >= 0 {
			return false, nil
		}
		from = r.blockOff + walBlock
	}
	return true, nil
}

// judgeTail tells a torn tail from damage in the last log, whose whole
// records end at good, and whose first bad frame is at bad (the file's end or
// beyond it when there is none).
func (r *walReader) judgeTail(good, bad, synced int64, report *ReplayReport) error {
	next := int64(-1) // the first good frame after bad
	if bad < r.size {
		err := r.scan(bad, func(off int64, fr walFrame) bool {
			if next < 0 {
				next = off
			}
			synced = max(synced, fr.synced)
			return synced <= good
		})
		if err != nil {
			return err
		}
	}
	if synced > good {
		return Corruptf(r.path, min(bad, r.size), "bad frame: bytes up to %d were synced, records end at %d", synced, good)
	}
	if next >= 0 {
		hole, err := r.hasHole(bad, next)
		if err != nil {
			return err
		}
		if !hole {
			return Corruptf(r.path, bad, "bad frame: a good one follows at %d", next)
		}
	}
	clean, err := r.laidAhead(good)
	if !clean && err == nil {
		report.Torn, report.TornFile, report.TornOffset, report.TornBytes = true, r.path, good, r.size-good
	}
	return err
}

// scanBudget bounds the bytes hashed while looking for a frame at every byte
// of a damaged block; input made for it could cost a second otherwise.
const scanBudget = 64 << 20

// scan calls fn for good frames after the bad one at off, until fn returns
// false: at any byte of that block, then along the frames of each later one,
// where the first starts with the block.
func (r *walReader) scan(off int64, fn func(off int64, fr walFrame) bool) error {
	if off >= r.size {
		return nil
	}
	if err := r.load(off); err != nil {
		return err
	}
	budget := scanBudget
	for at := off + 1; at+walFrameHeader <= r.blockOff+int64(len(r.block)) && budget > 0; at++ {
		b := r.block[at-r.blockOff:]
		fr, ok := parseFrame(b, r.number, at)
		if binary.LittleEndian.Uint32(b[12:]) == uint32(r.number) {
			budget -= int(binary.LittleEndian.Uint16(b[8:]))
		}
		if ok {
			if !fn(at, fr) {
				return nil
			}
			at += int64(walFrameHeader+len(fr.payload)) - 1
		}
	}
	for start := off - off%walBlock + walBlock; start < r.size; start += walBlock {
		for at := start; at < r.size && at+walFrameHeader < start+walBlock; {
			fr, ok, err := r.frameAt(at)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if !fn(at, fr) {
				return nil
			}
			at += int64(walFrameHeader + len(fr.payload))
		}
	}
	return nil
}

// walSector is the unit a disk writes as a whole.
const walSector = 512

// hasHole reports whether bytes [from, to) hold a sector, from from on if it
// starts before, of only zeros: bytes that never reached the disk.
func (r *walReader) hasHole(from, to int64) (bool, error) {
	for from < to {
		end := from - from%walSector + walSector
		if end > to {
			return false, nil
		}
		if err := r.load(from); err != nil {
			return false, err
		}
		if firstNonZero(r.block[from-r.blockOff:min(end-r.blockOff, int64(len(r.block)))]) < 0 {
			return true, nil
		}
		from = end
	}
	return false, nil
}
