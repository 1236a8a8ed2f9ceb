package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// A Segment is an open segment, mapped from a file or in memory. It is
// immutable; its methods may be called from several goroutines. It is
// reference counted: the bytes of its sections live until the last Release.
type Segment struct {
	name    string
	info    SegmentInfo
	data    []byte
	toc     []tocEntry
	index   map[string]int // section name → toc
	mapping Mapping        // nil in memory
	refs    atomic.Int64
	// unsummed says that the segment was written in memory, without checksums.
	unsummed bool
}

// OpenSegment maps the segment file path and checks its header, footer and
// TOC, but reads none of its data: the cost is a few page faults whatever the
// size. want comes from the manifest; its zero value skips the comparison.
// The segment has one reference, the caller's.
//
// The error matches ErrCorrupt when the file is cut, foreign or not the one
// the manifest means, ErrVersion when it is of a newer format.
func OpenSegment(fs FS, path string, want SegmentInfo) (*Segment, error) {
	m, err := fs.Map(path)
	if err != nil {
		return nil, err
	}
	var s *Segment
	err = Guard(func() (err error) {
		s, err = parseSegment(path, m.Bytes(), want)
		return err
	})
	if err != nil {
		return nil, errors.Join(nameFault("open", path, err), m.Close())
	}
	s.mapping = m
	return s, nil
}

// ParseSegment opens a segment in memory, called name in errors. It keeps
// data, which must not change, unless data does not start at a multiple of 64
// in memory: then it works on a copy, so that sections are aligned as they are
// in a mapped file. (Go aligns slices above 32 KiB by itself.)
func ParseSegment(name string, data []byte) (*Segment, error) {
	if uintptrOf(data)%SectionAlign != 0 {
		data = alignedCopy(data)
	}
	return parseSegment(name, data, SegmentInfo{})
}

// uintptrOf returns the address of b's first byte.
func uintptrOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func alignedCopy(data []byte) []byte {
	b := make([]byte, len(data)+SectionAlign)
	skip := -uintptrOf(b) % SectionAlign
	b = b[skip : int(skip)+len(data) : int(skip)+len(data)]
	copy(b, data)
	return b
}

// CheckMachine returns ErrVersion on a big-endian machine, which can read
// neither segments nor models: they are used as they lie in the file.
func CheckMachine() error {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return fmt.Errorf("%w: segments and models need a little-endian machine", ErrVersion)
	}
	return nil
}

func parseSegment(name string, data []byte, want SegmentInfo) (*Segment, error) {
	if err := CheckMachine(); err != nil {
		return nil, err
	}
	size := int64(len(data))
	if want.Size != 0 && size != want.Size {
		return nil, Corruptf(name, min(size, want.Size), "want %d bytes, have %d", want.Size, size)
	}
	toc, hash, err := parseFooter(name, data)
	if err != nil {
		return nil, err
	}
	if want != (SegmentInfo{}) && hash != want.Hash {
		return nil, Corruptf(name, size-segmentFooterSize, "TOC checksum %016x, manifest has %016x", hash, want.Hash)
	}
	s := &Segment{name: name, info: SegmentInfo{Size: size, Hash: hash}, data: data, toc: toc}
	s.index = make(map[string]int, len(toc))
	for i, e := range toc {
		s.index[e.Name] = i
	}
	s.refs.Store(1)
	return s, nil
}

// parseFooter checks header, footer and TOC and returns the TOC with its
// checksum.
func parseFooter(name string, data []byte) ([]tocEntry, uint64, error) {
	size := int64(len(data))
	if size < segmentHeaderSize+segmentFooterSize {
		return nil, 0, Corruptf(name, size, "want at least %d bytes, have %d", segmentHeaderSize+segmentFooterSize, size)
	}
	if string(data[:8]) != segmentMagic {
		return nil, 0, Corruptf(name, 0, "not a segment: magic %q", data[:8])
	}
	// The version comes before the checksums: a newer format may have moved
	// everything but the first twelve bytes.
	if v := binary.LittleEndian.Uint32(data[8:]); v != segmentVersion {
		return nil, 0, &VersionError{File: name, Have: v, Min: segmentVersion1, Max: segmentVersion}
	}
	if i := firstNonZero(data[12:segmentHeaderSize]); i >= 0 {
		return nil, 0, Corruptf(name, int64(12+i), "header padding is not zero")
	}
	footOff := size - segmentFooterSize
	foot := data[footOff:]
	if string(foot[56:]) != segmentEndMagic {
		return nil, 0, Corruptf(name, footOff+56, "no footer at the end of %d bytes: the file is cut or damaged", size)
	}
	le := binary.LittleEndian
	if le.Uint64(foot[48:]) != xxhash.Sum64(foot[:48]) {
		return nil, 0, Corruptf(name, footOff, "footer checksum mismatch")
	}
	if v := le.Uint32(foot[32:]); v != segmentVersion {
		return nil, 0, &VersionError{File: name, Have: v, Min: segmentVersion1, Max: segmentVersion}
	}
	if f := le.Uint64(foot[24:]) &^ knownSegmentFeatures; f != 0 {
		return nil, 0, &VersionError{File: name, Have: segmentVersion, Min: segmentVersion1, Max: segmentVersion, Features: f}
	}
	if n := le.Uint64(foot[40:]); n != uint64(size) {
		return nil, 0, Corruptf(name, size, "want %d bytes, have %d", n, size)
	}
	off, n, hash := le.Uint64(foot), le.Uint64(foot[8:]), le.Uint64(foot[16:])
	if off < segmentHeaderSize || off > uint64(footOff) || n > uint64(footOff)-off || alignUp(int64(off+n)) != footOff {
		return nil, 0, Corruptf(name, footOff, "TOC at byte %d of %d bytes does not fit", off, n)
	}
	raw := data[off : off+n]
	if xxhash.Sum64(raw) != hash {
		return nil, 0, Corruptf(name, int64(off), "TOC checksum mismatch")
	}
	if i := firstNonZero(data[off+n : footOff]); i >= 0 {
		return nil, 0, Corruptf(name, int64(off+n)+int64(i), "TOC padding is not zero")
	}
	toc, err := parseTOC(name, int64(off), raw)
	return toc, hash, err
}

// parseTOC decodes the TOC, which starts at byte off, and checks that the
// sections fill the bytes between header and TOC in order, each at the next
// aligned byte.
func parseTOC(name string, off int64, raw []byte) ([]tocEntry, error) {
	d := NewDecoder(name, off, raw)
	n := d.Count(11) // name, offset, size and checksum take 11 bytes or more
	toc := make([]tocEntry, 0, n)
	seen := make(map[string]bool, n)
	next := int64(segmentHeaderSize)
	for range n {
		e := tocEntry{SectionInfo: SectionInfo{Name: d.String()}}
		start, size := d.Uvarint(), d.Uvarint()
		e.Hash = d.U64()
		if d.Err() != nil {
			return nil, d.Err()
		}
		switch {
		case e.Name == "" || len(e.Name) > maxSectionName || seen[e.Name]:
			d.Fail("section name %q empty, too long or repeated", e.Name)
		case start != uint64(next) || size > uint64(off)-start:
			d.Fail("section %q: %d bytes at %d, want a start at %d and an end by %d", e.Name, size, start, next, off)
		}
		if d.Err() != nil {
			return nil, d.Err()
		}
		seen[e.Name] = true
		e.Offset, e.Size = int64(start), int64(size)
		chunks := chunkCount(e.Size)
		if chunks > int64(d.Len()/8) {
			d.Fail("section %q: %d checksums exceed the %d bytes left", e.Name, chunks, d.Len())
			return nil, d.Err()
		}
		for range chunks {
			e.chunks = append(e.chunks, d.U64())
		}
		next = alignUp(e.Offset + e.Size)
		toc = append(toc, e)
	}
	if d.Err() == nil && next != off {
		d.Fail("sections end at %d, TOC starts at %d", next, off)
	}
	d.End()
	return toc, d.Err()
}

func alignUp(n int64) int64 { return (n + SectionAlign - 1) &^ (SectionAlign - 1) }

func firstNonZero(b []byte) int {
	for i, c := range b {
		if c != 0 {
			return i
		}
	}
	return -1
}

// Name returns the path the segment was opened by.
func (s *Segment) Name() string { return s.name }

// Info returns size and checksum, as the manifest keeps them.
func (s *Segment) Info() SegmentInfo { return s.info }

// Section returns the bytes of a section, which start at a multiple of 64 in
// memory, must not be written to, and are dead after the last Release. It is
// false when there is no such section.
func (s *Segment) Section(name string) ([]byte, bool) {
	i, ok := s.index[name]
	if !ok || s.refs.Load() <= 0 {
		return nil, false
	}
	e := &s.toc[i]
	return s.data[e.Offset : e.Offset+e.Size : e.Offset+e.Size], true
}

// Sections lists the sections in file order.
func (s *Segment) Sections() []SectionInfo {
	out := make([]SectionInfo, len(s.toc))
	for i, e := range s.toc {
		out[i] = e.SectionInfo
	}
	return out
}

// Verify reads the whole segment and compares every checksum; one written in
// memory has none, and passes. The error is a
// CorruptError naming the file, the section and the offset of the damaged MiB
// or padding byte, the first in file order; it matches ErrIO when the file
// cannot be read. It stops between MiBs when ctx is done.
func (s *Segment) Verify(ctx context.Context) error {
	if !s.TryRetain() {
		return ErrClosed
	}
	defer s.Release()
	if s.unsummed {
		return nil
	}
	return nameFault("verify", s.name, Guard(func() error {
		for i := range s.toc {
			if err := s.verifySection(ctx, &s.toc[i]); err != nil {
				return err
			}
		}
		return nil
	}))
}

// nameFault gives a memory fault the operation and the file it cannot know.
func nameFault(op, file string, err error) error {
	var fault *FaultError
	if errors.As(err, &fault) {
		return wrapIO(op, file, err)
	}
	return err
}

func (s *Segment) verifySection(ctx context.Context, e *tocEntry) error {
	whole := xxhash.New()
	for off, i := int64(0), 0; off < e.Size; off, i = off+hashChunk, i+1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := s.data[e.Offset+off : e.Offset+min(off+hashChunk, e.Size)]
		if len(e.chunks) > 0 && xxhash.Sum64(b) != e.chunks[i] {
			return Corruptf(s.name, e.Offset+off, "checksum mismatch in MiB %d of section %q", i, e.Name)
		}
		whole.Write(b)
	}
	if whole.Sum64() != e.Hash {
		return Corruptf(s.name, e.Offset, "checksum mismatch in section %q (%d bytes)", e.Name, e.Size)
	}
	end := e.Offset + e.Size
	if i := firstNonZero(s.data[end:alignUp(end)]); i >= 0 {
		return Corruptf(s.name, end+int64(i), "padding after section %q is not zero", e.Name)
	}
	return nil
}

// SalvageSegment opens what is left of a damaged segment file: the TOC is
// looked for by the footer and, when that is damaged, by the checksum the
// manifest has of it. The bytes of its sections are to be trusted as far as
// Damage says, no further. want is zero when there is no manifest. The error
// matches ErrCorrupt when the TOC is lost, or that of another file.
func SalvageSegment(fs FS, path string, want SegmentInfo) (*Segment, error) {
	m, err := fs.Map(path)
	if err != nil {
		return nil, err
	}
	var s *Segment
	err = Guard(func() (err error) {
		s, err = salvageSegment(path, m.Bytes(), want)
		return err
	})
	if err != nil {
		return nil, errors.Join(nameFault("open", path, err), m.Close())
	}
	s.mapping = m
	return s, nil
}

func salvageSegment(name string, data []byte, want SegmentInfo) (*Segment, error) {
	s, err := parseSegment(name, data, SegmentInfo{})
	if err == nil && want.Hash != 0 && s.info.Hash != want.Hash {
		return nil, Corruptf(name, s.info.Size-segmentFooterSize, "TOC checksum %016x, manifest has %016x: another file", s.info.Hash, want.Hash)
	}
	if err == nil || want.Hash == 0 || errors.Is(err, ErrVersion) && isNewer(data) {
		return s, err
	}
	toc, ok := findTOC(name, data, want)
	if !ok {
		return nil, err // the first error tells where the damage is
	}
	s = &Segment{name: name, info: SegmentInfo{Size: int64(len(data)), Hash: want.Hash}, data: data, toc: toc}
	s.index = make(map[string]int, len(toc))
	for i, e := range toc {
		s.index[e.Name] = i
	}
	s.refs.Store(1)
	return s, nil
}

// isNewer reports whether a whole footer tells of a version or a feature that
// this build does not know: then it is no damage.
func isNewer(data []byte) bool {
	if len(data) < segmentHeaderSize+segmentFooterSize {
		return false
	}
	le, foot := binary.LittleEndian, data[len(data)-segmentFooterSize:]
	return le.Uint64(foot[48:]) == xxhash.Sum64(foot[:48]) &&
		(le.Uint32(foot[32:]) != segmentVersion || le.Uint64(foot[24:])&^knownSegmentFeatures != 0)
}

// findTOCWithin is how many bytes before the footer findTOC looks at.
const findTOCWithin = 64 << 10

// findTOC looks for the TOC of a segment whose footer or header is damaged:
// it starts at a multiple of 64 and ends within 64 bytes of where the footer
// of a file of want.Size bytes begins, and its checksum is known.
func findTOC(name string, data []byte, want SegmentInfo) ([]tocEntry, bool) {
	end := want.Size - segmentFooterSize
	if end > int64(len(data)) || end%SectionAlign != 0 {
		return nil, false
	}
	for off := end - SectionAlign; off >= segmentHeaderSize && end-off <= findTOCWithin; off -= SectionAlign {
		h := xxhash.New()
		h.Write(data[off : end-SectionAlign])
		for n := end - SectionAlign; n < end; n++ {
			h.Write(data[n : n+1])
			if h.Sum64() != want.Hash {
				continue
			}
			toc, err := parseTOC(name, off, data[off:n+1])
			return toc, err == nil
		}
	}
	return nil, false
}

// Damage reads the whole segment and returns the stretches whose bytes are not
// what was written: MiBs of a section with another checksum, or that the
// operating system cannot read.
func (s *Segment) Damage(ctx context.Context) (Damage, error) {
	var out Damage
	for i := range s.toc {
		e := &s.toc[i]
		for off := int64(0); off < e.Size; off += hashChunk {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			n := min(hashChunk, e.Size-off)
			sum := e.Hash
			if len(e.chunks) > 0 {
				sum = e.chunks[off/hashChunk]
			}
			good := false
			err := Guard(func() error {
				good = xxhash.Sum64(s.data[e.Offset+off:e.Offset+off+n]) == sum
				return nil
			})
			if err != nil || !good {
				out = append(out, DamagedBytes{Section: e.Name, Offset: off, Size: n})
			}
		}
	}
	return out, nil
}

// DamagedBytes are bytes [Offset, Offset+Size) of a section.
type DamagedBytes struct {
	Section      string
	Offset, Size int64
}

// Damage lists the damaged bytes of a segment.
type Damage []DamagedBytes

// Touches reports whether any of the bytes [off, off+n) of a section is damaged.
func (d Damage) Touches(section string, off, n int64) bool {
	for _, b := range d {
		if b.Section == section && off < b.Offset+b.Size && b.Offset < off+n {
			return true
		}
	}
	return false
}

// Advise tells the kernel how a section will be read; "" means the whole
// segment. It does nothing in memory. ErrNotFound when there is no such
// section.
func (s *Segment) Advise(section string, a Advice) error {
	off, n := int64(0), s.info.Size
	if section != "" {
		i, ok := s.index[section]
		if !ok {
			return fmt.Errorf("%w: section %q of %s", ErrNotFound, section, s.name)
		}
		off, n = s.toc[i].Offset, s.toc[i].Size
	}
	if s.mapping == nil {
		return nil
	}
	if !s.TryRetain() {
		return ErrClosed
	}
	defer s.Release()
	return s.mapping.Advise(off, n, a)
}

// FaultOffset returns where in the segment the memory fault behind err, from
// Guard, happened; false when it happened elsewhere.
func (s *Segment) FaultOffset(err error) (int64, bool) {
	var fault *FaultError
	if !errors.As(err, &fault) || len(s.data) == 0 {
		return 0, false
	}
	off := fault.Addr - uintptrOf(s.data)
	return int64(off), off < uintptr(len(s.data))
}

// TryRetain adds a reference unless the last one is gone already.
func (s *Segment) TryRetain() bool {
	for {
		n := s.refs.Load()
		if n <= 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Retain adds a reference. The caller must hold one: to retain a released
// segment is a bug, and panics.
func (s *Segment) Retain() {
	if !s.TryRetain() {
		panic("storage: Retain of released segment " + s.name)
	}
}

// Release gives a reference back. The last one unmaps the file; the bytes of
// the sections are dead from then on. One Release too many returns ErrClosed.
func (s *Segment) Release() error {
	for {
		n := s.refs.Load()
		if n <= 0 {
			return ErrClosed
		}
		if !s.refs.CompareAndSwap(n, n-1) {
			continue
		}
		if n > 1 || s.mapping == nil {
			return nil
		}
		return s.mapping.Close()
	}
}
