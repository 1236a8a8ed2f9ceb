package embed

import (
	"math"

	"github.com/quarrysearch/quarry/storage"
)

// A Pooling makes one vector of the token vectors of a text.
type Pooling uint8

// The ways of pooling.
const (
	// MeanPooling is the mean over all tokens, special ones included.
	MeanPooling Pooling = iota
	// CLSPooling takes the vector of the first token.
	CLSPooling
)

// A Config describes an encoder: its shape, and how it is to be used. All of it
// is stored in the compact file.
type Config struct {
	// Name and Revision of the model: see Identity.
	Name, Revision string
	// Dim is the width of a token vector, a multiple of 32; Heads divides it
	// into parts that are a multiple of 16.
	Dim, Heads int
	// Layers of the encoder, and the width inside their feed-forward step, a
	// multiple of 32.
	Layers, Inner int
	// Vocab is the number of rows of the token table.
	Vocab int
	// Positions is the number of rows of the position table that can be used;
	// PositionOffset is the row of the first token: 0 for BERT, 2 for
	// XLM-RoBERTa. It matters to the converter only: in the compact file the
	// table starts with the first token's row.
	Positions, PositionOffset int
	// Epsilon of the layer normalizations.
	Epsilon float32
	// Pooling of the token vectors.
	Pooling Pooling
	// Limit is the number of tokens of a text, prefix and special tokens
	// included, at which it is cut; at most Positions.
	Limit int
	// QueryPrefix and PassagePrefix are put before the texts.
	QueryPrefix, PassagePrefix string
	// Floor is the similarity of unrelated texts: see Identity and
	// MeasureFloor.
	Floor float64
}

// Bounds of the shapes this package reads: generous for encoders one would run
// on a processor, and small enough that no product of two overflows.
const (
	maxDim       = 4096
	maxInner     = 16384
	maxLayers    = 64
	maxVocab     = 1 << 20
	maxPositions = 1 << 14
)

// Validate reports the first rule that the Config breaks; the error matches
// storage.ErrInvalid.
func (c *Config) Validate() error {
	for _, r := range []struct {
		ok   bool
		what string
		have any
	}{
		{c.Dim >= 32 && c.Dim <= maxDim && c.Dim%32 == 0, "dimension (a multiple of 32 up to 4096)", c.Dim},
		{c.Heads >= 1 && c.Dim%c.Heads == 0 && c.Dim/c.Heads%16 == 0, "number of heads (dimension/heads a multiple of 16)", c.Heads},
		{c.Layers >= 1 && c.Layers <= maxLayers, "number of layers (1 to 64)", c.Layers},
		{c.Inner >= 32 && c.Inner <= maxInner && c.Inner%32 == 0, "inner width (a multiple of 32 up to 16384)", c.Inner},
		{c.Vocab >= 1 && c.Vocab <= maxVocab, "vocabulary size (1 to 1048576)", c.Vocab},
		{c.Positions >= 3 && c.Positions <= maxPositions, "number of positions (3 to 16384)", c.Positions},
		{c.PositionOffset >= 0 && c.PositionOffset <= maxPositions, "position offset", c.PositionOffset},
		{c.Limit >= 3 && c.Limit <= c.Positions, "limit of tokens (3 to the number of positions)", c.Limit},
		{c.Epsilon > 0 && c.Epsilon < 1, "epsilon (above 0, below 1)", c.Epsilon},
		{c.Pooling <= CLSPooling, "pooling", c.Pooling},
		{c.Floor >= 0 && c.Floor < 1, "floor (0 up to 1)", c.Floor},
	} {
		if !r.ok {
			return storage.Invalidf("model %q: %s: %v", c.Name, r.what, r.have)
		}
	}
	return nil
}

const configVersion = 1

// append appends the record of the compact file's section config.
func (c *Config) append(b []byte) []byte {
	b = storage.AppendUvarint(b, configVersion)
	b = storage.AppendBytes(b, c.Name)
	b = storage.AppendBytes(b, c.Revision)
	for _, v := range []int{c.Dim, c.Heads, c.Layers, c.Inner, c.Vocab, c.Positions, c.Limit, int(c.Pooling)} {
		b = storage.AppendUvarint(b, uint64(v))
	}
	b = storage.AppendF32(b, c.Epsilon)
	b = storage.AppendBytes(b, c.QueryPrefix)
	b = storage.AppendBytes(b, c.PassagePrefix)
	return storage.AppendU64(b, math.Float64bits(c.Floor))
}

// parseConfig reads the record that append wrote.
func parseConfig(name string, data []byte) (*Config, error) {
	d := storage.NewDecoder(name, 0, data)
	if v := d.Uvarint(); d.Err() == nil && v != configVersion {
		return nil, &storage.VersionError{File: name, Have: uint32(min(v, math.MaxUint32)), Min: configVersion, Max: configVersion}
	}
	c := &Config{Name: d.String(), Revision: d.String()}
	for _, p := range []*int{&c.Dim, &c.Heads, &c.Layers, &c.Inner, &c.Vocab, &c.Positions, &c.Limit} {
		*p = int(min(d.Uvarint(), math.MaxInt32))
	}
	c.Pooling = Pooling(min(d.Uvarint(), math.MaxUint8))
	c.Epsilon = d.F32()
	c.QueryPrefix, c.PassagePrefix = d.String(), d.String()
	c.Floor = math.Float64frombits(d.U64())
	if d.End(); d.Err() != nil {
		return nil, d.Err()
	}
	if err := c.Validate(); err != nil {
		return nil, storage.Corruptf(name, 0, "%v", err)
	}
	return c, nil
}
