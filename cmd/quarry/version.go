package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/internal/simd"
)

type versionCmd struct {
	JSON bool `name:"json" help:"Print as JSON."`
}

// versionInfo tells which program this is.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes
	Time     string `json:"time,omitempty"`     // of the revision
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	SIMD     string `json:"simd"`
	CPUs     int    `json:"cpus"`
}

func (v versionInfo) String() string {
	rev := ""
	if v.Revision != "" {
		rev = " " + v.Revision
		if v.Modified {
			rev += "+changes"
		}
	}
	return fmt.Sprintf("quarry %s%s, %s %s/%s, simd %s, %d CPUs", v.Version, rev, v.Go, v.OS, v.Arch, v.SIMD, v.CPUs)
}

func (versionCmd) Help() string {
	return `    quarry version
    quarry version --json`
}

// Run prints the version.
func (c *versionCmd) Run(e *console.Console) error {
	v := versionInfo{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, SIMD: simd.Level(), CPUs: runtime.GOMAXPROCS(0)}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = cmp.Or(info.Main.Version, v.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Revision = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			case "vcs.time":
				v.Time = s.Value
			}
		}
	}
	return e.Result(c.JSON, v)
}
