package chunk

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// realTexts reads texts of the staged collections, up to a MiB each.
func realTexts(t testing.TB) map[string][]string {
	t.Helper()
	dir := os.Getenv("QUARRY_DATA")
	if dir == "" {
		t.Skip("QUARRY_DATA is not set")
	}
	out := map[string][]string{}
	for _, name := range []string{
		"dify-docs/docs.jsonl.gz", "nodejs-org/docs.jsonl.gz", "debian-reference/de/debian-reference.de.txt.gz",
		"debian-reference/ja/debian-reference.ja.txt.gz", "debian-reference/zh-cn/debian-reference.zh-cn.txt.gz",
	} {
		f, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Skip("QUARRY_DATA has no " + name)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		r := io.LimitReader(z, 1<<20)
		if filepath.Ext(name[:len(name)-3]) == ".txt" {
			data, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = []string{string(data)}
			continue
		}
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 8<<20)
		for lines.Scan() {
			var doc struct{ Text string }
			if json.Unmarshal(lines.Bytes(), &doc) == nil {
				out[name] = append(out[name], doc.Text)
			}
		}
	}
	return out
}

// Real documents, by the ways of cutting that people use.
func TestRealDocuments(t *testing.T) {
	for name, list := range realTexts(t) {
		for _, o := range []Options{
			{Strategy: Structure, Size: new(300)}, {Unit: Sentence, Size: new(5)}, {}, {Unit: Paragraph, Size: new(3), TokenLimit: 200},
		} {
			o.MaxChunks = -1
			c, err := New(&o)
			if err != nil {
				t.Fatal(err)
			}
			n, size, short := 0, 0, 0
			for _, text := range list {
				chunks, err := Collect(c.Chunks(Document{Text: text}))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if len(text) < 1<<18 {
					checkChunks(t, text, &c.s, chunks)
					checkSizes(t, text, c, chunks)
				} else {
					checkCovered(t, text, chunks, false)
				}
				n += len(chunks)
				size += len(text)
				for _, ch := range chunks {
					if ch.UTF16End-ch.UTF16Start < 40 {
						short++
					}
				}
			}
			t.Logf("%s, %s %s: %d chunks, %d below 40 characters, of %d bytes", name, c.s.strategy, c.s.unit, n, short, size)
		}
	}
}
