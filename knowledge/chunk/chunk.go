package chunk

import (
	"fmt"
	"iter"
	"strings"

	"github.com/quarrysearch/quarry/storage"
)

// A Span is a stretch of a document, in bytes: Start ≤ End.
type Span struct{ Start, End int }

// A Section is a stretch of a document under one heading, which it includes,
// to the next heading of its level or above: sections nest.
type Section struct {
	Start, End int    // bytes
	Level      int    // 1 is the topmost; only for the reader
	Title      string // as in a section path
}

// A PageSpan is one page of a document.
type PageSpan struct {
	Start, End int // bytes
	Number     int // from 1
}

// A Document is what is cut. Only Text must be there.
type Document struct {
	Text string
	// Sections in order of Start, each inside or behind the one before it, at
	// most 64 deep. Nil lets structure read the Markdown headings of the text
	// (Sections does); other strategies then give no section.
	Sections []Section
	// Pages in order, not overlapping. Nil counts form feeds, if there are any.
	Pages []PageSpan
	// Keep are stretches that structure keeps whole beside the code blocks and
	// tables it finds: in order, not overlapping.
	Keep []Span
}

// A Chunk is a piece of a document: Text == document[Start:End], never blank,
// without white space at its ends, and cut between grapheme clusters.
type Chunk struct {
	Text     string
	Document int // index of the document in the call
	Index    int // among the chunks of its document, from 0

	Start, End           int // bytes
	RuneStart, RuneEnd   int // runes, as in []rune(document)
	UTF16Start, UTF16End int // UTF-16 units, as in JavaScript

	// Page and PageEnd are the numbers of the pages the chunk starts and ends
	// on; 0 when unknown.
	Page, PageEnd int
	// Path holds the titles of the sections the chunk lies in, outermost
	// first; nil when there is none. Chunks of one section share it: it may not
	// be changed.
	Path []string
	// Parent is the innermost section, from its heading on, for those who show
	// more than the chunk; the whole document when there is none. It holds the
	// chunk.
	Parent Span
}

// A Chunker cuts documents in one way. It is immutable: any number of
// goroutines may share one, if they may share its Tokenizer.
type Chunker struct{ s settings }

// New returns a Chunker for opts; nil stands for the zero Options. It checks
// strategy, unit, size, separator and overlap in this order; the first that is
// wrong is an error matching storage.ErrInvalid that names it.
func New(opts *Options) (*Chunker, error) {
	if opts == nil {
		opts = &Options{}
	}
	s, err := opts.settle()
	if err != nil {
		return nil, err
	}
	return &Chunker{s: *s}, nil
}

// Chunks gives the chunks of doc in ascending order of Start. An error comes
// last, with a zero Chunk: ErrTooManyChunks as soon as there is one chunk too
// many, storage.ErrInvalid for sections or pages that do not fit the text and
// for a Tokenizer that breaks its contract. Time is linear in the text, memory
// is some bytes a heading, a page and a unit of one chunk.
func (c *Chunker) Chunks(doc Document) iter.Seq2[Chunk, error] {
	return c.Documents(func(yield func(Document) bool) { yield(doc) })
}

// Documents gives the chunks of docs, one after the other, as Chunks does.
// MaxChunks holds for all of them together.
func (c *Chunker) Documents(docs iter.Seq[Document]) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		index, count := 0, 0
		for doc := range docs {
			more := true // the caller wants more
			err := c.one(&doc, func(ch Chunk) (bool, error) {
				if count == c.s.maxChunks {
					return false, fmt.Errorf("%w: more than %d, met in document %d at byte %d of %d; cut less text or larger chunks",
						ErrTooManyChunks, count, index, ch.Start, len(doc.Text))
				}
				count++
				ch.Document = index
				more = yield(ch, nil)
				return more, nil
			})
			if !more {
				return
			}
			if err != nil {
				yield(Chunk{}, err)
				return
			}
			index++
		}
	}
}

// Collect gathers chunks up to the first error, with which it returns none.
func Collect(chunks iter.Seq2[Chunk, error]) ([]Chunk, error) {
	var out []Chunk
	for ch, err := range chunks {
		if err != nil {
			return nil, err
		}
		out = append(out, ch)
	}
	return out, nil
}

// one cuts one document.
func (c *Chunker) one(doc *Document, yield func(Chunk) (bool, error)) error {
	s, text := &c.s, doc.Text
	if err := doc.check(); err != nil {
		return err
	}
	pages := doc.Pages
	if pages == nil && (s.unit == Page || strings.IndexByte(text, '\f') >= 0) {
		pages = FormFeedPages(text)
	}
	sections, marks, starts := doc.Sections, []mark(nil), []border(nil)
	if s.structured {
		o := outlineOf(text)
		if sections == nil {
			sections = o.sections()
		}
		marks, starts = o.merge(doc), borders(sections)
	}
	pl := newPlacer(text, sections, pages)
	var yieldErr error
	p := newPacker(s, text, func(start, end, place int) bool {
		ok, err := yield(pl.chunk(start, end, place))
		yieldErr = err
		return ok
	})
	if s.strategy == Divide {
		total, err := count(s, text, pages)
		if err != nil || total == 0 {
			return err
		}
		p.divide(s.size, total)
	}
	out, finish := sink(p.add), func() {}
	out = splitter(s, text, p.fail, out)
	if s.snap {
		m := newMarker(s, text, starts, marks, out)
		out, finish = m.add, m.finish
	}
	if err := feed(s, text, pages, edgesOf(starts, marks), out); err != nil {
		return err
	}
	finish()
	p.finish()
	if p.err != nil {
		return p.err
	}
	return yieldErr
}

// feed sends the units of text to out; edges are what no sentence crosses.
func feed(s *settings, text string, pages []PageSpan, edges []int, out sink) error {
	switch s.unit {
	case Token:
		return feedTokens(s, text, 0, len(text), out)
	case Word:
		feedWords(text, out)
	case Sentence:
		feedSentences(text, edges, out)
	case Paragraph:
		feedParagraphs(text, out)
	case Custom:
		feedCustom(text, s.separator, out)
	case Page:
		feedPages(text, pages, out)
	}
	return nil
}

// count returns the number of units of text.
func count(s *settings, text string, pages []PageSpan) (int, error) {
	n, some := 0, false
	var err error
	fail := func(e error) bool { err = e; return false }
	e := feed(s, text, pages, nil, splitter(s, text, fail, func(a atom) bool {
		n += a.weight
		some = some || a.start < a.end
		return true
	}))
	if e != nil {
		err = e
	}
	if err != nil || !some {
		return 0, err
	}
	return max(n, 1), nil
}

// maxDepth bounds the nesting of sections.
const maxDepth = 64

// check checks what the caller said about the text.
func (d *Document) check() error {
	size, last := len(d.Text), 0
	var open []int // ends of the sections around
	for i, s := range d.Sections {
		if s.Start < last || s.End < s.Start || s.End > size {
			return storage.Invalidf("document: section %d [%d, %d) is out of order or out of the text of %d bytes", i, s.Start, s.End, size)
		}
		last = s.Start
		for len(open) > 0 && open[len(open)-1] <= s.Start {
			open = open[:len(open)-1]
		}
		if len(open) > 0 && s.End > open[len(open)-1] {
			return storage.Invalidf("document: section %d [%d, %d) ends behind the section around it, at %d", i, s.Start, s.End, open[len(open)-1])
		}
		if open = append(open, s.End); len(open) > maxDepth {
			return storage.Invalidf("document: section %d is nested more than %d deep", i, maxDepth)
		}
	}
	last = 0
	for i, p := range d.Pages {
		if p.Start < last || p.End < p.Start || p.End > size || p.Number < 1 {
			return storage.Invalidf("document: page %d (number %d) [%d, %d) is out of order or out of the text of %d bytes", i, p.Number, p.Start, p.End, size)
		}
		last = p.End
	}
	last = 0
	for i, k := range d.Keep {
		if k.Start < last || k.End < k.Start || k.End > size {
			return storage.Invalidf("document: stretch %d to keep [%d, %d) is out of order or out of the text of %d bytes", i, k.Start, k.End, size)
		}
		last = k.End
	}
	return nil
}
