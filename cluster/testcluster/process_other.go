//go:build !linux

package testcluster

import (
	"errors"
	"os"
	"os/exec"
)

func endWithParent(*exec.Cmd) {}

func suspend(*os.Process, bool) error {
	return errors.New("testcluster: processes are suspended on Linux only")
}

// UsageOf is what a process uses, without Disk.
func UsageOf(int) Usage { return Usage{} }
