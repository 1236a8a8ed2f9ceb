package bm25

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/storage"
)

// smallField has a list with groups, lists with blocks, tails, pulsed terms
// with positions inside and outside the dictionary, and bitsets.
func smallField(t testing.TB, n uint32) sections {
	rng := rand.New(rand.NewPCG(6, 6))
	docs := map[uint32]text{}
	for d := range n {
		words := text{"all"}
		if d%3 == 0 {
			words = append(words, "third", "all")
		}
		if rng.IntN(40) == 0 {
			words = append(words, "rare", word(rng.IntN(50)), "rare")
		}
		if d%701 == 5 {
			words = append(words, "one", "one", "one", "one", "one", "one")
		}
		docs[d] = words
	}
	s, _ := buildField(t, docs, n)
	return s
}

// exercise opens a field that may be corrupt and uses all of it. Whatever it
// holds, an error must be of the known classes, and there must be no panic.
func exercise(t testing.TB, s sections, n uint32) (bad bool) {
	check := func(err error) bool {
		if err != nil && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrVersion) {
			t.Fatalf("unexpected error: %v", err)
		}
		bad = bad || err != nil
		return err == nil
	}
	f, err := Open(s.section, n)
	if !check(err) {
		return true
	}
	check(f.Verify(context.Background()))
	check(f.EachTerm([]byte("w"), func([]byte, uint64, uint64) bool { return true }))
	field := []FieldBoost{{"f", 1}}
	few := make([]uint64, n/64+1)
	for d := uint32(0); d < n; d += 5 {
		few[d/64] |= 1 << (d % 64)
	}
	var scratch Scratch
	for _, q := range []Query{
		oneField("all", "third", "rare", "one"),
		Terms{Fields: field, Words: Words("third", "rare"), Operator: And},
		Terms{Fields: field, Words: Words("all", "third", "rare"), MinimumShouldMatch: 2},
		Phrase{Fields: field, Words: PhraseOf("third", "all")},
		Prefix{Fields: field, Prefix: [][]byte{[]byte("w")}},
	} {
		b, err := Bind(q, []SegmentFields{{"f": f}}, nil)
		if !check(err) {
			continue
		}
		for _, accept := range []Accept{{}, AcceptDocs([]uint32{0, 3, n / 2, n - 1}), AcceptBits(few)} {
			_, err = b.TopK(0, 5, accept, 0, &scratch, nil)
			check(err)
		}
		_, err = b.Count(0, Accept{}, &scratch)
		check(err)
		_, err = b.Explain(0, 3)
		check(err)
		scratch = Scratch{}
	}
	m := make([]uint32, n)
	for i := range m {
		m[i] = uint32(i)
	}
	check(Merge(sections{}.create, []MergeInput{{f, m}}, n, 2))
	return bad
}

func TestEveryByteFlippedIsCaughtOrHarmless(t *testing.T) {
	const n = 600
	s := smallField(t, n)
	if exercise(t, s, n) {
		t.Fatal("the intact field fails")
	}
	rng := rand.New(rand.NewPCG(8, 8))
	caught, all := 0, 0
	for name, b := range s {
		for i := range b.Len() {
			if rng.IntN(16) > 0 && name != "meta" {
				continue
			}
			c := s.clone()
			c[name].Bytes()[i] ^= 1 << rng.IntN(8)
			all++
			if exercise(t, c, n) {
				caught++
			}
		}
	}
	// Not every flip breaks a rule (a position may become another one, an
	// impact a looser bound); checksums are the container's.
	if caught < all*3/4 {
		t.Fatalf("%d of %d flips caught", caught, all)
	}
}

func TestEveryTruncationIsCaught(t *testing.T) {
	const n = 600
	s := smallField(t, n)
	for name, b := range s {
		for i := 0; i < b.Len(); i += 1 + i/3 {
			c := s.clone()
			c[name].Truncate(i)
			if !exercise(t, c, n) {
				t.Fatalf("%s cut to %d bytes of %d passes", name, i, b.Len())
			}
		}
		c := s.clone()
		delete(c, name)
		if _, err := Open(c.section, n); !errors.Is(err, storage.ErrCorrupt) {
			t.Fatalf("without %s: %v", name, err)
		}
	}
	if _, err := Open(s.section, n-1); !errors.Is(err, storage.ErrCorrupt) {
		t.Fatal("a field of more docs than the segment opens")
	}
	c := s.clone()
	c["meta"].Bytes()[0] = 9
	if _, err := Open(c.section, n); !errors.Is(err, storage.ErrVersion) {
		t.Fatal("an unknown version opens")
	}
}

// FuzzField changes a good field in up to three places.
func FuzzField(f *testing.F) {
	const n = 9000
	s := smallField(f, n)
	names := []string{"dict", "docs", "pos", "norms", "meta"}
	f.Add(uint8(0), uint32(0), uint8(1), uint32(9), uint8(0), uint32(17), uint8(0))
	f.Add(uint8(1), uint32(3), uint8(0x80), uint32(1), uint8(0xff), uint32(2), uint8(0))
	f.Fuzz(func(t *testing.T, section uint8, at1 uint32, x1 uint8, at2 uint32, x2 uint8, at3 uint32, x3 uint8) {
		c := s.clone()
		b := c[names[int(section)%len(names)]].Bytes()
		for i, at := range []uint32{at1, at2, at3} {
			b[at%uint32(len(b))] ^= []byte{x1, x2, x3}[i]
		}
		exercise(t, c, n)
	})
}

// FuzzDict reads any bytes as a dictionary.
func FuzzDict(f *testing.F) {
	s := smallField(f, 600)
	f.Add(s["dict"].Bytes(), uint16(53), []byte("rare"))
	f.Fuzz(func(t *testing.T, data []byte, terms uint16, term []byte) {
		d, err := openDict(data, uint64(terms))
		if err != nil {
			return
		}
		if _, _, err := d.lookup(term); err != nil && !errors.Is(err, storage.ErrCorrupt) {
			t.Fatal(err)
		}
		it := d.walk(0)
		n := 0
		for {
			ok, err := it.next()
			if err != nil || !ok {
				break
			}
			if n++; n > int(terms) {
				t.Fatal("more terms than there are")
			}
			it.entry.inlined(make([]uint32, min(it.entry.ttf, inlinePositions)))
		}
	})
}

// FuzzPostings reads any bytes as a postings list with positions. What is read
// without an error must be ascending and in range.
func FuzzPostings(f *testing.F) {
	s := smallField(f, 9000)
	f.Add(s["docs"].Bytes()[:2000], s["pos"].Bytes()[:500], uint16(9000), uint16(4))
	f.Add(s["docs"].Bytes(), s["pos"].Bytes(), uint16(9000), uint16(9000))
	f.Add([]byte{3, 0, 5, 9, 2, 7}, []byte{4, 1, 2, 3, 4, 5}, uint16(2), uint16(3))
	f.Fuzz(func(t *testing.T, docs, pos []byte, df, target uint16) {
		const n = 70000
		field := &Field{docs: docs, pos: pos, norms: make([]byte, n), blocksFrom: 2 + uint64(target)%2*(smallDocs-2)}
		e := entry{df: uint64(df) + 2, ttf: 1 << 30, docsLen: uint64(len(docs)), posLen: uint64(len(pos))}
		var c cursor
		c.open(field, &e, 1, zeroInverse)
		var b batch
		last, count := -1, 0
		for {
			ok, err := c.nextBatch(&b, true)
			if err != nil || !ok {
				break
			}
			for _, d := range b.docs[:b.n] {
				if int(d) <= last || d >= n {
					t.Fatalf("doc %d after %d", d, last)
				}
				last = int(d)
			}
			if count += b.n; count > int(e.df) {
				t.Fatal("more postings than there are")
			}
			if len(b.pos) > 64*len(pos)+64 {
				t.Fatal("more positions than the bytes can hold")
			}
		}
		c.open(field, &e, 1, zeroInverse)
		for d := uint32(0); d != noDoc; {
			c.boundIn(d, d+1+uint32(target))
			got := c.seek(d)
			if got < d {
				t.Fatalf("seek(%d) = %d", d, got)
			}
			if got == noDoc {
				break
			}
			c.freq()
			d = got + uint32(target) + 1
		}
	})
}

// FuzzPositions reads any bytes as a block of positions.
func FuzzPositions(f *testing.F) {
	f.Add([]byte{5, 1, 2, 3, 4, 5}, uint16(3), uint16(2), uint16(8))
	f.Fuzz(func(t *testing.T, src []byte, from, n, total uint16) {
		dst := make([]uint32, n)
		if readPositions(dst, src, uint64(from), uint64(total)) {
			for i := 1; i < len(dst); i++ {
				if dst[i] <= dst[i-1] {
					t.Fatal("positions do not ascend")
				}
			}
		}
	})
}

// FuzzBlock writes and reads blocks of any docs and freqs.
func FuzzBlock(f *testing.F) {
	f.Add(uint64(1), uint16(256), uint8(3), uint8(2))
	f.Add(uint64(2), uint16(7), uint8(30), uint8(31))
	f.Add(uint64(50), uint16(255), uint8(0x9c), uint8(70)) // too wide to be patched
	f.Fuzz(func(t *testing.T, seed uint64, size uint16, gapBits, freqBits uint8) {
		rng := rand.New(rand.NewPCG(seed, 0))
		n := 1 + int(size)%blockDocs
		var docs, freqs [blockDocs]uint32
		at := uint64(rng.Uint32N(1000))
		base := uint32(at)
		for i := range n {
			at += rng.Uint64() & (1<<(gapBits%32) - 1) >> rng.IntN(1+int(gapBits%32))
			if at >= 1<<32-1 {
				return
			}
			docs[i] = uint32(at)
			freqs[i] = 1 + uint32(rng.Uint64()&(1<<(freqBits%32)-1)>>rng.IntN(1+int(freqBits%32)))
			at++
		}
		coded := appendDocs(nil, docs[:n], base)
		var got [blockDocs]uint32
		if readDocs(&got, n, coded, base, docs[n-1]) != len(coded) || docsSize(coded, n, base, docs[n-1]) != len(coded) {
			t.Fatal("docs do not come back")
		}
		if [blockDocs]uint32(got) != docs && !equalPrefix(got[:n], docs[:n]) {
			t.Fatal("docs differ")
		}
		coded = appendFreqs(nil, freqs[:n])
		if readFreqs(&got, n, coded) != len(coded) || !equalPrefix(got[:n], freqs[:n]) {
			t.Fatal("freqs differ")
		}
	})
}

func equalPrefix(a, b []uint32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestGolden(t *testing.T) {
	s, _ := buildField(t, map[uint32]text{
		0: {"to", "be", "or", "not", "to", "be"},
		2: {"be", "be", "be", "be", "be", "be", "be"},
		3: {"not", "two"},
	}, 5)
	var got strings.Builder
	for _, name := range []string{"pos", "docs", "dict", "norms", "meta"} {
		got.WriteString(name + "\n" + hexDump(s[name].Bytes()))
	}
	golden(t, "testdata/tiny.hex", got.String())
}

// TestFormat1Opens reads the same field as written by version 1, which gave
// every list of two docs a block.
func TestFormat1Opens(t *testing.T) {
	dump, err := os.ReadFile("testdata/tiny-1.hex")
	if err != nil {
		t.Fatal(err)
	}
	old := sections{}
	var b *bytes.Buffer
	for line := range strings.Lines(string(dump)) {
		if !strings.HasPrefix(line, " ") {
			b = new(bytes.Buffer)
			old[strings.TrimSpace(line)] = b
			continue
		}
		row, err := hex.DecodeString(strings.ReplaceAll(line[8:55], " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		b.Write(row)
	}
	f, err := Open(old.section, 5)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, now := buildField(t, map[uint32]text{0: {"to"}}, 1); !f.Old() || now.Old() {
		t.Fatal("Old")
	}
	merged, m := sections{}, []uint32{0, 1, 2, 3, 4}
	if err := Merge(merged.create, []MergeInput{{f, m}}, 5, 2); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, name := range []string{"pos", "docs", "dict", "norms", "meta"} {
		got.WriteString(name + "\n" + hexDump(merged[name].Bytes()))
	}
	golden(t, "testdata/tiny.hex", got.String())
}

func TestSameInputGivesTheSameBytes(t *testing.T) {
	a, b := smallField(t, 600), smallField(t, 600)
	a.equal(t, b)
	if !bytes.Equal(a["dict"].Bytes(), b["dict"].Bytes()) {
		t.Fatal("dict")
	}
}
