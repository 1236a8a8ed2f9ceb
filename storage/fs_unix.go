//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package storage

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// lockFile takes a flock, which belongs to the open file: a second handle in
// the same process is refused like another process.
func lockFile(f *os.File, exclusive bool) error {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrLocked
		}
		return err
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil // a file system that cannot sync directories keeps them in order itself
	}
	return errors.Join(err, d.Close())
}

// linuxPopulateRead is MADV_POPULATE_READ (Linux 5.14), the same number on
// every architecture; x/sys has it for Linux only.
const linuxPopulateRead = 22

func advise(b []byte, a Advice) error {
	switch a {
	case AdviceNormal:
		return unix.Madvise(b, unix.MADV_NORMAL)
	case AdviceRandom:
		return unix.Madvise(b, unix.MADV_RANDOM)
	case AdviceSequential:
		return unix.Madvise(b, unix.MADV_SEQUENTIAL)
	case AdviceDontNeed:
		return unix.Madvise(b, unix.MADV_DONTNEED)
	case AdvicePopulate:
		if runtime.GOOS == "linux" {
			if err := unix.Madvise(b, linuxPopulateRead); !errors.Is(err, unix.EINVAL) {
				return err
			}
		}
		return unix.Madvise(b, unix.MADV_WILLNEED)
	case AdviceWillNeed:
		return unix.Madvise(b, unix.MADV_WILLNEED)
	}
	return unix.EINVAL
}

func isPlatformDiskFull(error) bool { return false }
