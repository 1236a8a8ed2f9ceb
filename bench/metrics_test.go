package bench

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func judge(t *testing.T, ranked string, judgements map[string]int) Judged {
	t.Helper()
	j, err := Judge(strings.Fields(ranked), judgements)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// Worked by hand.
func TestMetricsByHand(t *testing.T) {
	judgements := map[string]int{"a": 3, "b": 2, "c": 1, "d": 0, "e": -1, "z": 2}
	j := judge(t, "d b x a c e", judgements)
	log := math.Log2
	near(t, "nDCG@10", j.NDCG(10), (2/log(3)+3/log(5)+1/log(6))/(3/log(2)+2/log(3)+2/log(4)+1/log(5)))
	near(t, "nDCG@10, as a number", j.NDCG(10), 0.516596110223483)
	near(t, "nDCG@2", j.NDCG(2), (2/log(3))/(3+2/log(3)))
	near(t, "AP", j.AP(), (1.0/2+2.0/4+3.0/5)/4)
	near(t, "recall@2", j.Recall(2), 1.0/4)
	near(t, "recall@100", j.Recall(100), 3.0/4)
	near(t, "RR@10", j.RR(10), 1.0/2)
	near(t, "RR@1", j.RR(1), 0)
	if j.Relevant() != 4 {
		t.Errorf("relevant: got %d, want 4", j.Relevant())
	}

	perfect := judge(t, "a z b c", judgements)
	for name, got := range map[string]float64{"nDCG": perfect.NDCG(10), "AP": perfect.AP(), "recall": perfect.Recall(4), "RR": perfect.RR(10)} {
		near(t, "perfect "+name, got, 1)
	}
	for what, j := range map[string]Judged{
		"nothing found": judge(t, "", judgements), "nothing relevant found": judge(t, "d e x", judgements), "nothing judged": judge(t, "a b", nil),
	} {
		for name, got := range map[string]float64{"nDCG": j.NDCG(10), "AP": j.AP(), "recall": j.Recall(100), "RR": j.RR(10)} {
			near(t, what+", "+name, got, 0)
		}
	}
	if _, err := Judge([]string{"a", "b", "a"}, judgements); err == nil || !strings.Contains(err.Error(), `"a" at rank 3`) {
		t.Errorf("repeated document: got %v", err)
	}
}

func TestRecallAt(t *testing.T) {
	truth := []int32{1, 2, 3, 4}
	for _, c := range []struct {
		found []int32
		k     int
		want  float64
	}{
		{[]int32{4, 3, 2, 1}, 4, 1}, {[]int32{1, 1, 1, 1}, 4, .25}, {[]int32{9, 8, 1, 2}, 2, 0},
		{[]int32{2}, 2, .5}, {nil, 4, 0}, {[]int32{3, 4}, 2, 0},
	} {
		if got := RecallAt(c.found, truth, c.k); got != c.want {
			t.Errorf("recall@%d of %v: got %v, want %v", c.k, c.found, got, c.want)
		}
	}
}

func TestLatencyIsTheLeastOfAllPasses(t *testing.T) {
	times := make([]time.Duration, 200)
	for i := range times {
		times[len(times)-1-i] = time.Duration(i+1) * 10 * time.Microsecond
	}
	l := summarize(times)
	near(t, "avg", l.AvgUs, 1005)
	near(t, "p50", l.P50Us, 1010) // sorted[100]
	near(t, "p99", l.P99Us, 1990) // sorted[198]
	if (summarize(nil) != Latency{}) {
		t.Error("no queries: want zeros")
	}

	calls := 0
	l, err := Measure(context.Background(), 2, 5, func(_ context.Context, i int) error {
		if calls++; calls <= 2 {
			time.Sleep(20 * time.Millisecond) // only the first pass is slow
		}
		return nil
	})
	if err != nil || calls != 10 || l.P99Us >= 20000 {
		t.Errorf("got %+v, %v after %d calls, want a fast pass's times after 10", l, err, calls)
	}
	broken := errors.New("broken")
	if _, err := Measure(context.Background(), 2, 1, func(_ context.Context, i int) error {
		if i == 1 {
			return broken
		}
		return nil
	}); !errors.Is(err, broken) {
		t.Errorf("got %v, want the query's error", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := Measure(ctx, 5, 5, func(context.Context, int) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
