package embed

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/quarrysearch/quarry/storage"
)

// onnx is a source over an ONNX file of a BERT or XLM-RoBERTa encoder, exported
// from PyTorch and either plain (MatMul) or quantized for integers
// (MatMulInteger with zero points and scales). Only the graph's initializers
// are used, and of its nodes only the names that tie weights to layers.
type onnx struct {
	file    string
	tensors map[string]*onnxTensor
	// weight maps a hub name of a weight to the initializer that holds it,
	// inputs × outputs.
	weight map[string]string
}

// Types of elements (TensorProto.DataType) that this package reads.
const (
	onnxFloat = 1
	onnxUint8 = 2
	onnxInt8  = 3
	onnxHalf  = 10
)

type onnxTensor struct {
	dims   []int64
	kind   int
	raw    []byte // little endian
	off    int64
	floats []byte  // packed float_data
	ints   []int64 // int32_data
}

// elements is the product of the dimensions, or −1 when it is absurd.
func (t *onnxTensor) elements() int64 {
	n := int64(1)
	for _, d := range t.dims {
		if d < 0 || d > 1<<31 || n > 1<<31 {
			return -1
		}
		n *= d
	}
	return n
}

func parseONNX(file string, data []byte) (*onnx, error) {
	o := &onnx{file: file, tensors: map[string]*onnxTensor{}, weight: map[string]string{}}
	found := false
	err := pbEach(file, 0, data, func(f pbField, off int64) error {
		if f.number != 7 || !f.isBytes { // ModelProto.graph
			return nil
		}
		found = true
		return o.graph(f.bytes, off)
	})
	if err == nil && !found {
		err = storage.Corruptf(file, 0, "no graph")
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (o *onnx) graph(b []byte, off int64) error {
	return pbEach(o.file, off, b, func(f pbField, off int64) error {
		switch {
		case f.number == 1 && f.isBytes: // node
			return o.node(f.bytes, off)
		case f.number == 5 && f.isBytes: // initializer
			return o.tensor(f.bytes, off)
		}
		return nil
	})
}

// node notes which initializer a matrix product uses. Its name is the path of
// the module, "/encoder/layer.0/attention/self/query/MatMul_quant".
func (o *onnx) node(b []byte, off int64) error {
	var inputs []string
	var name, op string
	err := pbEach(o.file, off, b, func(f pbField, _ int64) error {
		switch f.number {
		case 1:
			inputs = append(inputs, string(f.bytes))
		case 3:
			name = string(f.bytes)
		case 4:
			op = string(f.bytes)
		}
		return nil
	})
	if err != nil || op != "MatMul" && op != "MatMulInteger" || len(inputs) < 2 {
		return err
	}
	path := strings.TrimSuffix(strings.TrimSuffix(name, "_quant"), "/MatMul")
	path = hubName(strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "."))
	o.weight[path+".weight"] = strings.TrimSuffix(inputs[1], "_quantized")
	return nil
}

// hubName drops the name of the module that holds the encoder.
func hubName(name string) string {
	for _, prefix := range []string{"bert.", "roberta.", "model.", "0.auto_model."} {
		name = strings.TrimPrefix(name, prefix)
	}
	return name
}

func (o *onnx) tensor(b []byte, off int64) error {
	t := &onnxTensor{off: off}
	var name string
	err := pbEach(o.file, off, b, func(f pbField, off int64) (err error) {
		switch f.number {
		case 1:
			t.dims, err = pbVarints(o.file, off, f, t.dims)
		case 2:
			t.kind = int(min(f.value, 1<<20))
		case 4:
			t.floats = f.bytes
		case 5:
			t.ints, err = pbVarints(o.file, off, f, t.ints)
		case 8:
			name = string(f.bytes)
		case 9:
			t.raw, t.off = f.bytes, off
		case 13, 14:
			if f.number == 13 || f.value == 1 {
				err = storage.Invalidf("%s: tensor data in other files", o.file)
			}
		}
		return err
	})
	if err == nil {
		o.tensors[hubName(name)] = t
	}
	return err
}

// element returns element i as a float.
func (t *onnxTensor) element(i int) float32 {
	switch {
	case t.kind == onnxFloat && t.raw != nil:
		return math.Float32frombits(binary.LittleEndian.Uint32(t.raw[4*i:]))
	case t.kind == onnxFloat:
		return math.Float32frombits(binary.LittleEndian.Uint32(t.floats[4*i:]))
	case t.kind == onnxHalf:
		return halfToFloat(binary.LittleEndian.Uint16(t.raw[2*i:]))
	}
	return float32(t.integer(i))
}

// integer returns element i of a tensor of bytes.
func (t *onnxTensor) integer(i int) int32 {
	switch {
	case t.raw == nil:
		return int32(t.ints[i])
	case t.kind == onnxInt8:
		return int32(int8(t.raw[i]))
	}
	return int32(t.raw[i])
}

// get returns an initializer of at least n elements.
func (o *onnx) get(name string, n int64) (*onnxTensor, error) {
	t, ok := o.tensors[name]
	if !ok {
		return nil, storage.Corruptf(o.file, 0, "no tensor %q", name)
	}
	var have int64
	switch {
	case t.kind == onnxFloat && t.raw != nil:
		have = int64(len(t.raw) / 4)
	case t.kind == onnxFloat:
		have = int64(len(t.floats) / 4)
	case t.kind == onnxHalf:
		have = int64(len(t.raw) / 2)
	case (t.kind == onnxInt8 || t.kind == onnxUint8) && t.raw != nil:
		have = int64(len(t.raw))
	case t.kind == onnxInt8 || t.kind == onnxUint8:
		have = int64(len(t.ints))
	default:
		return nil, storage.Invalidf("%s: tensor %q is of type %d: want float, half, int8 or uint8", o.file, name, t.kind)
	}
	if want := t.elements(); want < 0 || have < want || have < n {
		return nil, storage.Corruptf(o.file, t.off, "tensor %q of shape %v and %d elements: want %d", name, t.dims, have, n)
	}
	return t, nil
}

func (o *onnx) vector(name string, n int) ([]float32, error) {
	t, err := o.get(name, int64(n))
	if err != nil {
		return nil, err
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = t.element(i)
	}
	return v, nil
}

// matrix returns a weight of a layer, which lies transposed in the file, or an
// embedding table.
func (o *onnx) matrix(name string, rows, cols int) (matrix, error) {
	base, transposed := o.weight[name]
	if !transposed {
		base = name
	}
	if _, ok := o.tensors[base+"_quantized"]; !ok {
		t, err := o.get(base, int64(max(rows, 1))*int64(cols))
		if err != nil {
			return matrix{}, err
		}
		at := o.index(t, &rows, cols, transposed)
		return matrix{rows: rows, cols: cols, floats: func(i int, dst []float32) {
			for j := range dst {
				dst[j] = t.element(at(i, j))
			}
		}}, nil
	}
	return o.quantized(base, rows, cols, transposed)
}

// index returns where element (row, col) lies.
func (o *onnx) index(t *onnxTensor, rows *int, cols int, transposed bool) func(i, j int) int {
	if *rows < 0 {
		*rows = int(t.elements()) / cols
	}
	n := *rows
	if transposed {
		return func(i, j int) int { return j*n + i }
	}
	return func(i, j int) int { return i*cols + j }
}

// quantized returns scale·(code − zero), with scale and zero for the whole
// tensor or for each output.
func (o *onnx) quantized(base string, rows, cols int, transposed bool) (matrix, error) {
	t, err := o.get(base+"_quantized", int64(max(rows, 1))*int64(cols))
	if err != nil {
		return matrix{}, err
	}
	scale, err := o.get(base+"_scale", 1)
	if err != nil {
		return matrix{}, err
	}
	zero, err := o.get(base+"_zero_point", 1)
	if err != nil {
		return matrix{}, err
	}
	if t.kind != onnxInt8 && t.kind != onnxUint8 || zero.kind != t.kind || scale.kind != onnxFloat {
		return matrix{}, storage.Invalidf("%s: tensor %q: types of codes, scale and zero point", o.file, base)
	}
	at := o.index(t, &rows, cols, transposed)
	per := func(v *onnxTensor, i int) int {
		if v.elements() == int64(rows) && rows > 1 && transposed {
			return i
		}
		return 0
	}
	return matrix{rows: rows, cols: cols,
		floats: func(i int, dst []float32) {
			s, z := scale.element(per(scale, i)), zero.integer(per(zero, i))
			for j := range dst {
				dst[j] = float32(t.integer(at(i, j))-z) * s
			}
		},
		codes: func(i int, dst []int8) (float32, bool) {
			z := zero.integer(per(zero, i))
			for j := range dst {
				v := t.integer(at(i, j)) - z
				if v < -128 || v > 127 {
					return 0, false
				}
				dst[j] = int8(v)
			}
			return scale.element(per(scale, i)), true
		}}, nil
}

// pbField is one field of a protocol-buffer message: a number for wire types 0,
// 1 and 5, bytes for type 2.
type pbField struct {
	number  int
	bytes   []byte
	value   uint64
	isBytes bool
}

// pbEach calls f for the fields of the message b, which starts at offset off
// of file. It stops at the first error.
func pbEach(file string, off int64, b []byte, f func(pbField, int64) error) error {
	for at := 0; at < len(b); {
		key, n := binary.Uvarint(b[at:])
		if n <= 0 || key>>3 == 0 || key>>3 > 1<<29 {
			return storage.Corruptf(file, off+int64(at), "bad field key")
		}
		at += n
		field := pbField{number: int(key >> 3)}
		left := uint64(len(b) - at)
		start := at
		switch key & 7 {
		case 0:
			if field.value, n = binary.Uvarint(b[at:]); n <= 0 {
				return storage.Corruptf(file, off+int64(at), "bad varint")
			}
			at += n
		case 1:
			if left < 8 {
				return storage.Corruptf(file, off+int64(at), "cut field")
			}
			field.value = binary.LittleEndian.Uint64(b[at:])
			at += 8
		case 5:
			if left < 4 {
				return storage.Corruptf(file, off+int64(at), "cut field")
			}
			field.value = uint64(binary.LittleEndian.Uint32(b[at:]))
			at += 4
		case 2:
			size, n := binary.Uvarint(b[at:])
			if n <= 0 || size > left-uint64(n) {
				return storage.Corruptf(file, off+int64(at), "cut field")
			}
			start = at + n
			at = start + int(size)
			field.bytes, field.isBytes = b[start:at:at], true
		default:
			return storage.Corruptf(file, off+int64(at), "wire type %d", key&7)
		}
		if err := f(field, off+int64(start)); err != nil {
			return err
		}
	}
	return nil
}

// pbVarints reads a repeated number: packed, or one of several single fields.
func pbVarints(file string, off int64, f pbField, dst []int64) ([]int64, error) {
	if !f.isBytes {
		return append(dst, int64(f.value)), nil
	}
	for b := f.bytes; len(b) > 0; {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, storage.Corruptf(file, off, "bad packed varint")
		}
		dst, b = append(dst, int64(v)), b[n:]
	}
	return dst, nil
}
