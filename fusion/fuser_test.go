package fusion

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// keyed makes a leg of one-letter items; the key is the letter.
func keyed(weight float64, items string) Leg {
	l := Leg{Name: items, Weight: weight}
	for i, r := range items {
		l.Items = append(l.Items, Item{Key: uint64(r), Score: 1 / float64(i+1), Raw: float64(100 - i)})
	}
	return l
}

// order writes hits as their letters.
func order(hits []Hit) string {
	var b strings.Builder
	for _, h := range hits {
		b.WriteRune(rune(h.Key))
	}
	return b.String()
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-15 {
		t.Errorf("%s: got %.17g, want %.17g", what, got, want)
	}
}

func scoreOf(t *testing.T, hits []Hit, key rune) float64 {
	t.Helper()
	for _, h := range hits {
		if h.Key == uint64(key) {
			return h.Score
		}
	}
	t.Fatalf("no hit %c", key)
	return 0
}

// e01 fuses the legs of case E01 and writes every hit with all its bits.
func e01(t *testing.T, f *Fuser) string {
	t.Helper()
	hits, err := f.RRF([]Leg{keyed(1, "abc"), keyed(1, "def")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, h := range hits {
		fmt.Fprintf(&b, "%c:%016x ", rune(h.Key), math.Float64bits(h.Score))
	}
	return b.String()
}

const childEnv = "QUARRY_FUSION_E01"

// E01: ties have one order, over many calls and in fresh processes.
func TestE01OneOrderAlways(t *testing.T) {
	var shared Fuser
	want := e01(t, &shared)
	if os.Getenv(childEnv) != "" {
		fmt.Println("order " + want)
		return
	}
	for range 1000 {
		if got := e01(t, &shared); got != want {
			t.Fatalf("warm: got %s, want %s", got, want)
		}
		if got := e01(t, new(Fuser)); got != want {
			t.Fatalf("fresh: got %s, want %s", got, want)
		}
	}
	hits, err := shared.RRF([]Leg{keyed(1, "abc"), keyed(1, "def")}, Options{K: 1})
	if err != nil || order(hits) != "a" {
		t.Fatalf("limit 1: got %q, %v, want a", order(hits), err)
	}
	near(t, "raw RRF of a", hits[0].Score*(2.0/61), 1.0/61)
	hits, err = shared.RRF([]Leg{keyed(1, "abc"), keyed(1, "def")}, Options{})
	if err != nil || order(hits) != "adbecf" {
		t.Fatalf("got %q, %v, want adbecf", order(hits), err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		cmd := exec.Command(exe, "-test.run=^TestE01OneOrderAlways$")
		cmd.Env = append(os.Environ(), childEnv+"=1", "GORACE=atexit_sleep_ms=0", fmt.Sprintf("GOMAXPROCS=%d", 1+i%4))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("process %d: %v\n%s", i, err, out)
		}
		if !strings.Contains(string(out), "order "+want) {
			t.Fatalf("process %d: got %s, want order %s", i, out, want)
		}
	}
}

// E01: the tie rule is the caller's.
func TestTiesByCompare(t *testing.T) {
	ids := map[uint64]string{1: "zebra", 2: "mole", 3: "ant"}
	byID := func(a, b uint64) int { return strings.Compare(ids[a], ids[b]) }
	legs := []Leg{
		{Weight: 1, Items: []Item{{Key: 1}}}, {Weight: 1, Items: []Item{{Key: 2}}}, {Weight: 1, Items: []Item{{Key: 3}}},
	}
	var f Fuser
	hits, err := f.RRF(legs, Options{Compare: byID})
	if err != nil || len(hits) != 3 || hits[0].Key != 3 || hits[1].Key != 2 || hits[2].Key != 1 {
		t.Fatalf("by id: got %v, %v", hits, err)
	}
	hits, err = f.RRF(legs, Options{Compare: func(a, b uint64) int { return 0 }})
	if err != nil || hits[0].Key != 1 || hits[2].Key != 3 {
		t.Fatalf("all equal: got %v, %v, want key order", hits, err)
	}
}

// E02: absence adds nothing, ranks count from 1.
func TestE02AbsenceAddsZero(t *testing.T) {
	var f Fuser
	hits, err := f.RRF([]Leg{keyed(1, "XaY"), keyed(1, "bcY")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := order(hits); got != "YXbac" {
		t.Fatalf("got %s, want YXbac", got)
	}
	norm := 2.0 / 61
	for key, want := range map[rune]float64{'Y': 2.0 / 63, 'X': 1.0 / 61, 'b': 1.0 / 61, 'a': 1.0 / 62, 'c': 1.0 / 62} {
		near(t, string(key), scoreOf(t, hits, key), want/norm)
	}
	near(t, "the record's figure for Y", math.Round(hits[0].Score*norm*1e6)/1e6, 0.031746)
	if s := hits[1].From; s[0].Rank != 1 || s[1] != (Source{}) {
		t.Errorf("X: got %+v, want rank 1 and nothing", s)
	}
	if s := hits[0].From; s[0].Rank != 3 || s[1].Rank != 3 || s[0].Raw != 98 || s[0].Score != 1.0/3 {
		t.Errorf("Y: got %+v", s)
	}
}

// E04: weights count, and bad ones are refused.
func TestE04Weights(t *testing.T) {
	fuse := func(wa, wb float64) ([]Hit, error) {
		return new(Fuser).RRF([]Leg{keyed(wa, "pq"), keyed(wb, "qp")}, Options{})
	}
	for _, c := range []struct {
		a, b float64
		want string
	}{{4, 1, "pq"}, {1, 4, "qp"}, {1, 1, "pq"}, {1, 0, "pq"}, {0, 1, "qp"}} {
		hits, err := fuse(c.a, c.b)
		if err != nil || order(hits) != c.want {
			t.Errorf("weights (%g,%g): got %q, %v, want %s", c.a, c.b, order(hits), err, c.want)
		}
	}
	hits, _ := fuse(4, 1)
	norm := 5.0 / 61
	near(t, "p under (4,1)", hits[0].Score*norm, 4.0/61+1.0/62)
	near(t, "q under (4,1)", hits[1].Score*norm, 4.0/62+1.0/61)
	near(t, "p to five places", math.Round(hits[0].Score*norm*1e5)/1e5, 0.08170)
	near(t, "q to five places", math.Round(hits[1].Score*norm*1e5)/1e5, 0.08091)
	tie, _ := fuse(1, 1)
	if tie[0].Score != tie[1].Score {
		t.Errorf("(1,1): %v and %v differ", tie[0].Score, tie[1].Score)
	}
	for _, w := range [][2]float64{{0, 0}, {-1, 2}, {math.NaN(), 1}, {1, math.NaN()}, {math.Inf(1), 1}, {1, math.Inf(-1)}} {
		for name, fn := range map[string]func(*Fuser, []Leg, Options) ([]Hit, error){"rrf": (*Fuser).RRF, "weighted": (*Fuser).Weighted} {
			hits, err := fn(new(Fuser), []Leg{keyed(w[0], "pq"), keyed(w[1], "qp")}, Options{})
			if !errors.Is(err, ErrInvalid) || hits != nil || !strings.Contains(fmt.Sprint(err), "weight") {
				t.Errorf("%s %v: got %v, %v, want ErrInvalid that names the weight", name, w, hits, err)
			}
		}
	}
}

// E05: nothing divides by zero.
func TestE05EmptyEqualAndThreshold(t *testing.T) {
	item := func(key rune, score float64) Item { return Item{Key: uint64(key), Score: score} }
	for name, fn := range map[string]func(*Fuser, []Leg, Options) ([]Hit, error){"rrf": (*Fuser).RRF, "weighted": (*Fuser).Weighted} {
		t.Run(name, func(t *testing.T) {
			var f Fuser
			fuse := func(legs ...Leg) []Hit {
				t.Helper()
				hits, err := fn(&f, legs, Options{})
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range hits {
					if !(h.Score >= 0 && h.Score <= 1) {
						t.Fatalf("score %v", h.Score)
					}
				}
				return hits
			}
			if got := order(fuse(Leg{Weight: 1}, Leg{Weight: 1, Items: []Item{item('x', .7), item('w', .2)}})); got != "xw" {
				t.Errorf("empty leg: got %s, want the other leg's order xw", got)
			}
			equal := fuse(Leg{Weight: 1, Items: []Item{item('x', .5), item('y', .5)}})
			if order(equal) != "xy" || (name == "weighted" && equal[0].Score != equal[1].Score) {
				t.Errorf("equal scores: got %+v", equal)
			}
			if one := fuse(Leg{Weight: 1, Items: []Item{item('x', 1)}}); len(one) != 1 || one[0].Score != 1 {
				t.Errorf("one hit: got %+v, want score 1", one)
			}
			if zero := fuse(Leg{Weight: 1, Items: []Item{item('x', 0)}}); len(zero) != 1 {
				t.Errorf("one hit of score 0: got %+v", zero)
			}
			if got := order(fuse(keyed(1, "x"), keyed(0, "yx"))); got != "x" {
				t.Errorf("weight 0: got %s, want x alone", got)
			}
			if none := fuse(Leg{Weight: 1}, Leg{Weight: 2}); len(none) != 0 {
				t.Errorf("empty legs: got %+v", none)
			}
			if cut := AtLeast(fuse(keyed(1, "xyz")), 1.1); len(cut) != 0 || cut == nil {
				t.Errorf("threshold 1.1: got %+v, want an empty list", cut)
			}
		})
	}
	if _, err := new(Fuser).RRF(nil, Options{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("no leg: got %v, want ErrInvalid", err)
	}
}

// E06: pages of one order joined are the order, and past the end there is none.
func TestE06Paging(t *testing.T) {
	var legs [2]Leg
	for i := range uint64(60) {
		legs[0].Items = append(legs[0].Items, Item{Key: i})
		legs[1].Items = append(legs[1].Items, Item{Key: i * 7 % 60})
	}
	legs[0].Weight, legs[1].Weight = 1, 1
	var f Fuser
	keys := func(hits []Hit) (out []uint64) {
		for _, h := range hits {
			out = append(out, h.Key)
		}
		return out
	}
	long, err := f.RRF(legs[:], Options{K: 50})
	if err != nil {
		t.Fatal(err)
	}
	want := keys(long)
	var joined []uint64
	for offset := 0; offset < 50; offset += 5 {
		hits, err := f.RRF(legs[:], Options{K: offset + 5}) // deeper each time: scores and order must not move
		if err != nil {
			t.Fatal(err)
		}
		joined = append(joined, keys(Page(hits, offset, 5))...)
	}
	if !slices.Equal(joined, want) {
		t.Errorf("pages %v, long list %v", joined, want)
	}
	all, _ := f.RRF(legs[:], Options{})
	for _, offset := range []int{60, 61, math.MaxInt} {
		if p := Page(all, offset, 5); p == nil || len(p) != 0 {
			t.Errorf("offset %d: got %v, want an empty page", offset, p)
		}
	}
	if p := Page(all, 58, 5); len(p) != 2 {
		t.Errorf("last page: got %d hits, want 2", len(p))
	}
	if p := Page(all, -3, math.MaxInt); len(p) != 60 {
		t.Errorf("negative offset: got %d hits, want 60", len(p))
	}
}

// S0.8: a repeated key counts once, at its best rank, and takes no other's rank.
func TestRepeatsInALeg(t *testing.T) {
	hits, err := new(Fuser).RRF([]Leg{keyed(1, "aabab")}, Options{})
	if err != nil || order(hits) != "ab" {
		t.Fatalf("got %q, %v", order(hits), err)
	}
	near(t, "a", hits[0].Score, 1)
	near(t, "b", hits[1].Score, 61.0/62)
	if hits[1].From[0].Rank != 2 || hits[1].From[0].Raw != 98 {
		t.Errorf("b: got %+v, want rank 2 and the raw value of its first place", hits[1].From[0])
	}
}

func TestWeightedExact(t *testing.T) {
	legs := []Leg{
		{Weight: 3, Items: []Item{{Key: 'a', Score: .5}, {Key: 'b', Score: .25}}},
		{Weight: 1, Items: []Item{{Key: 'b', Score: 1}, {Key: 'c', Score: 0}}},
	}
	hits, err := new(Fuser).Weighted(legs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if order(hits) != "bac" || hits[0].Score != .4375 || hits[1].Score != .375 || hits[2].Score != 0 {
		t.Errorf("got %+v", hits)
	}
	for _, bad := range []float64{math.NaN(), -1e-9, 1.0000001, math.Inf(1)} {
		legs[1].Items[1].Score = bad
		if _, err := new(Fuser).Weighted(legs, Options{}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "item 1 of leg 1") {
			t.Errorf("score %v: got %v, want ErrInvalid that names the item", bad, err)
		}
	}
}

// Weights act by their ratio, at either end of float64.
func TestExtremeWeights(t *testing.T) {
	want, err := new(Fuser).RRF([]Leg{keyed(4, "pq"), keyed(1, "qp")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, exp := range []int{-1074, -1000, 0, 700, 1021} {
		u := math.Ldexp(1, exp)
		for name, fn := range map[string]func(*Fuser, []Leg, Options) ([]Hit, error){"rrf": (*Fuser).RRF, "weighted": (*Fuser).Weighted} {
			hits, err := fn(new(Fuser), []Leg{keyed(4*u, "pq"), keyed(u, "qp")}, Options{})
			if err != nil || len(hits) != 2 {
				t.Fatalf("%s 2^%d: %v, %v", name, exp, hits, err)
			}
			if name == "rrf" && (hits[0].Score != want[0].Score || hits[1].Score != want[1].Score) {
				t.Errorf("2^%d: got %v and %v, want %v and %v", exp, hits[0].Score, hits[1].Score, want[0].Score, want[1].Score)
			}
		}
	}
	hits, err := new(Fuser).RRF([]Leg{keyed(math.MaxFloat64, "p"), keyed(math.SmallestNonzeroFloat64, "q")}, Options{})
	if err != nil || len(hits) == 0 || hits[0].Key != 'p' || hits[0].Score != 1 {
		t.Errorf("largest beside smallest: got %v, %v", hits, err)
	}
}

func TestOptionsChecked(t *testing.T) {
	for _, o := range []Options{{RankConstant: -1}, {K: -1}} {
		if _, err := new(Fuser).RRF([]Leg{keyed(1, "a")}, o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: got %v, want ErrInvalid", o, err)
		}
	}
	hits, err := new(Fuser).RRF([]Leg{keyed(1, "ab")}, Options{RankConstant: 1})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "b under rank constant 1", hits[1].Score, 2.0/3)
}

func TestScratchReuseAndClone(t *testing.T) {
	var f Fuser
	first, err := f.RRF([]Leg{keyed(1, "abc"), keyed(1, "cba")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	kept := Clone(first)
	want := fmt.Sprint(kept)
	if _, err := f.Weighted([]Leg{keyed(1, "zyxwvut")}, Options{}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(kept); got != want {
		t.Errorf("the clone changed: got %s, want %s", got, want)
	}
	legs := benchLegs(2, 100)
	byKey := func(a, b uint64) int { return int(a) - int(b) }
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := f.RRF(legs, Options{Compare: byKey}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Weighted(legs, Options{K: 10}); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%g allocations in a warm fusion, want 0", allocs)
	}
}
