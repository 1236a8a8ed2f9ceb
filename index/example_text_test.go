package index_test

import (
	"context"
	"fmt"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/keyword"
	"github.com/quarrysearch/quarry/storage"
)

// Documents of several languages: a text field for each analyzer, of which a
// document fills one. A query searches all of them, in each with that language's
// rules and word frequencies, and takes the score of the field that fits best.
func Example_languages() {
	ctx := context.Background()
	ix, err := index.Open("/library", &index.Options{FS: storage.NewMemFS(), Schema: &index.Schema{Text: []index.TextField{
		{Name: "text_english", Analyzer: "english"}, {Name: "text_german", Analyzer: "german"}, {Name: "text_standard", Analyzer: "standard"},
	}}})
	if err != nil {
		panic(err)
	}
	defer ix.Close()
	d := analysis.NewDetector()
	b := index.NewBatch()
	for id, text := range map[string]string{
		"en": "The houses of the old town are made of stone, and so is the bridge.",
		"de": "Die Häuser der alten Stadt sind aus Stein, und die Brücke ist es auch.",
		"id": "SKU 4711, bolt M8",
	} {
		analyzer, _ := d.Language("", text) // or the language a document declares
		b.Put(index.Document{ID: id, Text: map[string]string{"text_" + analyzer: text}})
	}
	if err := ix.Apply(ctx, b); err != nil {
		panic(err)
	}
	for _, q := range []string{"house", "Haus", "bolt m8"} {
		r, err := ix.Search(ctx, index.Query{K: 3, Text: &index.TextQuery{Text: q, Join: keyword.JoinBest}})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %s %.2f\n", q, r.Hits[0].ID, r.Hits[0].Score)
	}
	// Output:
	// house: en 0.65
	// Haus: de 0.65
	// bolt m8: id 0.65
}

// The same question as people type it and as a program builds it.
func ExampleTextQuery() {
	ctx := context.Background()
	ix, err := index.Open("/notes", &index.Options{FS: storage.NewMemFS(), Schema: &index.Schema{Text: []index.TextField{{Name: "title", Boost: 2}, {Name: "body"}}}})
	if err != nil {
		panic(err)
	}
	defer ix.Close()
	b := index.NewBatch()
	for id, text := range map[string][2]string{
		"a": {"River banks", "The old bank of the river."},
		"b": {"Banks", "A bank lends money."},
		"c": {"Rivers", "A long river without a bridge."},
	} {
		b.Put(index.Document{ID: id, Text: map[string]string{"title": text[0], "body": text[1]}})
	}
	if err := ix.Apply(ctx, b); err != nil {
		panic(err)
	}
	for _, q := range []*index.TextQuery{
		{QueryString: `rivr~1 "old bank" -money title:(banks OR rivers) (unclosed`},
		{Clause: &keyword.Clause{Bool: &keyword.Bool{
			Should:  []keyword.Clause{{Fuzzy: "rivr", Errors: 1}, {Phrase: "old bank"}},
			MustNot: []keyword.Clause{{Match: "money"}},
		}}},
	} {
		r, err := ix.Search(ctx, index.Query{K: 3, Text: q})
		if err != nil {
			panic(err)
		}
		for _, h := range r.Hits {
			fmt.Print(h.ID, " ")
		}
		fmt.Println(r.Notes)
	}
	// Output:
	// a c [query string, byte 49: a parenthesis that nothing closes]
	// a c []
}
