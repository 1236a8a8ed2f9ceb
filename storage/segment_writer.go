package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// Segment format versions, newest last, never reused.
const (
	segmentVersion1 = 1 // the first
	segmentVersion  = segmentVersion1
)

// Feature bits of a segment. A reader refuses a file with a bit it does not
// know; none is in use.
const knownSegmentFeatures uint64 = 0

const (
	segmentMagic    = "QUARRYSG"
	segmentEndMagic = "GSYRRAUQ"

	segmentHeaderSize = 64
	segmentFooterSize = 64

	// SectionAlign is the alignment of every section in a segment, a cache
	// line: arrays of any element can be used where they lie.
	SectionAlign = 64

	// hashChunk is how many bytes of a section share one checksum, so that
	// damage is found to within a MiB.
	hashChunk = 1 << 20

	maxSectionName = 255
)

// SegmentInfo identifies the bytes of a finished segment: the manifest keeps
// it, and OpenSegment compares.
type SegmentInfo struct {
	Size int64  // of the file, in bytes
	Hash uint64 // xxhash64 of the TOC, which holds the checksums of all sections
}

// SectionInfo describes one section of a segment.
type SectionInfo struct {
	Name   string
	Offset int64  // of the first byte in the file
	Size   int64  // in bytes
	Hash   uint64 // xxhash64 of the bytes
}

// tocEntry is a section and the checksums of its MiBs, absent when the
// section is no longer than one.
type tocEntry struct {
	SectionInfo
	chunks []uint64
}

// A SegmentWriter writes a segment in one pass: sections one after the other,
// then the TOC and the footer, or a segment that stays in memory, which needs
// neither. It buffers, so w may be a bare file. The first error sticks. It is
// used by one goroutine.
type SegmentWriter struct {
	w     io.Writer // nil: into buf alone, without checksums
	buf   []byte    // not written yet
	off   int64     // bytes written and buffered
	toc   []tocEntry
	names map[string]int // section → place in toc
	cur   *sectionWriter // open section, or nil
	stop  func() error   // or nil
	err   error
}

const (
	segmentBuffer = 256 << 10

	usualSections = 32 // of a segment of two texts and six metadata fields

	// maxPooledSegment is the largest buffer kept for the next segment.
	maxPooledSegment = 8 << 20
)

// segmentBuffers keeps the buffers of finished writers, as *[]byte.
var segmentBuffers = sync.Pool{New: func() any { return new([]byte) }}

// NewSegmentWriter returns a writer of a segment to w, which gets the bytes
// in order from the first.
func NewSegmentWriter(w io.Writer) *SegmentWriter {
	s := &SegmentWriter{
		w: w, buf: *segmentBuffers.Get().(*[]byte),
		toc: make([]tocEntry, 0, usualSections), names: make(map[string]int, usualSections),
	}
	var h [segmentHeaderSize]byte
	copy(h[:], segmentMagic)
	binary.LittleEndian.PutUint32(h[8:], segmentVersion)
	s.write(h[:])
	return s
}

// NewMemorySegmentWriter returns a writer of a segment that Memory opens: its
// sections hold the same bytes as in a file, and have no checksums. hint is
// about its size in bytes, 0 when not known.
func NewMemorySegmentWriter(hint int64) *SegmentWriter {
	w := NewSegmentWriter(nil)
	if int64(cap(w.buf)) < hint {
		w.buf = append(make([]byte, 0, hint), w.buf...)
	}
	return w
}

// Memory ends the last section and opens what a NewMemorySegmentWriter has
// written, called name in errors, as a copy of just its size. Verify has no
// checksums to compare, Info no hash. The segment has one reference, the
// caller's; the writer is done.
func (s *SegmentWriter) Memory(name string) (*Segment, error) {
	s.endSection()
	s.pad()
	if s.err == nil && s.w != nil {
		s.err = Invalidf("segment %s is written to a file", name)
	}
	if s.err != nil {
		return nil, s.err
	}
	data := bytes.Clone(s.buf)
	if uintptrOf(data)%SectionAlign != 0 {
		data = alignedCopy(data)
	}
	m := &Segment{name: name, info: SegmentInfo{Size: s.off}, data: data, toc: s.toc, index: s.names, unsummed: true}
	m.refs.Store(1)
	s.done()
	return m, nil
}

// done gives the buffer back; nothing can be written after it.
func (s *SegmentWriter) done() {
	if b := s.buf[:0]; cap(b) > 0 && cap(b) <= maxPooledSegment {
		segmentBuffers.Put(&b)
	}
	s.buf, s.toc, s.names = nil, nil, nil
	s.err = errors.New("storage: segment writer used after its end")
}

// StopWhen makes the writer look at stop before each section, and before each
// piece of about 256 KiB that goes to a file, and fail with the error it
// returns: with a context's Err, what writes a segment ends when the context
// does.
func (s *SegmentWriter) StopWhen(stop func() error) { s.stop = stop }

// stopped takes the error of stop for the writer's own.
func (s *SegmentWriter) stopped() bool {
	if s.err == nil && s.stop != nil {
		s.err = s.stop()
	}
	return s.err != nil
}

// Section ends the section before and starts one called name, 1 to 255 bytes
// and new in this segment. The writer it returns belongs to that section: it
// fails once another has been started.
func (s *SegmentWriter) Section(name string) (io.Writer, error) {
	s.endSection()
	switch {
	case s.stopped():
	case name == "" || len(name) > maxSectionName:
		s.err = Invalidf("section name %q: want 1 to %d bytes", name, maxSectionName)
	default:
		if _, twice := s.names[name]; twice {
			s.err = Invalidf("section %q written twice", name)
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	s.pad()
	s.names[name] = len(s.toc)
	s.cur = &sectionWriter{s: s, name: name, start: s.off}
	if s.w != nil {
		s.cur.sums = newSectionSums()
	}
	return s.cur, s.err
}

// Finish ends the last section and writes the TOC and the footer. The file is
// then complete but not durable: syncing it is the caller's.
func (s *SegmentWriter) Finish() (SegmentInfo, error) {
	s.endSection()
	if s.err == nil && s.w == nil {
		s.err = Invalidf("segment in memory is not finished but opened")
	}
	s.pad()
	tocOff := s.off
	toc := appendTOC(nil, s.toc)
	hash := xxhash.Sum64(toc)
	s.write(toc)
	s.pad()
	size := s.off + segmentFooterSize
	f := make([]byte, 0, segmentFooterSize)
	f = AppendU64(f, uint64(tocOff))
	f = AppendU64(f, uint64(len(toc)))
	f = AppendU64(f, hash)
	f = AppendU64(f, 0) // features
	f = AppendU32(f, segmentVersion)
	f = AppendU32(f, 0)
	f = AppendU64(f, uint64(size))
	f = AppendU64(f, xxhash.Sum64(f))
	f = append(f, segmentEndMagic...)
	s.write(f)
	s.flush()
	if s.err != nil {
		return SegmentInfo{}, s.err
	}
	s.done()
	return SegmentInfo{Size: size, Hash: hash}, nil
}

// Size returns the bytes written so far, padding and buffered bytes included.
func (s *SegmentWriter) Size() int64 { return s.off }

func appendTOC(b []byte, toc []tocEntry) []byte {
	b = AppendUvarint(b, uint64(len(toc)))
	for _, e := range toc {
		b = AppendBytes(b, e.Name)
		b = AppendUvarint(b, uint64(e.Offset))
		b = AppendUvarint(b, uint64(e.Size))
		b = AppendU64(b, e.Hash)
		for _, h := range e.chunks {
			b = AppendU64(b, h)
		}
	}
	return b
}

// chunkCount is how many chunk checksums a section of size bytes has: none
// where the section's own checksum says as much.
func chunkCount(size int64) int64 {
	if size <= hashChunk {
		return 0
	}
	return (size-1)/hashChunk + 1
}

var zeros [SectionAlign]byte

func (s *SegmentWriter) pad() { s.write(zeros[:-s.off&(SectionAlign-1)]) }

func (s *SegmentWriter) write(p []byte) {
	if s.err != nil {
		return
	}
	s.off += int64(len(p))
	if s.w != nil && len(s.buf)+len(p) > segmentBuffer {
		s.flush()
		if len(p) >= segmentBuffer {
			s.writeOut(p)
			return
		}
	}
	s.buf = append(s.buf, p...)
}

func (s *SegmentWriter) flush() {
	s.writeOut(s.buf)
	s.buf = s.buf[:0]
}

func (s *SegmentWriter) writeOut(p []byte) {
	if len(p) == 0 || s.stopped() {
		return
	}
	n, err := s.w.Write(p)
	if err == nil && n != len(p) {
		err = io.ErrShortWrite
	}
	s.err = err
}

func (s *SegmentWriter) endSection() {
	c := s.cur
	if c == nil {
		return
	}
	s.cur = nil
	e := tocEntry{SectionInfo: SectionInfo{Name: c.name, Offset: c.start, Size: s.off - c.start}}
	if c.sums != nil {
		e.Hash = c.sums.whole.Sum64()
		e.chunks = c.sums.finish(e.Size)
	}
	s.toc = append(s.toc, e)
}

type sectionWriter struct {
	s     *SegmentWriter
	name  string
	start int64
	sums  *sectionSums // nil in memory
}

func (c *sectionWriter) Write(p []byte) (int, error) {
	if c.s.cur != c {
		return 0, Invalidf("write to section %q after its end", c.name)
	}
	if c.s.err != nil {
		return 0, c.s.err
	}
	if c.sums != nil {
		c.sums.add(p)
	}
	c.s.write(p)
	if c.s.err != nil {
		return 0, c.s.err
	}
	return len(p), nil
}

// sectionSums are the checksums of a section being written. In its first MiB
// that of the whole section is that of the chunk as well.
type sectionSums struct {
	whole  xxhash.Digest // of the section so far
	chunk  xxhash.Digest // of the MiB being written, from the second on
	filled int           // bytes in that MiB
	chunks []uint64      // of the MiBs complete
}

func newSectionSums() *sectionSums {
	h := new(sectionSums)
	h.whole.Reset()
	h.chunk.Reset()
	return h
}

func (h *sectionSums) add(p []byte) {
	for len(p) > 0 {
		n := min(len(p), hashChunk-h.filled)
		h.whole.Write(p[:n])
		if len(h.chunks) > 0 {
			h.chunk.Write(p[:n])
		}
		h.filled += n
		p = p[n:]
		if h.filled == hashChunk {
			h.endChunk()
		}
	}
}

func (h *sectionSums) endChunk() {
	d := &h.chunk
	if len(h.chunks) == 0 {
		d = &h.whole
	}
	h.chunks = append(h.chunks, d.Sum64())
	h.chunk.Reset()
	h.filled = 0
}

// finish returns the checksums of the MiBs of a section of size bytes.
func (h *sectionSums) finish(size int64) []uint64 {
	if chunkCount(size) == 0 {
		return nil
	}
	if h.filled > 0 {
		h.endChunk()
	}
	return h.chunks
}

// CreateSegment writes the segment file path by calling write, and syncs it.
// When anything fails the partial file is removed, and the error tells how to
// go on: it matches ErrReadOnly when a sync failed. The name in the directory
// becomes durable with the next WriteManifest.
func CreateSegment(fs FS, path string, write func(*SegmentWriter) error) (SegmentInfo, error) {
	f, err := fs.Create(path)
	if err != nil {
		return SegmentInfo{}, err
	}
	w := NewSegmentWriter(f)
	err = write(w)
	var info SegmentInfo
	if err == nil {
		info, err = w.Finish()
	}
	if err == nil {
		err = poisoned(f.Sync())
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		// Best effort: a file that stays behind is named by no manifest and
		// goes with the next Sweep.
		_ = fs.Remove(path)
		return SegmentInfo{}, err
	}
	return info, nil
}
