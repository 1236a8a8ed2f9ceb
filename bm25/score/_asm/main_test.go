package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The checked-in assembly is what the generator writes, save the first line,
// which quotes the command.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	dir := t.TempDir()
	files := []string{"kernel_amd64.s", "stub_amd64.go"}
	cmd := exec.Command("go", "run", ".", "-pkg", "score",
		"-out", filepath.Join(dir, files[0]), "-stubs", filepath.Join(dir, files[1]))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		_, got, _ = bytes.Cut(got, []byte("\n"))
		_, want, _ = bytes.Cut(want, []byte("\n"))
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the generator writes: run go generate in bm25/score", name)
		}
	}
}
