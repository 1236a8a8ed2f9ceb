package knowledge

import (
	"os"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/cache"
	"github.com/quarrysearch/quarry/knowledge/embed/e5small"
	"github.com/quarrysearch/quarry/knowledge/rerank"
)

// Three bases of three languages, searched together by the embedded model: the
// known-item queries of all three, keyword, vector, hybrid, and hybrid
// reranked. Minutes of encoding; QUARRY_CACHE names a folder that keeps the
// vectors for the next time.
func TestDifyDocsByModel(t *testing.T) {
	if os.Getenv("QUARRY_LONG") == "" {
		t.Skip("QUARRY_LONG is not set: this takes minutes")
	}
	local, err := e5small.New()
	if err != nil {
		t.Fatal(err)
	}
	var e embed.Embedder = local
	if dir := os.Getenv("QUARRY_CACHE"); dir != "" {
		c, err := cache.Open(dir, cache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		e = c.Wrap(e)
	}
	langs := []string{"en", "ja", "zh"}
	s := difyDocs(t, e, langs)
	quality := make(map[string]float64)
	for _, c := range []struct {
		name string
		r    Request
	}{
		{"keyword", Request{Mode: Keyword}}, {"vector", Request{Mode: Vector}}, {"hybrid", Request{Mode: Hybrid}},
		{"hybrid, weighted", Request{Mode: Hybrid, Fusion: FusionWeighted}},
	} {
		quality[c.name] = difyQuality(t, s, langs, c.r)
		t.Logf("three bases together, %s: nDCG@10 %.4f", c.name, quality[c.name])
	}
	if better := max(quality["keyword"], quality["vector"]); quality["hybrid"] < better {
		t.Errorf("hybrid %.4f, the better leg %.4f", quality["hybrid"], better)
	}
	if os.Getenv("QUARRY_RERANK") == "" {
		return
	}
	late, err := rerank.LateInteraction(local, rerank.LateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("three bases together, hybrid + late interaction: nDCG@10 %.4f", difyQuality(t, s, langs, Request{Mode: Hybrid, TopK: 20, Rerank: late, RerankPool: 20}))
}
