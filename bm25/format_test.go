package bm25

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/quarrysearch/quarry/storage"
)

// model is the inverted index as maps.
func model(docs map[uint32]text, n uint32) (terms []string, postings map[string]map[uint32][]uint32) {
	postings = map[string]map[uint32][]uint32{}
	for d := range n {
		for i, w := range docs[d] {
			if postings[w] == nil {
				postings[w] = map[uint32][]uint32{}
				terms = append(terms, w)
			}
			postings[w][d] = append(postings[w][d], uint32(i+i/7))
		}
	}
	sort.Strings(terms)
	return terms, postings
}

func TestRoundTrip(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := uint32(1 + rng.IntN(3000))
		vocabulary := []int{1, 5, 300, 20000}[seed%4]
		docs := randomDocs(rng, n, vocabulary, 20)
		_, f := buildField(t, docs, n)
		if err := f.Verify(context.Background()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		checkModel(t, f, docs, n)
	}
}

func checkModel(t *testing.T, f *Field, docs map[uint32]text, n uint32) {
	t.Helper()
	terms, postings := model(docs, n)
	i := 0
	err := f.EachTerm(nil, func(term []byte, df, ttf uint64) bool {
		if i >= len(terms) || string(term) != terms[i] {
			t.Fatalf("term %d is %q", i, term)
		}
		i++
		return true
	})
	if err != nil || i != len(terms) || f.Stats().Terms != uint64(len(terms)) {
		t.Fatalf("%d terms of %d: %v", i, len(terms), err)
	}
	var c cursor
	var b batch
	for _, term := range terms {
		e, ok, err := f.lookup([]byte(term))
		if !ok || err != nil {
			t.Fatalf("%q: %v %v", term, ok, err)
		}
		want := postings[term]
		c.open(f, &e, 1, zeroInverse)
		got := 0
		for {
			ok, err := c.nextBatch(&b, true)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			pos := b.pos
			for i, d := range b.docs[:b.n] {
				k := int(b.freqs[i])
				if !slices.Equal(want[d], pos[:k]) {
					t.Fatalf("%q doc %d: %v, want %v", term, d, pos[:k], want[d])
				}
				pos = pos[k:]
				got++
			}
		}
		if got != len(want) || e.df != uint64(got) {
			t.Fatalf("%q: %d docs of %d", term, got, len(want))
		}
		for _, near := range []string{term + "\x00", term[:len(term)-1], term[:1]} {
			if _, ok, err := f.lookup([]byte(near)); err != nil || ok != (postings[near] != nil) {
				t.Fatalf("%q found: %v, %v", near, ok, err)
			}
		}
	}
	if _, ok, err := f.lookup([]byte("~")); ok || err != nil {
		t.Fatal("unknown term found")
	}
}

func TestSeekVisitsAllDocs(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	docs := map[uint32]text{}
	const n = 60000
	for d := range uint32(n) {
		words := text{"all"}
		if rng.IntN(3) == 0 {
			words = append(words, "third")
		}
		if rng.IntN(100) == 0 {
			words = append(words, "rare", "rare")
		}
		if d > 30000 && d < 31000 {
			words = append(words, "cluster")
		}
		docs[d] = words
	}
	_, f := buildField(t, docs, n)
	if err := f.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, postings := model(docs, n)
	for term, list := range postings {
		var want []uint32
		for d := range list {
			want = append(want, d)
		}
		slices.Sort(want)
		e, _, _ := f.lookup([]byte(term))
		for _, stride := range []uint32{1, 3, 100, 5000, 20000} {
			var c cursor
			c.open(f, &e, 1, zeroInverse)
			for target := uint32(0); target < n; target += 1 + rng.Uint32N(stride) {
				i := lowerBound(want, 0, target)
				got := c.seek(target)
				if i == len(want) && got != noDoc || i < len(want) && got != want[i] {
					t.Fatalf("%s: seek(%d) = %d", term, target, got)
				}
				if got == noDoc {
					break
				}
				if c.freq() != uint32(len(list[got])) || !slices.Equal(c.positions(nil), list[got]) {
					t.Fatalf("%s: doc %d has freq %d", term, got, c.freq())
				}
			}
			if err := c.err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestMergeGivesTheBytesOfAFreshBuild(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 7))
		n := uint32(1 + rng.IntN(2500))
		all := randomDocs(rng, n, 2000, 15)
		parts := 1 + rng.IntN(5)
		type part struct {
			docs map[uint32]text
			old  []uint32 // doc in all
		}
		split := make([]part, parts)
		for i := range split {
			split[i].docs = map[uint32]text{}
		}
		run := 0
		for d := range n {
			// Interleave in runs; dropped docs get no new number.
			if rng.IntN(5) == 0 {
				run = rng.IntN(parts)
			}
			p := &split[run]
			if words, ok := all[d]; ok {
				p.docs[uint32(len(p.old))] = words
			}
			p.old = append(p.old, d)
		}
		kept := map[uint32]text{}
		number := make([]uint32, n)
		next := uint32(0)
		for d := range n {
			number[d] = Dropped
			if rng.IntN(4) > 0 || seed%3 == 0 {
				number[d] = next
				if words, ok := all[d]; ok {
					kept[next] = words
				}
				next++
			}
		}
		var inputs []MergeInput
		for _, p := range split {
			_, f := buildField(t, p.docs, uint32(len(p.old)))
			m := make([]uint32, len(p.old))
			for i, d := range p.old {
				m[i] = number[d]
			}
			inputs = append(inputs, MergeInput{f, m})
		}
		merged := sections{}
		if err := Merge(merged.create, inputs, next, 2); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		fresh, f := buildField(t, kept, next)
		fresh.equal(t, merged)
		for threads := range 4 {
			norms, err := mergeNorms(inputs, next)
			if err != nil {
				t.Fatal(err)
			}
			m, err := newMergeSource(inputs, 64<<threads)
			if err != nil {
				t.Fatal(err)
			}
			cut := sections{}
			if err := writeFieldHeld(cut.create, m, norms, threads, int64(threads%2)<<20); err != nil {
				t.Fatalf("seed %d, %d threads: %v", seed, threads, err)
			}
			m.release()
			fresh.equal(t, cut)
		}
		if err := f.Verify(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMergeRefusesBadMaps(t *testing.T) {
	_, f := buildField(t, map[uint32]text{0: {"a"}, 1: {"b"}}, 2)
	for _, maps := range [][][]uint32{
		{{0}}, {{1, 0}}, {{0, 2}}, {{0, 0}}, {{0, Dropped}, {0, 1}},
	} {
		var inputs []MergeInput
		for _, m := range maps {
			inputs = append(inputs, MergeInput{f, m})
		}
		if err := Merge(sections{}.create, inputs, 2, 2); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%v: %v", maps, err)
		}
	}
}

func TestBuilderMistakesStick(t *testing.T) {
	for name, use := range map[string]func(b *Builder){
		"descending doc":      func(b *Builder) { b.StartDoc(3); b.EndDoc(); b.StartDoc(3); b.EndDoc() },
		"token outside":       func(b *Builder) { b.Token([]byte("a"), 0) },
		"empty term":          func(b *Builder) { b.StartDoc(0); b.Token(nil, 0); b.EndDoc() },
		"long term":           func(b *Builder) { b.StartDoc(0); b.Token(make([]byte, MaxTermSize+1), 0); b.EndDoc() },
		"descending position": func(b *Builder) { b.StartDoc(0); b.Token([]byte("a"), 2); b.Token([]byte("a"), 1); b.EndDoc() },
		"open doc":            func(b *Builder) { b.StartDoc(0) },
		"end without start":   func(b *Builder) { b.EndDoc() },
	} {
		b := NewBuilder()
		use(b)
		if err := b.Write(sections{}.create); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		b.Reset()
		if err := b.Write(sections{}.create); err != nil {
			t.Errorf("%s: after Reset: %v", name, err)
		}
	}
}

func TestLongTermsAndManyPositions(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), MaxTermSize))
	many := make(text, 100000)
	for i := range many {
		many[i] = "many"
	}
	docs := map[uint32]text{0: {long}, 5: many, 7: {"many", long[:9000], long}, 9: {"five", "five", "five", "five", "five"}}
	_, f := buildField(t, docs, 12)
	if err := f.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	checkModel(t, f, docs, 12)
}

func TestSameTermAtTheSamePositionCountsOnce(t *testing.T) {
	b := NewBuilder()
	b.StartDoc(0)
	for _, pos := range []uint32{4, 4, 5} {
		b.Token([]byte("a"), pos)
	}
	b.EndDoc()
	s := sections{}
	if err := b.Write(s.create); err != nil {
		t.Fatal(err)
	}
	if st := openField(t, s, 1).Stats(); st.TotalLength != 2 || st.DocsWithField != 1 {
		t.Fatalf("%+v", st)
	}
}

func TestNorms(t *testing.T) {
	last := -1
	for n := range uint32(300000) {
		c := encodeNorm(n)
		if int(c) < last || decodeNorm(c) > n || n <= 39 && decodeNorm(c) != n || float64(decodeNorm(c)) < float64(n)*0.88 {
			t.Fatalf("length %d has norm %d, back %d", n, c, decodeNorm(c))
		}
		last = int(c)
	}
	for c := range 256 {
		if d := decodeNorm(byte(c)); d <= 1<<31-1 && encodeNorm(d) != byte(c) {
			t.Fatalf("norm %d is length %d is norm %d", c, d, encodeNorm(d))
		}
	}
}

// TestTwoPassesWriteWhatOneDoes writes a field without room to hold section
// docs, fresh and merged with deleted docs.
func TestTwoPassesWriteWhatOneDoes(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	const n = 3000
	docs := randomDocs(rng, n, 2000, 30)
	want, f := buildField(t, docs, n)
	b := NewBuilder()
	for d := range uint32(n) {
		if words, ok := docs[d]; ok {
			b.StartDoc(d)
			for i, w := range words {
				b.Token([]byte(w), uint32(i+i/7))
			}
			b.EndDoc()
		}
	}
	got := sections{}
	if err := writeFieldHeld(got.create, newBuilderSource([]*Builder{b}, rangeSize), b.norms, 1, -1); err != nil {
		t.Fatal(err)
	}
	got.equal(t, want)

	keep := make([]uint32, n)
	next := uint32(0)
	for d := range keep {
		if keep[d] = Dropped; rng.IntN(4) > 0 {
			keep[d] = next
			next++
		}
	}
	inputs := []MergeInput{{Field: f, DocMap: keep}}
	norms, err := mergeNorms(inputs, next)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMergeSource(inputs, rangeSize)
	if err != nil {
		t.Fatal(err)
	}
	twice := sections{}
	if err := writeFieldHeld(twice.create, m, norms, 1, -1); err != nil {
		t.Fatal(err)
	}
	once := sections{}
	if err := Merge(once.create, inputs, next, 1); err != nil {
		t.Fatal(err)
	}
	twice.equal(t, once)
}

// TestThreadsChangeNoByte shares docs out to several builders, whose terms are
// cut into many ranges, and writes them with any number of threads.
func TestThreadsChangeNoByte(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 21))
		n := 1 + rng.Uint32N(2000)
		docs := randomDocs(rng, n, 800, 20)
		want, _ := buildField(t, docs, n)
		builders := []*Builder{NewBuilder()}
		for d := range n {
			if rng.IntN(400) == 0 {
				builders = append(builders, NewBuilder()) // perhaps an empty one before
			}
			b := builders[len(builders)-1]
			b.StartDoc(d)
			for i, w := range docs[d] {
				b.Token([]byte(w), uint32(i+i/7))
			}
			b.EndDoc()
		}
		got := sections{}
		if err := WriteAll(got.create, builders, 2); err != nil {
			t.Fatal(err)
		}
		got.equal(t, want)
		src := newBuilderSource(builders, 1<<10)
		if seed == 3 && (src.ranges() < 20 || len(builders) < 2) {
			t.Fatalf("%d ranges of %d builders prove little", src.ranges(), len(builders))
		}
		norms := want["norms"].Bytes()
		for threads := range 5 {
			for _, held := range []int64{-1, maxHeld} {
				got := sections{}
				if err := writeFieldHeld(got.create, src, norms, threads, held); err != nil {
					t.Fatal(err)
				}
				got.equal(t, want)
			}
		}
		full := errors.New("no space left")
		err := writeField(func(string) (io.Writer, error) { return shortWriter{rng.IntN(2000), full}, nil }, src, norms, 3)
		if src.ranges() > 50 && !errors.Is(err, full) {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	b := NewBuilder()
	b.StartDoc(3)
	b.Token([]byte("a"), 0)
	b.EndDoc()
	if err := WriteAll(sections{}.create, []*Builder{b, b}, 1); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("one doc in two builders: %v", err)
	}
}

// A shortWriter fails once what is written does not fit.
type shortWriter struct {
	room int
	err  error
}

func (w shortWriter) Write(p []byte) (int, error) {
	if len(p) > w.room {
		return 0, w.err
	}
	return len(p), nil
}

// TestMergeMissesNoTerm merges dictionaries whose blocks are out of order: a
// range would begin at the wrong one.
func TestMergeMissesNoTerm(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	s, f := buildField(t, randomDocs(rng, 500, 900, 20), 500)
	m := make([]uint32, 500)
	for i := range m {
		m[i] = uint32(i)
	}
	inputs := []MergeInput{{f, m}}
	for i := range f.dict.blocks() - 1 {
		c := s.clone()
		f := openField(t, c, 500)
		a, b := f.dict.offs[4*i:4*i+4], f.dict.offs[4*i+4:4*i+8]
		for j := range a {
			a[j], b[j] = b[j], a[j]
		}
		inputs[0].Field = f
		src, err := newMergeSource(inputs, 1<<8)
		if err == nil {
			err = writeField(sections{}.create, src, f.norms, 2)
		}
		if !errors.Is(err, storage.ErrCorrupt) {
			t.Fatalf("blocks %d and %d exchanged: %v", i, i+1, err)
		}
	}
}
