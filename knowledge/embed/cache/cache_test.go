package cache

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/tokenize"
	"github.com/quarrysearch/quarry/storage"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A model is an embedder that counts what it is asked for.
type model struct {
	mu    sync.Mutex
	id    embed.Identity
	texts map[string]int
	calls int
	err   func(texts []string) error
}

func newModel(dim int) *model {
	return &model{id: embed.Identity{Name: "m", Dim: dim, Metric: "cosine"}, texts: map[string]int{}}
}

func (m *model) Identity() embed.Identity { return m.id }

func (m *model) Embed(_ context.Context, kind embed.Kind, texts []string) (embed.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if m.err != nil {
		if err := m.err(texts); err != nil {
			return embed.Result{}, err
		}
	}
	var r embed.Result
	for i, t := range texts {
		m.texts[t]++
		r.Vectors = append(r.Vectors, m.vector(kind, t)...)
		if strings.HasPrefix(t, "long") {
			r.Truncated = append(r.Truncated, i)
		}
	}
	return r, nil
}

func (m *model) vector(kind embed.Kind, t string) []float32 {
	h := fnv.New64a()
	fmt.Fprint(h, m.id, kind, t)
	rng := rand.NewPCG(h.Sum64(), 0)
	v := make([]float32, m.id.Dim)
	for i := range v {
		v[i] = float32(rng.Uint64()>>40) / (1 << 24)
	}
	return v
}

func (m *model) asked() int {
	n := 0
	for _, c := range m.texts {
		n += c
	}
	return n
}

func texts(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("text %d", i))
	}
	return out
}

func open(t *testing.T, dir string, o Options) *Cache {
	t.Helper()
	c, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// get embeds through the cache and checks every vector bit for bit.
func get(t *testing.T, c *Cache, m *model, kind embed.Kind, in []string) embed.Result {
	t.Helper()
	r, err := c.Wrap(m).Embed(context.Background(), kind, in)
	if err != nil {
		t.Fatal(err)
	}
	var cut []int
	for i, text := range in {
		if got := r.Vectors[i*m.id.Dim : (i+1)*m.id.Dim]; !slices.Equal(got, m.vector(kind, text)) {
			t.Fatalf("text %d %q has another text's vector", i, text)
		}
		if strings.HasPrefix(text, "long") {
			cut = append(cut, i)
		}
	}
	if !slices.Equal(r.Truncated, cut) {
		t.Fatalf("truncated %v, want %v", r.Truncated, cut)
	}
	return r
}

func TestCache(t *testing.T) {
	dir := t.TempDir()
	m := newModel(16)
	c := open(t, dir, Options{Group: 7})
	in := []string{"a", "long b", "c", "a", "long b", "d", "a"}
	in = append(in, texts(0, 30)...)
	get(t, c, m, embed.Passage, in)
	if m.asked() != 34 || m.calls != 5 { // each text once, in groups of 7
		t.Errorf("%d texts in %d calls, want 34 in 5", m.asked(), m.calls)
	}
	get(t, c, m, embed.Passage, in)
	get(t, c, m, embed.Passage, []string{"d", "long b"})
	if s := c.Stats(); m.asked() != 34 || s.Misses != 34 || s.Hits != 3+37+2 || s.Entries != 34 || s.Logs != 1 {
		t.Errorf("%d texts, %+v", m.asked(), s)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	get(t, c, m, embed.Passage, []string{"d"}) // a closed cache is only no help
	c = open(t, dir, Options{})
	get(t, c, m, embed.Passage, in)
	if m.asked() != 35 || len(c.Notes()) != 0 {
		t.Errorf("after reopening: %d texts, %q", m.asked(), c.Notes())
	}
}

// Whatever changes the vectors changes the key; the floor does not.
func TestKey(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	base := embed.Identity{Name: "m", Revision: "1", Dim: 8, Metric: "cosine", QueryPrefix: "q", PassagePrefix: "p", Tokenizer: "t"}
	ids := []embed.Identity{base}
	for i := range 7 {
		id := base
		switch i {
		case 0:
			id.Name = "n"
		case 1:
			id.Revision = "2"
		case 2:
			id.Dim = 9
		case 3:
			id.Metric = "dot"
		case 4:
			id.QueryPrefix, id.PassagePrefix = "qp", ""
		case 5:
			id.PassagePrefix = ""
		case 6:
			id.Tokenizer = "u"
		}
		ids = append(ids, id)
	}
	for i, id := range ids {
		m := newModel(id.Dim)
		m.id = id
		get(t, c, m, embed.Passage, []string{"x"})
		get(t, c, m, embed.Query, []string{"x"})
		if m.asked() != 2 {
			t.Errorf("identity %d was answered with another's vectors", i)
		}
		m.id.Floor = .7
		if _, err := c.Wrap(m).Embed(context.Background(), embed.Passage, []string{"x"}); err != nil || m.asked() != 2 {
			t.Errorf("identity %d: the floor changes the key", i)
		}
	}
}

type textError struct{ i int }

func (e textError) Error() string      { return fmt.Sprintf("text %d: bad", e.i) }
func (e textError) TextIndex() int     { return e.i }
func (e textError) AtText(i int) error { return textError{i} }

func TestErrors(t *testing.T) {
	c := open(t, t.TempDir(), Options{Group: 2})
	m := newModel(4)
	get(t, c, m, embed.Passage, []string{"a", "b"})
	m.err = func(texts []string) error {
		if i := slices.Index(texts, "bad"); i >= 0 {
			return fmt.Errorf("batch: %w", textError{i})
		}
		return nil
	}
	// a and b are hits; c and d go first and are kept; "bad" is the second of
	// the second group, and the caller's text 5.
	_, err := c.Wrap(m).Embed(context.Background(), embed.Passage, []string{"a", "c", "b", "d", "e", "bad"})
	if err == nil || err.Error() != "text 5: bad" {
		t.Errorf("got %v", err)
	}
	before := m.asked()
	get(t, c, m, embed.Passage, []string{"c", "d"})
	if m.asked() != before {
		t.Error("what was embedded before the error was not kept")
	}
	m.err = func([]string) error { return fs.ErrPermission }
	if r, err := c.Wrap(m).Embed(context.Background(), embed.Passage, []string{"a", "new"}); !errors.Is(err, fs.ErrPermission) || r.Vectors != nil {
		t.Errorf("got %v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Wrap(m).Embed(ctx, embed.Passage, []string{"a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := Open(t.TempDir(), Options{MaxBytes: 5}); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
}

type odd struct {
	*model
	r embed.Result
}

func (o odd) Embed(context.Context, embed.Kind, []string) (embed.Result, error) { return o.r, nil }

func TestBrokenEmbedder(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	for _, r := range []embed.Result{{}, {Vectors: make([]float32, 7)}, {Vectors: make([]float32, 8), Truncated: []int{2}}} {
		if _, err := c.Wrap(odd{newModel(4), r}).Embed(context.Background(), embed.Query, []string{"a", "b"}); err == nil {
			t.Errorf("%v was taken", r)
		}
	}
	nan := odd{newModel(2), embed.Result{Vectors: []float32{1, 2, 3, float32(math.NaN()), 5, 6}}}
	if _, err := c.Wrap(nan).Embed(context.Background(), embed.Query, []string{"a", "b", "c"}); err != nil {
		t.Fatal(err)
	}
	if s := c.Stats(); s.Entries != 2 {
		t.Errorf("%d entries, want the 2 finite ones", s.Entries)
	}
}

// An embedder that learns its dimension from the first answer.
type learner struct{ *model }

func (l learner) Embed(ctx context.Context, kind embed.Kind, texts []string) (embed.Result, error) {
	l.id.Dim = 4
	return l.model.Embed(ctx, kind, texts)
}

func TestLearnedDimension(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	l := learner{newModel(0)}
	for range 2 {
		if _, err := c.Wrap(l).Embed(context.Background(), embed.Query, []string{"a", "long b", "a"}); err != nil {
			t.Fatal(err)
		}
	}
	if l.calls != 1 || c.Stats().Entries != 2 {
		t.Errorf("%d calls, %+v", l.calls, c.Stats())
	}
}

type tokens struct{ *model }

func (tokens) Tokens(context.Context, embed.Kind, []string) ([]embed.TokenVectors, error) {
	return make([]embed.TokenVectors, 3), nil
}

// A wrapped embedder still tells its tokenizer.
func TestUnwrap(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	tok, err := tokenize.LoadVocab([]byte("[PAD]\n[UNK]\n[CLS]\n[SEP]\nstone\nlamp\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []embed.Embedder{tokenized{newModel(4), tok}, tokens{newModel(4)}} {
		spans := embed.SpansOf(c.Wrap(c.Wrap(e)))
		_, has := e.(tokenized)
		if (spans != nil) != has {
			t.Fatalf("%T: a tokenizer behind the cache: %v", e, spans != nil)
		}
		n := 0
		if has {
			spans("stone lamp", func(start, end int) { n += end - start })
			if n != len("stonelamp") {
				t.Errorf("tokens of %d bytes", n)
			}
		}
	}
}

type tokenized struct {
	*model
	tok tokenize.Tokenizer
}

func (t tokenized) Tokenizer() tokenize.Tokenizer { return t.tok }

func TestTokenEmbedder(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	if _, ok := c.Wrap(newModel(4)).(embed.TokenEmbedder); ok {
		t.Error("token vectors out of nothing")
	}
	w, ok := c.Wrap(tokens{newModel(4)}).(embed.TokenEmbedder)
	if !ok || w.Identity().Name != "m" {
		t.Fatal("token vectors were lost")
	}
	if v, err := w.Tokens(context.Background(), embed.Query, nil); len(v) != 3 || err != nil {
		t.Error(v, err)
	}
}

// The bound holds, what is used survives, and what is not goes first.
func TestEviction(t *testing.T) {
	c := open(t, t.TempDir(), Options{MaxBytes: minBytes})
	m := newModel(256) // 1056 bytes a record: some 990 fit
	hot := texts(0, 50)
	for from := 0; from < 4000; from += 100 {
		get(t, c, m, embed.Passage, hot)
		get(t, c, m, embed.Passage, texts(from, from+100))
		if b := c.Stats().Bytes; b > minBytes {
			t.Fatalf("%d bytes, want at most %d", b, minBytes)
		}
	}
	for _, text := range hot {
		if m.texts[text] != 1 {
			t.Errorf("%q was embedded %d times though used all the time", text, m.texts[text])
		}
	}
	s := c.Stats()
	if s.Entries < 700 || s.Evicted != 4000-int64(s.Entries) || s.Damaged != 0 || len(c.Notes()) != 0 {
		t.Errorf("%+v, %q", s, c.Notes())
	}
	before := m.asked()
	get(t, c, m, embed.Passage, texts(3900, 4000))
	if m.asked() != before {
		t.Error("the newest were evicted")
	}
}

// Many short sessions do not leave many files.
func TestManyLogs(t *testing.T) {
	dir := t.TempDir()
	m := newModel(8)
	for i := range 60 {
		c, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		get(t, c, m, embed.Passage, texts(i, i+1))
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, dir, Options{})
	get(t, c, m, embed.Passage, texts(0, 60))
	if s := c.Stats(); m.asked() != 60 || s.Logs > manyLogs+2 || s.Evicted != 0 {
		t.Errorf("%d texts embedded, %+v", m.asked(), s)
	}
}

// A smaller bound at a later Open.
func TestSmallerBound(t *testing.T) {
	dir := t.TempDir()
	m := newModel(1024)
	c := open(t, dir, Options{})
	get(t, c, m, embed.Passage, texts(0, 1000))
	c.Close()
	c = open(t, dir, Options{MaxBytes: minBytes})
	if b := c.Stats().Bytes; b > minBytes {
		t.Errorf("%d bytes", b)
	}
}

// The second opener reads, and does not write.
func TestSecondOpener(t *testing.T) {
	dir := t.TempDir()
	m := newModel(8)
	c := open(t, dir, Options{})
	get(t, c, m, embed.Passage, texts(0, 10))
	d := open(t, dir, Options{})
	get(t, d, m, embed.Passage, texts(0, 20))
	if m.asked() != 20 || d.Stats().Entries != 10 || len(d.Notes()) != 1 {
		t.Errorf("%d texts, %+v, %q", m.asked(), d.Stats(), d.Notes())
	}
}

func TestConcurrent(t *testing.T) {
	c := open(t, t.TempDir(), Options{MaxBytes: minBytes})
	m := newModel(64)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for range 60 {
				from := rng.IntN(8000)
				get(t, c, m, embed.Kind(g%2), texts(from, from+40))
				c.Stats()
			}
		})
	}
	wg.Wait()
	if s := c.Stats(); s.Damaged != 0 || len(c.Notes()) != 0 {
		t.Errorf("%+v, %q", s, c.Notes())
	}
}

func BenchmarkHit(b *testing.B) {
	c, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	m := newModel(384)
	in := texts(0, 256)
	w := c.Wrap(m)
	for b.Loop() {
		if _, err := w.Embed(context.Background(), embed.Passage, in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(in)), "ns/text")
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	c, err := Open(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	rows := make([]float32, 384*20000)
	keys := make([]key, 20000)
	for i := range keys {
		keys[i] = key{byte(i), byte(i >> 8), byte(i >> 16)}
	}
	for i := 0; i < len(keys); i += 500 {
		c.put(keys[i:i+500], rows[i*384:(i+500)*384], 384, func(int) bool { return false })
	}
	bytes := c.Stats().Bytes
	c.Close()
	b.SetBytes(bytes)
	for b.Loop() {
		c, err := Open(dir, Options{})
		if err != nil || c.Stats().Entries != len(keys) {
			b.Fatal(err, c.Stats())
		}
		c.Close()
	}
}
