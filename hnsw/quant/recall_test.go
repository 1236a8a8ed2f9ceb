package quant

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// halfs reads a file of little-endian float16.
func halfs(t *testing.T, name string) []float32 {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	v := make([]float32, len(data)/2)
	for i := range v {
		h := uint32(binary.LittleEndian.Uint16(data[2*i:]))
		sign, exponent, fraction := h>>15<<31, h>>10&31, h&1023
		x := math.Float32frombits((exponent+112)<<23 | fraction<<13)
		if exponent == 0 {
			x = float32(fraction) / (1 << 24)
		}
		v[i] = math.Float32frombits(math.Float32bits(x) | sign)
	}
	return v
}

// nearest gives the n smallest distances' indexes, ties by index.
func nearest(d []float32, n int) []uint32 {
	var top []uint32
	for i, x := range d {
		if len(top) == n && x >= d[top[n-1]] {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, x, func(j uint32, x float32) int {
			if d[j] <= x {
				return -1
			}
			return 1
		})
		top = slices.Insert(top, at, uint32(i))
		top = top[:min(len(top), n)]
	}
	return top
}

// A codec is SQ8 or SQ4.
type codec interface {
	Stride() int
	Encode(dst []byte, v []float32)
	Bind(q *Query, v []float32)
}

// TestRecall scans the codes of real text vectors: recall@10 against the exact
// neighbors of the data set, by code alone and with candidates rescored.
func TestRecall(t *testing.T) {
	dir := os.Getenv("QUARRY_DATA")
	if dir == "" {
		t.Skip("QUARRY_DATA is not set")
	}
	dir = filepath.Join(dir, "minilm-90k")
	const dim, k = 384, 10
	queries := 200
	if testing.Short() {
		queries = 20
	}
	base, query := halfs(t, filepath.Join(dir, "base.f16")), halfs(t, filepath.Join(dir, "query.f16"))
	truth, err := os.ReadFile(filepath.Join(dir, "gt.ivecs"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(base) / dim {
		Cosine.Prepare(base[i*dim:(i+1)*dim], base[i*dim:(i+1)*dim])
	}
	wideCodec, narrow := NewSQ8(dim, Cosine), NewSQ4(dim, Cosine)
	for _, c := range []struct {
		name           string
		least, least20 float64 // of the codes alone, and with 20 or more rescored
		codec          codec
	}{{"8 bits", 0.99, 0.9995, &wideCodec}, {"4 bits", 0.93, 0.999, &narrow}} {
		t.Run(c.name, func(t *testing.T) {
			testRecall(t, c.codec, base, query, truth, queries, c.least, c.least20)
		})
	}
}

func testRecall(t *testing.T, c codec, base, query []float32, truth []byte, queries int, least, least20 float64) {
	const dim, k = 384, 10
	n := len(base) / dim
	codes := make([]byte, n*c.Stride())
	for i := range n {
		c.Encode(codes[i*c.Stride():(i+1)*c.Stride()], base[i*dim:(i+1)*dim])
	}
	candidates := []int{10, 12, 15, 20, 30, 50}
	found := make([]int, len(candidates))
	var q Query
	dist := make([]float32, n)
	for i := range queries {
		v := query[i*dim : (i+1)*dim]
		Cosine.Prepare(v, v)
		c.Bind(&q, v)
		q.Scan(codes, 0, n, dist)
		top := nearest(dist, candidates[len(candidates)-1])
		for j, count := range candidates {
			exact := make([]float32, count)
			Cosine.Rescore(v, base, top[:count], exact)
			for _, at := range nearest(exact, k) {
				for l := range k {
					if binary.LittleEndian.Uint32(truth[4*(i*101+1+l):]) == top[at] {
						found[j]++
					}
				}
			}
		}
	}
	for j, count := range candidates {
		recall := float64(found[j]) / float64(queries*k)
		t.Logf("%d candidates rescored: recall@10 %.4f", count, recall)
		if count == k && recall < least || count >= 20 && recall < least20 {
			t.Errorf("%d candidates rescored: recall@10 %.4f is too low", count, recall)
		}
	}
}
