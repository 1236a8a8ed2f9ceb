package chunk_test

import (
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/knowledge/chunk"
)

func Example() {
	c, err := chunk.New(&chunk.Options{Unit: chunk.Sentence, Size: new(2), Overlap: new(1)})
	if err != nil {
		fmt.Println(err)
		return
	}
	doc := chunk.Document{Text: "Dr. Vega paid. He left at 3.15. It was 😀 dark. Done."}
	for ch, err := range c.Chunks(doc) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ch.Start, ch.End, ch.UTF16Start, ch.UTF16End, ch.Text)
	}
	// Output:
	// 0 31 0 31 Dr. Vega paid. He left at 3.15.
	// 15 49 15 47 He left at 3.15. It was 😀 dark.
	// 32 55 32 53 It was 😀 dark. Done.
}

func ExampleStrategy_structure() {
	c, err := chunk.New(&chunk.Options{Strategy: chunk.Structure, Unit: chunk.Word, Size: new(8)})
	if err != nil {
		fmt.Println(err)
		return
	}
	doc := chunk.Document{Text: "# Account\n## Password\nGo to Settings. Click reset. Then wait for the mail.\n## Name\nWrite to us.\n"}
	chunks, err := chunk.Collect(c.Chunks(doc))
	for _, ch := range chunks {
		fmt.Printf("%s: %q\n", strings.Join(ch.Path, " > "), ch.Text)
	}
	fmt.Println(err)
	// Output:
	// Account > Password: "# Account\n## Password\nGo to Settings. Click reset."
	// Account > Password: "Then wait for the mail."
	// Account > Name: "## Name\nWrite to us."
	// <nil>
}

func ExampleOptionsFrom() {
	_, err := chunk.OptionsFrom(map[string]any{"unit": "word", "size": 0.5, "tokenLimit": "whatever"})
	fmt.Println(err)
	o, err := chunk.OptionsFrom(map[string]any{"strategy": "divide", "unit": "word", "size": 2.0})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := chunk.New(&o)
	if err != nil {
		fmt.Println(err)
		return
	}
	chunks, err := chunk.Collect(c.Chunks(chunk.Document{Text: "one two three four five"}))
	for _, ch := range chunks {
		fmt.Println(ch.Text)
	}
	fmt.Println(err)
	// Output:
	// quarry: invalid: chunk options: size is 0.5, not a whole number
	// one two three
	// four five
	// <nil>
}

func ExampleOffsets() {
	text := "dés 😀 tres"
	o := chunk.NewOffsets(text)
	runes, utf16s := o.At(strings.Index(text, "tres"))
	fmt.Println(strings.Index(text, "tres"), runes, utf16s)
	// Output: 10 6 7
}
