package bench

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
)

// MaxDim is the largest number of columns a vector file may have; a larger one
// in a file's header means that it is no vector file.
const MaxDim = 1 << 16

// A Matrix is rows of equal length, laid out one after another.
type Matrix[T any] struct {
	Dim  int // columns
	Data []T // Rows()·Dim
}

// Rows counts the rows.
func (m Matrix[T]) Rows() int {
	if m.Dim == 0 {
		return 0
	}
	return len(m.Data) / m.Dim
}

// Row is row i, not copied.
func (m Matrix[T]) Row(i int) []T { return m.Data[i*m.Dim : (i+1)*m.Dim : (i+1)*m.Dim] }

// Head is the first n rows, or all when there are fewer, not copied.
func (m Matrix[T]) Head(n int) Matrix[T] {
	n = min(max(n, 0), m.Rows())
	return Matrix[T]{Dim: m.Dim, Data: m.Data[:n*m.Dim]}
}

// ReadVectors reads a file of float vectors by the ending of its name, .gz
// after it or not:
//
//	.fvecs        TexMex: each row an int32 dimension and that many float32
//	.f32, .f16    bare little-endian rows of dim float32 or float16
//
// dim must be given for the bare ones; for .fvecs it is checked, or 0 to take
// the file's. A non-finite value is an error. Errors name the file and the byte
// or row and match ErrInput.
func ReadVectors(path string, dim int) (Matrix[float32], error) {
	var m Matrix[float32]
	var err error
	switch name := strings.TrimSuffix(path, ".gz"); {
	case strings.HasSuffix(name, ".fvecs"):
		m, err = readRows(path, dim, layout[float32]{header: true, width: 4, decode: decodeF32})
	case strings.HasSuffix(name, ".f32"):
		m, err = readRows(path, dim, layout[float32]{width: 4, decode: decodeF32})
	case strings.HasSuffix(name, ".f16"):
		m, err = readRows(path, dim, layout[float32]{width: 2, decode: decodeF16})
	default:
		return m, inputf(path, "name ends in none of .fvecs, .f32, .f16 (or .gz after it)")
	}
	if err != nil {
		return m, err
	}
	for i, x := range m.Data {
		if x-x != 0 { // NaN or infinite
			return Matrix[float32]{}, inputf(path, "row %d, column %d: value %v is not finite", i/m.Dim, i%m.Dim, x)
		}
	}
	return m, nil
}

// ReadIvecs reads a TexMex .ivecs file (or .ivecs.gz), as ground truth comes in:
// each row an int32 count and that many int32.
func ReadIvecs(path string) (Matrix[int32], error) {
	return readRows(path, 0, layout[int32]{header: true, width: 4, decode: decodeI32})
}

// layout is how a file holds rows of T.
type layout[T any] struct {
	header bool // each row starts with its dimension
	width  int  // bytes an element
	decode func(dst []T, src []byte)
}

func decodeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func decodeI32(dst []int32, src []byte) {
	for i := range dst {
		dst[i] = int32(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func decodeF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float16(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// float16 widens an IEEE 754 half; every half is exact in float32.
func float16(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exp, frac := uint32(h>>10)&31, uint32(h)&1023
	switch exp {
	case 0: // zero or subnormal: frac · 2^-24
		x := float32(frac) / (1 << 24)
		return math.Float32frombits(math.Float32bits(x) | sign)
	case 31:
		return math.Float32frombits(sign | 0xFF<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// readRows reads a whole file row by row, its size checked against the first
// row's dimension before anything is allocated.
func readRows[T any](path string, dim int, l layout[T]) (Matrix[T], error) {
	var m Matrix[T]
	f, err := openFile(path)
	if err != nil {
		return m, err
	}
	defer f.Close() // read only: nothing to lose
	size, err := f.size()
	if err != nil {
		return m, err
	}
	if !l.header && (dim < 1 || dim > MaxDim) {
		return m, inputf(path, "dimension %d: a file without one in its rows needs it told, want 1 to %d", dim, MaxDim)
	}
	var head [4]byte
	var buf []byte
	for row := 0; ; row++ {
		if l.header {
			if _, err := io.ReadFull(f, head[:]); err == io.EOF {
				break
			} else if err != nil {
				return m, inputf(path, "row %d: cut in its header: %v", row, err)
			}
			d := int(int32(binary.LittleEndian.Uint32(head[:])))
			switch {
			case d < 1 || d > MaxDim:
				return m, inputf(path, "row %d: dimension %d, want 1 to %d", row, d, MaxDim)
			case dim == 0:
				dim = d
			case d != dim:
				return m, inputf(path, "row %d: dimension %d, want %d", row, d, dim)
			}
		}
		if row == 0 {
			m.Dim = dim
			buf = make([]byte, dim*l.width)
			if m.Data, err = l.room(path, size, dim); err != nil {
				return Matrix[T]{}, err
			}
		}
		if _, err := io.ReadFull(f, buf); err == io.EOF && !l.header {
			break
		} else if err != nil {
			return m, inputf(path, "row %d: cut short: %v", row, err)
		}
		at := len(m.Data)
		m.Data = append(m.Data, make([]T, dim)...)
		l.decode(m.Data[at:], buf)
	}
	if len(m.Data) == 0 {
		return m, inputf(path, "no rows")
	}
	return m, nil
}

// room allocates what a plain file of size bytes will need; -1 is unknown.
func (l layout[T]) room(path string, size int64, dim int) ([]T, error) {
	if size < 0 {
		return nil, nil
	}
	stride := int64(dim * l.width)
	if l.header {
		stride += 4
	}
	if size%stride != 0 {
		return nil, inputf(path, "%d bytes are not whole rows of %d (dimension %d)", size, stride, dim)
	}
	return make([]T, 0, size/stride*int64(dim)), nil
}

// WriteFvecs writes m as a .fvecs file, replacing what is there.
func WriteFvecs(path string, m Matrix[float32]) error {
	return writeRows(path, m, func(b []byte, x float32) []byte {
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	})
}

// WriteIvecs writes m as an .ivecs file, replacing what is there.
func WriteIvecs(path string, m Matrix[int32]) error {
	return writeRows(path, m, func(b []byte, x int32) []byte {
		return binary.LittleEndian.AppendUint32(b, uint32(x))
	})
}

func writeRows[T any](path string, m Matrix[T], encode func([]byte, T) []byte) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<18)
	var buf []byte
	for i := range m.Rows() {
		buf = binary.LittleEndian.AppendUint32(buf[:0], uint32(m.Dim))
		for _, x := range m.Row(i) {
			buf = encode(buf, x)
		}
		if _, err := w.Write(buf); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
	}
	return w.Flush()
}
