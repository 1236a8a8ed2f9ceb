package bitpack

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// packRef packs by the definition: value i is number i/8 of lane i%8.
func packRef(src []uint32, width int) []byte {
	out := make([]byte, Size(width))
	for i, v := range src {
		for b := range width {
			if v>>b&1 != 0 {
				bit := i/8*width + b
				at := 32*(bit/32) + 4*(i%8) + bit%32/8
				out[at] |= 1 << (bit % 8)
			}
		}
	}
	return out
}

func unpackRef(src []byte, width int) (v [Block]uint32) {
	for i := range v {
		for b := range width {
			bit := i/8*width + b
			at := 32*(bit/32) + 4*(i%8) + bit%32/8
			v[i] |= uint32(src[at]>>(bit%8)&1) << b
		}
	}
	return v
}

func random(rng *rand.Rand, n, width int) []uint32 {
	v := make([]uint32, n)
	for i := range v {
		v[i] = uint32(rng.Uint64() & (1<<width - 1))
	}
	return v
}

func TestBlockEqualsReference(t *testing.T) {
	for width := range MaxWidth + 1 {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, uint64(width)))
			src := [Block]uint32(random(rng, Block, width))
			prefix := []byte("xyz")[:seed%4%3]
			packed := Pack(prefix, &src, width)[len(prefix):]
			if !bytes.Equal(packed, packRef(src[:], width)) {
				t.Fatalf("width %d: Pack differs", width)
			}
			var got [Block]uint32
			if !Unpack(&got, packed, width) || got != src || got != unpackRef(packed, width) {
				t.Fatalf("width %d: Unpack differs", width)
			}
			for i, want := range src {
				if v, ok := At(packed, i, width); !ok || v != want {
					t.Fatalf("width %d: At(%d) = %d, %v, want %d", width, i, v, ok, want)
				}
			}
			if !UnpackPlus1(&got, packed, width) {
				t.Fatal("UnpackPlus1")
			}
			for i, v := range src {
				if got[i] != v+1 {
					t.Fatalf("width %d: value %d is %d, want %d", width, i, got[i], v+1)
				}
			}
			base := rng.Uint32()
			got = src
			PrefixSum(got[:], base)
			sum := base - 1
			for i, gap := range src {
				sum += gap + 1
				if got[i] != sum {
					t.Fatalf("width %d: doc %d is %d, want %d", width, i, got[i], sum)
				}
			}
			if Width(src[:]) > width {
				t.Fatal("Width")
			}
		}
	}
}

func TestRunEqualsReference(t *testing.T) {
	for width := range MaxWidth + 1 {
		for _, n := range []int{0, 1, 2, 7, 8, 9, 63, 64, 255, 256} {
			rng := rand.New(rand.NewPCG(uint64(n), uint64(width)))
			src := random(rng, n, width)
			packed := AppendRun(nil, src, width)
			if len(packed) != RunSize(n, width) {
				t.Fatalf("width %d, %d values: %d bytes", width, n, len(packed))
			}
			for i, v := range src {
				for b := range width {
					bit := i*width + b
					if packed[bit/8]>>(bit%8)&1 != byte(v>>b&1) {
						t.Fatalf("width %d, %d values: bit %d of value %d", width, n, b, i)
					}
				}
			}
			got := make([]uint32, n)
			if !Run(got, packed, width) || !slices.Equal(got, src) {
				t.Fatalf("width %d, %d values: Run", width, n)
			}
			// Bytes after the run must not matter.
			if !Run(got, append(slices.Clone(packed), bytes.Repeat([]byte{0xff}, 9)...), width) || !slices.Equal(got, src) {
				t.Fatalf("width %d, %d values: Run before other bytes", width, n)
			}
			for from := range n {
				part := got[:min(5, n-from)]
				if !RunFrom(part, packed, from, width) || !slices.Equal(part, src[from:from+len(part)]) {
					t.Fatalf("width %d, %d values: RunFrom %d", width, n, from)
				}
			}
			if n > 0 && width > 0 && (Run(got, packed[:len(packed)-1], width) || RunFrom(got[:1], packed[:len(packed)-1], n-1, width)) {
				t.Fatal("a short source was accepted")
			}
		}
	}
}

func TestBadArguments(t *testing.T) {
	var dst [Block]uint32
	for _, width := range []int{-1, 33, math.MaxInt} {
		if Unpack(&dst, make([]byte, 2000), width) || Run(dst[:], make([]byte, 2000), width) || RunFrom(dst[:1], make([]byte, 2000), 0, width) {
			t.Errorf("width %d was accepted", width)
		}
	}
	if Unpack(&dst, make([]byte, 31), 1) || RunFrom(dst[:1], make([]byte, 8), -1, 3) {
		t.Error("a short source was accepted")
	}
}

func TestGeneratedFilesAreCurrent(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the go tool")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go tool: ", err)
	}
	dir := t.TempDir()
	source, err := os.ReadFile("_gen/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/main.go", source, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(goTool, "run", "main.go")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"unpack_08.go", "unpack_16.go", "unpack_24.go", "unpack_32.go"} {
		want, err := os.ReadFile(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what _gen writes (%v)", name, err)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(make([]byte, 64), 2, 5)
	f.Add(bytes.Repeat([]byte{0xa5}, 1024), 32, 0)
	f.Fuzz(func(t *testing.T, src []byte, width, from int) {
		var dst [Block]uint32
		ok := Unpack(&dst, src, width)
		if want := width >= 0 && width <= MaxWidth && len(src) >= 32*width; ok != want {
			t.Fatalf("width %d of %d bytes: %v", width, len(src), ok)
		}
		if ok && dst != unpackRef(src, width) {
			t.Fatal("differs from the reference")
		}
		run := Run(dst[:100], src, width)
		var part [1]uint32
		if from >= 0 && from < 100 && run && (!RunFrom(part[:], src, from, width) || part[0] != dst[from]) {
			t.Fatal("Run and RunFrom differ")
		}
		if from > -1000 && from < 1<<20 {
			RunFrom(part[:], src, from, width)
		}
	})
}

func BenchmarkUnpack(b *testing.B) {
	for _, width := range []int{1, 4, 7, 8, 12, 16, 20, 32} {
		rng := rand.New(rand.NewPCG(1, 1))
		src := [Block]uint32(random(rng, Block, width))
		packed := Pack(nil, &src, width)
		b.Run(string(rune('0'+width/10))+string(rune('0'+width%10)), func(b *testing.B) {
			var dst [Block]uint32
			for b.Loop() {
				Unpack(&dst, packed, width)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/Block, "ns/value")
		})
	}
}

func BenchmarkPrefixSum(b *testing.B) {
	var v [Block]uint32
	for b.Loop() {
		PrefixSum(v[:], 7)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/Block, "ns/value")
}

func BenchmarkRun(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	packed := AppendRun(nil, random(rng, 200, 9), 9)
	var dst [200]uint32
	for b.Loop() {
		Run(dst[:], packed, 9)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/200, "ns/value")
}

func TestAtRefuses(t *testing.T) {
	src := make([]byte, Size(5))
	for _, c := range []struct{ n, i, width int }{
		{Block, -1, 5}, {Block, Block, 5}, {Block, 0, 6}, {Block, 0, 33}, {Block, 0, -1},
	} {
		if _, ok := At(src, c.i, c.width); ok {
			t.Errorf("At(%d bytes, %d, %d) reads", len(src), c.i, c.width)
		}
		if _, ok := RunAt(src, c.n, c.i, c.width); ok {
			t.Errorf("RunAt(%d bytes, %d, %d, %d) reads", len(src), c.n, c.i, c.width)
		}
	}
}

func TestRunAtEqualsRun(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for width := range MaxWidth + 1 {
		for _, n := range []int{1, 2, 7, 63, 255} {
			src := random(rng, n, width)
			packed := AppendRun(nil, src, width)
			for i, want := range src {
				if v, ok := RunAt(packed, n, i, width); !ok || v != want {
					t.Fatalf("width %d, value %d of %d: %d, %v, want %d", width, i, n, v, ok, want)
				}
			}
		}
	}
}

func TestRanks(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for round := range 300 {
		v := [Block]uint32(random(rng, Block, 1+round%32))
		slices.Sort(v[:])
		xs := random(rng, rng.IntN(Block+1), 1+round%32)
		xs = append(xs, v[0], v[255], v[17], 0, 1<<32-1)[:min(len(xs)+5, Block)]
		var out [Block]uint16
		Ranks(out[:], &v, xs)
		for i, x := range xs {
			want := 0
			for want < Block && v[want] < x {
				want++
			}
			if int(out[i]) != want {
				t.Fatalf("round %d: rank of %d is %d, want %d", round, x, out[i], want)
			}
		}
	}
}
