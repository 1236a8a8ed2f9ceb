package testcluster

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// endWithParent has the system kill the process when this one ends.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// suspend stops a process, or lets it go on.
func suspend(p *os.Process, stop bool) error {
	if stop {
		return p.Signal(syscall.SIGSTOP)
	}
	return p.Signal(syscall.SIGCONT)
}

// resident is the memory of a process, 0 when it cannot be told.
func resident(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	var size, pages int64
	if err == nil {
		_, err = fmt.Sscan(string(b), &size, &pages)
	}
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
