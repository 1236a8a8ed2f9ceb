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

func resident(int) int64 { return 0 }
