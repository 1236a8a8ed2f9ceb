// Package simd holds the inner loops over vectors: dot products of codes of 8
// and 4 bits and exact float32 distances, one query against many rows a call; and those of
// a transformer encoder: matrix products of 8-bit codes and of floats, and the
// functions of a row (norm, GELU, softmax, quantization).
//
// # Levels
//
//	avx512   AVX-512 F, BW, VL and VNNI      amd64
//	avx2     AVX2                            amd64
//	dotprod  NEON and SDOT (Armv8.2)         arm64
//	neon     NEON                            arm64
//	go       the reference, always compiled  everything else, and with tag purego
//
// The level is chosen once at start; Level tells which. GODEBUG turns levels off
// for a run: cpu.avx512f=off and cpu.avx2=off, or cpu.asimddp=off and
// cpu.asimd=off (which Go's runtime, but not x/sys/cpu, calls unknown).
//
// # Results do not depend on the level
//
// Integer kernels compute exact 32-bit sums: no 16-bit intermediate saturates
// (AVX2 widens bytes to words, VPMADDUBSW would not do but for 4-bit codes; NEON
// widens products of signed bytes). arm64 has no product of unsigned and signed bytes at these
// levels: it takes codes less 128, and adds 128 times the sum of the query or
// of the column. Float kernels follow one order everywhere, which is the
// definition of DotF32 and L2F32:
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
// Encoding a vector (SumSquares, MaxMagnitude, Codes, Divide) has kernels at
// avx512 only; the other levels run the reference. A query of 784 components is
// bound in 1.1 us instead of 2.0, one of 384 under cosine in 0.75 instead of 1.5.
//
// # Matrix products
//
// MulU8S8 multiplies unsigned activations, quantized row by row, with signed
// weights packed in panels of 32 columns: 12 rows by 32 columns in registers at
// AVX-512 (8 and 4 for what is left), 4 rows by 16 at AVX2. On one core of an
// AMD EPYC (Zen 4), BenchmarkMulU8S8: avx512 214, avx2 75 GMAC/s; 224 is what
// one VPDPBUSD a cycle would give. AVX2 pays for exact sums: VPMADDUBSW would
// saturate, so bytes are widened to words. arm64: 4 rows by 16 columns, and by
// 8 without SDOT.
//
// # Shape of the kernels
//
// A call takes a list of rows, not one row, because a Go call of assembly costs
// as much as the arithmetic of a short row. Four rows are read side by side:
// four cache misses at a time and one load of the query for four rows. Gather
// kernels prefetch the four rows after these, line by line as they go; scan
// kernels prefetch in address order. The constants were measured and stand in
// _asm/coef with their figures.
//
// On one core of an AMD EPYC (Zen 4) whose second core was busy, 32 random rows
// of a 64 MiB array a call, ns a row (BenchmarkDotU8S8Gather; ±20 %):
//
//	bytes a row   64    128    448    832
//	avx512       8.2   11.8     30     53
//	avx2          14     19     50     80
//	go           217    253    479    869
//
// The arm64 kernels were run under an emulator only, for their answers. The
// inner loops as llvm-mca 19 models them, in cycles a turn: four rows by 64
// bytes or 16 floats, and 1,024 products of MulU8S8 (512 at neon).
//
//	                      Cortex-A72  Neoverse N1  V1  Apple M1
//	DotU8S8Gather dotprod          -           16   8        12
//	DotU8S8Gather neon            40           40  20        32
//	DotF32Gather                  44           16   8        12
//	MulU8S8 dotprod                -           34  17        23
//	MulU8S8 neon                  74           74  37        64
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
//go:generate sh -c "cd _asm && go run ./arm64 -out ../kernels_arm64.s -stubs ../stubs_arm64.go -pkg simd"
