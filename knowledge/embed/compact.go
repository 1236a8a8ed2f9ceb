package embed

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/quarrysearch/quarry/internal/simd"
	"github.com/quarrysearch/quarry/knowledge/embed/tokenize"
	"github.com/quarrysearch/quarry/storage"
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
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, storage.ErrVersion
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
	if r.err != nil {
		return nil, r.err
	}
	c, err := parseConfig(name, r.section(secConfig).data)
	if err != nil {
		return nil, err
	}
	tok, err := tokenize.Parse(r.section(secTokenizer).data)
	if err != nil {
		return nil, err
	}
	if tok.Size() > c.Vocab {
		return nil, storage.Corruptf(name, 0, "the tokenizer has %d tokens, the token table %d rows", tok.Size(), c.Vocab)
	}
	m := &Model{config: *c, tokenizer: tok, sections: sections}
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
		if fault := m.guard(func() { err = s.verify(m.config.Name) }); fault != nil || err != nil {
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
