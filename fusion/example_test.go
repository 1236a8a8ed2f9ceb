package fusion_test

import (
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/fusion"
)

// Two legs found different documents; keys stand for ids.
func ExampleFuser_RRF() {
	ids := []string{"guide", "manual", "faq"}
	legs := []fusion.Leg{
		{Name: "text", Weight: 1, Items: []fusion.Item{{Key: 0, Score: .71, Raw: 9.2}, {Key: 2, Score: .64, Raw: 7.5}}},
		{Name: "vector", Weight: 1, Items: []fusion.Item{{Key: 1, Score: .83, Raw: .83}, {Key: 2, Score: .80, Raw: .80}}},
	}
	var f fusion.Fuser
	hits, err := f.RRF(legs, fusion.Options{Compare: func(a, b uint64) int { return strings.Compare(ids[a], ids[b]) }})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range hits {
		fmt.Printf("%.4f %s\n", h.Score, ids[h.Key])
	}
	fmt.Print(fusion.ExplainRRF(hits[0], legs, fusion.Options{}))
	// Output:
	// 0.9839 faq
	// 0.5000 guide
	// 0.5000 manual
	// 0.983871 rrf: sum of w/(60+rank), divided by the sum of w/61
	//   0.491935 text: rank 2, weight 1; raw 7.5, leg score 0.64
	//   0.491935 vector: rank 2, weight 1; raw 0.8, leg score 0.8
}

func ExampleFuser_Weighted() {
	legs := []fusion.Leg{
		{Weight: 0.3, Items: []fusion.Item{{Key: 1, Score: fusion.Keyword(0.5, 1.2)}}},
		{Weight: 0.7, Items: []fusion.Item{{Key: 2, Score: fusion.Cosine(0.9, 0)}, {Key: 1, Score: fusion.Cosine(0.4, 0)}}},
	}
	var f fusion.Fuser
	hits, err := f.Weighted(legs, fusion.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range fusion.AtLeast(hits, 0.4) {
		fmt.Printf("%d %.3f\n", h.Key, h.Score)
	}
	// Output:
	// 2 0.630
	// 1 0.486
}
