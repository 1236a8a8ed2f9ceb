package writeback

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestStart(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte{7}, 100_000)
	if err := errors.Join(Start(f), errors.Join(second(f.Write(want)), Start(f), f.Sync(), Start(f), f.Close())); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Fatal(len(got), err)
	}
	if err := Start(f); runtime.GOOS == "linux" && !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }
