package storage

import (
	"encoding/binary"
	"errors"
	"io"

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
// then the TOC and the footer. It buffers, so w may be a bare file. The first
// error sticks. It is used by one goroutine.
type SegmentWriter struct {
	w     io.Writer
	buf   []byte // not written yet
	off   int64  // bytes written and buffered
	toc   []tocEntry
	names map[string]bool
	cur   *sectionWriter // open section, or nil
	err   error
}

const segmentBuffer = 256 << 10

// NewSegmentWriter returns a writer of a segment to w, which gets the bytes
// in order from the first.
func NewSegmentWriter(w io.Writer) *SegmentWriter {
	s := &SegmentWriter{w: w, names: make(map[string]bool)}
	var h [segmentHeaderSize]byte
	copy(h[:], segmentMagic)
	binary.LittleEndian.PutUint32(h[8:], segmentVersion)
	s.write(h[:])
	return s
}

// Section ends the section before and starts one called name, 1 to 255 bytes
// and new in this segment. The writer it returns belongs to that section: it
// fails once another has been started.
func (s *SegmentWriter) Section(name string) (io.Writer, error) {
	s.endSection()
	switch {
	case s.err != nil:
	case name == "" || len(name) > maxSectionName:
		s.err = Invalidf("section name %q: want 1 to %d bytes", name, maxSectionName)
	case s.names[name]:
		s.err = Invalidf("section %q written twice", name)
	}
	if s.err != nil {
		return nil, s.err
	}
	s.pad()
	s.names[name] = true
	s.cur = &sectionWriter{s: s, name: name, start: s.off, whole: xxhash.New(), chunk: xxhash.New()}
	return s.cur, s.err
}

// Finish ends the last section and writes the TOC and the footer. The file is
// then complete but not durable: syncing it is the caller's.
func (s *SegmentWriter) Finish() (SegmentInfo, error) {
	s.endSection()
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
	s.err = errors.New("storage: segment writer used after Finish")
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

func (s *SegmentWriter) pad() {
	var zero [SectionAlign]byte
	s.write(zero[:-s.off&(SectionAlign-1)])
}

func (s *SegmentWriter) write(p []byte) {
	if s.err != nil {
		return
	}
	s.off += int64(len(p))
	if len(s.buf)+len(p) > segmentBuffer {
		s.flush()
		if len(p) >= segmentBuffer {
			s.writeOut(p)
			return
		}
	}
	if s.buf == nil {
		s.buf = make([]byte, 0, segmentBuffer)
	}
	s.buf = append(s.buf, p...)
}

func (s *SegmentWriter) flush() {
	s.writeOut(s.buf)
	s.buf = s.buf[:0]
}

func (s *SegmentWriter) writeOut(p []byte) {
	if s.err != nil || len(p) == 0 {
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
	e := tocEntry{SectionInfo: SectionInfo{Name: c.name, Offset: c.start, Size: s.off - c.start, Hash: c.whole.Sum64()}}
	if n := chunkCount(e.Size); n > 0 {
		if int64(len(c.chunks)) < n {
			c.chunks = append(c.chunks, c.chunk.Sum64())
		}
		e.chunks = c.chunks
	}
	s.toc = append(s.toc, e)
}

type sectionWriter struct {
	s      *SegmentWriter
	name   string
	start  int64
	whole  *xxhash.Digest // of the section so far
	chunk  *xxhash.Digest // of the MiB being written
	filled int            // bytes in chunk
	chunks []uint64       // of the MiBs complete
}

func (c *sectionWriter) Write(p []byte) (int, error) {
	if c.s.cur != c {
		return 0, Invalidf("write to section %q after its end", c.name)
	}
	if c.s.err != nil {
		return 0, c.s.err
	}
	c.whole.Write(p)
	for rest := p; len(rest) > 0; {
		n := min(len(rest), hashChunk-c.filled)
		c.chunk.Write(rest[:n])
		c.filled += n
		rest = rest[n:]
		if c.filled == hashChunk {
			c.chunks = append(c.chunks, c.chunk.Sum64())
			c.chunk.Reset()
			c.filled = 0
		}
	}
	c.s.write(p)
	if c.s.err != nil {
		return 0, c.s.err
	}
	return len(p), nil
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
