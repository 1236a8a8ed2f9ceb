// Command bleve measures bleve (scorch, BM25) on the files that quarry bench text
// is run on, in the same JSON lines.
//
//	go run -C bench/peers ./bleve -docs DOCS.txt -queries QUERIES.txt [-mode union|and|phrase] [-k 10] [-dir DIR]
//
// One query thread, each query's best of 5 passes. -dir keeps the index, and uses
// the one that is there.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search/query"
)

const (
	field  = "t"
	passes = 5
	batch  = 10_000 // documents
)

type options struct {
	docs, queries, mode, dir string
	k                        int
}

func main() {
	var o options
	flag.StringVar(&o.docs, "docs", "", "one document a line")
	flag.StringVar(&o.queries, "queries", "", "one query a line")
	flag.StringVar(&o.mode, "mode", "union", "union, and, phrase")
	flag.StringVar(&o.dir, "dir", "", "folder of the index; default a temporary one")
	flag.IntVar(&o.k, "k", 10, "hits a query")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "bleve:", err)
		os.Exit(1)
	}
}

func run(o options) (err error) {
	if o.docs == "" || o.queries == "" || !slices.Contains([]string{"union", "and", "phrase"}, o.mode) {
		return errors.New("want -docs, -queries and -mode union, and or phrase")
	}
	dir := o.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "bleve-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	dir = filepath.Join(dir, "index")
	set, _, _ := strings.Cut(filepath.Base(o.docs), ".")
	out := json.NewEncoder(os.Stdout)
	if _, serr := os.Stat(dir); errors.Is(serr, fs.ErrNotExist) {
		start := time.Now()
		n, err := index(dir, o.docs)
		if err != nil {
			return err
		}
		seconds := time.Since(start).Seconds()
		size, err := bytesOf(dir)
		if err != nil {
			return err
		}
		if err := out.Encode(map[string]any{"kind": "text index", "engine": "bleve", "set": set, "index_s": round(seconds), "docs": n, "bytes": size}); err != nil {
			return err
		}
	}
	ix, err := bleve.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	times, hits, err := search(ix, o)
	if err != nil {
		return err
	}
	slices.Sort(times)
	sum := 0.0
	for _, t := range times {
		sum += t
	}
	return out.Encode(map[string]any{"kind": "text", "engine": "bleve", "set": set, "mode": o.mode, "k": o.k, "queries": len(times), "hits": hits,
		"avg_us": round(sum / float64(len(times))), "p50_us": round(times[len(times)/2]), "p99_us": round(times[len(times)*99/100])})
}

func round(x float64) float64 { return math.Round(x*10) / 10 }

// settings index one text field without keeping it.
func settings() mapping.IndexMapping {
	text := bleve.NewTextFieldMapping()
	text.Store, text.IncludeInAll, text.DocValues, text.Analyzer = false, false, false, "standard"
	doc := bleve.NewDocumentStaticMapping()
	doc.AddFieldMappingsAt(field, text)
	m := bleve.NewIndexMapping()
	m.ScoringModel, m.DefaultMapping = "bm25", doc
	return m
}

func index(dir, docs string) (n int, err error) {
	ix, err := bleve.NewUsing(dir, settings(), "scorch", "scorch", nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	f, err := os.Open(docs)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 1<<20), 64<<20)
	b := ix.NewBatch()
	for lines.Scan() {
		if err := b.Index(strconv.Itoa(n), map[string]any{field: lines.Text()}); err != nil {
			return n, err
		}
		if n++; n%batch == 0 {
			if err := ix.Batch(b); err != nil {
				return n, err
			}
			b = ix.NewBatch()
		}
	}
	return n, cmp.Or(lines.Err(), ix.Batch(b))
}

// search returns each query's least time in microseconds, and the hits of all.
func search(ix bleve.Index, o options) (best []float64, hits int, err error) {
	text, err := os.ReadFile(o.queries)
	if err != nil {
		return nil, 0, err
	}
	var requests []*bleve.SearchRequest
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			requests = append(requests, bleve.NewSearchRequestOptions(parse(line, o.mode), o.k, 0, false))
		}
	}
	if len(requests) == 0 {
		return nil, 0, fmt.Errorf("%s has no queries", o.queries)
	}
	best = make([]float64, len(requests))
	for pass := range passes {
		hits = 0
		for i, r := range requests {
			start := time.Now()
			found, err := ix.Search(r)
			took := float64(time.Since(start).Nanoseconds()) / 1e3
			if err != nil {
				return nil, 0, err
			}
			hits += len(found.Hits)
			if pass == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	return best, hits, nil
}

func parse(line, mode string) query.Query {
	if mode == "phrase" {
		q := bleve.NewMatchPhraseQuery(line)
		q.SetField(field)
		return q
	}
	q := bleve.NewMatchQuery(line)
	q.SetField(field)
	if mode == "and" {
		q.SetOperator(query.MatchQueryOperatorAnd)
	}
	return q
}

func bytesOf(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}
