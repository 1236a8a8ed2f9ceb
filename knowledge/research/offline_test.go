package research

import (
	"slices"
	"testing"
)

// More clauses than queries are put together, none is lost.
func TestOfflinePlan(t *testing.T) {
	for n, want := range map[int][]string{1: {"a"}, 2: {"a", "b"}, 3: {"a", "b", "c"}, 4: {"a", "b", "c d"}, 5: {"a", "b c", "d e"}, 7: {"a b", "c d", "e f g"}} {
		q := Question{Text: "x", Complex: true, Clauses: []string{"a", "b", "c", "d", "e", "f", "g"}[:n]}
		if got := (Offline{}).plan(q); !slices.Equal(got, want) {
			t.Errorf("%d clauses: %q, want %q", n, got, want)
		}
	}
}

func TestOfflineJudge(t *testing.T) {
	one := []Passage{{ID: "1", Title: "Refunds", Text: "It takes thirty days.", Score: .9}}
	for _, c := range []struct {
		question string
		evidence []Passage
		enough   bool
		missing  []string
	}{
		{"how long do refunds take", one, true, nil},
		{"refunding takes in Brazil", one, true, nil}, // stems; two of three
		{"retry backoff of refunds", one, false, []string{"retry backoff"}},
		{"how long do refunds take", nil, false, nil},
		// A passage far below the best is there by the way.
		{"retry backoff", append(slices.Clone(one), Passage{ID: "2", Text: "retry with backoff", Score: .4}), false, []string{"retry backoff"}},
		{"retry backoff", append(slices.Clone(one), Passage{ID: "2", Text: "retry with backoff", Score: .5}), true, nil},
		// Each clause counts.
		{"How long do refunds take? What does express shipping cost?", one, false, []string{"express shipping cost"}},
		{"退款需要多久？标准运费多少？", []Passage{{ID: "1", Text: "退款需要三十天。", Score: 1}}, false, []string{"标准运费多少"}},
		{"返金の期間と送料の違いは", []Passage{{ID: "1", Text: "返金の期間と送料は別です。", Score: 1}}, true, nil},
	} {
		v, err := (Offline{}).Sufficient(bg, Classify(c.question), c.evidence, nil)
		if err != nil || v.Sufficient != c.enough || !slices.Equal(v.Missing, c.missing) {
			t.Errorf("%s: %+v, %v", c.question, v, err)
		}
	}
}
