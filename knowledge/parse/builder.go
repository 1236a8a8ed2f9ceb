package parse

import (
	"context"
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/storage"
)

// builder collects one document. Format readers work on src, the decoded text,
// and give ranges of it; Parse turns those into source ranges at the end.
type builder struct {
	ctx  context.Context
	name string
	opt  *Options
	src  string // decoded source of a text format

	kept   string // the text when it is the source as it stands; else buf is
	buf    []byte
	spans  []Span // over src, or in the map's unit
	heads  []Section
	blocks []Block
	pages  []Page
	meta   Metadata
	unit   Unit

	warnings []Warning
	dropped  int
	steps    uint
	err      error // sticky: the first limit broken, or the context's
}

// warn keeps a warning about a byte of the source, or -1.
func (b *builder) warn(off int, format string, args ...any) { b.warnPage(off, 0, format, args...) }

func (b *builder) warnPage(off, page int, format string, args ...any) {
	if len(b.warnings) >= b.opt.MaxWarnings {
		b.dropped++
		return
	}
	b.warnings = append(b.warnings, Warning{Message: fmt.Sprintf(format, args...), Offset: off, Page: page})
}

// alive reports whether to go on; it looks at the context now and then.
func (b *builder) alive() bool {
	if b.err != nil {
		return false
	}
	if b.steps++; b.steps&1023 == 0 {
		b.err = b.ctx.Err()
	}
	return b.err == nil
}

// room reports whether n more bytes of text fit.
func (b *builder) room(n int) bool {
	if b.err == nil && len(b.buf)+n > b.opt.MaxText {
		b.err = tooLarge("more than %d bytes of text", b.opt.MaxText)
	}
	return b.err == nil
}

// plain appends src[from:to] unchanged.
func (b *builder) plain(from, to int) {
	if from < to && b.room(to-from) {
		start := len(b.buf)
		b.buf = append(b.buf, b.src[from:to]...)
		b.spans = addSpan(b.spans, Span{Start: start, End: len(b.buf), From: from, To: to})
	}
}

// whole appends text that stands for src[from:to].
func (b *builder) whole(text string, from, to int) {
	if b.room(len(text)) {
		start := len(b.buf)
		b.buf = append(b.buf, text...)
		b.spans = addSpan(b.spans, Span{Start: start, End: len(b.buf), From: from, To: to, Kind: Whole})
	}
}

// insert appends text that the source does not hold.
func (b *builder) insert(text string) {
	if b.room(len(text)) {
		b.buf = append(b.buf, text...)
	}
}

// trim drops inserted and copied white space after keep from the end of the text.
func (b *builder) trim(keep int) {
	n := len(b.buf)
	for n > keep && (b.buf[n-1] == ' ' || b.buf[n-1] == '\n' || b.buf[n-1] == '\t') {
		n--
	}
	b.cut(n)
}

// cut shortens the text to n bytes.
func (b *builder) cut(n int) {
	b.buf = b.buf[:n]
	for k := len(b.spans); k > 0 && b.spans[k-1].End > n; k = len(b.spans) {
		s := &b.spans[k-1]
		if s.Start >= n {
			b.spans = b.spans[:k-1]
			continue
		}
		if s.Kind == Plain {
			s.To -= s.End - n
		}
		s.End = n
	}
}

// clipBlocks keeps blocks and headings inside the text after the last trim.
func (b *builder) clipBlocks() {
	for i := range b.blocks {
		b.blocks[i].End = min(b.blocks[i].End, len(b.buf))
	}
	for n := len(b.blocks); n > 0 && b.blocks[n-1].Start >= b.blocks[n-1].End; n = len(b.blocks) {
		b.blocks = b.blocks[:n-1]
	}
	for i := range b.heads {
		b.heads[i].Start, b.heads[i].Body = min(b.heads[i].Start, len(b.buf)), min(b.heads[i].Body, len(b.buf))
	}
}

// block appends a block unless it is empty.
func (b *builder) block(kind BlockKind, start, end, number int, lang string) {
	if start < end && b.count() {
		b.blocks = append(b.blocks, Block{Kind: kind, Start: start, End: end, Number: number, Lang: lang})
	}
}

// heading appends a heading that covers [start, body) of the text.
func (b *builder) heading(level int, title string, start, body int) {
	if b.count() {
		b.heads = append(b.heads, Section{Level: level, Title: shortTitle(title), Start: start, Body: body})
	}
}

func (b *builder) count() bool {
	if b.err == nil && len(b.blocks)+len(b.heads) >= b.opt.MaxBlocks {
		b.err = tooLarge("more than %d blocks", b.opt.MaxBlocks)
	}
	return b.err == nil
}

// corrupt makes the error for malformed input at a byte of the file.
func (b *builder) corrupt(off int, format string, args ...any) error {
	return storage.Corruptf(b.name, int64(off), format, args...)
}

// shortTitle collapses white space and cuts at 512 bytes: a path repeats it.
func shortTitle(s string) string {
	const maxTitle = 512
	if len(s) > 4*maxTitle {
		s = s[:4*maxTitle]
	}
	return cutString(strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " "), maxTitle)
}

// cutString cuts at a character border at or before n bytes.
func cutString(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}
