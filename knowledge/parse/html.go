package parse

import (
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// dropped elements hold nothing to read. nav, footer of a page and aside hold
// what repeats on every page; of these only nav is dropped.
func dropped(a atom.Atom) bool {
	switch a {
	case atom.Script, atom.Style, atom.Nav, atom.Noscript, atom.Template, atom.Svg, atom.Iframe, atom.Object, atom.Math,
		atom.Select, atom.Textarea, atom.Button, atom.Canvas, atom.Audio, atom.Video, atom.Noframes, atom.Noembed:
		return true
	}
	return false
}

// breaks tells elements that start and end a block.
func breaks(a atom.Atom) bool {
	switch a {
	case atom.P, atom.Div, atom.Section, atom.Article, atom.Header, atom.Footer, atom.Main, atom.Aside, atom.Ul, atom.Ol, atom.Dl,
		atom.Dt, atom.Dd, atom.Li, atom.Blockquote, atom.Figure, atom.Figcaption, atom.Form, atom.Fieldset, atom.Legend, atom.Hr,
		atom.Address, atom.Details, atom.Summary, atom.Body, atom.Html, atom.Center, atom.Menu, atom.Caption, atom.Table,
		atom.Tbody, atom.Thead, atom.Tfoot, atom.Head, atom.Title, atom.Option:
		return true
	}
	return false
}

// htmlReader reads with the tokenizer and keeps no tree: only tokens tell
// offsets, nothing nests on the heap, and time is linear.
type htmlReader struct {
	*builder
	off int // of the token in src

	start   int       // of the open block in buf
	kind    BlockKind // of the open block
	space   bool      // white space is pending
	pre     int       // open pre elements
	quotes  int
	level   int // of the open heading, 0 when none
	tables  int // open tables
	table   int // start of the outermost open table
	cell    int // cells of the open row so far
	title   strings.Builder
	inTitle bool

	skip      atom.Atom // element being dropped, 0 when none
	skipDepth int
	resume    int // where the dropped element's content starts
	kept      map[atom.Atom]bool
}

// html reads HTML into lines: blocks apart by blank lines, list items and table
// rows by one line end, cells by " | ".
func (b *builder) html() error {
	h := &htmlReader{builder: b, kept: map[atom.Atom]bool{}}
	for {
		h.run()
		if b.err != nil || h.skip == 0 {
			break
		}
		if h.skip == atom.Script || h.skip == atom.Style {
			b.warn(h.resume, "<%s> is never closed, the rest of the file is dropped", h.skip)
			break
		}
		// The dropped element never ended and took the rest of the page: read
		// its content after all. Each kind of element does this once.
		b.warn(h.resume, "<%s> is never closed, its content is kept", h.skip)
		h.kept[h.skip], h.skip, h.off = true, 0, h.resume
	}
	h.flush()
	h.endTable()
	b.trim(0)
	b.meta.Title = shortTitle(h.title.String())
	b.htmlMeta()
	return b.err
}

func (h *htmlReader) run() {
	z := html.NewTokenizer(strings.NewReader(h.src[h.off:]))
	z.SetMaxBuf(0)
	for h.alive() {
		t := z.Next()
		raw := len(z.Raw())
		from := h.off
		h.off += raw
		switch t {
		case html.ErrorToken:
			if z.Err() == io.EOF {
				// What the tokenizer held back at the end is an unfinished tag.
				return
			}
			h.err = h.corrupt(from, "%v", z.Err())
			return
		case html.TextToken:
			if h.skip == 0 {
				h.textRun(from, from+raw)
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, attr := z.TagName()
			a := atom.Lookup(name)
			h.startTag(z, a, attr, t == html.SelfClosingTagToken)
		case html.EndTagToken:
			name, _ := z.TagName()
			h.endTag(atom.Lookup(name))
		}
	}
}

func (h *htmlReader) startTag(z *html.Tokenizer, a atom.Atom, attr, selfClosing bool) {
	switch {
	case h.skip != 0:
		if a == h.skip && !selfClosing {
			h.skipDepth++
		}
		return
	case dropped(a) && !h.kept[a]:
		if a == atom.Nav {
			h.breakBlock()
		}
		if !selfClosing || a == atom.Script || a == atom.Style {
			h.skip, h.skipDepth, h.resume = a, 1, h.off
		}
		return
	case attr && (a == atom.Meta || a == atom.Html):
		h.attributes(z, a)
		return
	}
	switch a {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		h.breakBlock()
		if h.tables == 0 {
			h.level, h.kind = int(a.String()[1]-'0'), Heading
		}
	case atom.Br:
		h.space = false
		if h.pre > 0 || len(h.buf) > h.start {
			h.insert("\n")
		}
	case atom.Pre:
		h.breakBlock()
		if h.pre++; h.tables == 0 {
			h.kind = Code
		}
	case atom.Table:
		h.breakBlock()
		if h.tables++; h.tables == 1 {
			h.table = len(h.buf)
		}
	case atom.Tr:
		h.row()
	case atom.Td, atom.Th:
		if h.tables == 0 {
			return
		}
		if h.cell > 0 {
			h.space = false
			h.insert(" | ")
		}
		h.cell++
	case atom.Title:
		h.inTitle = len(h.buf) == 0 && h.title.Len() == 0
	case atom.Li, atom.Dt, atom.Dd:
		h.breakBlock()
		h.kind = ListItem
	case atom.Blockquote:
		h.breakBlock()
		h.quotes++
	default:
		if breaks(a) {
			h.breakBlock()
		}
	}
}

func (h *htmlReader) endTag(a atom.Atom) {
	if h.skip != 0 {
		if a == h.skip {
			if h.skipDepth--; h.skipDepth == 0 {
				h.skip = 0
			}
		}
		return
	}
	switch a {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		h.breakBlock()
	case atom.Pre:
		h.breakBlock()
		h.pre = max(0, h.pre-1)
	case atom.Table:
		if h.tables > 0 {
			h.row()
			if h.tables--; h.tables == 0 {
				h.endTable()
			}
		}
	case atom.Title:
		h.inTitle = false
		h.breakBlock()
	case atom.Blockquote:
		h.breakBlock()
		h.quotes = max(0, h.quotes-1)
	default:
		if breaks(a) {
			h.breakBlock()
		}
	}
}

// row ends a table row.
func (h *htmlReader) row() {
	if h.tables > 0 && h.cell > 0 {
		h.space = false
		h.trim(h.table)
		h.insert("\n")
		h.cell = 0
	}
}

// breakBlock ends the open block. Inside a table it only separates words, so
// that a row stays one line.
func (h *htmlReader) breakBlock() {
	if h.tables > 0 {
		h.space = true
		return
	}
	h.flush()
}

func (h *htmlReader) flush() {
	h.space = false
	if h.tables > 0 {
		return
	}
	h.trim(h.start)
	if len(h.buf) > h.start {
		kind := h.kind
		if h.pre > 0 {
			kind = Code
		} else if kind == Paragraph && h.quotes > 0 {
			kind = Quote
		}
		end := len(h.buf)
		if h.level > 0 {
			h.heading(h.level, string(h.buf[h.start:end]), h.start, end)
			kind = Heading
		}
		h.block(kind, h.start, end, 0, "")
		sep := "\n\n"
		if kind == ListItem {
			sep = "\n"
		}
		h.insert(sep)
	}
	h.start, h.kind, h.level = len(h.buf), Paragraph, 0
}

func (h *htmlReader) endTable() {
	if h.tables > 0 {
		h.row()
		h.tables = 0
	}
	if h.cell > 0 || h.table >= len(h.buf) || h.start > h.table {
		h.cell = 0
		return
	}
	h.trim(h.table)
	h.block(Table, h.table, len(h.buf), 0, "")
	h.insert("\n\n")
	h.start, h.table, h.kind, h.level = len(h.buf), len(h.buf), Paragraph, 0
}

// textRun appends the text of src[from:to].
func (h *htmlReader) textRun(from, to int) {
	if h.inTitle {
		if h.title.Len() < 4096 {
			h.title.WriteString(html.UnescapeString(h.src[from:min(to, from+4096)]))
		}
		return
	}
	for i := from; i < to; {
		c := h.src[i]
		switch {
		case c == '&':
			n := entityLen(h.src[i:to])
			h.word()
			if text := html.UnescapeString(h.src[i : i+n]); text == h.src[i:i+n] {
				h.plain(i, i+n)
			} else if text == "\u00a0" {
				h.whole(" ", i, i+n)
			} else {
				h.whole(text, i, i+n)
			}
			i += n
		case h.pre > 0 && h.tables == 0:
			n := strings.IndexAny(h.src[i:to], "&\r")
			if n < 0 {
				n = to - i
			}
			// The line end right after <pre> is not content.
			if len(h.buf) == h.start && n > 0 && h.src[i] == '\n' {
				i++
				n--
			}
			h.plain(i, i+n)
			if i += n; i < to && h.src[i] == '\r' {
				i++
			}
		case isSpace(c):
			h.space = true
			i++
		default:
			n := 1
			for i+n < to && h.src[i+n] != '&' && !isSpace(h.src[i+n]) {
				n++
			}
			h.word()
			h.plain(i, i+n)
			i += n
		}
	}
}

// word puts the pending space before a word.
func (h *htmlReader) word() {
	if h.space && h.pre == 0 || h.space && h.tables > 0 {
		if n := len(h.buf); n > h.start && (h.tables == 0 || n > h.table) && h.buf[n-1] != '\n' && h.buf[n-1] != ' ' {
			h.spaceMapped()
		}
	}
	h.space = false
}

// spaceMapped appends a space as a copy of the source's where the source has a
// single one there, so that runs of words stay one plain span.
func (h *htmlReader) spaceMapped() {
	if k := len(h.spans); k > 0 {
		s := h.spans[k-1]
		if s.Kind == Plain && s.End == len(h.buf) && s.To+1 < len(h.src) && h.src[s.To] == ' ' && !isSpace(h.src[s.To+1]) && h.src[s.To+1] != '<' {
			h.plain(s.To, s.To+1)
			return
		}
	}
	h.insert(" ")
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }

// entityLen is the length of what may be a character reference at the start of s.
func entityLen(s string) int {
	n := 1
	for n < len(s) && n < 40 && (s[n] == '#' || s[n] >= '0' && s[n] <= '9' || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z') {
		n++
	}
	if n < len(s) && s[n] == ';' {
		n++
	}
	return n
}

// attributes keeps the language and the meta elements.
func (h *htmlReader) attributes(z *html.Tokenizer, a atom.Atom) {
	var name, content string
	for more := true; more; {
		var k, v []byte
		k, v, more = z.TagAttr()
		switch key := string(k); {
		case a == atom.Html && (key == "lang" || key == "xml:lang"):
			h.meta.Language = cutString(string(v), 64)
		case key == "name" || key == "property" || key == "itemprop":
			name = strings.ToLower(cutString(string(v), 256))
		case key == "content":
			content = cutString(string(v), 4096)
		}
	}
	if name == "" || content == "" || len(h.meta.Fields) >= 256 {
		return
	}
	if h.meta.Fields == nil {
		h.meta.Fields = map[string]any{}
	}
	if _, ok := h.meta.Fields[name]; !ok {
		h.meta.Fields[name] = content
	}
}

// htmlMeta lifts the usual names out of the meta elements.
func (b *builder) htmlMeta() {
	f := b.meta.Fields
	if b.meta.Title == "" {
		b.meta.Title = firstString(f, "og:title", "dc.title", "title")
	}
	b.meta.Description = firstString(f, "description", "og:description", "dc.description")
	b.meta.Date = firstTime(f, "article:published_time", "datepublished", "date", "dc.date", "dcterms.created")
	b.meta.Modified = firstTime(f, "article:modified_time", "datemodified", "last-modified", "dcterms.modified")
	if s := firstString(f, "author", "article:author", "dc.creator"); s != "" {
		b.meta.Authors = splitAuthors(s)
	}
	if b.meta.Language == "" {
		b.meta.Language = firstString(f, "language", "dc.language")
	}
}
