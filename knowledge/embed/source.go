package embed

import (
	"fmt"
	"math"

	"github.com/quarrysearch/quarry/storage"
)

// A source gives the tensors of a model by the names they have on the hub,
// without a leading "bert." or "roberta.".
type source interface {
	// vector returns a tensor of n floats.
	vector(name string, n int) ([]float32, error)
	// matrix returns a tensor of rows × cols, a row for each output.
	matrix(name string, rows, cols int) (matrix, error)
}

// A matrix is read row by row, so that no second copy of a model in floats is
// ever whole in memory.
type matrix struct {
	rows, cols int
	// floats writes row i to dst.
	floats func(i int, dst []float32)
	// codes writes row i as exact 8-bit codes to dst, floats being
	// scale·code, or reports that it has none. It may be nil.
	codes func(i int, dst []int8) (scale float32, ok bool)
	// blocks returns row i in blocks of 4 bits (see q4Block), or is nil.
	blocks func(i int) []byte
}

// quantizedRow writes row i as codes and returns their scale: the source's own
// codes when it has such, otherwise codes of ±127 for the largest component.
func (m *matrix) quantizedRow(i int, dst []int8, buf []float32) float32 {
	if m.codes != nil {
		if scale, ok := m.codes(i, dst); ok {
			return scale
		}
	}
	m.floats(i, buf)
	return quantizeSymmetric(buf, dst)
}

// quantizeSymmetric writes x as codes of −127…127 and returns their scale.
func quantizeSymmetric(x []float32, dst []int8) float32 {
	var top float32
	for _, v := range x {
		top = max(top, float32(math.Abs(float64(v))))
	}
	if top < 1e-30 {
		clear(dst)
		return 0
	}
	inv := 127 / top
	for i, v := range x {
		dst[i] = int8(math.RoundToEven(float64(float32(v * inv))))
	}
	return top / 127
}

// checkFinite refuses what would make vectors of a model NaN. Magnitudes are
// bounded as well, so that no sum of products inside the encoder overflows.
func checkFinite(name string, x []float32) error {
	for i, v := range x {
		if !(v > -1e6 && v < 1e6) {
			return storage.Corruptf(name, int64(4*i), "component %d is %v", i, v)
		}
	}
	return nil
}

// names of the tensors of layer l.
func layerTensor(l int, part string) string { return fmt.Sprintf("encoder.layer.%d.%s", l, part) }

// halfToFloat converts an IEEE half-precision number.
func halfToFloat(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&31), uint32(h&0x3ff)
	switch exp {
	case 0: // zero or subnormal: frac · 2^-24, exact
		v := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// A q4Block is 32 weights of 4 bits in 18 bytes: a half-precision scale, then
// 16 bytes; byte j holds weight j in its low and weight j+16 in its high half,
// as value + 8.
const (
	q4Block = 18
	q4Len   = 32
)

// q4Floats writes the weights of a row of blocks.
func q4Floats(blocks []byte, dst []float32) {
	for len(dst) >= q4Len && len(blocks) >= q4Block {
		b := blocks[:q4Block]
		scale := halfToFloat(uint16(b[0]) | uint16(b[1])<<8)
		out := dst[:q4Len]
		for j, v := range b[2:] {
			out[j] = float32(int32(v&15)-8) * scale
			out[j+16] = float32(int32(v>>4)-8) * scale
		}
		dst, blocks = dst[q4Len:], blocks[q4Block:]
	}
}
