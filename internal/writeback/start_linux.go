package writeback

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Start starts to write the changed pages of f. Where it cannot it does nothing.
// An error is one of the writing, and means what an error of fsync does.
func Start(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	if conn.Control(func(fd uintptr) { serr = unix.SyncFileRange(int(fd), 0, 0, unix.SYNC_FILE_RANGE_WRITE) }) != nil {
		return os.ErrClosed
	}
	for _, none := range []error{unix.ENOSYS, unix.EINVAL, unix.EPERM, unix.ESPIPE, unix.EOPNOTSUPP, unix.EINTR} {
		if errors.Is(serr, none) {
			return nil
		}
	}
	return serr
}
