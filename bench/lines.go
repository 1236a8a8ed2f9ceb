package bench

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
)

// ErrInput is matched (errors.Is) by the error for a file that is not what its
// name or place says, and for a setting out of its range.
var ErrInput = errors.New("bench: bad input")

// maxLineBytes bounds one line of a text file.
const maxLineBytes = 64 << 20

func inputf(where, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrInput, where, fmt.Sprintf(format, args...))
}

// file is an open data file, unzipped on the way when its name ends in .gz.
type file struct {
	io.Reader
	f  *os.File
	gz *gzip.Reader
}

func openFile(path string) (*file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if !strings.HasSuffix(path, ".gz") {
		return &file{Reader: bufio.NewReaderSize(f, 1<<18), f: f}, nil
	}
	gz, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<18))
	if err != nil {
		return nil, errors.Join(inputf(path, "%v", err), f.Close())
	}
	return &file{Reader: gz, f: f, gz: gz}, nil
}

// size is the number of bytes to come, or -1 when the file is zipped.
func (f *file) size() (int64, error) {
	if f.gz != nil {
		return -1, nil
	}
	info, err := f.f.Stat()
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	return info.Size(), nil
}

func (f *file) Close() error { return f.f.Close() }

// Lines yields the lines of a text file, .gz or not, without their ends (\n or
// \r\n). An error ends the sequence. The number of lines is not bounded, the
// length of one is (64 MiB).
func Lines(path string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		f, err := openFile(path)
		if err != nil {
			yield("", err)
			return
		}
		defer f.Close() // read only: nothing to lose
		lines := bufio.NewScanner(f)
		lines.Buffer(make([]byte, 0, 1<<16), maxLineBytes)
		n := 0
		for lines.Scan() {
			n++
			if !yield(lines.Text(), nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield("", inputf(fmt.Sprintf("%s:%d", path, n+1), "%v", err))
		}
	}
}

// ReadLines is Lines gathered into a slice.
func ReadLines(path string) ([]string, error) {
	var out []string
	for line, err := range Lines(path) {
		if err != nil {
			return nil, err
		}
		out = append(out, line)
	}
	return out, nil
}

// firstFile returns the first of dir's names that exists, .gz or not.
func firstFile(dir string, names ...string) (string, error) {
	for _, name := range names {
		for _, ext := range []string{"", ".gz"} {
			path := filepath.Join(dir, filepath.FromSlash(name+ext))
			info, err := os.Stat(path)
			switch {
			case err == nil && info.Mode().IsRegular():
				return path, nil
			case err != nil && !errors.Is(err, fs.ErrNotExist):
				return "", fmt.Errorf("bench: %w", err)
			}
		}
	}
	return "", fmt.Errorf("bench: %s has none of %s (or .gz): %w", dir, strings.Join(names, ", "), fs.ErrNotExist)
}
