package bgesmall

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/quarrysearch/quarry/knowledge/embed"
)

func newEmbedder(t testing.TB, o *embed.Options) *embed.Local {
	t.Helper()
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// golden are the vectors of package embed's golden file (ONNX Runtime in
// float32 on the same weights).
func golden(t *testing.T) (texts []string, vectors map[string][][]float32) {
	t.Helper()
	b, err := os.ReadFile("../testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		Texts  []string
		Models map[string]map[string][][]float32
	}
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	return g.Texts, g.Models["bge-small-en-v1.5-q"]
}

func TestGoldenVectors(t *testing.T) {
	texts, vectors := golden(t)
	e := newEmbedder(t, nil)
	dim := e.Identity().Dim
	for _, kind := range []embed.Kind{embed.Passage, embed.Query} {
		want := vectors[kind.String()]
		if len(want) != len(texts) {
			t.Fatalf("%d golden vectors of %d texts", len(want), len(texts))
		}
		r, err := e.Embed(context.Background(), kind, texts)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			var dot, norm float64
			for j, v := range want[i] {
				dot += float64(v) * float64(r.Vectors[i*dim+j])
				norm += float64(v) * float64(v)
			}
			if cos := dot / math.Sqrt(norm); cos < 0.995 {
				t.Errorf("%s %q: cosine %.5f", kind, texts[i], cos)
			}
		}
	}
}

// vectorsHash is the same on every processor and with every build tag.
const vectorsHash = 0x3b96f9a0dcb20715

func TestVectorsAreTheSameEverywhere(t *testing.T) {
	texts, _ := golden(t)
	texts = append(texts, texts[0]+" "+texts[1]+" "+texts[0])
	r, err := newEmbedder(t, nil).Embed(context.Background(), embed.Passage, texts)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for _, v := range r.Vectors {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	if got := xxhash.Sum64(b); got != vectorsHash {
		t.Errorf("checksum of the vectors %#x, want %#x", got, uint64(vectorsHash))
	}
}

// fileSHA256 is the checksum that ORIGIN.md gives.
const fileSHA256 = "63a925fd4fcf4d1bc50cc5edd737b0770bf5f8b2a84a1603981e9bcb408eb3e2"

func TestFile(t *testing.T) {
	if sum := sha256.Sum256([]byte(file)); hex.EncodeToString(sum[:]) != fileSHA256 {
		t.Errorf("sha256 %x, want %s", sum, fileSHA256)
	}
	if len(file) > 36_000_000 {
		t.Errorf("%d bytes, want at most 36 MB", len(file))
	}
	e := newEmbedder(t, nil)
	if err := e.Model().Verify(context.Background()); err != nil {
		t.Error(err)
	}
	id := e.Identity()
	if id.Dim != 384 || id.QueryPrefix == "" || id.PassagePrefix != "" || id.Floor != 0.41 {
		t.Errorf("identity %+v", id)
	}
}
