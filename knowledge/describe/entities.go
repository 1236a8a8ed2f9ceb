package describe

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of one entity.
const (
	maxNameWords   = 5
	maxEntityRunes = 60
)

// particles join the capitalized words of a name.
var particles = []string{"of", "de", "del", "della", "di", "da", "dos", "du", "van", "von", "der", "den", "zu", "la", "le", "el", "al", "ibn", "bin", "y"}

// openers begin sentences and are written with a capital there, in the languages
// that most often mix with names. They begin and end no name.
var openers = []string{
	"A", "An", "The", "This", "That", "These", "Those", "It", "Its", "He", "She", "We", "You", "They", "I", "My", "Your", "Our", "Their",
	"In", "On", "At", "By", "To", "For", "From", "With", "Without", "If", "When", "While", "Where", "Why", "What", "Which", "Who", "How",
	"And", "But", "Or", "So", "As", "Is", "Are", "Was", "Were", "Do", "Does", "Did", "Can", "Could", "Will", "Would", "Should", "May", "Not",
	"No", "Yes", "After", "Before", "Since", "Then", "There", "Here", "Each", "Every", "All", "Any", "Some", "Both", "Please", "See", "Use",
	"Der", "Die", "Das", "Ein", "Eine", "Und", "Wenn", "Im", "Mit", "Bei", "Les", "Une", "Et",
}

// An entityScan collects the entities of one text.
type entityScan struct {
	most int
	out  []string
	seen map[string]bool

	// The name on its way: text[from:to], so many words of it.
	from, to, words int
	open            bool
}

// Entities returns at most so many entities of a text, by the rules of the
// package comment.
func Entities(text string, most int) []string {
	s := entityScan{most: most, seen: make(map[string]bool)}
	for len(text) > 0 && len(s.out) < most {
		line := text
		if i := strings.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = ""
		}
		if !isHeading(line) {
			s.line(line)
		}
	}
	return s.out
}

// isHeading tells whether a line is a Markdown heading.
func isHeading(line string) bool {
	line = strings.TrimLeft(line, " ")
	rest := strings.TrimLeft(line, "#")
	return len(rest) < len(line) && len(line)-len(rest) <= 6 && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
}

func (s *entityScan) add(name string) {
	if name == "" || s.seen[name] || len(s.out) >= s.most || utf8.RuneCountInString(name) > maxEntityRunes {
		return
	}
	s.seen[name] = true
	s.out = append(s.out, strings.Clone(name))
}

// line finds the entities of one line: quoted ones first, since they may hold
// names, then word by word.
func (s *entityScan) line(line string) {
	s.open = false
	for i := 0; i < len(line); {
		if end := plainWord(line, i); end > i && !s.open {
			i = end // the most there are, and nothing of a name
			continue
		}
		r, n := utf8.DecodeRuneInString(line[i:])
		if isWord(r) {
			end := i + wordLen(line[i:])
			s.word(line, i, end)
			i = end
			continue
		}
		if r != ' ' {
			s.close(line)
			if inside, size := quoted(line[i:], r, n); size > 0 {
				s.add(inside)
				if r == '`' {
					i += size // what is code is not read for names
					continue
				}
			}
		}
		i += n
	}
	s.close(line)
}

// plainWord returns the end of the word of small ASCII letters that stands at i
// with a space or the end behind it, else i.
func plainWord(line string, i int) int {
	at := i
	for at < len(line) && line[at] >= 'a' && line[at] <= 'z' {
		at++
	}
	if at < len(line) && line[at] != ' ' {
		return i
	}
	return at
}

// word takes the word line[from:to].
func (s *entityScan) word(line string, from, to int) {
	w := line[from:to]
	if isIdentifier(w) {
		s.add(w)
	}
	follows := s.open && line[s.end(line, from):from] == " "
	first, _ := utf8.DecodeRuneInString(w)
	switch {
	case (unicode.IsUpper(first) || unicode.IsTitle(first)) && follows && s.words < maxNameWords:
		s.to = to
		s.words++
	case unicode.IsUpper(first) || unicode.IsTitle(first):
		s.close(line)
		s.open, s.from, s.to, s.words = true, from, to, 1
	case follows && slices.Contains(particles, w):
		// It belongs to the name if a capital follows.
	default:
		s.close(line)
	}
}

// end is where the words read so far end: behind the last one before from.
func (s *entityScan) end(line string, from int) int {
	return len(strings.TrimRight(line[:from], " "))
}

// close ends the name on its way.
func (s *entityScan) close(line string) {
	if !s.open {
		return
	}
	s.open = false
	words := strings.Split(line[s.from:s.to], " ")
	for len(words) > 0 && (slices.Contains(openers, words[0]) || slices.Contains(particles, words[0])) {
		words = words[1:]
	}
	for len(words) > 0 && slices.Contains(openers, words[len(words)-1]) {
		words = words[:len(words)-1]
	}
	if len(words) > 1 {
		s.add(strings.Join(words, " "))
	}
}

func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9' || r == '_'
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '_'
}

// wordLen is the length of the word that s starts with. Hyphens, dots,
// apostrophes and "::" between two of its letters are inside.
func wordLen(s string) int {
	i := 0
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if isWord(r) {
			i += n
			continue
		}
		joint := 0
		switch {
		case strings.HasPrefix(s[i:], "::"):
			joint = 2
		case r == '-' || r == '.' || r == '\'' || r == '’' || r == '&':
			joint = n
		}
		if next, _ := utf8.DecodeRuneInString(s[i+joint:]); joint == 0 || !isWord(next) {
			return i
		}
		i += joint
	}
	return i
}

// isIdentifier tells whether a word is written as names in code are.
func isIdentifier(w string) bool {
	var upper, digit, lower, camel, other bool
	last := ' '
	for _, r := range w {
		switch {
		case unicode.IsUpper(r):
			upper = true
			camel = camel || unicode.IsLower(last)
		case unicode.IsLower(r):
			lower = true
		case unicode.IsDigit(r):
			digit = true
		case r != '-' && r != '_' && r != ':' && r != '.':
			other = true
		}
		last = r
	}
	inner := strings.Trim(w, "_")
	switch {
	case other, !upper && !lower:
		return false
	case strings.Contains(inner, "_"), strings.Contains(w, "::"):
		return true
	case camel:
		return !strings.ContainsAny(w, "-.")
	}
	return upper && digit && !lower
}

// closers are the marks that end what the marks before them begin.
var closers = map[rune]rune{'"': '"', '`': '`', '“': '”', '„': '“', '«': '»', '‹': '›', '「': '」', '『': '』', '《': '》', '〈': '〉', '【': '】'}

// quoted returns the name in the quotation marks that s starts with, "" when it
// is none, and the length of all of it; 0 when there is no second mark.
func quoted(s string, mark rune, n int) (name string, size int) {
	closer, ok := closers[mark]
	if !ok {
		return "", 0
	}
	runes := 0
	for i, r := range s[n:] {
		if r == closer {
			return nameIn(s[n:n+i], mark == '`'), n + i + utf8.RuneLen(r)
		}
		if runes++; runes > maxEntityRunes {
			break
		}
	}
	return "", 0
}

func nameIn(s string, code bool) string {
	s = strings.TrimSpace(s)
	first, _ := utf8.DecodeRuneInString(s)
	caseless := unicode.IsLetter(first) && !unicode.IsUpper(first) && !unicode.IsLower(first) && !unicode.IsTitle(first)
	words := strings.Count(s, " ") + 1
	switch {
	case s == "" || words > maxNameWords || strings.ContainsAny(s, "\t.!?;。！？；") && !code:
		return ""
	case unicode.IsUpper(first), unicode.IsTitle(first), caseless:
		return s
	case code && words == 1 && unicode.IsLetter(first) && len(s) > 1:
		return s
	}
	return ""
}
