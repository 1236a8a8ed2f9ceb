package hnsw

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quarrysearch/quarry/hnsw/quant"
)

// sections is a segment in memory.
type sections map[string]*bytes.Buffer

func (s sections) create(name string) (io.Writer, error) {
	s[name] = new(bytes.Buffer)
	return s[name], nil
}

func (s sections) section(name string) ([]byte, bool) {
	b, ok := s[name]
	if !ok {
		return nil, false
	}
	return b.Bytes(), true
}

func buildSections(t testing.TB, o Options, vectors []float32, docs []uint32) sections {
	t.Helper()
	s := sections{}
	if err := Build(context.Background(), o, vectors, docs, s.create); err != nil {
		t.Fatal(err)
	}
	return s
}

func openSections(t testing.TB, s sections, docCount uint32) *Field {
	t.Helper()
	f, err := Open(s.section, docCount)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// buildField builds a field over docs 0, 1, 2, …
func buildField(t testing.TB, o Options, vectors []float32) *Field {
	t.Helper()
	n := len(vectors) / o.Dim
	return openSections(t, buildSections(t, o, vectors, sequence(n)), uint32(n))
}

func sequence(n int) []uint32 {
	docs := make([]uint32, n)
	for i := range docs {
		docs[i] = uint32(i)
	}
	return docs
}

// clustered makes n vectors around n/40 centers, the shape of embeddings.
func clustered(rng *rand.Rand, n, dim int) []float32 {
	centers := make([]float32, max(n/40, 1)*dim)
	for i := range centers {
		centers[i] = float32(rng.NormFloat64())
	}
	v := make([]float32, n*dim)
	for i := range n {
		c := rng.IntN(len(centers) / dim)
		for j := range dim {
			v[i*dim+j] = centers[c*dim+j] + 0.6*float32(rng.NormFloat64())
		}
	}
	return v
}

func gaussian(rng *rand.Rand, n, dim int) []float32 {
	v := make([]float32, n*dim)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

// exactNearest is the oracle: exact distances, order (distance, doc).
func exactNearest(m quant.Metric, vectors []float32, dim int, q []float32, k int, accept func(doc int) bool) []Neighbor {
	pq := make([]float32, dim)
	m.Prepare(pq, q)
	v := make([]float32, dim)
	var all []Neighbor
	for i := range len(vectors) / dim {
		if accept != nil && !accept(i) {
			continue
		}
		m.Prepare(v, vectors[i*dim:(i+1)*dim])
		all = append(all, Neighbor{Doc: uint32(i), Distance: m.Distance(pq, v)})
	}
	slices.SortFunc(all, compareNeighbors)
	return all[:min(k, len(all))]
}

func overlap(got, want []Neighbor) int {
	hits := 0
	for _, w := range want {
		for _, g := range got {
			if g.Doc == w.Doc {
				hits++
			}
		}
	}
	return hits
}

func readFvecs(t testing.TB, dir, name string) (v []float32, dim int) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	dim = int(binary.LittleEndian.Uint32(data))
	for len(data) >= 4*(dim+1) {
		for j := range dim {
			v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(data[4*(j+1):])))
		}
		data = data[4*(dim+1):]
	}
	return v, dim
}

func readIvecs(t testing.TB, dir, name string) [][]uint32 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]uint32
	for len(data) >= 4 {
		n := int(binary.LittleEndian.Uint32(data))
		row := make([]uint32, n)
		for j := range row {
			row[j] = binary.LittleEndian.Uint32(data[4*(j+1):])
		}
		rows = append(rows, row)
		data = data[4*(n+1):]
	}
	return rows
}
