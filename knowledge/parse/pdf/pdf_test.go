package pdf

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode"
)

// defaults are the limits that package parse gives.
func defaults() Limits {
	return Limits{Pages: 20_000, Decoded: 512 << 20, PageOps: 5_000_000, PageBytes: 16 << 20, PageTime: 5 * time.Second, Time: 2 * time.Minute}
}

// words counts runs of letters and digits, ideographs and kana one by one.
func words(s string) map[string]int {
	m := map[string]int{}
	start := -1
	for i, r := range s {
		single := wide(r)
		if start >= 0 && (single || !unicode.IsLetter(r) && !unicode.IsDigit(r)) {
			m[s[start:i]]++
			start = -1
		}
		if single && unicode.IsLetter(r) {
			m[string(r)]++
		} else if start < 0 && !single && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			start = i
		}
	}
	if start >= 0 {
		m[s[start:]]++
	}
	return m
}

// The reference is poppler's text of each page. Every page must be there under
// its number, and at least 95 % of its words found, counted with repetition.
func TestDebianReferencePages(t *testing.T) {
	root := os.Getenv("QUARRY_DATA")
	if root == "" {
		t.Skip("QUARRY_DATA is not set")
	}
	for _, lang := range []string{"en", "de", "fr", "ja", "zh-cn"} {
		dir := filepath.Join(root, "debian-reference", lang)
		data, err := os.ReadFile(filepath.Join(dir, "debian-reference."+lang+".pdf"))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		r, err := Extract(context.Background(), data, defaults())
		if err != nil {
			t.Fatal(lang, err)
		}
		took := time.Since(begin)
		want := reference(t, filepath.Join(dir, "pages.jsonl.gz"))
		if len(r.Pages) != len(want) {
			t.Fatalf("%s: %d pages, want %d", lang, len(r.Pages), len(want))
		}
		total, found, extra, worst, worstPage := 0, 0, 0, 1.0, 0
		for i, text := range want {
			ref, got := words(text), words(r.Pages[i].Text)
			n, hit := 0, 0
			for w, c := range ref {
				n += c
				hit += min(c, got[w])
			}
			for w, c := range got {
				extra += max(0, c-ref[w])
			}
			total, found = total+n, found+hit
			if n > 0 && float64(hit)/float64(n) < worst {
				worst, worstPage = float64(hit)/float64(n), i+1
			}
		}
		share := float64(found) / float64(total)
		t.Logf("%s: %d pages, %d words, %.2f %% found, %.2f %% extra, worst page %d with %.1f %%, %d bookmarks, %v", lang, len(want), total,
			100*share, 100*float64(extra)/float64(total), worstPage, 100*worst, len(r.Outline), took.Round(time.Millisecond))
		if share < 0.95 {
			t.Errorf("%s: %.2f %% of the words found, want 95", lang, 100*share)
		}
	}
}

func reference(t *testing.T, file string) []string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		var p struct {
			Page int
			Text string
		}
		if err := json.Unmarshal(sc.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if p.Page != len(out)+1 {
			t.Fatalf("page %d out of order", p.Page)
		}
		out = append(out, p.Text)
	}
	return out
}
