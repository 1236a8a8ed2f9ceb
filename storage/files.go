package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// LockName is the file whose lock the writer of a directory holds.
const LockName = "LOCK"

// tmpSuffix ends the names of files that are being written.
const tmpSuffix = ".tmp"

// FileKind tells what a name in a directory stands for.
type FileKind uint8

// The kinds of files in a directory.
const (
	FileUnknown   FileKind = iota // not ours: never touched
	FileLock                      // LOCK
	FileWAL                       // wal-N.log
	FileSegment                   // seg-N.qry
	FileTombstone                 // seg-N.G.del
	FileManifest                  // MANIFEST-G
	FileTemp                      // the name of a tombstone file or manifest and ".tmp": left by a crash
)

// A FileName is a parsed name. Numbers and generations are written as sixteen
// lowercase hex digits, so that names sort by them.
type FileName struct {
	Kind       FileKind
	Number     uint64 // of a WAL, or of the segment
	Generation uint64 // of a manifest or tombstone file
}

// WALName returns the name of log file number.
func WALName(number uint64) string { return fmt.Sprintf("wal-%016x.log", number) }

// SegmentName returns the name of segment number.
func SegmentName(number uint64) string { return fmt.Sprintf("seg-%016x.qry", number) }

// TombstoneName returns the name of a generation of segment number's
// tombstones.
func TombstoneName(number, generation uint64) string {
	return fmt.Sprintf("seg-%016x.%016x.del", number, generation)
}

// ManifestName returns the name of a generation of the manifest.
func ManifestName(generation uint64) string { return fmt.Sprintf("MANIFEST-%016x", generation) }

// ParseFileName tells what a base name stands for. It is strict: a name that
// the functions above would not write is FileUnknown.
func ParseFileName(name string) FileName {
	if name == LockName {
		return FileName{Kind: FileLock}
	}
	if final, ok := strings.CutSuffix(name, tmpSuffix); ok {
		f := ParseFileName(final)
		if f.Kind != FileManifest && f.Kind != FileTombstone {
			return FileName{}
		}
		f.Kind = FileTemp
		return f
	}
	if s, ok := strings.CutPrefix(name, "MANIFEST-"); ok {
		if g, ok := parseHex(s); ok {
			return FileName{Kind: FileManifest, Generation: g}
		}
	}
	if s, ok := between(name, "wal-", ".log"); ok {
		if n, ok := parseHex(s); ok {
			return FileName{Kind: FileWAL, Number: n}
		}
	}
	if s, ok := between(name, "seg-", ".qry"); ok {
		if n, ok := parseHex(s); ok {
			return FileName{Kind: FileSegment, Number: n}
		}
	}
	if s, ok := between(name, "seg-", ".del"); ok && len(s) == 33 && s[16] == '.' {
		n, ok1 := parseHex(s[:16])
		g, ok2 := parseHex(s[17:])
		if ok1 && ok2 {
			return FileName{Kind: FileTombstone, Number: n, Generation: g}
		}
	}
	return FileName{}
}

func between(s, prefix, suffix string) (string, bool) {
	s, ok1 := strings.CutPrefix(s, prefix)
	s, ok2 := strings.CutSuffix(s, suffix)
	return s, ok1 && ok2
}

func parseHex(s string) (uint64, bool) {
	if len(s) != 16 || strings.ToLower(s) != s {
		return 0, false
	}
	v, err := strconv.ParseUint(s, 16, 64)
	return v, err == nil
}

// WriteFileAtomic makes dir/name hold data or, when it fails or the machine
// stops, whatever it held before: it writes name.tmp, syncs it, syncs the
// directory, renames, and syncs the directory again. The first directory sync
// makes every file durable that data may name, such as a manifest's segments.
//
// The error matches ErrReadOnly when a sync or the rename failed: then it is
// not known which of the two states the disk holds, and the caller must not
// write on. Otherwise (a full disk, for one) the old state holds, and the
// call may be repeated.
func WriteFileAtomic(fs FS, dir, name string, data []byte) error {
	tmp := filepath.Join(dir, name+tmpSuffix)
	if err := writeNew(fs, tmp, data); err != nil {
		return err
	}
	if err := fs.SyncDir(dir); err != nil {
		_ = fs.Remove(tmp)
		return poisoned(err)
	}
	if err := fs.Rename(tmp, filepath.Join(dir, name)); err != nil {
		_ = fs.Remove(tmp)
		return poisoned(err)
	}
	return poisoned(fs.SyncDir(dir))
}

// writeNew creates, writes and syncs a file, replacing a leftover of the same
// name, and removes it when that fails.
func writeNew(fs FS, path string, data []byte) error {
	f, err := fs.Create(path)
	if errors.Is(err, iofs.ErrExist) {
		if err := fs.Remove(path); err != nil {
			return err
		}
		f, err = fs.Create(path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = poisoned(f.Sync())
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = fs.Remove(path)
	}
	return err
}

// readFile reads a whole file of at most limit bytes.
func readFile(fs FS, path string, limit int64) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, Corruptf(path, limit, "want at most %d bytes, have %d", limit, size)
	}
	b := make([]byte, size)
	if err := readFull(f, path, b, 0); err != nil {
		return nil, err
	}
	return b, nil
}

// readFull reads len(b) bytes at off; a file that ends before is corrupt, as
// its size said otherwise.
func readFull(f File, path string, b []byte, off int64) error {
	for n := 0; n < len(b); {
		m, err := f.ReadAt(b[n:], off+int64(n))
		n += m
		switch {
		case n == len(b):
			return nil
		case err != nil && errors.Is(err, ErrIO), errors.Is(err, ErrClosed):
			return err
		case err != nil, m == 0:
			return Corruptf(path, off+int64(n), "file ends: want %d bytes, have %d", len(b), n)
		}
	}
	return nil
}

// An envelope is what stands before the content of a small file: magic,
// version, features, length, checksum.
type envelope struct {
	magic    string // 8 bytes
	min, max uint32 // versions this build reads; it writes max
}

const envelopeSize = 32

func (e *envelope) seal(payload []byte) []byte {
	b := make([]byte, 0, envelopeSize+len(payload))
	b = append(b, e.magic...)
	b = AppendU32(b, e.max)
	b = AppendU32(b, 0) // features
	b = AppendU64(b, uint64(len(payload)))
	b = AppendU64(b, envelopeSum(b, payload))
	return append(b, payload...)
}

// envelopeSum is the xxhash64 of the first 24 bytes of the header and the
// payload.
func envelopeSum(header, payload []byte) uint64 {
	h := xxhash.New()
	h.Write(header[:24])
	h.Write(payload)
	return h.Sum64()
}

// open checks the header of a whole file and returns its payload and
// checksum.
func (e *envelope) open(file string, b []byte) ([]byte, uint64, error) {
	if len(b) < envelopeSize {
		return nil, 0, Corruptf(file, int64(len(b)), "want at least %d bytes, have %d", envelopeSize, len(b))
	}
	le := binary.LittleEndian
	if string(b[:8]) != e.magic {
		return nil, 0, Corruptf(file, 0, "magic %q, want %q", b[:8], e.magic)
	}
	// The version comes before the checksum: a newer format may have another.
	if v := le.Uint32(b[8:]); v < e.min || v > e.max {
		return nil, 0, &VersionError{File: file, Have: v, Min: e.min, Max: e.max}
	}
	if f := le.Uint32(b[12:]); f != 0 {
		return nil, 0, &VersionError{File: file, Have: e.max, Min: e.min, Max: e.max, Features: uint64(f)}
	}
	payload := b[envelopeSize:]
	if n := le.Uint64(b[16:]); n != uint64(len(payload)) {
		return nil, 0, Corruptf(file, 16, "want %d bytes, have %d", n, len(payload))
	}
	sum := le.Uint64(b[24:])
	if envelopeSum(b, payload) != sum {
		return nil, 0, Corruptf(file, 24, "checksum mismatch over %d bytes", len(b))
	}
	return payload, sum, nil
}

// Tombstone file format versions, newest last.
const (
	tombstoneVersion1 = 1 // the first
	tombstoneVersion  = tombstoneVersion1
)

var tombstoneEnvelope = envelope{magic: "QUARRYTS", min: tombstoneVersion1, max: tombstoneVersion}

// maxTombstones bounds a tombstone file: a bitmap of 2^32 docs and more.
const maxTombstones = 1 << 30

// WriteTombstones writes payload, the serialized tombstones of a segment, as
// the given generation of its tombstone file, durably. count is how many docs
// are dead. The entry goes into the next manifest; errors are those of
// WriteFileAtomic.
func WriteTombstones(fs FS, dir string, number, generation uint64, payload []byte, count uint32) (TombstoneEntry, error) {
	switch {
	case generation == 0:
		return TombstoneEntry{}, Invalidf("tombstone generation 0 stands for no tombstones")
	case len(payload) > maxTombstones:
		return TombstoneEntry{}, fmt.Errorf("%w: tombstones of %d bytes, limit %d", ErrTooLarge, len(payload), maxTombstones)
	}
	b := tombstoneEnvelope.seal(payload)
	if err := WriteFileAtomic(fs, dir, TombstoneName(number, generation), b); err != nil {
		return TombstoneEntry{}, err
	}
	sum := binary.LittleEndian.Uint64(b[24:])
	return TombstoneEntry{Generation: generation, Size: int64(len(b)), Hash: sum, Count: count}, nil
}

// ReadTombstones reads the tombstone file of segment number that e stands
// for, checks it against e, and returns the payload, a fresh slice. The
// payload's own structure is the caller's to check. An e of no size, made when
// there is no manifest, is not compared.
func ReadTombstones(fs FS, dir string, number uint64, e TombstoneEntry) ([]byte, error) {
	path := filepath.Join(dir, TombstoneName(number, e.Generation))
	b, err := readFile(fs, path, maxTombstones+envelopeSize)
	if err != nil {
		return nil, err
	}
	if e.Size != 0 && int64(len(b)) != e.Size {
		return nil, Corruptf(path, min(int64(len(b)), e.Size), "want %d bytes, have %d", e.Size, len(b))
	}
	payload, sum, err := tombstoneEnvelope.open(path, b)
	if err == nil && e.Size != 0 && sum != e.Hash {
		err = Corruptf(path, 24, "checksum %016x, manifest has %016x", sum, e.Hash)
	}
	return payload, err
}
