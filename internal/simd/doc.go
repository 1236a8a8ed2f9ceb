// Package simd holds the inner loops over vectors: dot products of 8-bit codes
// and exact float32 distances, one query against many rows a call; and those of
// a transformer encoder: matrix products of 8-bit codes and of floats, and the
// functions of a row (norm, GELU, softmax, quantization).
//
// # Levels
//
//	avx512   AVX-512 F, BW, VL and VNNI      amd64
//	avx2     AVX2                            amd64
//	go       the reference, always compiled  everything else, and with tag purego
//
// The level is chosen once at start; Level tells which. GODEBUG=cpu.avx512f=off
// and GODEBUG=cpu.avx2=off turn levels off for a run. There are no kernels for
// arm64 yet: it runs the reference.
//
// # Results do not depend on the level
//
// Integer kernels compute exact 32-bit sums: no 16-bit intermediate saturates
// (AVX2 widens bytes to words, VPMADDUBSW would not do). Float kernels follow
// one order everywhere, which is the definition of DotF32 and L2F32:
//
//	for component i: lane[i mod 16] += round(a[i]·b[i])    multiply, then add: never fused
//	lane[l] += lane[l+8], l < 8; then +4, +2, +1
//
// so the reference and every kernel give the same bits, and a single call gives
// those of a gather call. The operations of Form follow one order, too.
//
// MulF32 adds with one rounding (fused), in the order of the inner index; its
// reference computes the same bits by fma32. The row functions follow the order
// of DotF32 where they sum, and never fuse.
//
// # Matrix products
//
// MulU8S8 multiplies unsigned activations, quantized row by row, with signed
// weights packed in panels of 32 columns: 12 rows by 32 columns in registers at
// AVX-512 (8 and 4 for what is left), 4 rows by 16 at AVX2. On one core of an
// AMD EPYC (Zen 4), BenchmarkMulU8S8: avx512 214, avx2 75 GMAC/s; 224 is what
// one VPDPBUSD a cycle would give. AVX2 pays for exact sums: VPMADDUBSW would
// saturate, so bytes are widened to words.
//
// # Shape of the kernels
//
// A call takes a list of rows, not one row, because a Go call of assembly costs
// as much as the arithmetic of a short row. Four rows are read side by side:
// four cache misses at a time and one load of the query for four rows. Gather
// kernels prefetch the four rows after these, line by line as they go; scan
// kernels prefetch in address order. The constants were measured and stand in
// _asm/main.go with their figures.
//
// On one core of an AMD EPYC (Zen 4) whose second core was busy, 32 random rows
// of a 64 MiB array a call, ns a row (BenchmarkDotU8S8Gather; ±20 %):
//
//	bytes a row   64    128    448    832
//	avx512       8.2   11.8     30     53
//	avx2          14     19     50     80
//	go           217    253    479    869
//
// # Safety
//
// Lengths of slices are checked in Go before a kernel runs. Row numbers are not:
// see DotU8S8Gather. Kernels have no frame, call nothing and do not read a byte
// past the rows they are given (prefetching may; it cannot fault), so a fault
// in a mapped file cut short by someone else is a panic that recover catches
// under debug.SetPanicOnFault. Assembly is not preempted, so no more than 256
// rows go into one assembly call, whatever the length of the list.
//
// All functions are safe for concurrent use and allocate nothing.
package simd

//go:generate sh -c "cd _asm && go run . -out ../kernels_amd64.s -stubs ../stubs_amd64.go -pkg simd"
