//go:build unix

package filter

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// B16: the sections lie on read-only maps, where any write faults.
func TestB16ReadOnlyMap(t *testing.T) {
	s := build(t, largeRows(70000, 5))
	dir := t.TempDir()
	maps := map[string][]byte{}
	for name, b := range s {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := syscall.Mmap(int(f.Fd()), 0, b.Len(), syscall.PROT_READ, syscall.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Munmap(m) }()
		maps[name] = m
	}
	open := func(name string) ([]byte, bool) {
		b, ok := maps[name]
		return b, ok
	}
	exerciseB16(t, open, 70000)
	if err := must(Open(open, 70000))(t).Verify(context.Background()); err != nil {
		t.Error(err)
	}
	out := sections{}
	seg := must(Open(open, 70000))(t)
	if err := Merge(out.create, []MergeInput{{seg, identity(70000)}}, 70000); err != nil {
		t.Error(err)
	}
}
