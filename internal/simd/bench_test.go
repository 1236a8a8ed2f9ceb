package simd

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

const (
	benchBytes = 64 << 20 // larger than any level-2 cache
	benchRows  = 32       // rows a call, one hop of a graph with M0 = 32
)

// benchIDs are lists of random rows; a benchmark walks through all of them, so
// that rows come from memory, not from cache.
func benchIDs(rows int) [][]uint32 {
	r := rand.New(rand.NewPCG(seed, 9))
	lists := make([][]uint32, 4096)
	for i := range lists {
		lists[i] = make([]uint32, benchRows)
		for j := range lists[i] {
			lists[i][j] = r.Uint32N(uint32(rows))
		}
	}
	return lists
}

// touched is memory written once: untouched pages would all be one zero page.
func touched(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func perRow(b *testing.B, rows, bytes int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
	b.SetBytes(int64(rows * bytes))
}

func eachLevelBench(b *testing.B, f func(b *testing.B)) {
	for _, level := range Levels() {
		b.Run(level, func(b *testing.B) {
			defer SetLevel(level)()
			f(b)
		})
	}
}

func BenchmarkDotU8S8Gather(b *testing.B) {
	codes := touched(benchBytes)
	for _, stride := range []int{64, 128, 448, 832} {
		ids := benchIDs(len(codes) / stride)
		q, out := make([]int8, stride), make([]int32, benchRows)
		b.Run(fmt.Sprintf("stride=%d", stride), func(b *testing.B) {
			eachLevelBench(b, func(b *testing.B) {
				for i := 0; i < b.N; i++ {
					DotU8S8Gather(q, codes, stride, ids[i%len(ids)], out)
				}
				perRow(b, benchRows, stride)
			})
		})
	}
}

// BenchmarkNibble: rows of 100, 384 and 784 components.
func BenchmarkNibble(b *testing.B) {
	codes := touched(benchBytes)
	for _, stride := range []int{64, 256, 448} {
		ids := benchIDs(len(codes) / stride)
		q, out, f := make([]int8, 2*stride), make([]float32, 4096), &Affine{}
		b.Run(fmt.Sprintf("gather/stride=%d", stride), func(b *testing.B) {
			eachLevelBench(b, func(b *testing.B) {
				for i := 0; i < b.N; i++ {
					NibbleGather(q, f, codes, ids[i%len(ids)], out)
				}
				perRow(b, benchRows, stride)
			})
		})
		b.Run(fmt.Sprintf("scan/stride=%d", stride), func(b *testing.B) {
			eachLevelBench(b, func(b *testing.B) {
				blocks := len(codes) / stride / len(out)
				for i := 0; i < b.N; i++ {
					NibbleScan(q, f, codes, i%blocks*len(out), len(out), out)
				}
				perRow(b, len(out), stride)
			})
		})
	}
}

// BenchmarkDotU8S8Cached reads the same few rows again and again: the cost of
// the arithmetic and of the call.
func BenchmarkDotU8S8Cached(b *testing.B) {
	for _, stride := range []int{64, 448, 832} {
		codes := make([]byte, benchRows*stride)
		q, out := make([]int8, stride), make([]int32, benchRows)
		for _, rows := range []int{1, 3, 4, 32} {
			ids := benchIDs(benchRows)[0][:rows]
			b.Run(fmt.Sprintf("stride=%d/rows=%d", stride, rows), func(b *testing.B) {
				eachLevelBench(b, func(b *testing.B) {
					for i := 0; i < b.N; i++ {
						DotU8S8Gather(q, codes, stride, ids, out)
					}
					perRow(b, rows, stride)
				})
			})
		}
	}
}

func BenchmarkDotU8S8Scan(b *testing.B) {
	codes := touched(benchBytes)
	for _, stride := range []int{128, 448, 832} {
		rows := len(codes) / stride
		q, out := make([]int8, stride), make([]int32, rows)
		b.Run(fmt.Sprintf("stride=%d", stride), func(b *testing.B) {
			eachLevelBench(b, func(b *testing.B) {
				for i := 0; i < b.N; i++ {
					DotU8S8Scan(q, codes, stride, 0, rows, out)
				}
				perRow(b, rows, stride)
			})
		})
	}
}

func BenchmarkFloatGather(b *testing.B) {
	base := make([]float32, benchBytes/4)
	for i := range base {
		base[i] = float32(i % 11)
	}
	for _, dim := range []int{100, 384, 768} {
		ids := benchIDs(len(base) / dim)
		q, out := make([]float32, dim), make([]float32, benchRows)
		b.Run(fmt.Sprintf("dot/dim=%d", dim), func(b *testing.B) {
			eachLevelBench(b, func(b *testing.B) {
				for i := 0; i < b.N; i++ {
					DotF32Gather(q, base, dim, ids[i%len(ids)], out)
				}
				perRow(b, benchRows, 4*dim)
			})
		})
		b.Run(fmt.Sprintf("l2/dim=%d", dim), func(b *testing.B) {
			eachLevelBench(b, func(b *testing.B) {
				for i := 0; i < b.N; i++ {
					L2F32Gather(q, base, dim, ids[i%len(ids)], out)
				}
				perRow(b, benchRows, 4*dim)
			})
		})
	}
}

func BenchmarkFloatCached(b *testing.B) {
	for _, dim := range []int{100, 384} {
		x, y := make([]float32, dim), make([]float32, dim)
		b.Run(fmt.Sprintf("dot/dim=%d", dim), func(b *testing.B) {
			eachLevelBench(b, func(b *testing.B) {
				for i := 0; i < b.N; i++ {
					sink = DotF32(x, y)
				}
				perRow(b, 1, 4*dim)
			})
		})
	}
}

var sink float32

// BenchmarkPrefetch is one hop of a graph walk: the links of a node known
// beforehand, two lines out of 64 MiB, then 16 rows of 448 bytes; without and
// with a prefetch of the next node's links before the rows are read.
func BenchmarkPrefetch(b *testing.B) {
	codes, r := touched(benchBytes), rand.New(rand.NewPCG(seed, 10))
	links := make([]uint32, benchBytes/4)
	for i := range links {
		links[i] = r.Uint32N(uint32(len(codes) / 448))
	}
	walk := make([]int, 1<<16)
	for i := range walk {
		walk[i] = 32 * r.IntN(len(links)/32)
	}
	q, out := make([]int8, 448), make([]int32, 16)
	for _, prefetch := range []bool{false, true} {
		b.Run(fmt.Sprint(prefetch), func(b *testing.B) {
			for i := 0; i < b.N; i++ {
				at, next := walk[i%len(walk)], walk[(i+1)%len(walk)]
				if prefetch {
					Prefetch(unsafe.Pointer(&links[next]))
					Prefetch(unsafe.Pointer(&links[next+16]))
				}
				// Make this hop wait for the one before, as a walk does.
				at += int(out[15] >> 31) // 0: the query is zero
				DotU8S8Gather(q, codes, 448, links[at:at+16], out)
			}
		})
	}
}
