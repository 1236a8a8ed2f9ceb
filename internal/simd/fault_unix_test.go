//go:build unix

package simd

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"
)

// faultAddr runs f and returns the address of the memory fault in it: 0 for
// none, 1 for one whose address the system did not tell. f runs in a goroutine
// of its own, as a query does.
func faultAddr(f func()) uintptr {
	addr := make(chan uintptr)
	go func() {
		defer func() {
			switch fault := recover().(type) {
			case interface{ Addr() uintptr }:
				addr <- fault.Addr()
			case runtime.Error:
				addr <- 1
			default:
				addr <- 0
			}
		}()
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		f()
	}()
	return <-addr
}

// A file cut under its mapping must end in a panic that recover catches and
// that tells the place, in every kernel.
func TestFaultIsRecoverable(t *testing.T) {
	page := os.Getpagesize()
	name := filepath.Join(t.TempDir(), "rows")
	if err := os.WriteFile(name, make([]byte, 4*page), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := syscall.Mmap(int(file.Fd()), 0, 4*page, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(data)
	if err := os.Truncate(name, int64(page)); err != nil {
		t.Fatal(err)
	}
	floats := unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), len(data)/4)
	q, qf := make([]int8, 448), make([]float32, 100)
	ids := []uint32{0, 1, uint32(2 * page / 448), 2, 3}
	idsF := []uint32{0, 1, uint32(2 * page / 400), 2, 3}
	kernels := map[string]func(){
		"DotU8S8":        func() { DotU8S8(data[page:], q) },
		"DotU8S8Gather":  func() { DotU8S8Gather(q, data, 448, ids, make([]int32, 5)) },
		"DotU8S8Scan":    func() { DotU8S8Scan(q, data, 448, 0, 4*page/448, make([]int32, 4*page/448)) },
		"DistanceGather": func() { DistanceGather(q, new(Form), data, ids, make([]float32, 5)) },
		"DistanceScan":   func() { DistanceScan(q, new(Form), data, 0, 4*page/448, make([]float32, 4*page/448)) },
		"NibbleGather":   func() { NibbleGather(make([]int8, 896), new(Affine), data, ids, make([]float32, 5)) },
		"NibbleScan":     func() { NibbleScan(make([]int8, 896), new(Affine), data, 0, 4*page/448, make([]float32, 4*page/448)) },
		"DotF32":         func() { DotF32(qf, floats[page/4-50:]) },
		"L2F32":          func() { L2F32(qf, floats[page/4-50:]) },
		"DotF32Gather":   func() { DotF32Gather(qf, floats, 100, idsF, make([]float32, 5)) },
		"L2F32Gather":    func() { L2F32Gather(qf, floats, 100, idsF, make([]float32, 5)) },
	}
	// Emulators may catch a fault without telling its place (qemu-user 7.2).
	told := faultAddr(func() { sink = floats[page/4] }) == uintptr(unsafe.Pointer(&data[page]))
	if !told {
		t.Log("this system does not tell the address of a fault")
	}
	eachLevel(t, func(t *testing.T) {
		for name, f := range kernels {
			addr := faultAddr(f)
			off := int64(addr) - int64(uintptr(unsafe.Pointer(&data[0])))
			if addr == 0 || told && (off < int64(page) || off >= int64(len(data))) {
				t.Errorf("%s: fault at offset %d, want one in [%d, %d)", name, off, page, len(data))
			}
		}
		if a := faultAddr(func() { Prefetch(unsafe.Pointer(&data[page])) }); a != 0 {
			t.Errorf("Prefetch faulted at %#x", a)
		}
	})
}

// guarded is memory that ends where readable memory ends.
func guarded(t *testing.T, n int) []byte {
	t.Helper()
	page := os.Getpagesize()
	n = (n + page - 1) / page * page
	data, err := syscall.Mmap(-1, 0, n+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(data) })
	if err := syscall.Mprotect(data[n:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return data[:n:n]
}

// No kernel may read past the end of its arrays.
func TestNoReadPastTheEnd(t *testing.T) {
	data := guarded(t, 8192)
	floats := unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), len(data)/4)
	eachLevel(t, func(t *testing.T) {
		for n := 1; n <= 300; n++ {
			f := floats[len(floats)-n:]
			q := unsafe.Slice((*int8)(unsafe.Pointer(&data[len(data)-n])), n)
			for rows := 1; rows <= 9 && rows*n <= len(floats); rows++ {
				ids := []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8}[:rows]
				base := floats[len(floats)-n*rows:]
				a := faultAddr(func() {
					DotU8S8(data[len(data)-n:], q)
					DotF32(f, f)
					L2F32(f, f)
					DotF32Gather(f, base, n, ids, make([]float32, rows))
					L2F32Gather(f, base, n, ids, make([]float32, rows))
					if n%Block == 0 {
						DotU8S8Scan(q, data[len(data)-n*rows:], n, 0, rows, make([]int32, rows))
						DotU8S8Gather(q, data[len(data)-n*rows:], n, ids, make([]int32, rows))
						DistanceScan(q, new(Form), data[len(data)-n*rows:], 0, rows, make([]float32, rows))
						DistanceGather(q, new(Form), data[len(data)-n*rows:], ids, make([]float32, rows))
						NibbleScan(Int8s(data[len(data)-2*n:]), new(Affine), data[len(data)-n*rows:], 0, rows, make([]float32, rows))
						NibbleGather(Int8s(data[len(data)-2*n:]), new(Affine), data[len(data)-n*rows:], ids, make([]float32, rows))
					}
				})
				if a != 0 {
					t.Fatalf("%d rows of %d: read %d bytes past the end", rows, n, a-uintptr(unsafe.Pointer(&data[0]))-uintptr(len(data)))
				}
			}
		}
	})
}

// The same of the encoder's kernels. The operands share the end of one array:
// it is read and written at places, not for answers.
func TestEncoderStaysInside(t *testing.T) {
	const rows, k, n = 24, 48, 96
	data := guarded(t, 4*rows*n)
	words := func(n int) []float32 { return Words[float32](data[len(data)-4*n:]) }
	ints := func(n int) []int32 { return Words[int32](data[len(data)-4*n:]) }
	codes := func(n int) []byte { return data[len(data)-n:] }
	w := &Weights{K: k, N: n, Packed: Int8s(codes(n * k)), Sums: ints(n), Scale: words(n), Bias: words(n)}
	a := &Rows{K: k, Codes: codes(rows * k), Scale: words(rows), Zero: ints(rows)}
	eachLevel(t, func(t *testing.T) {
		addr := faultAddr(func() {
			for m := GemmRows; m <= rows; m += GemmRows {
				MulU8S8(a, rows-m, m, w, words(rows*n), n)
			}
			for rows := 1; rows <= 9; rows++ {
				for _, n := range []int{16, 32, 48} {
					MulF32(words(rows*3), 3, words(3*n), n, words(rows*n), n, rows, 3, n)
				}
			}
			for n := 16; n <= 80; n += 16 {
				x := words(n)
				ResidualRow(x, codes(n), 1, 3, x)
				QuantizeRow(x, codes(n))
				AddRow(x, x)
				AddLayerNorm(x, x, x, x, 1)
				GELU(x)
				SoftmaxRow(x, 1)
			}
		})
		if addr != 0 {
			t.Fatalf("fault at %#x, the array ends at %#x", addr, uintptr(unsafe.Pointer(&data[0]))+uintptr(len(data)))
		}
	})
}
