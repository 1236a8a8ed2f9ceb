package chunk

// packer puts atoms into windows and windows into chunks.
//
// A window is a run of atoms, numbered from the start of the text:
//
//	first ........ old ............ next
//	  └ repeated ──┘└── not yet in ──┘
//	    from the        a chunk
//	    last chunk
//
// Every cut moves old forward and first too, so chunks end, and start, ever
// later, and the work is linear for any options. The token limit, together
// with one token or more a unit, bounds the length of a window.
type packer struct {
	s    *settings
	text string
	emit func(start, end, place int) bool
	err  error

	win        []atom
	cur        atom // the one that is being added
	base       int  // number of the atom win[0]
	first, old int
	cum        int // units so far, blank ones included
	done       bool

	// The token limit: atoms below counted are counted, and sum to tokens
	// from first on.
	counted, tokens int

	block, piece int // last atom that starts a block, a piece
	body         int // first atom that is no heading, when not below first
	depth        int // of the last heading

	// Divide: the current one of parts ends before the unit border.
	border, part, parts, total int
}

func newPacker(s *settings, text string, emit func(start, end, place int) bool) *packer {
	return &packer{s: s, text: text, emit: emit, body: -1}
}

func (p *packer) next() int         { return p.base + len(p.win) }
func (p *packer) at(i int) *atom    { return &p.win[i-p.base] }
func (p *packer) fail(e error) bool { p.err, p.done = e, true; return false }

// divide sets the packer to make parts of total units: the first total%parts
// are one unit longer.
func (p *packer) divide(parts, total int) {
	p.parts, p.total = min(parts, total), total
	p.nextPart()
}

func (p *packer) nextPart() {
	n := p.total / p.parts
	if p.part < p.total%p.parts {
		n++
	}
	p.part++
	p.border += n
}

// add is the packer's sink.
func (p *packer) add(a atom) bool {
	if p.done {
		return false
	}
	a.cum = p.cum
	p.cum += a.weight
	if a.start == a.end {
		return true
	}
	if n := len(p.win); a.tokens >= 0 && !p.s.weighted && n > 0 {
		// Counted without the blank before it, which is bounded instead.
		a.tokens += (a.start - p.win[n-1].end) * p.s.perByte
	}
	p.cur = a
	for p.parts > 0 && a.cum >= p.border && p.part < p.parts {
		if !p.cut(p.next()) {
			return false
		}
		p.nextPart()
	}
	// Headings with nothing between them stay together, as long as they go
	// down: a chunk should not be a title alone.
	if a.level == startsSection && p.first < p.next() && (p.body >= p.first || a.depth <= p.depth) {
		if !p.cut(p.next()) {
			return false
		}
		p.first = p.next() // nothing is repeated across a heading
		p.counted, p.tokens = p.first, 0
	}
	for p.first < p.next() && !p.fits() {
		if p.done {
			return false
		}
		if p.old == p.next() {
			p.pop()
		} else if !p.cut(p.cutBefore()) {
			return false
		}
	}
	if p.done {
		return false
	}
	p.append()
	return true
}

func (p *packer) append() {
	a := &p.cur
	if n := p.first - p.base; n > 1024 && n > len(p.win)/2 {
		p.win = p.win[:copy(p.win, p.win[n:])]
		p.base = p.first
	}
	i := p.next()
	switch {
	case a.level >= startsBlock:
		p.block, p.piece = i, i
	case a.level == startsPiece:
		p.piece = i
	}
	if a.level == startsSection {
		p.depth = a.depth
	}
	if !a.heading && p.body < p.first {
		p.body = i
	}
	if a.tokens >= 0 && p.counted == i {
		p.counted++
		p.tokens += a.tokens
	}
	p.win = append(p.win, *a)
}

// pop takes the first atom out of the window.
func (p *packer) pop() {
	if p.first < p.counted {
		p.tokens -= p.at(p.first).tokens
	} else {
		p.counted = p.first + 1
	}
	p.first++
	if p.body == p.first-1 && p.first < p.next() {
		p.body = p.first // behind the first one there are no headings
	}
}

// finish makes the last chunk, unless all its units are covered.
func (p *packer) finish() {
	if !p.done && p.old < p.next() {
		p.cut(p.next())
	}
}

// cut makes a chunk of the atoms from first to k, old < k, and moves on: the
// next window begins with the last units before k that the overlap allows.
func (p *packer) cut(k int) bool {
	if k <= p.old {
		return true
	}
	place := p.at(p.first).start
	if p.body >= p.first && p.body < k {
		place = p.at(p.body).start
	}
	last := p.at(k - 1)
	if !p.emit(p.at(p.first).start, last.end, place) {
		p.done = true
		return false
	}
	p.old = k
	end := last.cum + last.weight
	for p.pop(); p.first < k && end-p.at(p.first).cum > p.s.overlap; {
		p.pop()
	}
	return true
}

// cutBefore chooses where to cut a window that the current atom does not fit into: anywhere
// without snapping; else before the last block of its second half, else
// before its last piece.
func (p *packer) cutBefore() int {
	a, next := &p.cur, p.next()
	if !p.s.snap || a.level >= startsBlock {
		return next
	}
	low := max(p.old, p.first, p.body) // never between a heading and its text
	if p.block > low && 2*(p.at(p.block).cum-p.at(p.first).cum) >= a.cum-p.at(p.first).cum {
		return p.block
	}
	if a.level == startsPiece {
		return next
	}
	if p.piece > low {
		return p.piece
	}
	return next
}

// fits reports whether the current atom may join the window.
func (p *packer) fits() bool {
	a := &p.cur
	size := p.s.size
	if p.s.structured && p.body < p.first {
		size = max(size, p.s.keepWhole) // headings stay with what they head
	}
	if p.parts == 0 && a.cum+a.weight-p.at(p.first).cum > size {
		return false
	}
	if p.s.weighted {
		return a.cum+a.weight-p.at(p.first).cum <= p.s.limit
	}
	// Tokens: as long as the bytes cannot hold too many, none is counted.
	next, limit := p.next(), p.s.limit
	from, free := p.at(p.first).start, limit
	if p.counted > p.first {
		from, free = p.at(p.counted-1).end, limit-p.tokens
	}
	if a.end-from <= free/p.s.perByte {
		return true
	}
	if p.counted < next || a.tokens < 0 {
		p.count()
	}
	return p.tokens+a.tokens <= limit
}

// count counts the tokens of the atoms not counted yet, and of the current
// one, in one go.
func (p *packer) count() {
	a, next := &p.cur, p.next()
	i := p.counted
	target := func() *atom {
		if i < next {
			return p.at(i)
		}
		return a
	}
	from := target().start
	if p.counted > p.first {
		from = p.at(p.counted - 1).end // blank tokens count
	}
	for k := i; k < next; k++ {
		p.at(k).tokens = 0
	}
	known := a.tokens
	a.tokens = 0
	err := eachToken(p.s.tokenize, p.text, from, a.end, func(start int) bool {
		for i < next {
			after := a.start
			if i+1 < next {
				after = p.at(i + 1).start
			}
			if start < after {
				break
			}
			i++
		}
		target().tokens++
		return true
	})
	if err != nil {
		p.fail(err)
		return
	}
	a.tokens = max(a.tokens, known, 1)
	for ; p.counted < next; p.counted++ {
		t := p.at(p.counted)
		t.tokens = max(t.tokens, 1) // so that the limit bounds the window
		p.tokens += t.tokens
	}
}

// splitter cuts units of more tokens than a chunk may have into several.
func splitter(s *settings, text string, fail func(error) bool, out sink) sink {
	if s.weighted {
		return out
	}
	return func(a atom) bool {
		if a.end-a.start <= s.limit/s.perByte {
			return out(a)
		}
		n, err := countTokens(s.tokenize, text, a.start, a.end)
		if err != nil {
			return fail(err)
		}
		a.tokens = max(n, 1)
		if n <= s.limit {
			return out(a)
		}
		part := *s
		part.size, part.overlap, part.snap, part.weighted = s.limit, 0, true, true
		ok, lead := true, a.level
		p := newPacker(&part, text, func(start, end, _ int) bool {
			b := a
			b.start, b.end, b.weight, b.tokens, b.level = start, end, 1, -1, lead
			lead = inner
			ok = out(b)
			return ok
		})
		m := newMarker(&part, text[:a.end], nil, nil, p.add)
		m.from(a.start)
		if err := feedTokens(&part, text, a.start, a.end, m.add); err != nil {
			return fail(err)
		}
		m.finish()
		p.finish()
		return ok
	}
}
