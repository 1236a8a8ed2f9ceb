package embed

import (
	"encoding/binary"
	"io"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/quarrysearch/quarry/storage"
)

// The compact file: see format.md. It is not a segment of package storage,
// because a segment in memory must start at a multiple of 64, which an embedded
// file does not, and the weights are to be used where they lie.

// Versions of the compact file, newest last, never reused.
const (
	fileVersion1 = 1 // the first
	fileVersion  = fileVersion1
)

const (
	fileMagic   = "QUARRYEM"
	headerSize  = 64
	entrySize   = 48
	nameSize    = 16
	maxSections = 64
	align       = 64
)

// section is a named part of a compact file.
type section struct {
	name string
	data []byte
	off  int64
	hash uint64
}

// writeSections writes a compact file.
func writeSections(w io.Writer, sections []section) error {
	toc := make([]byte, 0, entrySize*len(sections))
	off := roundUp(headerSize+entrySize*len(sections), align)
	for _, s := range sections {
		var name [nameSize]byte
		copy(name[:], s.name)
		toc = append(toc, name[:]...)
		toc = storage.AppendU64(toc, uint64(off))
		toc = storage.AppendU64(toc, uint64(len(s.data)))
		toc = storage.AppendU64(toc, xxhash.Sum64(s.data))
		toc = storage.AppendU64(toc, 0)
		off = roundUp(off+len(s.data), align)
	}
	head := make([]byte, 0, headerSize)
	head = append(head, fileMagic...)
	head = storage.AppendU32(head, fileVersion)
	head = storage.AppendU32(head, uint32(len(sections)))
	head = storage.AppendU64(head, uint64(off))
	head = storage.AppendU64(head, xxhash.Sum64(toc))
	head = append(head, make([]byte, headerSize-len(head))...)
	at := 0
	put := func(b []byte) error {
		_, err := w.Write(b)
		at += len(b)
		return err
	}
	pad := func() error { return put(make([]byte, roundUp(at, align)-at)) }
	for _, b := range [][]byte{head, toc} {
		if err := put(b); err != nil {
			return err
		}
	}
	for _, s := range sections {
		if err := pad(); err != nil {
			return err
		}
		if err := put(s.data); err != nil {
			return err
		}
	}
	return pad()
}

// parseSections reads header and table of a compact file, and none of its data.
func parseSections(file string, b []byte) (map[string]section, error) {
	if len(b) < headerSize || string(b[:len(fileMagic)]) != fileMagic {
		return nil, storage.Corruptf(file, 0, "not a compact model file")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != fileVersion {
		return nil, &storage.VersionError{File: file, Have: v, Min: fileVersion1, Max: fileVersion}
	}
	n := binary.LittleEndian.Uint32(b[12:])
	size, hash := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	if size != uint64(len(b)) {
		return nil, storage.Corruptf(file, 16, "want %d bytes, have %d", size, len(b))
	}
	if n > maxSections || headerSize+entrySize*int(n) > len(b) {
		return nil, storage.Corruptf(file, 12, "%d sections", n)
	}
	toc := b[headerSize : headerSize+entrySize*int(n)]
	if xxhash.Sum64(toc) != hash {
		return nil, storage.Corruptf(file, 24, "checksum of the table of sections")
	}
	out := make(map[string]section, n)
	for i := range int(n) {
		e := toc[i*entrySize : (i+1)*entrySize]
		s := section{name: strings.TrimRight(string(e[:nameSize]), "\x00"), hash: binary.LittleEndian.Uint64(e[nameSize+16:])}
		off, length := binary.LittleEndian.Uint64(e[nameSize:]), binary.LittleEndian.Uint64(e[nameSize+8:])
		if off%align != 0 || off > uint64(len(b)) || length > uint64(len(b))-off {
			return nil, storage.Corruptf(file, headerSize+int64(i*entrySize), "section %q at byte %d, %d long", s.name, off, length)
		}
		s.off, s.data = int64(off), b[off:off+length:off+length]
		out[s.name] = s
	}
	return out, nil
}

// verify compares a section with its checksum.
func (s *section) verify(file string) error {
	if xxhash.Sum64(s.data) != s.hash {
		return storage.Corruptf(file, s.off, "checksum of section %q", s.name)
	}
	return nil
}
