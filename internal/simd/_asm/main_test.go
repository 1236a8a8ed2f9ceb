package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The checked-in assembly is what the generators write.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	for _, g := range []struct{ arch, command string }{{"amd64", "."}, {"arm64", "./arm64"}} {
		t.Run(g.arch, func(t *testing.T) {
			dir := t.TempDir()
			asm, stubs := "kernels_"+g.arch+".s", "stubs_"+g.arch+".go"
			cmd := exec.Command("go", "run", g.command, "-pkg", "simd",
				"-out", filepath.Join(dir, asm), "-stubs", filepath.Join(dir, stubs))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, name := range []string{asm, stubs} {
				sameFile(t, filepath.Join(dir, name), filepath.Join("..", name))
			}
		})
	}
}

func sameFile(t *testing.T, generated, current string) {
	t.Helper()
	got, err := os.ReadFile(generated)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(current)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(afterHeader(got), afterHeader(want)) {
		t.Errorf("%s is not what the generator writes: run go generate in internal/simd", current)
	}
}

// afterHeader drops the first line, which quotes the command.
func afterHeader(file []byte) []byte {
	_, rest, _ := bytes.Cut(file, []byte("\n"))
	return rest
}
