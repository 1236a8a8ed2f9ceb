package ingest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
)

// MaxLine bounds one line in bytes; a longer one is reported as bad.
const MaxLine = 64 << 20

// ErrLineTooLong is matched by the error of a line above MaxLine.
var ErrLineTooLong = errors.New("line too long")

// A Source is one input to be read line by line.
type Source struct {
	Name string `json:"name"` // as given, "-" for standard input
	Size int64  `json:"size"` // in bytes as stored, -1 when not known
}

// Stat makes the sources of a list of names; "-" is standard input, once.
func Stat(names []string) ([]Source, error) {
	out := make([]Source, len(names))
	stdin := false
	for i, name := range names {
		out[i] = Source{Name: name, Size: -1}
		if name == "-" {
			if stdin {
				return nil, errors.New("standard input (-) is given twice")
			}
			stdin = true
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			return nil, fmt.Errorf("%s is a directory", name)
		}
		if info.Mode().IsRegular() {
			out[i].Size = info.Size()
		}
	}
	return out, nil
}

// lines reads the lines of one source, unzipped where it starts as gzip does.
type lines struct {
	name string
	n    int // number of the line last read, from 1
	file io.Closer
	in   *bufio.Reader
	buf  []byte
}

// open opens a source; raw counts the bytes read of it as stored.
func (s Source) open(stdin io.Reader, raw *atomic.Int64) (*lines, error) {
	l := &lines{name: s.Name}
	in := stdin
	if s.Name != "-" {
		f, err := os.Open(s.Name)
		if err != nil {
			return nil, err
		}
		in, l.file = f, f
	}
	b := bufio.NewReaderSize(&counting{in, raw}, 1<<18)
	if head, _ := b.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		gz, err := gzip.NewReader(b)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", s.Name, err), l.close())
		}
		b = bufio.NewReaderSize(gz, 1<<18)
	}
	if head, _ := b.Peek(3); bytes.Equal(head, []byte("\ufeff")) {
		_, _ = b.Discard(3)
	}
	l.in = b
	return l, nil
}

// next returns the next line without its end, valid until the call after, and
// io.EOF behind the last. ErrLineTooLong is about this line alone.
func (l *lines) next() ([]byte, error) {
	l.buf = l.buf[:0]
	long := false
	for {
		part, err := l.in.ReadSlice('\n')
		if len(l.buf)+len(part) > MaxLine {
			long, l.buf = true, l.buf[:0]
		}
		if !long {
			l.buf = append(l.buf, part...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == io.EOF && (len(l.buf) > 0 || long) {
			err = nil // a last line without an end
		}
		if err == io.EOF {
			return nil, io.EOF
		}
		l.n++
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", l.name, l.n, err)
		}
		if long {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrLineTooLong, MaxLine)
		}
		return bytes.TrimRight(l.buf, "\r\n"), nil
	}
}

func (l *lines) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

type counting struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}
