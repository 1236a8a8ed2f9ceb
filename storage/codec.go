package storage

import (
	"encoding/binary"
	"math"
)

// AppendUvarint and friends write the small records of every format in this
// module: little endian, varints for counts and lengths, strings as length
// and bytes. Decoder is their inverse.

// AppendUvarint appends v as an unsigned varint.
func AppendUvarint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

// AppendU32 appends v in four bytes, little endian.
func AppendU32(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }

// AppendU64 appends v in eight bytes, little endian.
func AppendU64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

// AppendF32 appends the bits of v in four bytes, little endian.
func AppendF32(b []byte, v float32) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
}

// AppendBytes appends a varint length and the bytes of v.
func AppendBytes[T string | []byte](b []byte, v T) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

// A Decoder reads a record written by the Append functions. The first error
// sticks: later reads return zero values, so that a decoding function reads
// straight down and checks Err once. It never reads past its slice and never
// allocates by a length it has not checked against the bytes that are left.
type Decoder struct {
	name string // file or section, for errors
	base int64  // offset of b[0] in name
	b    []byte
	off  int
	err  error
}

// NewDecoder returns a decoder over b, whose first byte lies at offset base
// of the file or section called name.
func NewDecoder(name string, base int64, b []byte) *Decoder {
	return &Decoder{name: name, base: base, b: b}
}

// Err returns the first error, a CorruptError, or nil.
func (d *Decoder) Err() error { return d.err }

// Len returns the number of bytes not read yet.
func (d *Decoder) Len() int { return len(d.b) - d.off }

// Offset returns the offset of the next byte in the file or section.
func (d *Decoder) Offset() int64 { return d.base + int64(d.off) }

// Fail makes the decoder fail with the rule that broke, unless it has failed.
func (d *Decoder) Fail(format string, args ...any) {
	if d.err == nil {
		d.err = Corruptf(d.name, d.Offset(), format, args...)
	}
}

// Uvarint reads an unsigned varint.
func (d *Decoder) Uvarint() uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.b[d.off:])
	if n <= 0 {
		d.Fail("bad varint")
		return 0
	}
	d.off += n
	return v
}

// Count reads a varint that counts things of at least size bytes each (size
// 0 counts as 1), and fails when the bytes left cannot hold as many.
func (d *Decoder) Count(size int) int {
	v := d.Uvarint()
	if v > uint64(d.Len()/max(size, 1)) {
		d.Fail("count %d exceeds the %d bytes left", v, d.Len())
		return 0
	}
	return int(v)
}

// Raw reads n bytes without copying them.
func (d *Decoder) Raw(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > d.Len() {
		d.Fail("want %d bytes, have %d", n, d.Len())
		return nil
	}
	p := d.b[d.off : d.off+n : d.off+n]
	d.off += n
	return p
}

// Bytes reads a varint length and as many bytes, without copying them.
func (d *Decoder) Bytes() []byte { return d.Raw(d.Count(1)) }

// String reads a varint length and as many bytes as a new string.
func (d *Decoder) String() string { return string(d.Bytes()) }

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if p := d.Raw(1); p != nil {
		return p[0]
	}
	return 0
}

// U32 reads four bytes, little endian.
func (d *Decoder) U32() uint32 {
	if p := d.Raw(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

// U64 reads eight bytes, little endian.
func (d *Decoder) U64() uint64 {
	if p := d.Raw(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

// F32 reads a float32 by its bits.
func (d *Decoder) F32() float32 { return math.Float32frombits(d.U32()) }

// End fails unless every byte has been read.
func (d *Decoder) End() {
	if d.err == nil && d.Len() != 0 {
		d.Fail("%d bytes after the end", d.Len())
	}
}
