package testcluster

import (
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
