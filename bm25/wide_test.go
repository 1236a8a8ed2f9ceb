package bm25

import (
	"math/rand/v2"
	"testing"

	"github.com/quarrysearch/quarry/internal/bitpack"
)

// Gaps of 24 bits and more take the checked way of readDocs.
func TestWideGaps(t *testing.T) {
	for _, n := range []int{1, 2, 200, blockDocs} {
		for _, step := range []uint32{1, 2, 63, 1 << 14, 1<<24 - 1} {
			if uint64(n)*uint64(step) >= 1<<32-100 {
				step = (1<<32 - 100) / uint32(n)
			}
			var docs, got [blockDocs]uint32
			for i := range n {
				docs[i] = 50 + uint32(i)*step
			}
			coded := appendDocs(nil, docs[:n], 3)
			if readDocs(&got, n, coded, 3, docs[n-1]) != len(coded) || !equalPrefix(got[:n], docs[:n]) {
				t.Fatalf("%d docs, step %d", n, step)
			}
			if readDocs(&got, n, coded, 3, docs[n-1]+1) >= 0 {
				t.Fatalf("%d docs, step %d: a wrong end was accepted", n, step)
			}
		}
	}
}

// A few wide gaps among narrow ones are patched, up to 32 bits wide.
func TestPatchedGaps(t *testing.T) {
	for _, n := range []int{64, 200, blockDocs} {
		for width := 1; width <= bitpack.MaxWidth-patchBits; width++ {
			for wide := width; wide <= width+patchBits; wide++ {
				var docs, got [blockDocs]uint32
				at := uint64(3)
				for i := range n {
					gap := uint64(1<<width - 1)
					if i%(n/3) == 1 {
						gap = 1<<wide - 1
					}
					if at += gap; at > 1<<32-400 {
						at = uint64(docs[i-1]) + 1
					}
					docs[i] = uint32(at)
					at++
				}
				last := docs[n-1]
				coded := appendDocs(nil, docs[:n], 3)
				if readDocs(&got, n, coded, 3, last) != len(coded) || !equalPrefix(got[:n], docs[:n]) {
					t.Fatalf("%d docs, %d and %d bits", n, width, wide)
				}
				if coded[0]&docsPatched == 0 {
					continue
				}
				if readDocs(&got, n, coded, 3, last-1) >= 0 {
					t.Fatalf("%d docs, %d and %d bits: a wrong end was accepted", n, width, wide)
				}
				if wide > width+4 && len(coded) > 2+2*4+bitpack.RunSize(n, width) {
					t.Fatalf("%d docs, %d and %d bits take %d bytes", n, width, wide, len(coded))
				}
			}
		}
	}
}

// A block asked as a bitset answers as its decoded docs do, and a freq read
// alone is the one of the decoded block.
func TestBlockAskedAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	sets := 0
	for round := range 400 {
		n := 1 + rng.IntN(blockDocs)
		if round%3 == 0 {
			n = blockDocs
		}
		base, gap := rng.Uint32N(1000), 1+rng.Uint32N(7)
		var docs, freqs, got [blockDocs]uint32
		at := base
		for i := range n {
			at += rng.Uint32N(gap)
			docs[i], freqs[i] = at, 1+rng.Uint32N(1+1<<rng.Uint32N(12))/(1+rng.Uint32N(300))
			at++
		}
		last := docs[n-1]
		coded := appendDocs(nil, docs[:n], base)
		var set bitset
		if set.open(coded, n, base, last) {
			sets++
			i := 0
			for d := base; d <= last; d++ {
				for docs[i] < d {
					i++
				}
				if doc, k := set.seek(d); doc != docs[i] || k != i {
					t.Fatalf("round %d: seek %d gives %d, number %d, want %d, number %d", round, d, doc, k, docs[i], i)
				}
			}
			if set.open(coded, n-1, base, last) || set.open(coded, n, base, last+1) || set.open(coded[:len(coded)-1], n, base, last) {
				t.Fatalf("round %d: an unsound bitset was opened", round)
			}
		}
		coded = appendFreqs(nil, freqs[:n])
		if readFreqs(&got, n, coded) != len(coded) || !equalPrefix(got[:n], freqs[:n]) {
			t.Fatalf("round %d: freqs", round)
		}
		for i := range n {
			if f := readFreq(coded, n, i); f != freqs[i] {
				t.Fatalf("round %d: freq %d is %d, want %d", round, i, f, freqs[i])
			}
		}
	}
	if sets < 100 {
		t.Errorf("%d bitsets in all", sets)
	}
}
