package rerank

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// A cross-encoder from a directory (random weights) behind the Reranker
// contract: every passage but the blank ones, logits through a sigmoid, what was
// cut marked.
func TestCrossEncoder(t *testing.T) {
	for _, family := range []string{"bert", "roberta"} {
		m, err := embed.LoadDir(storage.OS{}, "../embed/testdata/cross/"+family, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := embed.NewCrossEncoder(m, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := CrossEncoder(c)
		in := []string{"a lamp is repaired with a rope", " \n", "the old bridge of stone", strings.Repeat("water ", 60)}
		got, err := r.Rerank(context.Background(), "how is a lamp repaired", in, 0)
		if err != nil || len(got) != 3 || Check(r.Name(), got, len(in), 0) != nil {
			t.Fatalf("%s: %v, %v", family, got, err)
		}
		for i, s := range got {
			want, err := c.Pairs(context.Background(), "how is a lamp repaired", in[s.Index:s.Index+1])
			if err != nil {
				t.Fatal(err)
			}
			if x := want.Logits[0]; s.Raw != x || math.Abs(s.Score-1/(1+math.Exp(-x))) > 1e-12 || s.Truncated != (s.Index == 3) {
				t.Errorf("%s: passage %d: %+v, want the logit %v", family, s.Index, s, x)
			}
			if i > 0 && s.Score > got[i-1].Score {
				t.Errorf("%s: place %d: %+v after %+v", family, i, s, got[i-1])
			}
		}
		best, err := r.Rerank(context.Background(), "how is a lamp repaired", in, 2)
		if err != nil || !slices.Equal(best, got[:2]) {
			t.Errorf("%s: top 2 %v, %v, want %v", family, best, err, got[:2])
		}
		if _, err := r.Rerank(context.Background(), "", in, 0); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: a blank query: %v", family, err)
		}
		if got, err := r.Rerank(context.Background(), "lamp", []string{"", " "}, 0); got != nil || err != nil {
			t.Errorf("%s: blank passages: %v, %v", family, got, err)
		}
		o, err := Apply(context.Background(), r, "lamp", in, 0, Keep)
		if err != nil || len(o.Ranked) != 4 || o.Scored != 3 || o.Ranked[3].Index != 1 || o.Ranked[3].Scored {
			t.Errorf("%s: %+v, %v", family, o, err)
		}
	}
}
