//go:build (!amd64 && !arm64) || purego

package simd

// Levels lists the levels this build has.
func Levels() []string { return []string{"go"} }

// SetLevel does nothing: there is one level.
func SetLevel(string) (restore func()) { return func() {} }
