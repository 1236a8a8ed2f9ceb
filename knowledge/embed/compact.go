package embed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/quarrysearch/quarry/internal/simd"
	"github.com/quarrysearch/quarry/knowledge/embed/tokenize"
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

// Sections of the compact file.
const (
	secConfig    = "config"
	secTokenizer = "tokenizer"
	secFloats    = "floats"
	secSums      = "sums"
	secWeights   = "weights"
	secCodes     = "word.codes"
	secScale     = "word.scale"
	secBlocks    = "word.blocks"
	secHead      = "head"
)

// floats calls f for every float32 array of the model but the token table's, in
// the order of the section floats, with the length the config asks for.
func (m *Model) floats(f func(p *[]float32, n int)) {
	c := &m.config
	ln := func(n *norm) { f(&n.gamma, c.Dim); f(&n.beta, c.Dim) }
	linear := func(w *simd.Weights) { f(&w.Scale, w.N); f(&w.Bias, w.N) }
	f(&m.position, c.Positions*c.Dim)
	ln(&m.norm)
	for i := range m.layers {
		l := &m.layers[i]
		linear(&l.qkv)
		linear(&l.out)
		ln(&l.attnNorm)
		linear(&l.up)
		linear(&l.down)
		ln(&l.ffnNorm)
	}
}

// matrices calls f for every packed matrix in the order of the sections
// weights and sums.
func (m *Model) matrices(f func(w *simd.Weights)) {
	for i := range m.layers {
		l := &m.layers[i]
		f(&l.qkv)
		f(&l.out)
		f(&l.up)
		f(&l.down)
	}
}

// Write writes the model as a compact file, which OpenModel and ParseModel
// read.
func (m *Model) Write(w io.Writer) error {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return storage.ErrVersion
	}
	tok, err := tokenize.Append(nil, m.tokenizer)
	if err != nil {
		return err
	}
	var floats, sums, weights []byte
	m.floats(func(p *[]float32, _ int) { floats = append(floats, simd.WordBytes(*p)...) })
	m.matrices(func(w *simd.Weights) {
		sums = append(sums, simd.WordBytes(w.Sums)...)
		weights = append(weights, simd.Bytes(w.Packed)...)
	})
	sections := []section{
		{name: secConfig, data: m.config.append(nil)},
		{name: secTokenizer, data: tok},
		{name: secFloats, data: floats},
		{name: secSums, data: sums},
		{name: secWeights, data: weights},
	}
	if m.word.blocks != nil {
		sections = append(sections, section{name: secBlocks, data: m.word.blocks})
	} else {
		sections = append(sections, section{name: secScale, data: simd.WordBytes(m.word.scale)},
			section{name: secCodes, data: simd.Bytes(m.word.codes)})
	}
	if m.head != nil {
		sections = append(sections, section{name: secHead, data: m.head.append(nil)})
	}
	return writeSections(w, sections)
}

// OpenModel maps a compact file. Close unmaps it. The error matches
// storage.ErrCorrupt for a damaged file, storage.ErrVersion for a newer one.
// Weights and token table are not read: Verify does that.
func OpenModel(fs storage.FS, path string) (*Model, error) {
	mapping, err := fs.Map(path)
	if err != nil {
		return nil, err
	}
	var m *Model
	err = storage.Guard(func() (err error) {
		m, err = ParseModel(path, mapping.Bytes())
		return err
	})
	if err != nil {
		return nil, errors.Join(err, mapping.Close())
	}
	m.mapped, m.close = true, mapping.Close
	return m, nil
}

// ParseModel reads a compact file in memory, called name in errors. It keeps
// data, which must not change: weights are used where they lie.
func ParseModel(name string, data []byte) (*Model, error) {
	if err := storage.CheckMachine(); err != nil {
		return nil, err
	}
	sections, err := parseSections(name, data)
	if err != nil {
		return nil, err
	}
	r := &fileReader{name: name, sections: sections}
	for _, small := range []string{secConfig, secTokenizer, secFloats, secSums} {
		if s := r.section(small); r.err == nil {
			r.err = s.verify(name)
		}
	}
	if s, ok := sections[secHead]; ok && r.err == nil {
		r.err = s.verify(name)
	}
	if r.err != nil {
		return nil, r.err
	}
	c, err := parseConfig(name, r.section(secConfig).data)
	if err != nil {
		return nil, err
	}
	tok, err := tokenize.Parse(r.section(secTokenizer).data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if tok.Size() > c.Vocab {
		return nil, storage.Corruptf(name, 0, "the tokenizer has %d tokens, the token table %d rows", tok.Size(), c.Vocab)
	}
	m := &Model{file: name, config: *c, tokenizer: tok, sections: sections}
	r.model(m)
	if r.err != nil {
		return nil, r.err
	}
	return m, nil
}

// Verify reads the whole compact file the model came from and compares all
// checksums; it stops between sections when ctx is done. A model made by a
// converter verifies at once.
func (m *Model) Verify(ctx context.Context) error {
	for _, s := range m.sections {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if fault := m.guard(func() { err = s.verify(m.file) }); fault != nil || err != nil {
			return errors.Join(fault, err)
		}
	}
	return nil
}

// fileReader cuts sections into arrays; the first error sticks.
type fileReader struct {
	name     string
	sections map[string]section
	err      error
}

func (r *fileReader) section(name string) *section {
	s, ok := r.sections[name]
	if !ok && r.err == nil {
		r.err = storage.Corruptf(r.name, 0, "no section %q", name)
	}
	return &s
}

// sized returns the bytes of a section that must be size long.
func (r *fileReader) sized(name string, size int) []byte {
	s := r.section(name)
	if r.err == nil && len(s.data) != size {
		r.err = storage.Corruptf(r.name, s.off, "section %q has %d bytes, want %d", name, len(s.data), size)
	}
	return s.data
}

func (r *fileReader) model(m *Model) {
	c := &m.config
	m.layers = make([]layer, c.Layers)
	for i := range m.layers {
		l := &m.layers[i]
		l.qkv = simd.Weights{K: c.Dim, N: 3 * c.Dim}
		l.out = simd.Weights{K: c.Dim, N: c.Dim}
		l.up = simd.Weights{K: c.Dim, N: c.Inner}
		l.down = simd.Weights{K: c.Inner, N: c.Dim}
	}
	var floats, columns, size int
	m.floats(func(_ *[]float32, n int) { floats += n })
	m.matrices(func(w *simd.Weights) { columns += w.N; size += w.N * w.K })
	rawFloats, rawSums, weights := r.sized(secFloats, 4*floats), r.sized(secSums, 4*columns), r.sized(secWeights, size)
	m.word.dim = c.Dim
	if _, ok := r.sections[secBlocks]; ok {
		m.word.blocks = r.sized(secBlocks, c.Vocab*(c.Dim/q4Len)*q4Block)
	} else {
		m.word.scale = simd.Words[float32](r.sized(secScale, 4*c.Vocab))
		m.word.codes = simd.Int8s(r.sized(secCodes, c.Vocab*c.Dim))
	}
	if r.err != nil {
		return
	}
	if m.head, r.err = r.head(c.Dim); r.err != nil {
		return
	}
	all, sums, packed := simd.Words[float32](rawFloats), simd.Words[int32](rawSums), simd.Int8s(weights)
	if r.err = checkFinite(r.name, all); r.err == nil {
		r.err = checkFinite(r.name, m.word.scale)
	}
	m.floats(func(p *[]float32, n int) { *p, all = all[:n:n], all[n:] })
	m.matrices(func(w *simd.Weights) {
		w.Sums, sums = sums[:w.N:w.N], sums[w.N:]
		n := w.N * w.K
		w.Packed, packed = packed[:n:n], packed[n:]
	})
}

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
