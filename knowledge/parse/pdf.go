package parse

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/knowledge/parse/pdf"
)

// pageOps bounds the operations and shown bytes of one PDF page. Unlike the
// clock it cuts a page at the same place on every machine.
const pageOps = 5_000_000

// pdf writes one page after another, each but the last closed by a form feed.
// Bookmarks become sections. The map counts pages.
func (b *builder) pdf(data []byte) error {
	r, err := pdf.Extract(b.ctx, data, pdf.Limits{Pages: b.opt.MaxPages, Decoded: b.opt.MaxInflated, PageOps: pageOps,
		PageBytes: min(b.opt.MaxText, 16<<20), PageTime: b.opt.PageTime, Time: b.opt.Time})
	switch {
	case errors.Is(err, pdf.ErrEncrypted):
		return fmt.Errorf("%w: %v", ErrEncrypted, err)
	case err != nil:
		return err
	}
	b.unit = PageNumber
	if r.Repaired {
		b.warn(-1, "the cross-reference table is damaged; objects were found by looking through the file")
	}
	if r.Total > len(r.Pages) {
		b.warn(-1, "%d of %d pages are read (MaxPages)", len(r.Pages), r.Total)
	}
	silent := 0
	for i, p := range r.Pages {
		if !b.alive() {
			return b.err
		}
		start := len(b.buf)
		text := validText(p.Text)
		b.whole(text, i+1, i+2)
		b.pageBlocks(start, text)
		if i < len(r.Pages)-1 {
			b.insert("\f")
		}
		b.pages = append(b.pages, Page{Number: i + 1, Start: start, End: len(b.buf)})
		if text == "" && p.Images {
			silent++
			b.warnPage(-1, i+1, "page %d shows images and has no text layer", i+1)
		}
		if p.Cut != "" {
			b.warnPage(-1, i+1, "page %d is cut: %s", i+1, p.Cut)
		}
		if p.Unknown > 0 {
			b.warnPage(-1, i+1, "page %d: %d characters have no mapping to Unicode and are left out", i+1, p.Unknown)
		}
	}
	if silent > 0 && silent == len(r.Pages) {
		b.warn(-1, "no page has a text layer: the file needs OCR")
	}
	b.bookmarks(r)
	// What ReportLab and others put where nobody said anything.
	if strings.EqualFold(r.Title, "untitled") {
		r.Title = ""
	}
	b.meta = Metadata{Title: shortTitle(r.Title), Language: r.Language, Date: pdfTime(r.Created), Modified: pdfTime(r.Modified)}
	if r.Author != "" {
		b.meta.Authors = []string{validText(r.Author)}
	}
	return b.err
}

// pageBlocks makes the stretches between blank lines of a page paragraphs.
func (b *builder) pageBlocks(start int, text string) {
	for off := 0; off < len(text); {
		n := strings.Index(text[off:], "\n\n")
		if n < 0 {
			n = len(text) - off
		}
		b.block(Paragraph, start+off, start+off+n, 0, "")
		off += n
		for off < len(text) && text[off] == '\n' {
			off++
		}
	}
}

// bookmarks turns the outline into sections: each starts where its title stands
// on its page, or at the top of the page when it is not found there. Bookmarks
// that lead backwards or nowhere are left out, for sections are in reading order.
func (b *builder) bookmarks(r *pdf.Result) {
	// Many bookmarks on one huge page must not make this quadratic.
	const maxSearch = 64 << 20
	last, from, out, searched := 0, 0, 0, 0
	for _, e := range r.Outline {
		if e.Page < 0 || e.Page >= len(b.pages) || e.Page < last {
			out++
			continue
		}
		p := b.pages[e.Page]
		if e.Page > last {
			from = p.Start
		}
		last = e.Page
		title := shortTitle(validText(e.Title))
		start, body := p.Start, p.Start
		if searched += p.End - from; searched < maxSearch {
			if s, n := findTitle(b.buf[from:p.End], title); s >= 0 {
				start, body = from+s, from+n
			}
		}
		if start = max(start, from); body < start {
			body = start
		}
		b.heading(e.Level, title, start, body)
		from = body
	}
	if out > 0 {
		b.warn(-1, "%d bookmarks lead nowhere or backwards and make no sections", out)
	}
}

// findTitle looks for the title at the start of a line; white space, line ends
// and the shape of quotes count as nothing, and a number such as "1.2 " or "A.1 "
// may stand before it. It costs at most the page's bytes times the title's.
func findTitle(page []byte, title string) (start, end int) {
	want := strings.Map(func(r rune) rune {
		if loose(r) {
			return -1
		}
		return r
	}, title)
	if want == "" {
		return -1, -1
	}
	for i := 0; i < len(page); {
		j := i
		if j+1 < len(page) && page[j] >= 'A' && page[j] <= 'Z' && page[j+1] == '.' {
			j++
		}
		for j < len(page) && strings.IndexByte("0123456789. \t", page[j]) >= 0 {
			j++
		}
		for _, from := range []int{i, j} {
			if n := matchLoose(page[from:], want); n > 0 {
				return i, from + n
			}
		}
		next := bytes.IndexByte(page[i:], '\n')
		if next < 0 {
			break
		}
		i += next + 1
	}
	return -1, -1
}

// loose tells what findTitle overlooks.
func loose(r rune) bool {
	return r == ' ' || r == '\n' || r == '\t' || strings.ContainsRune("\"'“”„‘’‚«»`", r)
}

// matchLoose returns how much of page spells want, 0 when it does not.
func matchLoose(page []byte, want string) int {
	i := 0
	for i < len(page) && want != "" {
		r, size := utf8.DecodeRune(page[i:])
		if w, n := utf8.DecodeRuneInString(want); w == r {
			want = want[n:]
		} else if !loose(r) {
			return 0
		}
		i += size
	}
	if want != "" {
		return 0
	}
	return i
}

// pdfTime reads "D:20230204115901+01'00'" and its shorter forms.
func pdfTime(s string) time.Time {
	s = strings.TrimPrefix(strings.ReplaceAll(s, "'", ""), "D:")
	for _, layout := range []string{"20060102150405Z0700", "20060102150405Z", "20060102150405", "200601021504", "20060102", "2006"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t
		}
	}
	return parseTime(s)
}
