package knowledge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/storage"
)

// ContextOptions say how much context is assembled. The zero value has no limit.
type ContextOptions struct {
	// MaxRunes bounds the text in characters, MaxTokens in tokens; 0 is no
	// bound. Markers and separators count.
	MaxRunes  int
	MaxTokens int
	// CountTokens counts the tokens of a text. Nil is EstimateTokens.
	CountTokens func(text string) int
	// MinRunes is the least piece of a chunk worth showing when the budget
	// cuts it; default 80.
	MinRunes int
}

// A Context is what a language model is shown.
type Context struct {
	// Text holds the parts, best first, each behind a line "[n] source" with
	// the number of its source.
	Text string `json:"text"`
	// Sources are numbered from 1 in the order in which Text names them: the
	// marker n is Sources[n-1].
	Sources []ContextSource `json:"sources"`
	Parts   []ContextPart   `json:"parts"`
	// Truncated tells that the budget left something out.
	Truncated bool `json:"truncated"`
	Runes     int  `json:"runes"`
	Tokens    int  `json:"tokens"`
}

// A ContextSource is one document of a Context.
type ContextSource struct {
	Number          int    `json:"number"`
	Source          string `json:"source"`
	Title           string `json:"title,omitempty"`
	KnowledgeBaseID string `json:"knowledge_base_id"`
	DocumentID      string `json:"document_id"`
	DocumentVersion int    `json:"document_version"`
	ArtifactHash    string `json:"artifact_hash"`
	// Pages lists the pages shown, ascending; empty when unknown.
	Pages []int `json:"pages,omitempty"`
}

// A ContextPart is one stretch of one source: neighboring and overlapping
// chunks as one, nothing twice.
type ContextPart struct {
	Number int    `json:"number"` // of its source
	Text   string `json:"text"`
	Start  int    `json:"start_offset"` // bytes of the document's text
	End    int    `json:"end_offset"`
	Page   int    `json:"page,omitempty"`
	// PageEnd is set when the part goes on to later pages.
	PageEnd int `json:"page_end,omitempty"`
	// Items are the indices of the items it was made of, by place.
	Items []int `json:"items"`
}

const defaultMinRunes = 80

// EstimateTokens guesses the number of a language model's tokens: one for each
// four bytes of ASCII, and one for each other character. It errs to the high side.
func EstimateTokens(text string) int {
	ascii, other := 0, 0
	for _, r := range text {
		if r < utf8.RuneSelf {
			ascii++
		} else {
			other++
		}
	}
	return (ascii+3)/4 + other
}

// AssembleContext makes one text of search results: items of one document that
// overlap or follow each other become one part, what repeats is dropped, and the
// budget is spent on the best items first. The item that exceeds it is cut
// between two characters, unless too little of it is left; no later one is shown.
//
// Parts come in the order of their best item. It costs a pass over the text for
// every item and some twenty for the one that is cut.
func AssembleContext(items []Item, o ContextOptions) (Context, error) {
	if o.MaxRunes < 0 || o.MaxTokens < 0 || o.MinRunes < 0 {
		return Context{}, storage.Invalidf("context: negative budget")
	}
	if o.CountTokens == nil {
		o.CountTokens = EstimateTokens
	}
	if o.MinRunes == 0 {
		o.MinRunes = defaultMinRunes
	}
	var chosen []stretch
	best := render(nil, &o)
	for i := range items {
		s := stretchOf(&items[i], i)
		if s.text == "" {
			continue
		}
		next := render(append(slices.Clip(chosen), s), &o)
		if o.fits(&next) {
			best, chosen = next, append(chosen, s)
			continue
		}
		best.Truncated = true
		if c, ok := o.cut(chosen, s); ok {
			best = c
		}
		break
	}
	return best, nil
}

func (o *ContextOptions) fits(c *Context) bool {
	return (o.MaxRunes == 0 || c.Runes <= o.MaxRunes) && (o.MaxTokens == 0 || c.Tokens <= o.MaxTokens)
}

// cut finds the longest start of a stretch that still fits.
func (o *ContextOptions) cut(chosen []stretch, s stretch) (Context, bool) {
	var ends []int // after each rune
	for i, r := range s.text {
		ends = append(ends, i+utf8.RuneLen(r))
	}
	with := func(runes int) Context {
		short := s
		short.text = strings.TrimRight(s.text[:ends[runes-1]], " \t\r\n")
		short.end = s.start + len(short.text)
		return render(append(slices.Clip(chosen), short), o)
	}
	lo, hi := 0, len(ends)-1 // lo fits, hi+1 does not
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if c := with(mid); o.fits(&c) {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	if lo < 1 || lo < min(o.MinRunes, len(ends)) {
		return Context{}, false
	}
	c := with(lo)
	c.Truncated = true
	return c, true
}

// A stretch is an item as the assembly sees it.
type stretch struct {
	item  int
	meta  *Metadata
	text  string
	start int
	end   int
	chunk int // last chunk in it
	pages [2]int
}

func stretchOf(it *Item, i int) stretch {
	m := &it.Metadata
	s := stretch{item: i, meta: m, text: strings.ToValidUTF8(it.Content, "\uFFFD"), start: m.StartOffset, end: m.EndOffset, chunk: m.ChunkIndex}
	if m.Page > 0 {
		s.pages = [2]int{m.Page, max(m.Page, m.PageEnd)}
	}
	if s.end-s.start != len(s.text) {
		s.end = s.start + len(s.text) // an item that was not made by Search
	}
	return s
}

// A docKey tells documents apart: one version of one document of one base.
type docKey struct {
	base, document string
	version        int
}

func (s *stretch) key() docKey {
	id := s.meta.DocumentID
	if id == "" {
		id = s.meta.Source
	}
	return docKey{s.meta.KnowledgeBaseID, id, s.meta.DocumentVersion}
}

// A part is stretches of one document joined, on its way to a ContextPart.
type part struct {
	stretch
	items []int
	best  int // the best item in it
}

// join makes parts of stretches, in the order of their best items.
func join(chosen []stretch) []part {
	order := slices.Clone(chosen)
	slices.SortStableFunc(order, func(a, b stretch) int {
		x, y := a.key(), b.key()
		return cmp.Or(cmp.Compare(x.base, y.base), cmp.Compare(x.document, y.document), cmp.Compare(x.version, y.version),
			cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(a.item, b.item))
	})
	var parts []part
	for _, s := range order {
		if n := len(parts); n > 0 && parts[n-1].key() == s.key() && parts[n-1].extend(&s) {
			continue
		}
		parts = append(parts, part{stretch: s, items: []int{s.item}, best: s.item})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.best, b.best) })
	return parts
}

// extend takes in a stretch that overlaps, touches or is the next chunk.
func (p *part) extend(s *stretch) bool {
	switch {
	case s.start <= p.end:
		if s.end > p.end {
			from := p.end - s.start
			for from < len(s.text) && !utf8.RuneStart(s.text[from]) {
				from++
			}
			p.text += s.text[from:]
		}
	case s.chunk == p.chunk+1:
		// Chunkers leave out white space only.
		p.text += "\n\n" + s.text
	default:
		return false
	}
	p.end, p.chunk = max(p.end, s.end), max(p.chunk, s.chunk)
	p.items = append(p.items, s.item)
	p.best = min(p.best, s.item)
	if s.pages[0] > 0 {
		if p.pages[0] == 0 {
			p.pages = s.pages
		}
		p.pages = [2]int{min(p.pages[0], s.pages[0]), max(p.pages[1], s.pages[1])}
	}
	return true
}

// render writes the text and numbers the sources.
func render(chosen []stretch, o *ContextOptions) Context {
	c := Context{Sources: []ContextSource{}, Parts: []ContextPart{}}
	numbers := make(map[docKey]int)
	var b strings.Builder
	for _, p := range join(chosen) {
		n := numbers[p.key()]
		if n == 0 {
			n = len(c.Sources) + 1
			numbers[p.key()] = n
			m := p.meta
			c.Sources = append(c.Sources, ContextSource{Number: n, Source: m.Source, Title: m.Title, KnowledgeBaseID: m.KnowledgeBaseID,
				DocumentID: m.DocumentID, DocumentVersion: m.DocumentVersion, ArtifactHash: m.ArtifactHash})
		}
		src := &c.Sources[n-1]
		part := ContextPart{Number: n, Text: p.text, Start: p.start, End: p.end, Items: p.items}
		if p.pages[0] > 0 {
			part.Page = p.pages[0]
			if p.pages[1] > p.pages[0] {
				part.PageEnd = p.pages[1]
			}
			for page := p.pages[0]; page <= p.pages[1]; page++ {
				if i, ok := slices.BinarySearch(src.Pages, page); !ok {
					src.Pages = slices.Insert(src.Pages, i, page)
				}
			}
		}
		c.Parts = append(c.Parts, part)
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(marker(&part, src))
		b.WriteByte('\n')
		b.WriteString(p.text)
	}
	c.Text = b.String()
	c.Runes = utf8.RuneCountInString(c.Text)
	c.Tokens = o.CountTokens(c.Text)
	return c
}

func marker(p *ContextPart, s *ContextSource) string {
	// A name must not break out of its line.
	name := strings.Join(strings.Fields(s.Source), " ")
	switch {
	case p.PageEnd > 0:
		return fmt.Sprintf("[%d] %s, pages %d-%d", p.Number, name, p.Page, p.PageEnd)
	case p.Page > 0:
		return fmt.Sprintf("[%d] %s, page %d", p.Number, name, p.Page)
	}
	return fmt.Sprintf("[%d] %s", p.Number, name)
}
