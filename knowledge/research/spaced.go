package research

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A word of a text in a script that puts spaces between words.
type word struct {
	start, end int
	lower      string
	content    bool // neither a stop word nor a cue
	comma      bool // one stands before it
	before     int  // content words before it in the segment
}

// words parts a text. A point, hyphen, apostrophe or slash between word runes
// belongs to the word, as does what C++ and C# end in.
func (c *classifier) words(s string) (out []word) {
	comma, n := false, 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == '&' {
			out = append(out, word{start: i, end: i + size, lower: "&", comma: comma, before: n})
			comma = false
		}
		if !isWordRune(r) {
			comma = comma || strings.ContainsRune(",，،、", r)
			i += size
			continue
		}
		start := i
		for i < len(s) {
			r, size := utf8.DecodeRuneInString(s[i:])
			if !isWordRune(r) && !(strings.ContainsRune("+#", r)) {
				next, _ := utf8.DecodeRuneInString(s[i+size:])
				if !strings.ContainsRune(".-'’/:@", r) || !isWordRune(next) {
					break
				}
			}
			i += size
		}
		w := word{start: start, end: i, lower: strings.ToLower(s[start:i]), comma: comma, before: n}
		w.content = !c.stops.IsStopWord(w.lower) && !isCue(w.lower)
		if w.content {
			n++
		}
		out, comma = append(out, w), false
	}
	return out
}

// isCue tells words that say how something is asked for, not what.
func isCue(w string) bool {
	return has(asking, w) || has(auxiliaries, w) || has(conjunctions, w) || has(determiners, w) || has(pronouns, w) || has(adverbs, w) || has(each, w)
}

// opens tells that a word opens a question or an order.
func opens(w word) bool { return has(asking, w.lower) || has(auxiliaries, w.lower) }

// contents counts the content words of a run.
func contents(w []word) int {
	if len(w) == 0 {
		return 0
	}
	last := w[len(w)-1]
	n := last.before - w[0].before
	if last.content {
		n++
	}
	return n
}

// spaced adds the clauses of a segment. An enumeration in a statement is no
// list of things that are asked for.
func (c *classifier) spaced(s string, asks bool) {
	w := c.words(s)
	if c.compared(s, w) || asks && c.enumerated(s, w) {
		return
	}
	cuts := joints(w)
	lo := 0
	var before []word
	for _, cut := range append(cuts, [2]int{len(w), len(w)}) {
		part := w[lo:cut[0]]
		c.part(s, part, before)
		before, lo = part, cut[1]
	}
}

// joints finds where a segment joins two things asked for: the words from the
// first of each pair up to the second are the joint.
func joints(w []word) (cuts [][2]int) {
	one := slices.ContainsFunc(w, func(w word) bool { return has(each, w.lower) })
	least := 2
	if one {
		least = 1
	}
	lo := 0
	for i := 1; i < len(w)-1; i++ {
		left := w[lo:i]
		if !has(conjunctions, w[i].lower) {
			// "How do I install it, what does it need": but not behind "When I
			// install it,".
			if w[i].comma && has(asking, w[i].lower) && !subordinate(left) && contents(left) > 0 && contents(w[i:]) > 0 {
				cuts, lo = append(cuts, [2]int{i, i}), i
			}
			continue
		}
		next := i + 1
		for next < len(w)-1 && has(adverbs, w[next].lower) {
			next++
		}
		right := w[next:]
		if end := slices.IndexFunc(right, func(w word) bool { return has(conjunctions, w.lower) }); end > 0 && !opens(right[0]) {
			right = right[:end]
		}
		asks := opens(right[0]) && contents(left) > 0 && contents(right) > 0
		if asks || !subordinate(left) && contents(left) >= least && contents(right) >= least {
			cuts, lo, i = append(cuts, [2]int{i, next}), next, next
		}
	}
	return cuts
}

// subordinate tells that what starts here asks nothing.
func subordinate(w []word) bool {
	return len(w) > 1 && has(subordinates, w[0].lower) && !has(auxiliaries, w[1].lower)
}

// part adds one part of a joined segment, with what it leaves unsaid. before is
// the part before it, nil for the first.
func (c *classifier) part(s string, part, before []word) {
	if len(part) == 0 {
		return
	}
	text := s[part[0].start:part[len(part)-1].end]
	unsaid := slices.ContainsFunc(part, func(w word) bool { return has(pronouns, w.lower) })
	switch n := contents(part); {
	case len(c.clauses) > 0 && c.subject != "" && (unsaid || n < 2 && opens(part[0])):
		text += " " + c.subject
	case before != nil && !opens(part[0]) && !has(determiners, part[0].lower):
		// "configure single sign-on and audit logs": what the first part has
		// more than the second goes for both.
		for i := range before {
			if extra := contents(before[i:]) - n; before[i].content && extra <= 0 {
				if i > 0 {
					text = s[before[0].start:before[i-1].end] + " " + text
				}
				break
			}
		}
	}
	if c.subject == "" {
		c.subject = subject(s, part)
	}
	c.add(text)
}

// subject is what a part is about: the content words at its end, or all of
// them.
func subject(s string, part []word) string {
	hi := len(part)
	for hi > 0 && !part[hi-1].content {
		hi--
	}
	lo := hi
	for lo > 0 && part[lo-1].content {
		lo--
	}
	if lo == hi {
		return ""
	}
	return s[part[lo].start:part[hi-1].end]
}

// compared adds the two things that a segment compares.
func (c *classifier) compared(s string, w []word) bool {
	for i := range w {
		from, joint := -1, -1
		switch {
		case has(betweens, w[i].lower) && slices.ContainsFunc(w[max(0, i-4):i], func(w word) bool { return has(differences, w.lower) }):
			from, joint = i+1, find(w, i+2, conjunctions)
		case w[i].lower == "compared" && contents(w[:i]) > 0:
			from, joint = 0, find(w, i+1, against)
			if joint > 0 {
				return c.both(s, w[:i], w[joint+1:])
			}
		case has(comparing, w[i].lower):
			from, joint = i+1, find(w, i+2, against)
		case has(versus, w[i].lower):
			from, joint = 0, i
		}
		if from >= 0 && joint > from {
			return c.both(s, w[from:joint], w[joint+1:])
		}
	}
	return false
}

// find finds a word of a list from a place on.
func find(w []word, from int, list string) int {
	for i := from; i < len(w); i++ {
		if has(list, w[i].lower) {
			return i
		}
	}
	return -1
}

// both adds two things and what goes for both.
func (c *classifier) both(s string, a, b []word) bool {
	for len(a) > 0 && !a[0].content {
		a = a[1:]
	}
	if contents(a) == 0 || contents(b) == 0 {
		return false
	}
	tail := ""
	if i := find(b, 1, prepositions); i > 0 {
		tail = " " + s[b[i].start:b[len(b)-1].end]
		b = b[:i]
	}
	c.add(s[a[0].start:a[len(a)-1].end] + tail)
	c.add(s[b[0].start:b[len(b)-1].end] + tail)
	return true
}

// enumerated adds the items of "… A, B and C …", each with what stands before
// and behind all of them.
func (c *classifier) enumerated(s string, w []word) bool {
	const most = 5 // words of an item
	joint := -1
	for i := len(w) - 2; i > 1; i-- {
		if has(conjunctions, w[i].lower) {
			joint = i
			break
		}
	}
	if joint < 0 || opens(w[joint+1]) {
		return false
	}
	var items [][]word
	hi := joint
	for i := joint - 1; i > 0 && hi-i <= most; i-- {
		if w[i].comma {
			if opens(w[i]) {
				return false
			}
			items, hi = append(items, w[i:hi]), i
		}
	}
	if len(items) == 0 {
		return false
	}
	slices.Reverse(items)
	// The first item has no mark before it: it is taken to be as long as the
	// second, without the words at its start that say nothing.
	lo := max(0, hi-len(items[0]))
	for lo < hi && !w[lo].content {
		lo++
	}
	last := w[joint+1:]
	tail := find(last, 1, prepositions)
	if tail < 0 {
		tail = min(len(last), most)
	}
	if lo == hi || len(items) > MaxClauses || contents(last[:tail]) == 0 || slices.ContainsFunc(items, func(w []word) bool { return contents(w) == 0 }) {
		return false
	}
	items = append([][]word{w[lo:hi]}, append(items, last[:tail])...)
	head, rest := span(s, w[:lo]), span(s, last[tail:])
	for _, item := range items {
		c.add(strings.TrimSpace(head + " " + span(s, item) + " " + rest))
	}
	return true
}

// span is the text of words.
func span(s string, w []word) string {
	if len(w) == 0 {
		return ""
	}
	return strings.TrimFunc(s[w[0].start:w[len(w)-1].end], unicode.IsSpace)
}
