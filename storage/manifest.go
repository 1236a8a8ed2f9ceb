package storage

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Manifest format versions, newest last, never reused.
const (
	manifestVersion1 = 1 // the first
	manifestVersion  = manifestVersion1
)

var manifestEnvelope = envelope{magic: "QUARRYMF", min: manifestVersion1, max: manifestVersion}

// maxManifest bounds a manifest file in bytes.
const maxManifest = 256 << 20

// A Manifest is the whole durable state of a directory: what it does not name
// does not exist. It is immutable once written; each commit writes the next
// generation.
type Manifest struct {
	// Generation counts commits from 1; the highest in a directory holds.
	Generation uint64
	// Segments live in this state, in the order given.
	Segments []SegmentEntry
	// WALFirst is the first log file whose records are not in the segments;
	// 0 means none has been named yet, and any log found is replayed.
	WALFirst uint64
	// NextNumber is above every segment number ever used.
	NextNumber uint64
	// Schema and Extra belong to the layer above, which checks them.
	Schema []byte
	Extra  []byte
}

// A SegmentEntry names a live segment.
type SegmentEntry struct {
	Number     uint64 // of the file seg-N.qry
	Info       SegmentInfo
	Docs       uint32         // tombstoned ones included
	Tombstones TombstoneEntry // zero when no doc is dead
}

// A TombstoneEntry names a tombstone file. Generation 0 means there is none.
type TombstoneEntry struct {
	Generation uint64
	Size       int64  // of the file in bytes
	Hash       uint64 // its checksum
	Count      uint32 // dead docs
}

func (m *Manifest) encode() []byte {
	b := AppendUvarint(nil, m.Generation)
	b = AppendUvarint(b, m.WALFirst)
	b = AppendUvarint(b, m.NextNumber)
	b = AppendUvarint(b, uint64(len(m.Segments)))
	for _, s := range m.Segments {
		b = AppendUvarint(b, s.Number)
		b = AppendUvarint(b, uint64(s.Info.Size))
		b = AppendU64(b, s.Info.Hash)
		b = AppendUvarint(b, uint64(s.Docs))
		b = AppendUvarint(b, s.Tombstones.Generation)
		if s.Tombstones.Generation != 0 {
			b = AppendUvarint(b, uint64(s.Tombstones.Size))
			b = AppendU64(b, s.Tombstones.Hash)
			b = AppendUvarint(b, uint64(s.Tombstones.Count))
		}
	}
	b = AppendBytes(b, m.Schema)
	return AppendBytes(b, m.Extra)
}

// minSegmentEntry is the size of the smallest encoded SegmentEntry.
const minSegmentEntry = 12

func decodeManifest(file string, data []byte) (*Manifest, error) {
	payload, _, err := manifestEnvelope.open(file, data)
	if err != nil {
		return nil, err
	}
	d := NewDecoder(file, envelopeSize, payload)
	m := &Manifest{Generation: d.Uvarint(), WALFirst: d.Uvarint(), NextNumber: d.Uvarint()}
	n := d.Count(minSegmentEntry)
	m.Segments = make([]SegmentEntry, 0, n)
	for range n {
		m.Segments = append(m.Segments, decodeSegmentEntry(d))
	}
	m.Schema = slices.Clone(d.Bytes())
	m.Extra = slices.Clone(d.Bytes())
	d.End()
	if d.Err() != nil {
		return nil, d.Err()
	}
	if rule := m.check(); rule != "" {
		return nil, Corruptf(file, envelopeSize, "%s", rule)
	}
	return m, nil
}

func decodeSegmentEntry(d *Decoder) SegmentEntry {
	limit := func(what string, v, most uint64) uint64 {
		if v > most {
			d.Fail("%s %d exceeds %d", what, v, most)
			return 0
		}
		return v
	}
	const maxInt64, maxUint32 = 1<<63 - 1, 1<<32 - 1
	var s SegmentEntry
	s.Number = d.Uvarint()
	s.Info.Size = int64(limit("segment size", d.Uvarint(), maxInt64))
	s.Info.Hash = d.U64()
	s.Docs = uint32(limit("document count", d.Uvarint(), maxUint32))
	s.Tombstones.Generation = d.Uvarint()
	if s.Tombstones.Generation != 0 {
		s.Tombstones.Size = int64(limit("tombstone file size", d.Uvarint(), maxInt64))
		s.Tombstones.Hash = d.U64()
		s.Tombstones.Count = uint32(limit("tombstone count", d.Uvarint(), maxUint32))
	}
	return s
}

// check returns the rule the manifest breaks, or "".
func (m *Manifest) check() string {
	if m.Generation == 0 {
		return "manifest of generation 0"
	}
	seen := make(map[uint64]bool, len(m.Segments))
	for _, s := range m.Segments {
		switch t := s.Tombstones; {
		case seen[s.Number]:
			return "segment number named twice"
		case s.Number >= m.NextNumber:
			return "segment number not below the next number"
		case s.Info.Size <= 0:
			return "segment of no bytes"
		case t.Generation == 0 && t != (TombstoneEntry{}):
			return "tombstones without a generation"
		case t.Count > s.Docs:
			return "more tombstones than documents"
		}
		seen[s.Number] = true
	}
	return ""
}

// WriteManifest commits m, whose generation must be above that of every
// manifest in dir. When it returns nil, m and all files it names survive a
// power loss, provided that their bytes were synced: the names of files in
// dir are synced here. Errors are those of WriteFileAtomic; ErrInvalid when m
// contradicts itself. Older manifests stay; see Sweep.
func WriteManifest(fs FS, dir string, m *Manifest) error {
	if rule := m.check(); rule != "" {
		return Invalidf("manifest: %s", rule)
	}
	b := manifestEnvelope.seal(m.encode())
	if len(b) > maxManifest {
		return fmt.Errorf("%w: manifest of %d bytes, limit %d", ErrTooLarge, len(b), maxManifest)
	}
	return WriteFileAtomic(fs, dir, ManifestName(m.Generation), b)
}

// ReadManifest returns the newest manifest in dir, ErrNotFound when there is
// none. It never falls back to an older one: a manifest is synced before it
// gets its name, so no crash can damage it, and the older state would lose
// acknowledged writes. The error then names the file and matches ErrCorrupt
// or ErrVersion. A reader beside a writer may call it: when the newest
// manifest goes away while being read, a newer one is there.
func ReadManifest(fs FS, dir string) (*Manifest, error) {
	for try := 0; ; try++ {
		generations, err := ListManifests(fs, dir)
		if err != nil {
			return nil, err
		}
		if len(generations) == 0 {
			return nil, wrapIO("read manifest", dir, iofs.ErrNotExist)
		}
		m, err := ReadManifestAt(fs, dir, generations[len(generations)-1])
		if err != nil && errors.Is(err, ErrNotFound) && try < 10 {
			continue
		}
		return m, err
	}
}

// ListManifests returns the generations of the manifests in dir, ascending.
func ListManifests(fs FS, dir string) ([]uint64, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	var out []uint64
	for _, name := range names {
		if f := ParseFileName(name); f.Kind == FileManifest {
			out = append(out, f.Generation)
		}
	}
	return out, nil // hex of one width sorts by value
}

// A NextNames holds numbers above those in the names of all files of ours in a
// directory, whether the files can be read or not.
type NextNames struct{ Generation, Segment, Log uint64 }

// ListNextNames returns the numbers that no file in dir has had. They start at 1.
func ListNextNames(fs FS, dir string) (NextNames, error) {
	next := NextNames{1, 1, 1}
	names, err := fs.List(dir)
	for _, name := range names {
		switch f := ParseFileName(strings.TrimSuffix(name, tmpSuffix)); f.Kind {
		case FileManifest:
			next.Generation = max(next.Generation, f.Generation+1)
		case FileSegment, FileTombstone:
			next.Segment = max(next.Segment, f.Number+1)
			next.Generation = max(next.Generation, f.Generation+1)
		case FileWAL:
			next.Log = max(next.Log, f.Number+1)
		}
	}
	return next, err
}

// ReadManifestAt returns the manifest of one generation.
func ReadManifestAt(fs FS, dir string, generation uint64) (*Manifest, error) {
	path := filepath.Join(dir, ManifestName(generation))
	b, err := readFile(fs, path, maxManifest)
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(path, b)
	if err == nil && m.Generation != generation {
		err = Corruptf(path, envelopeSize, "generation %d in a file named for %d", m.Generation, generation)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// A SweepReport tells what Sweep did.
type SweepReport struct {
	Removed []string // leftovers of ours
	Kept    []string // leftovers that could not be removed: a mapped file on Windows
	Unknown []string // names that are not ours, left alone; directories end in "/"
}

// Sweep removes the files in dir that are ours and that m does not name:
// older manifests, segments and tombstones a crash or a merge left behind,
// files half written, logs before WALFirst. Only the holder of the lock may
// call it, and never while a segment or manifest is being written; readers in
// other processes keep what they have mapped. Errors of single removals only
// go into the report: the next Sweep tries again.
func Sweep(fs FS, dir string, m *Manifest) (SweepReport, error) {
	var r SweepReport
	names, err := fs.List(dir)
	if err != nil {
		return r, err
	}
	live := make(map[string]bool)
	for _, s := range m.Segments {
		live[SegmentName(s.Number)] = true
		if s.Tombstones.Generation != 0 {
			live[TombstoneName(s.Number, s.Tombstones.Generation)] = true
		}
	}
	for _, name := range names {
		f := ParseFileName(strings.TrimSuffix(name, "/"))
		if strings.HasSuffix(name, "/") {
			f.Kind = FileUnknown
		}
		switch {
		case f.Kind == FileUnknown:
			r.Unknown = append(r.Unknown, name)
			continue
		case f.Kind == FileLock, live[name],
			f.Kind == FileManifest && f.Generation >= m.Generation,
			f.Kind == FileWAL && f.Number >= m.WALFirst:
			continue
		}
		if err := fs.Remove(filepath.Join(dir, name)); err != nil {
			r.Kept = append(r.Kept, name)
		} else {
			r.Removed = append(r.Removed, name)
		}
	}
	return r, nil
}
