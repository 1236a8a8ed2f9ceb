//go:build amd64 && !purego

package simd

// Levels lists the levels this processor has, best first.
func Levels() []string {
	var l []string
	if useAVX512 {
		l = append(l, "avx512")
	}
	if useAVX2 {
		l = append(l, "avx2")
	}
	return append(l, "go")
}

// SetLevel forces a level that Levels lists and returns what undoes it.
func SetLevel(level string) (restore func()) {
	avx2, avx512 := useAVX2, useAVX512
	useAVX512 = level == "avx512"
	useAVX2 = useAVX512 || level == "avx2"
	return func() { useAVX2, useAVX512 = avx2, avx512 }
}
