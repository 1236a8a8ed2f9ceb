//go:build arm64 && !purego

package simd

// Levels lists the levels this processor has, best first.
func Levels() []string {
	var l []string
	if useDotProd {
		l = append(l, "dotprod")
	}
	if useNEON {
		l = append(l, "neon")
	}
	return append(l, "go")
}

// SetLevel forces a level that Levels lists and returns what undoes it.
func SetLevel(level string) (restore func()) {
	neon, dotProd := useNEON, useDotProd
	useDotProd = level == "dotprod"
	useNEON = useDotProd || level == "neon"
	return func() { useNEON, useDotProd = neon, dotProd }
}
