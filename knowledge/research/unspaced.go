package research

import (
	"strings"
	"unicode/utf8"
)

// han adds the clauses of a segment in Chinese or Japanese.
func (c *classifier) han(s string, asks bool) {
	if c.hanCompared(s) || c.hanEach(s) || asks && c.hanEnumerated(s) {
		return
	}
	for _, part := range hanParts(s) {
		c.hanPart(part)
	}
}

// hanPart adds a part, with what it leaves unsaid.
func (c *classifier) hanPart(part string) {
	part = strings.Trim(part, " ，,、")
	if strings.IndexFunc(part, isWordRune) < 0 {
		return
	}
	own := frameless(without(part, hanAsking))
	if at, _ := first(part, hanPronouns); len(c.clauses) > 0 && c.subject != "" && (at >= 0 || runes(own) < 4) {
		part += " " + c.subject
	}
	if c.subject == "" {
		c.subject, _, _ = strings.Cut(own, "は") // what goes before は is the topic
	}
	c.add(part)
}

// hanParts parts a segment at strong joints, and at commas and weak joints
// where both sides ask.
func hanParts(s string) (out []string) {
	start := 0
	for i := 0; i < len(s); {
		_, size := utf8.DecodeRuneInString(s[i:])
		joint, strong := jointAt(s, i)
		if joint == 0 {
			i += size
			continue
		}
		left, right := s[start:i], s[i+joint:]
		if next, _ := first(right, "， ,"); next > 0 {
			right = right[:next]
		}
		if strong && runes(left) >= 2 && runes(right) >= 2 || hanAsks(left) && hanAsks(right) {
			out = append(out, left)
			start = i + joint
		}
		i += joint
	}
	return append(out, s[start:])
}

// jointAt returns the length of the joint that starts at a place, 0 for none.
func jointAt(s string, at int) (length int, strong bool) {
	rest := s[at:]
	for w := range strings.FieldsSeq(hanStrong) {
		if strings.HasPrefix(rest, w) {
			return len(w), true
		}
	}
	for _, w := range [...]string{"，", ","} {
		if strings.HasPrefix(rest, w) {
			return len(w), false
		}
	}
	return weakAt(s, at), false
}

// weakAt returns the length of the weak joint at a place, 0 for none or one
// that is part of a word.
func weakAt(s string, at int) int {
	for w := range strings.FieldsSeq(hanWeak) {
		if !strings.HasPrefix(s[at:], w) {
			continue
		}
		for no := range strings.FieldsSeq(hanNoJoint) {
			if i := strings.Index(no, w); i >= 0 && at >= i && strings.HasPrefix(s[at-i:], no) {
				return 0
			}
		}
		return len(w)
	}
	return 0
}

func hanAsks(s string) bool {
	at, _ := first(s, hanAsking)
	return at >= 0
}

// hanCompared adds the two things that "A和B的区别", "比较A和B" or "AとBの違い"
// compare.
func (c *classifier) hanCompared(s string) bool {
	at, mark := first(s, hanCompare)
	if at < 0 {
		return false
	}
	things, rest := s[:at], s[at+len(mark):]
	if runes(things) < 3 {
		things, rest = rest, "" // the mark leads
	}
	items := hanItems(things)
	if len(items) < 2 {
		return false
	}
	for i, item := range items {
		items[i] = frameless(item)
		if runes(items[i]) == 0 {
			return false
		}
	}
	if strings.Contains(rest, "，") || strings.Contains(rest, "、") {
		// Something more is asked.
		_, more, _ := strings.Cut(rest, "，")
		if hanAsks(more) {
			items = append(items, more)
		}
	}
	for _, item := range items {
		c.add(item)
	}
	return true
}

// hanEach adds the items that a segment asks about one by one.
func (c *classifier) hanEach(s string) bool {
	at, mark := first(s, hanEach)
	if at < 0 {
		return false
	}
	items := hanItems(s[:at])
	if len(items) < 2 {
		return false
	}
	rest := strings.Trim(s[at+len(mark):], " ，,、")
	for _, item := range items {
		c.add(frameless(item) + " " + rest)
	}
	return true
}

// hanEnumerated adds the items of "…A、B和C…": three or more short ones.
func (c *classifier) hanEnumerated(s string) bool {
	const most = 12 // runes of an item
	if strings.Count(s, "、") == 0 || strings.ContainsAny(s, "，,") {
		return false
	}
	items := hanItems(s)
	if len(items) < 3 || len(items) > MaxClauses {
		return false
	}
	for i, item := range items {
		if n := runes(item); n == 0 || i > 0 && i < len(items)-1 && n > most || i > 0 && i < len(items)-1 && hanAsks(item) {
			return false
		}
	}
	// The first item has no mark before it: a run of another script at the end,
	// or as many characters as the second has.
	head := items[0]
	cut := len(head)
	for n := runes(items[1]); n > 0 && cut > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(head[:cut])
		cut -= size
	}
	last, _ := utf8.DecodeLastRuneInString(head)
	for i := len(head); !isHan(last) && i > 0; {
		r, size := utf8.DecodeLastRuneInString(head[:i])
		if isHan(r) {
			cut = i
			break
		}
		i -= size
	}
	head, items[0] = head[:cut], head[cut:]
	for _, item := range items {
		c.add(strings.TrimSpace(head + " " + item))
	}
	return true
}

// hanItems parts a text at weak and strong joints.
func hanItems(s string) (items []string) {
	start := 0
	for i := 0; i < len(s); {
		_, size := utf8.DecodeRuneInString(s[i:])
		joint, _ := jointAt(s, i)
		if joint == 0 || strings.ContainsAny(s[i:i+joint], "，,") {
			i += size
			continue
		}
		items = append(items, strings.TrimSpace(s[start:i]))
		i += joint
		start = i
	}
	if last := strings.TrimSpace(s[start:]); frameless(last) != "" {
		items = append(items, last)
	}
	return items
}

// frameless takes off both ends of a text what stands around the things
// compared.
func frameless(s string) string {
	for before := ""; s != before; {
		before = s
		s = strings.Trim(s, " ，,、")
		for w := range strings.FieldsSeq(hanFrame) {
			s = strings.TrimPrefix(strings.TrimSuffix(s, w), w)
		}
	}
	return s
}

// without takes the words of a list out of a text.
func without(s, list string) string {
	var pairs []string
	for w := range strings.FieldsSeq(list) {
		pairs = append(pairs, w, "")
	}
	return strings.TrimSpace(strings.NewReplacer(pairs...).Replace(s))
}

// runes counts letters, digits and marks.
func runes(s string) (n int) {
	for _, r := range s {
		if isWordRune(r) {
			n++
		}
	}
	return n
}
