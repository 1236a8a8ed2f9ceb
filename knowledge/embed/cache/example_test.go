package cache_test

import (
	"context"
	"fmt"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/cache"
	"github.com/quarrysearch/quarry/storage"
)

// lengths is a toy embedder.
type lengths struct{}

func (lengths) Identity() embed.Identity { return embed.Identity{Name: "lengths", Dim: 1} }

func (lengths) Embed(_ context.Context, _ embed.Kind, texts []string) (r embed.Result, err error) {
	fmt.Println("embedding", texts)
	for _, t := range texts {
		r.Vectors = append(r.Vectors, float32(len(t)))
	}
	return r, nil
}

func ExampleCache_Wrap() {
	c, err := cache.Open("cache", cache.Options{FS: storage.NewMemFS()}) // without FS: on disk
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	e := c.Wrap(lengths{})
	for _, texts := range [][]string{{"granite", "mica"}, {"mica", "clay", "granite", "clay"}} {
		r, err := e.Embed(context.Background(), embed.Passage, texts)
		fmt.Println(r.Vectors, err)
	}
	s := c.Stats()
	fmt.Println(s.Hits, "hits,", s.Misses, "misses")
	// Output:
	// embedding [granite mica]
	// [7 4] <nil>
	// embedding [clay]
	// [4 4 7 4] <nil>
	// 3 hits, 3 misses
}
