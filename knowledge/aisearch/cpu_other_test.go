//go:build !unix

package aisearch

// cpuSeconds is not known here.
func cpuSeconds() float64 { return 0 }
