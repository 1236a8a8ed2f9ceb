// Package writeback starts to write a file to the disk, and does not wait for it.
//
// A goroutine in fsync keeps its processor from the others for most of the time
// the disk takes, until the scheduler notices and takes it back. One that starts
// the writing and lets others run finds less left for fsync to wait for. Nothing
// is durable without that fsync.
package writeback
