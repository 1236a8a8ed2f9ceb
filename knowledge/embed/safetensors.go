package embed

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"

	"github.com/quarrysearch/quarry/storage"
)

// safetensors is a source over a .safetensors file: eight bytes of header
// length, a JSON header that names each tensor's type, shape and byte range,
// then the bytes. The format's definition is that of huggingface/safetensors.
type safetensors struct {
	file    string
	data    []byte // after the header
	tensors map[string]safetensor
}

type safetensor struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// maxSafetensorsHeader is the bound of the format's own reader, 100 MB, cut to
// what an encoder could need.
const maxSafetensorsHeader = 16 << 20

// size returns the bytes of an element, 0 for types this package does not read.
func (t *safetensor) size() int64 {
	switch t.DType {
	case "F32":
		return 4
	case "F16", "BF16":
		return 2
	}
	return 0
}

func parseSafetensors(file string, data []byte) (*safetensors, error) {
	if len(data) < 8 {
		return nil, storage.Corruptf(file, 0, "no header")
	}
	n := binary.LittleEndian.Uint64(data)
	if n > uint64(len(data)-8) || n > maxSafetensorsHeader {
		return nil, storage.Corruptf(file, 0, "a header of %d bytes in a file of %d", n, len(data))
	}
	var head map[string]json.RawMessage
	if err := json.Unmarshal(data[8:8+n], &head); err != nil {
		return nil, storage.Corruptf(file, 8, "header: %v", err)
	}
	s := &safetensors{file: file, data: data[8+n:], tensors: make(map[string]safetensor, len(head))}
	for name, raw := range head {
		if name == "__metadata__" {
			continue
		}
		var t safetensor
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, storage.Corruptf(file, 8, "tensor %q: %v", name, err)
		}
		if t.Offsets[0] < 0 || t.Offsets[1] < t.Offsets[0] || t.Offsets[1] > int64(len(s.data)) {
			return nil, storage.Corruptf(file, 8, "tensor %q at bytes %d to %d of %d", name, t.Offsets[0], t.Offsets[1], len(s.data))
		}
		for _, prefix := range []string{"bert.", "roberta.", "model."} {
			name = strings.TrimPrefix(name, prefix)
		}
		s.tensors[name] = t
	}
	return s, nil
}

// has reports whether there is a weight of that name.
func (s *safetensors) has(name string) bool {
	_, ok := s.tensors[name+".weight"]
	return ok
}

// find returns a tensor of rows × cols elements; a negative rows stands for
// any number.
func (s *safetensors) find(name string, rows, cols int) (*safetensor, []byte, error) {
	t, ok := s.tensors[name]
	if !ok {
		return nil, nil, storage.Corruptf(s.file, 8, "no tensor %q", name)
	}
	size := t.size()
	if size == 0 {
		return nil, nil, storage.Invalidf("%s: tensor %q is of type %s: want F32, F16 or BF16", s.file, name, t.DType)
	}
	have := (t.Offsets[1] - t.Offsets[0]) / size
	if rows < 0 && cols > 0 {
		rows = int(have) / cols
	}
	if rows < 1 || have < int64(rows)*int64(cols) || len(t.Shape) > 0 && t.Shape[len(t.Shape)-1] != cols {
		return nil, nil, storage.Corruptf(s.file, 8+t.Offsets[0], "tensor %q of shape %v and %d elements: want %d × %d", name, t.Shape, have, rows, cols)
	}
	return &t, s.data[t.Offsets[0] : t.Offsets[0]+int64(rows)*int64(cols)*size], nil
}

// floats converts the elements from first on.
func (t *safetensor) floats(b []byte, first int, dst []float32) {
	for i := range dst {
		switch at := first + i; t.DType {
		case "F32":
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*at:]))
		case "F16":
			dst[i] = halfToFloat(binary.LittleEndian.Uint16(b[2*at:]))
		case "BF16":
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*at:])) << 16)
		}
	}
}

func (s *safetensors) vector(name string, n int) ([]float32, error) {
	t, b, err := s.find(name, 1, n)
	if err != nil {
		return nil, err
	}
	v := make([]float32, n)
	t.floats(b, 0, v)
	return v, nil
}

func (s *safetensors) matrix(name string, rows, cols int) (matrix, error) {
	t, b, err := s.find(name, rows, cols)
	if err != nil {
		return matrix{}, err
	}
	rows = len(b) / int(t.size()) / cols
	return matrix{rows: rows, cols: cols, floats: func(i int, dst []float32) { t.floats(b, i*cols, dst[:cols]) }}, nil
}
