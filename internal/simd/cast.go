package simd

import "unsafe"

// Int8s gives bytes as signed ones, where they lie.
func Int8s(b []byte) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
}

// Bytes gives signed bytes as bytes, where they lie.
func Bytes(b []int8) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
}

// StringBytes gives the bytes of a string, where they lie: they must not be
// written to.
func StringBytes(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// Words gives bytes as 32-bit words in the machine's order, where they lie, or
// as a copy when they lie askew. Up to three bytes at the end are left out.
func Words[T float32 | int32](b []byte) []T {
	n := len(b) / 4
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%4 == 0 {
		return unsafe.Slice((*T)(p), n)
	}
	out := make([]T, n)
	copy(WordBytes(out), b)
	return out
}

// WordBytes gives 32-bit words as bytes in the machine's order.
func WordBytes[T float32 | int32](w []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 4*len(w))
}
