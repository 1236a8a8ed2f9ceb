package pdf

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"encoding/ascii85"
	"io"
)

// decode undoes the filters of a stream. What an encoder broke off is kept: half
// a page is better than none. Image filters give no bytes.
func (f *file) decode(s *stream) ([]byte, bool) {
	b := s.raw
	if f.crypt != nil && s.dict["Type"] != name("XRef") {
		b = f.crypt.stream(b, s)
	}
	filters, params := f.list(s.dict["Filter"], s.dict["F"]), f.list(s.dict["DecodeParms"], s.dict["DP"])
	if len(filters) > 8 || len(filters) == 0 && !f.spend(len(b)) {
		return nil, false
	}
	for i, o := range filters {
		var p dict
		if i < len(params) {
			p = f.dict(params[i])
		}
		out, ok := f.filter(f.name(o), p, b)
		if !ok || f.stop != nil {
			return nil, false
		}
		b = out
	}
	return b, true
}

// list makes a list of one object or an array; b is the short key's value.
func (f *file) list(a, b any) array {
	o := f.resolve(a)
	if o == nil {
		o = f.resolve(b)
	}
	switch o := o.(type) {
	case array:
		return o
	case nil:
		return nil
	}
	return array{o}
}

func (f *file) filter(n name, p dict, b []byte) ([]byte, bool) {
	switch n {
	case "FlateDecode", "Fl":
		return f.predict(f.inflate(b), p), true
	case "LZWDecode", "LZW":
		early := 1
		if v, ok := f.resolve(p["EarlyChange"]).(int); ok {
			early = v
		}
		return f.predict(f.lzw(b, early), p), true
	case "ASCIIHexDecode", "AHx":
		l := lexer{b: append([]byte("<"), b...)}
		return []byte(l.hex()), f.spend(len(b) / 2)
	case "ASCII85Decode", "A85":
		return f.ascii85(b), true
	case "RunLengthDecode", "RL":
		return f.runLength(b), true
	case "Crypt":
		return b, true
	}
	return nil, false
}

// spend counts decoded bytes against the budget of the file.
func (f *file) spend(n int) bool {
	if f.decoded += n; f.decoded > f.limits.Decoded && f.stop == nil {
		f.stop = f.tooMuch()
	}
	return f.stop == nil
}

func (f *file) inflate(b []byte) []byte {
	var r io.Reader
	z, err := zlib.NewReader(bytes.NewReader(b))
	if err == nil {
		r = z
	} else if len(b) > 2 {
		r = flate.NewReader(bytes.NewReader(b[2:])) // a damaged header
	} else {
		return nil
	}
	var out bytes.Buffer
	_, _ = io.Copy(&out, io.LimitReader(r, int64(f.limits.Decoded-f.decoded)+1))
	f.spend(out.Len())
	return out.Bytes()
}

func (f *file) ascii85(b []byte) []byte {
	b = bytes.TrimPrefix(bytes.TrimSpace(b), []byte("<~"))
	if i := bytes.IndexByte(b, '~'); i >= 0 {
		b = b[:i]
	}
	var out bytes.Buffer
	_, _ = io.Copy(&out, io.LimitReader(ascii85.NewDecoder(bytes.NewReader(b)), int64(f.limits.Decoded-f.decoded)+1))
	f.spend(out.Len())
	return out.Bytes()
}

func (f *file) runLength(b []byte) []byte {
	var out []byte
	for i := 0; i < len(b); {
		n := int(b[i])
		i++
		switch {
		case n == 128:
			f.spend(len(out))
			return out
		case n < 128:
			end := min(len(b), i+n+1)
			out = append(out, b[i:end]...)
			i = end
		case i < len(b):
			out = append(out, bytes.Repeat(b[i:i+1], 257-n)...)
			i++
		}
		if len(out) > f.limits.Decoded {
			break
		}
	}
	f.spend(len(out))
	return out
}

// lzw is the variant of TIFF and PDF: codes grow one code early. The standard
// library's cannot do that.
func (f *file) lzw(b []byte, early int) []byte {
	const clear, end = 256, 257
	type link struct {
		prev int16
		last byte
	}
	var table [4096]link
	var buf [4096]byte
	var out []byte
	next, width, prev := 258, uint(9), -1
	bits, acc := uint(0), uint32(0)
	for _, c := range b {
		acc, bits = acc<<8|uint32(c), bits+8
		if bits < width {
			continue
		}
		bits -= width
		code := int(acc>>bits) & (1<<width - 1)
		switch {
		case code == clear:
			next, width, prev = 258, 9, -1
			continue
		case code == end || code > next || code == next && prev < 0:
			f.spend(len(out))
			return out
		}
		// Walk the chain backwards; a code being defined is its predecessor plus
		// that one's first byte.
		n, at := len(buf), code
		if code == next {
			n--
			at = prev
		}
		for at >= 258 && n > 0 {
			n--
			buf[n] = table[at].last
			at = int(table[at].prev)
		}
		if n--; n < 0 {
			break
		}
		buf[n] = byte(at)
		if code == next {
			buf[len(buf)-1] = buf[n]
		}
		out = append(out, buf[n:]...)
		if prev >= 0 && next < 4096 {
			table[next] = link{prev: int16(prev), last: buf[n]}
			next++
		}
		prev = code
		if next+early >= 1<<width && width < 12 {
			width++
		}
		if len(out) > f.limits.Decoded {
			break
		}
	}
	f.spend(len(out))
	return out
}

// predict undoes PNG and TIFF prediction.
func (f *file) predict(b []byte, p dict) []byte {
	kind := f.int(p["Predictor"])
	if kind < 2 {
		return b
	}
	param := func(k name, def int) int {
		if v := f.int(p[k]); v > 0 && v < 1<<20 {
			return v
		}
		return def
	}
	bpp := (param("Colors", 1)*param("BitsPerComponent", 8) + 7) / 8
	row := (param("Colors", 1)*param("BitsPerComponent", 8)*param("Columns", 1) + 7) / 8
	if row <= 0 || row > len(b)+1 || bpp > row {
		return b
	}
	if kind == 2 {
		for at := 0; at+row <= len(b) && param("BitsPerComponent", 8) == 8; at += row {
			for i := bpp; i < row; i++ {
				b[at+i] += b[at+i-bpp]
			}
		}
		return b
	}
	out := make([]byte, 0, len(b))
	prev := make([]byte, row)
	for len(b) > 1 {
		n := min(row, len(b)-1)
		cur := b[1 : 1+n]
		unfilter(b[0], cur, prev, bpp)
		out = append(out, cur...)
		prev = append(prev[:0], cur...)
		b = b[1+n:]
		if n < row {
			break
		}
	}
	return out
}

func unfilter(kind byte, cur, prev []byte, bpp int) {
	for i := range cur {
		var left, corner int
		if i >= bpp {
			left, corner = int(cur[i-bpp]), int(prev[i-bpp])
		}
		up := int(prev[i])
		switch kind {
		case 1:
			cur[i] += byte(left)
		case 2:
			cur[i] += byte(up)
		case 3:
			cur[i] += byte((left + up) / 2)
		case 4:
			p := left + up - corner
			a, b, c := abs(p-left), abs(p-up), abs(p-corner)
			switch {
			case a <= b && a <= c:
				cur[i] += byte(left)
			case b <= c:
				cur[i] += byte(up)
			default:
				cur[i] += byte(corner)
			}
		}
	}
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
