package chunk

// placer makes chunks of spans that come in ascending order: offsets, page,
// section, each by a cursor that goes through the document once.
type placer struct {
	text         string
	starts, ends *Offsets
	sections     []Section
	section      int   // the next one to enter
	open         []int // the sections around, outermost first
	path         []string
	pages        []PageSpan
	page, last   int // where chunks start and end
	index        int
}

func newPlacer(text string, sections []Section, pages []PageSpan) *placer {
	return &placer{text: text, starts: NewOffsets(text), ends: NewOffsets(text), sections: sections, pages: pages}
}

// chunk makes the chunk text[start:end], whose section is that of the byte
// place.
func (p *placer) chunk(start, end, place int) Chunk {
	c := Chunk{Text: p.text[start:end], Index: p.index, Start: start, End: end}
	p.index++
	c.RuneStart, c.UTF16Start = p.starts.At(start)
	c.RuneEnd, c.UTF16End = p.ends.At(end)
	p.page = pageOf(p.pages, p.page, start)
	p.last = pageOf(p.pages, max(p.last, p.page), end-1)
	if p.page < len(p.pages) && p.pages[p.page].Start < end {
		c.Page = p.pages[p.page].Number
		c.PageEnd = c.Page
		if p.last < len(p.pages) && p.pages[p.last].Start < end {
			c.PageEnd = p.pages[p.last].Number
		} else if p.last > p.page {
			c.PageEnd = p.pages[p.last-1].Number
		}
	}
	p.enter(place)
	c.Path, c.Parent = p.path, Span{0, len(p.text)}
	if n := len(p.open); n > 0 {
		s := p.sections[p.open[n-1]]
		c.Parent = Span{min(start, s.Start), max(end, s.End)}
	}
	return c
}

// pageOf returns the first page at or after i that ends behind off.
func pageOf(pages []PageSpan, i, off int) int {
	for i < len(pages) && pages[i].End <= off {
		i++
	}
	return i
}

// enter moves to the innermost section of the byte at.
func (p *placer) enter(at int) {
	changed := false
	leave := func(at int) {
		for n := len(p.open); n > 0 && p.sections[p.open[n-1]].End <= at; n-- {
			p.open = p.open[:n-1]
			changed = true
		}
	}
	leave(at)
	for ; p.section < len(p.sections) && p.sections[p.section].Start <= at; p.section++ {
		leave(p.sections[p.section].Start)
		p.open = append(p.open, p.section)
		changed = true
	}
	leave(at)
	if !changed {
		return
	}
	p.path = nil
	if len(p.open) > 0 {
		p.path = make([]string, len(p.open))
		for i, s := range p.open {
			p.path[i] = p.sections[s].Title
		}
	}
}
