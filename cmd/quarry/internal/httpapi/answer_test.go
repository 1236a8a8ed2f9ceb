package httpapi

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/index"
)

// plainAnswer is a searchAnswer that encoding/json writes.
type plainAnswer searchAnswer

func sampleAnswer() *searchAnswer {
	total := 7
	return &searchAnswer{
		Hits: []index.Hit{
			{ID: "a", Score: 0.1, Kind: index.ScoreRRF, Keyword: &index.Leg{Rank: 1, Raw: 12.5, Score: 1e-9}, Vector: &index.Leg{Rank: 300, Raw: -0.25, Score: 1}},
			{ID: "\"\\\n\x00é\u2028<&", Score: 1, Kind: index.ScoreFilter, Fields: map[string]any{"s": "x\ty", "i": int64(math.MaxInt64), "f": 1e21, "b": true, "n": nil,
				"t": time.Date(2024, 1, 2, 3, 4, 5, 6000, time.UTC), "l": []string{"p", "q"}, "e": []string{}, "is": []int64{1, 2}, "ts": []time.Time{time.Unix(0, 0).UTC()}}},
			{ID: "c", Highlights: map[string][]index.Passage{"t": {{Text: "x", Start: 1, End: 2, Marks: []index.Span{{Start: 0, End: 1}}}}},
				Explanation: &index.Explanation{Value: 1, What: "sum", Details: []index.Explanation{{Value: 0.5, What: "part"}}}},
		},
		Total: &total, Next: "AQ", Facets: map[string][]index.FacetCount{"k": {{Value: "v", Count: 3}}}, Plan: &index.Plan{Documents: 3}, Notes: []string{"a note"},
		Groups: []index.Group{{Value: "v", Hits: []index.Hit{{ID: "a"}, {ID: "b"}}}, {Value: int64(math.MinInt64), Hits: []index.Hit{{ID: "c"}}}},
	}
}

func TestSearchAnswerIsWhatEncodingJSONWrites(t *testing.T) {
	for _, a := range []*searchAnswer{sampleAnswer(), {Hits: []index.Hit{}}} {
		fast, err := a.appendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		slow, err := json.Marshal((*plainAnswer)(a))
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := json.Unmarshal(fast, &got); err != nil {
			t.Fatalf("%v: %s", err, fast)
		}
		if err := json.Unmarshal(slow, &want); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "é\u2028😀", "\xff\xed\xa0\x80x", "</script>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var a, b string
		if err := json.Unmarshal(appendString(nil, s), &a); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if err := json.Unmarshal(want, &b); err != nil || a != b {
			t.Errorf("%q is read as %q, want %q", s, a, b)
		}
	})
}

func BenchmarkSearchAnswer(b *testing.B) {
	a := &searchAnswer{}
	for i := range 10 {
		a.Hits = append(a.Hits, index.Hit{ID: "document-1234", Score: 0.123456789 / float64(i+1), Kind: index.ScoreRRF, Keyword: &index.Leg{Rank: i, Raw: 12.3456789012, Score: 0.55}, Vector: &index.Leg{Rank: i, Raw: 0.87654321, Score: 0.8},
			Fields: map[string]any{"title": "A title of some words", "lang": "en"}})
	}
	buf := make([]byte, 0, 1<<14)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := a.appendJSON(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal((*plainAnswer)(a)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
