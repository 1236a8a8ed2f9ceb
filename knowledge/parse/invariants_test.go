package parse

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"
)

// dataDir is the folder of the real collections.
func dataDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("QUARRY_DATA")
	if dir == "" {
		t.Skip("QUARRY_DATA is not set")
	}
	return dir
}

func gunzip(t testing.TB, path ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := out.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func mustParse(t testing.TB, name string, data []byte) *Document {
	t.Helper()
	doc, err := Parse(context.Background(), name, data, Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkDocument(t, doc)
	return doc
}

// checkDocument holds every invariant that the package promises.
func checkDocument(t testing.TB, d *Document) {
	t.Helper()
	if !utf8.ValidString(d.Text) {
		t.Fatal("text is no valid UTF-8")
	}
	checkSections(t, d)
	end := 0
	for i, p := range d.Pages {
		if p.Number != i+1 || p.Start != end || p.End < p.Start {
			t.Fatalf("page %d: %+v after %d", i, p, end)
		}
		end = p.End
	}
	if len(d.Pages) > 0 && end != len(d.Text) {
		t.Fatalf("pages end at %d of %d", end, len(d.Text))
	}
	end = 0
	for i, b := range d.Blocks {
		if b.Start < end || b.End <= b.Start || b.End > len(d.Text) {
			t.Fatalf("block %d: %+v after %d in %d bytes", i, b, end, len(d.Text))
		}
		if !border(d.Text, b.Start) || !border(d.Text, b.End) {
			t.Fatalf("block %d cuts a character: %+v", i, b)
		}
		end = b.End
	}
	checkMap(t, d)
}

func border(s string, i int) bool { return i == len(s) || utf8.RuneStart(s[i]) }

func checkSections(t testing.TB, d *Document) {
	t.Helper()
	for i, s := range d.Sections {
		if s.Start < 0 || s.Body < s.Start || s.End < s.Body || s.End > len(d.Text) || !border(d.Text, s.Start) || !border(d.Text, s.Body) {
			t.Fatalf("section %d: %+v in %d bytes", i, s, len(d.Text))
		}
		if i > 0 && s.Start < d.Sections[i-1].Body {
			t.Fatalf("section %d starts inside the heading before it: %+v", i, s)
		}
		if s.Parent >= i || s.Parent < -1 {
			t.Fatalf("section %d: parent %d", i, s.Parent)
		}
		up := []string(nil)
		if s.Parent >= 0 {
			p := d.Sections[s.Parent]
			if s.Start < p.Body || s.End > p.End || p.Level >= s.Level {
				t.Fatalf("section %d %+v is not inside its parent %+v", i, s, p)
			}
			up = p.Path
		}
		if len(s.Path) != len(up)+1 || s.Path[len(up)] != s.Title {
			t.Fatalf("section %d: path %q under %q", i, s.Path, up)
		}
		if got := d.SectionAt(s.Start); s.Start < s.End && d.Sections[got].Start != s.Start {
			t.Fatalf("SectionAt(%d) = %d, want %d", s.Start, got, i)
		}
	}
}

func checkMap(t testing.TB, d *Document) {
	t.Helper()
	end, from, to := 0, 0, 0
	for i, s := range d.Map.Spans {
		if s.Start < end || s.End <= s.Start || s.End > len(d.Text) || s.From < from || s.To < s.From || s.To < to {
			t.Fatalf("span %d: %+v after text %d, source %d–%d", i, s, end, from, to)
		}
		end, from, to = s.End, s.From, s.To
		if d.Map.Unit != Bytes {
			continue
		}
		if s.To > len(d.Source) {
			t.Fatalf("span %d: %+v past the source of %d bytes", i, s, len(d.Source))
		}
		switch s.Kind {
		case Plain:
			if string(d.Source[s.From:s.To]) != d.Text[s.Start:s.End] {
				t.Fatalf("span %d: %q maps to %q", i, d.Text[s.Start:s.End], d.Source[s.From:s.To])
			}
		case Encoded:
			if got := d.Map.enc.all(d.Source[s.From:s.To]); got != d.Text[s.Start:s.End] {
				t.Fatalf("span %d: %.99q decodes to %.99q", i, d.Text[s.Start:s.End], got)
			}
		}
	}
	// Ranges from anywhere to anywhere, a deterministic sample of them.
	for k, a := 0, 0; k < 64 && a < len(d.Text); k, a = k+1, a+1+len(d.Text)/61 {
		b := min(len(d.Text), a+1+k*7)
		f, g, ok := d.Map.Source(a, b)
		if !ok {
			continue
		}
		if f > g || f < 0 || d.Map.Unit == Bytes && g > len(d.Source) {
			t.Fatalf("Source(%d, %d) = %d, %d", a, b, f, g)
		}
		if d.Map.Plain(a, b) && string(d.Source[f:g]) != d.Text[a:b] {
			t.Fatalf("plain [%d:%d] %q is %q in the source", a, b, d.Text[a:b], d.Source[f:g])
		}
	}
}

// all decodes b, the slow way that Encoded spans are checked against.
func (c codec) all(b []byte) string {
	var out []byte
	for len(b) > 0 {
		r, n, _ := c.next(b)
		out = utf8.AppendRune(out, r)
		b = b[n:]
	}
	return string(out)
}
