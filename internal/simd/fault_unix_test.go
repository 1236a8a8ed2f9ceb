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

// faultAddr runs f and returns the address of the memory fault in it, 0 for
// none. f runs in a goroutine of its own, as a query does.
func faultAddr(f func()) uintptr {
	addr := make(chan uintptr)
	go func() {
		defer func() {
			fault, ok := recover().(interface {
				runtime.Error
				Addr() uintptr
			})
			if !ok {
				addr <- 0
				return
			}
			addr <- fault.Addr()
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
		"DotF32":         func() { DotF32(qf, floats[page/4-50:]) },
		"L2F32":          func() { L2F32(qf, floats[page/4-50:]) },
		"DotF32Gather":   func() { DotF32Gather(qf, floats, 100, idsF, make([]float32, 5)) },
		"L2F32Gather":    func() { L2F32Gather(qf, floats, 100, idsF, make([]float32, 5)) },
	}
	eachLevel(t, func(t *testing.T) {
		for name, f := range kernels {
			off := int64(faultAddr(f)) - int64(uintptr(unsafe.Pointer(&data[0])))
			if off < int64(page) || off >= int64(len(data)) {
				t.Errorf("%s: fault at offset %d, want one in [%d, %d)", name, off, page, len(data))
			}
		}
		if a := faultAddr(func() { Prefetch(unsafe.Pointer(&data[page])) }); a != 0 {
			t.Errorf("Prefetch faulted at %#x", a)
		}
	})
}

// Arrays that end where readable memory ends: no kernel may read past them.
func TestNoReadPastTheEnd(t *testing.T) {
	page := os.Getpagesize()
	data, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(data)
	if err := syscall.Mprotect(data[2*page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	data = data[: 2*page : 2*page]
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
					}
				})
				if a != 0 {
					t.Fatalf("%d rows of %d: read %d bytes past the end", rows, n, a-uintptr(unsafe.Pointer(&data[0]))-uintptr(len(data)))
				}
			}
		}
	})
}
