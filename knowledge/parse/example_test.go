package parse_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/quarrysearch/quarry/knowledge/parse"
)

func ExampleParse() {
	src := []byte("---\ntitle: Setup\n---\n# Install\n\nRun it.\n\n## Linux\n\nUse **apt**.\n")
	doc, err := parse.Parse(context.Background(), "setup.md", src, parse.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(doc.Format, doc.Metadata.Title)
	for _, s := range doc.Sections {
		from, to, _ := doc.Map.Source(s.Start, s.Body)
		fmt.Printf("%d %q source[%d:%d] = %q\n", s.Level, s.Path, from, to, src[from:to])
	}
	// Output:
	// markdown Setup
	// 1 ["Install"] source[21:30] = "# Install"
	// 2 ["Install" "Linux"] source[41:49] = "## Linux"
}

func ExampleParse_error() {
	_, err := parse.Parse(context.Background(), "photo.txt", []byte("\x89PNG\r\n\x1a\n\x00"), parse.Options{})
	fmt.Println(errors.Is(err, parse.ErrUnsupported), err)
	// Output: true parse: photo.txt (text): parse: unsupported format: PNG image
}

func ExampleDocument_PageAt() {
	doc, err := parse.Parse(context.Background(), "letter.txt", []byte("first page\fsecond page"), parse.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(doc.PageAt(0), doc.PageAt(11), len(doc.Pages))
	// Output: 1 2 2
}
