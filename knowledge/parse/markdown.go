package parse

import (
	"bytes"
	"context"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown reads Markdown. The text is the source after the front matter,
// unchanged, so every offset maps exactly; goldmark finds the blocks. Inline
// syntax is read in headings only: nothing else needs it, and its worst cases
// are not linear.
func (b *builder) markdown() error {
	from := b.frontMatter()
	b.keep(from)
	body := []byte(b.src[from:])
	r := &guardedReader{Reader: text.NewReader(body), ctx: b.ctx}
	g := &guard{maxDepth: min(b.opt.MaxDepth, maxContainers), maxOpen: b.opt.MaxBlocks, reader: r}
	p := parser.NewParser(parser.WithBlockParsers(
		g.wrap(parser.NewSetextHeadingParser(), 100), g.wrap(parser.NewThematicBreakParser(), 200),
		g.wrap(parser.NewListParser(), 300), g.wrap(parser.NewListItemParser(), 400), g.wrap(parser.NewCodeBlockParser(), 500),
		g.wrap(parser.NewATXHeadingParser(), 600), g.wrap(parser.NewFencedCodeBlockParser(), 700),
		g.wrap(parser.NewBlockquoteParser(), 800), g.wrap(parser.NewHTMLBlockParser(), 900), g.wrap(parser.NewParagraphParser(), 1000),
	))
	doc := p.Parse(r)
	switch {
	case b.ctx.Err() != nil:
		return b.ctx.Err()
	case g.opened > g.maxOpen:
		return tooLarge("more than %d blocks", g.maxOpen)
	case g.tooDeep:
		b.warn(-1, "containers nested deeper than %d are read as paragraphs", g.maxDepth)
	}
	w := mdWalker{b: b, body: body, titles: parser.NewParser(parser.WithBlockParsers(util.Prioritized(parser.NewParagraphParser(), 1000)),
		parser.WithInlineParsers(parser.DefaultInlineParsers()...))}
	w.children(doc, Paragraph)
	b.setTitleFields()
	return b.err
}

// maxContainers bounds lists, their items and quotes inside each other, 16 levels
// of lists: goldmark's cost of a blank line grows with the square of the depth.
const maxContainers = 32

// guard bounds what goldmark may open. A deeply nested list makes each blank
// line after it cost its depth, so the depth is what keeps the time linear.
type guard struct {
	maxDepth, maxOpen, opened int
	tooDeep                   bool
	reader                    *guardedReader
}

func (g *guard) wrap(p parser.BlockParser, priority int) util.PrioritizedValue {
	container := priority == 300 || priority == 400 || priority == 800 // list, item, quote
	return util.Prioritized(&guarded{BlockParser: p, g: g, container: container}, priority)
}

type guarded struct {
	parser.BlockParser
	g         *guard
	container bool
}

// Open opens no container below maxDepth, and ends the input when too much is open.
func (p *guarded) Open(parent ast.Node, r text.Reader, pc parser.Context) (ast.Node, parser.State) {
	if p.container && parent.Kind() != ast.KindList { // a list that was opened gets its item
		depth := 0
		for n := parent; n != nil && depth <= p.g.maxDepth; n = n.Parent() {
			depth++
		}
		if depth > p.g.maxDepth {
			p.g.tooDeep = true
			return nil, parser.NoChildren
		}
	}
	n, state := p.BlockParser.Open(parent, r, pc)
	if n != nil {
		if p.g.opened++; p.g.opened > p.g.maxOpen {
			p.g.reader.ended = true
		}
	}
	return n, state
}

// guardedReader ends the input early when the context does.
type guardedReader struct {
	text.Reader
	ctx   context.Context
	steps uint
	ended bool
}

// PeekLine returns the line under the reader, or nil at the end.
func (r *guardedReader) PeekLine() ([]byte, text.Segment) {
	if r.steps++; r.steps&1023 == 0 && r.ctx.Err() != nil {
		r.ended = true
	}
	if r.ended {
		_, seg := r.Position()
		return nil, seg
	}
	return r.Reader.PeekLine()
}

// mdWalker turns the tree into flat blocks and headings.
type mdWalker struct {
	b      *builder
	body   []byte
	titles parser.Parser
	last   int // end of the last block
}

// children walks in document order; kind is that of paragraphs inside. The depth
// is bounded by guard.
func (w *mdWalker) children(n ast.Node, kind BlockKind) {
	for c := n.FirstChild(); c != nil && w.b.alive(); c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Heading:
			w.heading(c, n.Kind() == ast.KindDocument)
		case *ast.FencedCodeBlock:
			w.fence(c)
		case *ast.CodeBlock:
			w.emit(Code, c, "")
		case *ast.HTMLBlock:
			w.html(c)
		case *ast.Paragraph, *ast.TextBlock:
			if kind == Paragraph && w.isTable(c) {
				w.emit(Table, c, "")
			} else {
				w.emit(kind, c, "")
			}
		case *ast.ListItem:
			w.children(c, ListItem)
		case *ast.Blockquote:
			w.children(c, Quote)
		default:
			w.children(c, kind)
		}
	}
}

// span is the range of the lines of a leaf, widened to whole source lines.
func (w *mdWalker) span(n ast.Node) (start, end int) {
	lines := n.Lines()
	if lines == nil || lines.Len() == 0 {
		return -1, -1
	}
	start = w.lineStart(lines.At(0).Start)
	end = lines.At(lines.Len() - 1).Stop
	for end > start && (w.body[end-1] == '\n' || w.body[end-1] == '\r') {
		end--
	}
	return start, end
}

func (w *mdWalker) lineStart(off int) int {
	off = min(off, len(w.body))
	return bytes.LastIndexByte(w.body[w.last:max(off, w.last)], '\n') + 1 + w.last
}

func (w *mdWalker) lineEnd(off int) int {
	if i := bytes.IndexByte(w.body[off:], '\n'); i >= 0 {
		end := off + i
		if end > off && w.body[end-1] == '\r' {
			end--
		}
		return end
	}
	return len(w.body)
}

func (w *mdWalker) emit(kind BlockKind, n ast.Node, lang string) {
	if start, end := w.span(n); start >= 0 {
		w.put(kind, start, end, lang)
	}
}

// put keeps blocks in order and apart whatever the tree says.
func (w *mdWalker) put(kind BlockKind, start, end int, lang string) {
	if start = max(start, w.last); start < end {
		w.b.block(kind, start, end, 0, lang)
		w.last = end
	}
}

func (w *mdWalker) heading(h *ast.Heading, top bool) {
	start, end := w.span(h)
	if start < 0 { // "#" alone
		if h.Pos() < w.last || h.Pos() > len(w.body) {
			return
		}
		start = w.lineStart(h.Pos())
		end = w.lineEnd(start)
	} else if end = w.lineEnd(end); bytes.IndexByte(w.body[start:max(start, h.Lines().At(0).Start)], '#') < 0 {
		// A setext heading ends with its underline.
		if i := bytes.IndexByte(w.body[end:], '\n'); i >= 0 {
			end = w.lineEnd(end + i + 1)
		}
	}
	start = max(start, w.last)
	if start > end {
		return
	}
	if top {
		w.b.heading(h.Level, w.title(h), start, end)
	}
	w.put(Heading, start, end, "")
}

// title is the heading's text without markup.
func (w *mdWalker) title(h *ast.Heading) string {
	var raw []byte
	for i := 0; i < h.Lines().Len() && len(raw) < 1024; i++ {
		seg := h.Lines().At(i)
		raw = append(raw, seg.Value(w.body)...)
	}
	raw = bytes.TrimSpace([]byte(cutString(string(raw), 1024)))
	if !bytes.ContainsAny(raw, "*_`[]<>&\\!") {
		return string(raw)
	}
	var out strings.Builder
	_ = ast.Walk(w.titles.Parse(text.NewReader(raw)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			v := n.Segment.Value(raw)
			if n.Parent().Kind() != ast.KindCodeSpan {
				v = util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(v)))
			}
			out.Write(v)
			if n.SoftLineBreak() || n.HardLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.String:
			out.Write(n.Value)
		case *ast.AutoLink:
			out.Write(n.Label(raw))
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// fence emits a fenced block with its fences, and tells of one never closed:
// it takes all that follows, as CommonMark has it, headings included.
func (w *mdWalker) fence(n *ast.FencedCodeBlock) {
	start, end := n.Pos(), n.Pos()
	if lines := n.Lines(); lines != nil && lines.Len() > 0 {
		end = lines.At(lines.Len() - 1).Stop
		if first := lines.At(0).Start; start < 0 {
			start = bytes.LastIndexByte(w.body[:max(0, first-1)], '\n') + 1
		}
	} else if start >= 0 {
		end = w.lineEnd(start)
	}
	if start < 0 || start > len(w.body) {
		return
	}
	start = w.lineStart(start)
	mark := fenceMark(w.body[start:])
	closed := false
	// The closing fence is the line after the content.
	next := end
	if next < len(w.body) && (next == 0 || w.body[next-1] != '\n') {
		next = min(w.lineEnd(next)+1, len(w.body))
		if next < len(w.body) && w.body[next-1] == '\r' {
			next++
		}
	}
	if next < len(w.body) {
		if m := fenceMark(w.body[next:]); m != "" && mark != "" && m[0] == mark[0] {
			end, closed = w.lineEnd(next), true
		}
	}
	for end > start && (w.body[end-1] == '\n' || w.body[end-1] == '\r') {
		end--
	}
	lang := ""
	if l := n.Language(w.body); l != nil {
		lang = cutString(string(l), 64)
	}
	if !closed && n.Parent().Kind() == ast.KindDocument {
		w.b.warn(-1, "code fence opened at byte %d of the text is never closed", start)
	}
	w.put(Code, start, end, lang)
}

// fenceMark returns the run of ` or ~ that starts the line, after container
// markers, or "".
func fenceMark(line []byte) string {
	i := 0
	for i < len(line) && strings.IndexByte(" \t>-*+.)0123456789", line[i]) >= 0 {
		i++
	}
	j := i
	for j < len(line) && line[j] == line[i] && (line[i] == '`' || line[i] == '~') {
		j++
	}
	if j-i < 3 {
		return ""
	}
	return string(line[i:j])
}

func (w *mdWalker) html(n *ast.HTMLBlock) {
	start, end := w.span(n)
	if start < 0 {
		return
	}
	if n.HasClosure() {
		end = max(end, min(n.ClosureLine.Stop, len(w.body)))
	}
	kind := Literal
	if t := bytes.TrimLeft(w.body[start:end], " "); len(t) > 6 && strings.EqualFold(string(t[:6]), "<table") {
		kind = Table
	}
	w.put(kind, start, end, "")
}

// isTable reports whether a paragraph is a table of GitHub's dialect: its second
// line is made of dashes, colons and bars, and both lines have as many cells.
func (w *mdWalker) isTable(n ast.Node) bool {
	lines := n.Lines()
	if lines == nil || lines.Len() < 2 {
		return false
	}
	head, rule := lines.At(0), lines.At(1)
	r := bytes.TrimSpace(rule.Value(w.body))
	dashes := false
	for _, c := range r {
		if dashes = dashes || c == '-'; strings.IndexByte("-:| \t", c) < 0 {
			return false
		}
	}
	return dashes && bytes.IndexByte(r, '|') >= 0 && cells(r) == cells(bytes.TrimSpace(head.Value(w.body)))
}

func cells(line []byte) int {
	line = bytes.TrimPrefix(line, []byte("|"))
	n := 1
	for i, c := range line {
		if c == '|' && (i == 0 || line[i-1] != '\\') && i < len(line)-1 {
			n++
		}
	}
	return n
}
