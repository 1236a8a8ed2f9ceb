package testcluster

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
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

// ticks a second in which the system tells times, the same for all of Linux.
const ticks = 100

// UsageOf is what a process uses, without Disk.
func UsageOf(pid int) (u Usage) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u
	}
	// The name of the program, in parentheses, may hold anything.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 22 {
		return u
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(f[i], 10, 64) // what is no number is 0
		return n
	}
	u.CPU = time.Duration(number(11)+number(12)) * (time.Second / ticks)
	u.Resident = number(21) * int64(os.Getpagesize())
	return u
}
