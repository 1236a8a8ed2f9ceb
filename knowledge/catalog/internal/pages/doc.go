// Package pages reads a bbolt file without trusting one byte of it. It stands
// before bbolt, which answers damaged pages with a panic at best, and at worst
// with an endless loop, a stack overflow or a huge allocation: a file that has
// passed Walk has none of what leads there.
//
// The layout is that of bbolt's format version 2, as in its internal/common:
//
//	page  = id u64 │ flags u16 │ count u16 │ overflow u32 │ body
//	meta  = magic │ version │ page size │ flags │ root │ sequence │ free list │ high │ txid │ checksum
//	tree  = branch pages of (pos, key, page), leaf pages of (flags, pos, key, value)
//	value = bytes, or a bucket: root u64 │ sequence u64, and with root 0 its one page
//
// Only buckets at the root are taken, none within another. Integers are in the
// machine's own byte order.
//
// Every page is read at most once and in parts no larger than it says and the
// file has, so time and memory are bounded by the file's size. A walk has no
// state beyond its call.
package pages
