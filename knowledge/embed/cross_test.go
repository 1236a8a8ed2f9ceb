package embed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/quarrysearch/quarry/storage"
)

// crossGolden is what _gen/cross.py says about the two cross-encoders of random
// weights beside it: logits of PyTorch in float32.
type crossGolden struct {
	Query, Passage string
	IDs            []int32
	Cut            bool
	Logit          float64
}

func readCross(t testing.TB, name string) (*Model, []crossGolden) {
	t.Helper()
	m, err := LoadDir(storage.OS{}, "testdata/cross/"+name, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("testdata/cross/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g map[string][]crossGolden
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	return m, g[name]
}

func newCross(t testing.TB, m *Model, o *Options) *CrossEncoder {
	t.Helper()
	c, err := NewCrossEncoder(m, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pairs(t testing.TB, c *CrossEncoder, query string, passages ...string) PairResult {
	t.Helper()
	r, err := c.Pairs(context.Background(), query, passages)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Tokens and cuts are those of transformers, logits those of PyTorch: in float32
// to 1e-4; with 8-bit codes to a tenth of their spread, since errors cancel out
// little in so small a model.
func TestCrossEncoderIsTheReferences(t *testing.T) {
	for _, name := range []string{"bert", "roberta"} {
		m, golden := readCross(t, name)
		src := crossSource(t, name)
		c := m.config
		if name == "roberta" {
			c.PositionOffset = 2
		}
		ref, err := newReference(c, src)
		if err != nil {
			t.Fatal(err)
		}
		cross := newCross(t, m, nil)
		var worst, worstRef, low, high float64
		for _, g := range golden {
			in := m.pair(m.tokenizer.Tokenize(nil, g.Query), m.tokenizer.Tokenize(nil, g.Passage))
			if !slices.Equal(in.ids, g.IDs) || in.cut != g.Cut {
				t.Errorf("%s, %q, %q: tokens %v, cut %v, want %v, %v", name, g.Query, g.Passage, in.ids, in.cut, g.IDs, g.Cut)
				continue
			}
			r := pairs(t, cross, g.Query, g.Passage)
			if cut := len(r.Truncated) == 1; cut != g.Cut {
				t.Errorf("%s, %q: truncated %v", name, g.Passage, r.Truncated)
			}
			worst = max(worst, math.Abs(r.Logits[0]-g.Logit))
			worstRef = max(worstRef, math.Abs(ref.logit(in.ids, in.second, m.head)-g.Logit))
			low, high = min(low, g.Logit), max(high, g.Logit)
		}
		t.Logf("%s: logits from %.2f to %.2f, off by at most %.5f in float32, %.5f in 8 bits", name, low, high, worstRef, worst)
		if worstRef > 1e-4 || worst > (high-low)/10 {
			t.Errorf("%s: off by %.5f in float32, %.5f in 8 bits, of a spread of %.3f", name, worstRef, worst, high-low)
		}
	}
}

func crossSource(t testing.TB, name string) *safetensors {
	t.Helper()
	b, err := os.ReadFile("testdata/cross/" + name + "/model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	src, err := parseSafetensors(name, b)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// Any batch, order and number of workers, from the directory or the compact
// file: the same bits.
func TestCrossEncoderDoesNotDependOnTheBatch(t *testing.T) {
	for _, name := range []string{"bert", "roberta"} {
		m, golden := readCross(t, name)
		var passages []string
		for _, g := range golden {
			passages = append(passages, g.Passage)
		}
		const query = "how is the lamp repaired?"
		one := newCross(t, m, &Options{Workers: 1})
		var want []float64
		for _, p := range passages {
			want = append(want, pairs(t, one, query, p).Logits...)
		}
		compact, err := ParseModel("x", compactBytes(t, m))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*CrossEncoder{
			newCross(t, m, nil), newCross(t, m, &Options{Workers: 2, BatchTokens: 40}),
			newCross(t, m, &Options{Workers: 5, BatchTokens: 1}), newCross(t, compact, nil),
		} {
			if got := pairs(t, c, query, passages...).Logits; !slices.Equal(got, want) {
				t.Errorf("%s: other logits", name)
			}
		}
		if !slices.Equal(pairs(t, one, query, passages...).Truncated, pairs(t, newCross(t, compact, nil), query, passages...).Truncated) {
			t.Errorf("%s: others are truncated", name)
		}
	}
}

func TestCrossEncoderRefuses(t *testing.T) {
	m, _ := readCross(t, "bert")
	if _, err := NewLocal(m, nil); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("an embedder of a cross-encoder: %v", err)
	}
	plain, _ := tinyModel(t, tiny())
	if !m.IsCrossEncoder() || plain.IsCrossEncoder() {
		t.Error("IsCrossEncoder")
	}
	if _, err := NewCrossEncoder(plain, nil); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("a cross-encoder without a head: %v", err)
	}
	if _, err := NewCrossEncoder(m, &Options{Workers: -1}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("workers: %v", err)
	}
	short := *m
	short.config.Limit = 4
	if _, err := NewCrossEncoder(&short, nil); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("a limit of 4: %v", err)
	}
	c := newCross(t, m, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r, err := c.Pairs(ctx, "x", []string{"y"}); !errors.Is(err, context.Canceled) || r.Logits != nil {
		t.Errorf("canceled: %v, %v", r, err)
	}
	if r := pairs(t, c, "x"); len(r.Logits) != 0 {
		t.Errorf("no passages: %v", r)
	}
}

// A head that is damaged, cut, of several labels or not finite.
func TestCrossEncoderDamage(t *testing.T) {
	for name, change := range map[string]func(f *fakeSource){
		"three labels": func(f *fakeSource) {
			f.tensors["classifier.weight"], f.shapes["classifier.weight"] = make([]float32, 192), []int{3, 64}
		},
		"NaN":       func(f *fakeSource) { f.tensors["pooler.dense.weight"][70] = float32(math.NaN()) },
		"no pooler": func(f *fakeSource) { delete(f.tensors, "pooler.dense.bias") },
		"shape":     func(f *fakeSource) { f.shapes["pooler.dense.weight"] = []int{32, 128} },
	} {
		f := crossFake()
		change(f)
		files := hubFiles(f.c, f)
		if _, err := LoadDir(hubFS(t, files), "hub", nil); !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := crossFake()
	m, err := LoadDir(hubFS(t, hubFiles(f.c, f)), "hub", nil)
	if err != nil {
		t.Fatal(err)
	}
	data := compactBytes(t, m)
	sections, err := parseSections("x", data)
	if err != nil {
		t.Fatal(err)
	}
	head := sections[secHead]
	for _, at := range []int64{0, 1, 5, int64(len(head.data) - 1)} {
		b := bytes.Clone(data)
		b[head.off+at] ^= 0x40
		if _, err := ParseModel("x", b); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("byte %d of the head: %v", at, err)
		}
	}
	for _, bad := range [][]byte{nil, head.data[:8], append([]byte{3, 0, 0, 0}, head.data[4:]...)} {
		r := &fileReader{name: "x", sections: map[string]section{secHead: {data: bad}}}
		if _, err := r.head(64); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("a head of %d bytes: %v", len(bad), err)
		}
	}
}

// crossFake is the tiny model with BERT's head.
func crossFake() *fakeSource {
	f := newFake(tiny())
	f.add("pooler.dense.weight", 0, 0.2, 64, 64)
	f.add("pooler.dense.bias", 0, 0.1, 64)
	f.add("classifier.weight", 0, 0.3, 1, 64)
	f.add("classifier.bias", 0, 0.1, 1)
	return f
}

func TestFitPair(t *testing.T) {
	for n := range 12 {
		for k := range 12 {
			for room := range 12 {
				// The reference's own words: take from the longer one, token
				// by token; of equals, from the query.
				wantN, wantK := n, k
				for wantN+wantK > room {
					if wantN > wantK || wantN == wantK && n <= k {
						wantN--
					} else {
						wantK--
					}
				}
				if gotN, gotK := fitPair(n, k, room); gotN != wantN || gotK != wantK {
					t.Errorf("fitPair(%d, %d, %d) = %d, %d, want %d, %d", n, k, room, gotN, gotK, wantN, wantK)
				}
			}
		}
	}
}

func TestTanh(t *testing.T) {
	for x := -25.0; x < 25; x += 0.0137 {
		if got, want := tanh(x), math.Tanh(x); math.Abs(got-want) > 4e-16 {
			t.Fatalf("tanh(%v) = %v, want %v", x, got, want)
		}
	}
	if tanh(0) != 0 {
		t.Error("tanh(0) is not 0")
	}
}
