package embed

import (
	"cmp"
	"encoding/json"
	"io"
	"path"

	"github.com/quarrysearch/quarry/knowledge/embed/tokenize"
	"github.com/quarrysearch/quarry/storage"
)

// hubConfig is what this package reads of a hub directory's config.json.
type hubConfig struct {
	Name         string  `json:"_name_or_path"`
	ModelType    string  `json:"model_type"`
	HiddenAct    string  `json:"hidden_act"`
	Dim          int     `json:"hidden_size"`
	Heads        int     `json:"num_attention_heads"`
	Layers       int     `json:"num_hidden_layers"`
	Inner        int     `json:"intermediate_size"`
	Vocab        int     `json:"vocab_size"`
	Positions    int     `json:"max_position_embeddings"`
	PositionType string  `json:"position_embedding_type"`
	Epsilon      float64 `json:"layer_norm_eps"`
	Pad          *int    `json:"pad_token_id"`
}

// maxJSON bounds the small files of a hub directory, and the tokenizer's.
const (
	maxJSON      = 1 << 20
	maxTokenizer = 64 << 20
)

// hubDir reads the files of a directory laid out as on the hub.
type hubDir struct {
	fs  storage.FS
	dir string
}

// read returns the bytes of a file, nil when there is none.
func (h hubDir) read(name string, limit int64) ([]byte, error) {
	path := h.dir + "/" + name
	size, err := h.fs.Stat(path)
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, storage.Invalidf("%s has %d bytes, want at most %d", path, size, limit)
	}
	f, err := h.fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) && err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
}

// json decodes a file; found is false when there is none.
func (h hubDir) json(name string, v any) (found bool, err error) {
	if _, err := h.fs.Stat(h.dir + "/" + name); err != nil {
		return false, nil
	}
	b, err := h.read(name, maxJSON)
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, storage.Corruptf(h.dir+"/"+name, 0, "%v", err)
	}
	return true, nil
}

// LoadDir makes a model of a directory as the hub lays it out: config.json,
// model.safetensors, tokenizer.json or vocab.txt, and, where the directory has
// them, the settings of sentence-transformers (1_Pooling/config.json,
// sentence_bert_config.json, config_sentence_transformers.json). Weights are
// quantized to 8 bits while they are read. What p sets wins over the files;
// nil takes the profile of the name that config.json gives, or of the
// directory's, if there is one.
//
// A directory of a cross-encoder (BertForSequenceClassification or
// XLMRobertaForSequenceClassification with one label) gives a Model for
// NewCrossEncoder.
func LoadDir(fs storage.FS, dir string, p *Profile) (*Model, error) {
	h := hubDir{fs: fs, dir: dir}
	c, known, err := h.config(p)
	if err != nil {
		return nil, err
	}
	tok, err := h.tokenizer()
	if err != nil {
		return nil, err
	}
	path := dir + "/model.safetensors"
	mapping, err := fs.Map(path)
	if err != nil {
		return nil, err
	}
	var m *Model
	err = storage.Guard(func() error {
		src, err := parseSafetensors(path, mapping.Bytes())
		if err != nil {
			return err
		}
		if c.Revision = known.Revision; c.Revision == "" {
			c.Revision = revision(mapping.Bytes())
		}
		if m, err = build(*c, tok, src); err == nil && (src.has("classifier") || src.has("classifier.out_proj")) {
			m.head, err = readHead(c.Dim, src)
		}
		return err
	})
	if e := mapping.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// config reads the files of settings.
func (h hubDir) config(p *Profile) (*Config, *Profile, error) {
	var hc hubConfig
	found, err := h.json("config.json", &hc)
	if err == nil && !found {
		_, err = h.read("config.json", maxJSON)
	}
	if err != nil {
		return nil, nil, err
	}
	c := &Config{Name: hc.Name, Dim: hc.Dim, Heads: hc.Heads, Layers: hc.Layers, Inner: hc.Inner, Vocab: hc.Vocab,
		Positions: hc.Positions, Epsilon: float32(hc.Epsilon)}
	switch hc.ModelType {
	case "bert":
	case "xlm-roberta", "roberta":
		c.PositionOffset = 2
		if hc.Pad != nil {
			c.PositionOffset = *hc.Pad + 1
		}
		c.Positions -= c.PositionOffset
	default:
		return nil, nil, storage.Invalidf("%s: model type %q: want bert or xlm-roberta", h.dir, hc.ModelType)
	}
	if hc.HiddenAct != "gelu" {
		return nil, nil, storage.Invalidf("%s: activation %q: want gelu", h.dir, hc.HiddenAct)
	}
	if hc.PositionType != "" && hc.PositionType != "absolute" {
		return nil, nil, storage.Invalidf("%s: position embeddings %q: want absolute", h.dir, hc.PositionType)
	}
	if err := h.usage(c); err != nil {
		return nil, nil, err
	}
	if p == nil {
		known, ok := FindProfile(path.Base(hc.Name))
		if !ok { // a fine-tuned model's own name is often its directory's only
			known, ok = FindProfile(path.Base(h.dir))
		}
		if !ok {
			c.Name = cmp.Or(c.Name, path.Base(h.dir))
			return c, new(Profile), nil
		}
		p = &known
	}
	limit := c.Limit
	p.apply(c, nil)
	if p.Limit == 0 {
		c.Limit = limit
	}
	return c, p, nil
}

// usage reads the settings of sentence-transformers.
func (h hubDir) usage(c *Config) error {
	var pool struct {
		CLS  bool `json:"pooling_mode_cls_token"`
		Mean bool `json:"pooling_mode_mean_tokens"`
	}
	found, err := h.json("1_Pooling/config.json", &pool)
	if err != nil {
		return err
	}
	if found && pool.CLS == pool.Mean {
		return storage.Invalidf("%s/1_Pooling/config.json: want pooling by the first token or by the mean", h.dir)
	}
	if pool.CLS {
		c.Pooling = CLSPooling
	}
	c.Limit = c.Positions
	var tok struct {
		Limit float64 `json:"model_max_length"` // 1e30 for none
	}
	if _, err := h.json("tokenizer_config.json", &tok); err != nil {
		return err
	}
	if tok.Limit >= 1 && tok.Limit < float64(c.Limit) {
		c.Limit = int(tok.Limit)
	}
	var sbert struct {
		Limit int `json:"max_seq_length"`
	}
	if _, err := h.json("sentence_bert_config.json", &sbert); err != nil {
		return err
	}
	if sbert.Limit > 0 {
		c.Limit = min(sbert.Limit, c.Positions)
	}
	var prompts struct {
		Prompts map[string]string `json:"prompts"`
	}
	if _, err := h.json("config_sentence_transformers.json", &prompts); err != nil {
		return err
	}
	c.QueryPrefix = prompts.Prompts["query"]
	c.PassagePrefix = prompts.Prompts["passage"]
	return nil
}

// tokenizer reads tokenizer.json, or vocab.txt with the case rule of
// tokenizer_config.json.
func (h hubDir) tokenizer() (tokenize.Tokenizer, error) {
	if _, err := h.fs.Stat(h.dir + "/tokenizer.json"); err == nil {
		b, err := h.read("tokenizer.json", maxTokenizer)
		if err != nil {
			return nil, err
		}
		return tokenize.LoadTokenizerJSON(b)
	}
	b, err := h.read("vocab.txt", maxTokenizer)
	if err != nil {
		return nil, err
	}
	var tc struct {
		Lower *bool `json:"do_lower_case"`
	}
	if _, err := h.json("tokenizer_config.json", &tc); err != nil {
		return nil, err
	}
	return tokenize.LoadVocab(b, tc.Lower == nil || *tc.Lower)
}
