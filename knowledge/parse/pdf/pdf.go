package pdf

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf16"

	"golang.org/x/text/encoding/charmap"
)

// ErrEncrypted is returned for a file that the empty password does not open.
var ErrEncrypted = errors.New("pdf: encrypted")

// Limits bound what reading one file may cost. All must be positive.
type Limits struct {
	Pages     int           // read; later ones are counted only
	Decoded   int           // bytes out of all filters together
	PageOps   int           // operations and shown bytes of a page
	PageBytes int           // of text of a page
	PageTime  time.Duration // of a page
	Time      time.Duration // of all pages
}

// A Result is what a PDF says.
type Result struct {
	Pages    []Page
	Total    int // pages that the file has
	Outline  []Entry
	Title    string
	Author   string
	Language string
	Created  string // as in the file: D:YYYYMMDDHHmmSS and a zone
	Modified string
	Repaired bool // the cross-reference table was damaged and built anew
}

// A Page is the text of one page: lines end with \n, paragraphs with a blank line.
type Page struct {
	Text    string
	Images  bool   // it shows at least one
	Cut     string // why the text is not whole, "" when it is
	Unknown int    // characters shown without a mapping to Unicode, and left out
}

// An Entry is a bookmark.
type Entry struct {
	Level int // from 1
	Title string
	Page  int // index in Pages, -1 when it leads nowhere
}

// Extract reads the text of every page. Errors match storage.ErrCorrupt,
// storage.ErrTooLarge or ErrEncrypted, or are the context's. A page that breaks
// a limit of its own is cut and says so.
func Extract(ctx context.Context, data []byte, limits Limits) (*Result, error) {
	f, err := open(ctx, data, limits)
	if err != nil {
		return nil, err
	}
	f.until = time.Now().Add(limits.Time)
	r := &Result{}
	pages := f.pages()
	if len(pages) == 0 && !f.rebuilt {
		f.rebuild()
		pages = f.pages()
	}
	r.Total = len(pages)
	fonts := map[ref]*font{}
	for i, p := range pages {
		if i >= limits.Pages {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.Pages = append(r.Pages, f.page(p, fonts))
	}
	if errors.Is(f.stop, context.Canceled) || errors.Is(f.stop, context.DeadlineExceeded) {
		return nil, f.stop
	}
	f.info(r)
	f.outline(r, pages)
	r.Repaired = f.rebuilt
	return r, nil
}

// leaf is a page with what it inherits.
type leaf struct {
	id   int // object number, 0 when the page is no object of its own
	dict dict
	res  dict
}

// pages walks the page tree; a tree that leads to itself is cut there.
func (f *file) pages() []leaf {
	var out []leaf
	seen := map[int]bool{}
	var walk func(o any, res dict, depth int)
	walk = func(o any, res dict, depth int) {
		id := 0
		if r, ok := o.(ref); ok {
			if seen[r.num] {
				return
			}
			seen[r.num], id = true, r.num
		}
		d := f.dict(o)
		if d == nil || depth > maxNesting || f.over() {
			return
		}
		if own := f.dict(d["Resources"]); own != nil {
			res = own
		}
		if kids := f.array(d["Kids"]); kids != nil && f.name(d["Type"]) != "Page" {
			for _, k := range kids {
				walk(k, res, depth+1)
			}
			return
		}
		if len(out) < maxObject {
			out = append(out, leaf{id: id, dict: d, res: res})
		}
	}
	walk(f.catalog()["Pages"], nil, 0)
	return out
}

func (f *file) page(p leaf, fonts map[ref]*font) Page {
	now := time.Now()
	if now.After(f.until) {
		return Page{Cut: "the time for the file is spent"}
	}
	var body []byte
	for _, o := range f.list(p.dict["Contents"], nil) {
		if s, ok := f.resolve(o).(*stream); ok {
			b, _ := f.decode(s)
			body = append(append(body, b...), '\n')
		}
	}
	in := &interpreter{f: f, out: &layout{limit: f.limits.PageBytes}, fonts: fonts, until: now.Add(f.limits.PageTime)}
	in.state = state{ctm: identity, zoom: 1}
	in.tm, in.lm = identity, identity
	before := unknowns(fonts)
	in.run(body, p.res)
	if in.out.full && in.cut == "" {
		in.cut = "too much text"
	}
	if f.stop != nil && in.cut == "" {
		in.cut = f.stop.Error()
	}
	return Page{Text: in.out.text(), Images: in.images, Cut: in.cut, Unknown: unknowns(fonts) - before}
}

func unknowns(fonts map[ref]*font) int {
	n := 0
	for _, t := range fonts {
		n += t.unknown
	}
	return n
}

func (f *file) info(r *Result) {
	d := f.dict(f.trailer["Info"])
	get := func(k name) string {
		s, _ := f.resolve(d[k]).(str)
		return textString(s)
	}
	r.Title, r.Author, r.Created, r.Modified = get("Title"), get("Author"), get("CreationDate"), get("ModDate")
	if s, ok := f.resolve(f.catalog()["Lang"]).(str); ok {
		r.Language = textString(s)
	}
}

// textString decodes a text string: UTF-16 or UTF-8 with a mark, else PDFDoc,
// which is near Windows-1252. At most 4 KiB are read.
func textString(s str) string {
	if len(s) > 4096 {
		s = s[:4096]
	}
	switch {
	case len(s) >= 2 && s[:2] == "\xfe\xff":
		var units []uint16
		for i := 2; i+1 < len(s); i += 2 {
			units = append(units, uint16(s[i])<<8|uint16(s[i+1]))
		}
		return string(utf16.Decode(units))
	case len(s) >= 3 && s[:3] == "\xef\xbb\xbf":
		return string(s[3:])
	}
	out, err := charmap.Windows1252.NewDecoder().String(string(s))
	if err != nil {
		return ""
	}
	return out
}

// outline reads the bookmarks in order; at most 100,000, 32 levels deep.
func (f *file) outline(r *Result, pages []leaf) {
	byID := make(map[int]int, len(pages))
	for i, p := range pages {
		if p.id != 0 {
			byID[p.id] = i
		}
	}
	d := dests{f: f, byID: byID, total: len(r.Pages), named: map[string]any{}}
	d.load()
	seen := map[int]bool{}
	var walk func(o any, level int)
	walk = func(o any, level int) {
		for level <= 32 && len(r.Outline) < 100_000 && !f.over() {
			id, ok := o.(ref)
			if !ok || seen[id.num] {
				return
			}
			seen[id.num] = true
			e := f.dict(o)
			if e == nil {
				return
			}
			if title, ok := f.resolve(e["Title"]).(str); ok {
				r.Outline = append(r.Outline, Entry{Level: level, Title: textString(title), Page: d.page(e)})
			}
			walk(e["First"], level+1)
			o = e["Next"]
		}
	}
	walk(f.dict(f.catalog()["Outlines"])["First"], 1)
}

// dests finds where bookmarks lead.
type dests struct {
	f     *file
	byID  map[int]int
	total int
	named map[string]any
}

// load reads the tree of named destinations.
func (d *dests) load() {
	f := d.f
	for k, v := range f.dict(f.catalog()["Dests"]) {
		d.named[string(k)] = v
	}
	seen := map[int]bool{}
	var walk func(o any, depth int)
	walk = func(o any, depth int) {
		if r, ok := o.(ref); ok {
			if seen[r.num] {
				return
			}
			seen[r.num] = true
		}
		node := f.dict(o)
		if node == nil || depth > maxNesting || len(d.named) > maxMappings || f.over() {
			return
		}
		names := f.array(node["Names"])
		for i := 0; i+1 < len(names); i += 2 {
			if k, ok := f.resolve(names[i]).(str); ok {
				d.named[string(k)] = names[i+1]
			}
		}
		for _, k := range f.array(node["Kids"]) {
			walk(k, depth+1)
		}
	}
	walk(f.dict(f.catalog()["Names"])["Dests"], 0)
}

func (d *dests) page(e dict) int {
	o := d.f.resolve(e["Dest"])
	if o == nil {
		if a := d.f.dict(e["A"]); d.f.name(a["S"]) == "GoTo" {
			o = d.f.resolve(a["D"])
		}
	}
	for range 4 {
		switch t := o.(type) {
		case str:
			o = d.f.resolve(d.named[string(t)])
			continue
		case name:
			o = d.f.resolve(d.named[string(t)])
			continue
		case dict:
			o = d.f.resolve(t["D"])
			continue
		case array:
			if len(t) == 0 {
				return -1
			}
			if r, ok := t[0].(ref); ok {
				if i, has := d.byID[r.num]; has && i < d.total {
					return i
				}
			}
			if i, ok := t[0].(int); ok && i >= 0 && i < d.total {
				return i
			}
		}
		break
	}
	return -1
}

func (p Page) String() string { return fmt.Sprintf("%d bytes", len(p.Text)) }
