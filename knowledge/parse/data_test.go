package parse

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
)

type nodePage struct {
	ID, Title, Text string
	Metadata        map[string]any
}

func nodePages(t testing.TB) []nodePage {
	var pages []nodePage
	sc := bufio.NewScanner(bytes.NewReader(gunzip(t, dataDir(t), "nodejs-org", "docs.jsonl.gz")))
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		var p nodePage
		if err := json.Unmarshal(sc.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		pages = append(pages, p)
	}
	return pages
}

// Every page is read with its metadata as front matter: title, dates and authors
// come back, the text is the body byte for byte, and the headings are those that
// a scan for # lines outside of fences finds.
func TestNodePages(t *testing.T) {
	pages := nodePages(t)
	if len(pages) != 1259 {
		t.Fatalf("%d pages", len(pages))
	}
	sections, fenced, tables, dates := 0, 0, 0, 0
	for _, p := range pages {
		front := map[string]any{"title": p.Title}
		for k, v := range p.Metadata {
			front[k] = v
		}
		head, err := yaml.Marshal(front)
		if err != nil {
			t.Fatal(err)
		}
		src := "---\n" + string(head) + "---\n" + p.Text
		d := mustParse(t, p.ID+".md", []byte(src))
		if d.Text != p.Text {
			t.Fatalf("%s: text differs", p.ID)
		}
		if from, to, ok := d.Map.Source(0, len(d.Text)); len(p.Text) > 0 && (!ok || src[from:to] != p.Text) {
			t.Fatalf("%s: map leads to %d–%d", p.ID, from, to)
		}
		if d.Metadata.Title != p.Title {
			t.Errorf("%s: title %q, want %q", p.ID, d.Metadata.Title, p.Title)
		}
		if s, ok := p.Metadata["date"].(string); ok {
			if want := parseTime(s); want.IsZero() || !d.Metadata.Date.Equal(want) {
				t.Errorf("%s: date %v, want %s", p.ID, d.Metadata.Date, s)
			}
			dates++
		}
		if lang, _ := p.Metadata["lang"].(string); d.Metadata.Language != lang {
			t.Errorf("%s: language %q", p.ID, d.Metadata.Language)
		}
		if a, ok := p.Metadata["author"].([]any); ok && len(a) != len(d.Metadata.Authors) {
			t.Errorf("%s: authors %q, want %q", p.ID, d.Metadata.Authors, a)
		}
		for _, b := range d.Blocks {
			switch b.Kind {
			case Code:
				fenced++
			case Table:
				tables++
			}
		}
		sections += len(d.Sections)
		if want := scanHeadings(p.Text); len(want) != len(d.Sections) {
			t.Errorf("%s: %d sections, a line scan finds %d", p.ID, len(d.Sections), len(want))
		}
	}
	t.Logf("%d pages, %d sections, %d code blocks, %d tables, %d dates", len(pages), sections, fenced, tables, dates)
	if dates < 1000 || sections < 5000 || fenced < 1000 || tables < 50 {
		t.Error("too little was found")
	}
}

func scanHeadings(text string) []string {
	var out []string
	fence := ""
	for _, line := range strings.Split(text, "\n") {
		trim := strings.TrimLeft(line, " ")
		if strings.HasPrefix(trim, "```") || strings.HasPrefix(trim, "~~~") {
			if fence == "" {
				fence = trim[:3]
			} else if strings.HasPrefix(trim, fence) {
				fence = ""
			}
			continue
		}
		if rest := strings.TrimLeft(line, "#"); fence == "" && rest != line && len(line)-len(rest) <= 6 && strings.HasPrefix(rest, " ") {
			out = append(out, line)
		}
	}
	return out
}

// wordSet counts words: runs of letters and digits, ideographs and kana one by
// one, since the plain text breaks their lines anywhere.
func wordSet(s string) map[string]int {
	m := map[string]int{}
	for _, w := range strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		from := 0
		for i, r := range w {
			if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r == 'ー' {
				if from < i {
					m[w[from:i]]++
				}
				m[string(r)]++
				from = i + len(string(r))
			}
		}
		if from < len(w) {
			m[w[from:]]++
		}
	}
	return m
}

// The HTML pages of the book hold the words of its plain text, in five languages.
func TestDebianHTML(t *testing.T) {
	dir := filepath.Join(dataDir(t), "debian-reference")
	for _, lang := range []string{"en", "de", "fr", "ja", "zh-cn"} {
		tr := tar.NewReader(bytes.NewReader(gunzip(t, dir, lang, "html.tar.gz")))
		got := map[string]int{}
		files, sections, tables, code, size := 0, 0, 0, 0, 0
		begin := time.Now()
		for {
			h, err := tr.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(h.Name, ".html") {
				continue
			}
			data, err := io.ReadAll(tr)
			if err != nil {
				t.Fatal(err)
			}
			d := mustParse(t, h.Name, data)
			if d.Metadata.Title == "" || len(d.Sections) == 0 {
				t.Errorf("%s: title %q, %d sections", h.Name, d.Metadata.Title, len(d.Sections))
			}
			for _, b := range d.Blocks {
				switch b.Kind {
				case Table:
					tables++
				case Code:
					code++
				}
			}
			files, sections, size = files+1, sections+len(d.Sections), size+len(data)
			for w, n := range wordSet(d.Text) {
				got[w] += n
			}
		}
		took := time.Since(begin)
		total, found := 0, 0
		for w, n := range wordSet(string(gunzip(t, dir, lang, fmt.Sprintf("debian-reference.%s.txt.gz", lang)))) {
			total += n
			found += min(n, got[w])
		}
		t.Logf("%s: %d files, %d sections, %d tables, %d code blocks, %.2f %% of %d words, %.1f MB/s with checks", lang, files, sections, tables, code,
			100*float64(found)/float64(total), total, float64(size)/1e6/took.Seconds())
		if files != 15 || float64(found) < 0.97*float64(total) || tables < 100 || code < 100 {
			t.Errorf("%s: too little was found", lang)
		}
	}
}

// Page numbers through the whole of Parse: the text of page n is on page n.
func TestDebianPDF(t *testing.T) {
	dir := filepath.Join(dataDir(t), "debian-reference", "de")
	data, err := os.ReadFile(filepath.Join(dir, "debian-reference.de.pdf"))
	if err != nil {
		t.Fatal(err)
	}
	d := mustParse(t, "book.pdf", data)
	if len(d.Pages) != 276 || len(d.Sections) < 440 || d.Metadata.Title == "" || d.Metadata.Date.Year() != 2023 {
		t.Fatalf("%d pages, %d sections, %+v", len(d.Pages), len(d.Sections), d.Metadata)
	}
	sc := bufio.NewScanner(bytes.NewReader(gunzip(t, dir, "pages.jsonl.gz")))
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		var p struct {
			Page int
			Text string
		}
		if err := json.Unmarshal(sc.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		page := d.Pages[p.Page-1]
		want, got := wordSet(p.Text), wordSet(d.Text[page.Start:page.End])
		n, hit := 0, 0
		for w, c := range want {
			n, hit = n+c, hit+min(c, got[w])
		}
		if hit*100 < n*90 {
			t.Errorf("page %d: %d of %d words", p.Page, hit, n)
		}
		if mid := (page.Start + page.End) / 2; page.Start < page.End && d.PageAt(mid) != p.Page {
			t.Errorf("PageAt(%d) = %d, want %d", mid, d.PageAt(mid), p.Page)
		}
		if from, to, ok := d.Map.Source(page.Start, page.End); page.End-page.Start > 1 && (!ok || from != p.Page || to != p.Page+1) {
			t.Errorf("page %d maps to %d–%d", p.Page, from, to)
		}
	}
}
