// Package hugepage asks the system to back memory with huge pages.
//
// A graph build jumps about in tens to thousands of MiB of codes and links: with
// pages of 4 KiB nearly every row misses the translation cache as well as the
// data cache. With 2 MiB pages, a build of 88,945 × 384 took 15 % less CPU time
// (19.2 to 20.5 s instead of 22.8 to 23.8 s, four runs in turn on AMD EPYC).
//
// It is advice: nothing but time depends on it, and no error is reported. It
// works where the kernel honors MADV_HUGEPAGE (Linux, transparent huge pages
// "madvise" or "always"), and does nothing elsewhere.
package hugepage

// Size is the size of a huge page.
const Size = 2 << 20

// Advise asks for huge pages under b, which starts at a multiple of Size; at
// another place nothing happens. Call it before the memory is touched.
func Advise(b []byte) { advise(b) }
