package rerank

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/e5small"
)

// BenchmarkLateInteraction reranks the default number of passages, of some 250
// tokens each, by the embedded model.
func BenchmarkLateInteraction(b *testing.B) {
	words := strings.Fields("the of and stone bridge river water lamp keeper old new quarry repaired before storm engine pressure measured result shows")
	rng := rand.New(rand.NewPCG(1, 1))
	passages := make([]string, lateDepth)
	for i := range passages {
		for range 180 + rng.IntN(40) {
			passages[i] += words[rng.IntN(len(words))] + " "
		}
	}
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			e, err := e5small.NewWithOptions(&embed.Options{Workers: workers})
			if err != nil {
				b.Fatal(err)
			}
			r, err := LateInteraction(e, LateOptions{})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := r.Rerank(context.Background(), "how was the old lamp repaired", passages, 10); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
