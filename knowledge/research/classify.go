package research

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/bm25/analysis"
)

// Classify tells whether a text asks for one thing or for several, and parts
// it; see the package comment for its rules. It never fails: a blank text is a
// direct question without a clause. Time is linear in the text.
func Classify(text string) Question {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	q := Question{Text: text}
	if text == "" {
		return q
	}
	c := classifier{stops: analysis.ForLanguage("en")}
	parts := segments(text)
	switch {
	case len(parts) > 1:
		// Each asks something: what a part joins within itself belongs
		// together more than the parts do.
		for _, part := range parts {
			c.whole(part)
		}
	case len(parts) == 0, len(text) > longestSegment:
	case unspaced(parts[0]):
		c.han(parts[0], asks(text))
	default:
		c.spaced(parts[0], asks(text))
	}
	if len(c.clauses) < 2 {
		q.Clauses = []string{text}
		return q
	}
	q.Complex, q.Clauses = true, c.clauses
	return q
}

// longestSegment is how many bytes of a segment the rules look at: a longer one
// is no question that they could part.
const longestSegment = 2000

// A classifier gathers clauses.
type classifier struct {
	stops   *analysis.Analyzer
	clauses []string
	subject string // of the first clause: what a pronoun further on stands for
}

// whole adds a segment as one clause.
func (c *classifier) whole(s string) {
	if len(s) > longestSegment {
		c.add(s)
		return
	}
	if unspaced(s) {
		c.hanPart(s)
		return
	}
	c.part(s, c.words(s), nil)
}

// add adds a clause. What exceeds MaxClauses goes into the last one, and what
// was said already is left out.
func (c *classifier) add(clause string) {
	clause = strings.TrimSpace(clause)
	if clause == "" {
		return
	}
	for _, said := range c.clauses {
		if strings.EqualFold(said, clause) {
			return
		}
	}
	if len(c.clauses) == MaxClauses {
		c.clauses[MaxClauses-1] += " " + clause
		return
	}
	c.clauses = append(c.clauses, clause)
}

// segments parts a text at question marks, semicolons, line ends and the ends
// of sentences. What shows no letter or digit is no segment; a mark of a list
// at the start of one is taken off; a sentence that asks nothing goes with the
// one behind it, for which it is said.
func segments(text string) (out []string) {
	start, pending := 0, -1 // where the sentence starts, and those before it that ask nothing
	flush := func(end int, asking bool) {
		from := start
		for from < end && !isMarkOrWord(text[from:]) {
			_, size := utf8.DecodeRuneInString(text[from:])
			from += size
		}
		from += len(listMark(text[from:end]))
		s := strings.TrimSpace(text[from:end])
		if strings.IndexFunc(s, isWordRune) < 0 {
			return
		}
		asking = asking || opensAsking(s)
		switch {
		case !asking && pending < 0:
			pending = from
		case asking && pending >= 0:
			s, pending = strings.TrimSpace(text[pending:end]), -1
		}
		if asking {
			out = append(out, s)
		}
	}
	for i, r := range text {
		if i < start {
			continue
		}
		end := i + utf8.RuneLen(r)
		switch {
		case strings.ContainsRune("?？؟՞⁇⸮፧\u037e;；؛\n", r):
			flush(i, true)
		case strings.ContainsRune("。！｡।", r), (r == '.' || r == '!') && endsSentence(text, i, end):
			flush(i, false)
		default:
			continue
		}
		start = end
	}
	flush(len(text), false)
	switch {
	case pending < 0:
	case len(out) == 0:
		return []string{text}
	default:
		out[len(out)-1] += " " + strings.TrimSpace(text[pending:])
	}
	return out
}

// endsSentence tells a full stop from the point of a number, a name or an
// abbreviation: white space follows, and at least three letters go before.
func endsSentence(text string, at, end int) bool {
	if end < len(text) {
		if r, _ := utf8.DecodeRuneInString(text[end:]); !unicode.IsSpace(r) {
			return false
		}
	}
	n := 0
	for n < 3 && at > 0 {
		r, size := utf8.DecodeLastRuneInString(text[:at])
		if !unicode.IsLetter(r) {
			break
		}
		n, at = n+1, at-size
	}
	return n == 3
}

// isMarkOrWord tells where a sentence starts: at a word, or the mark of a list.
func isMarkOrWord(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return isWordRune(r) || listMark(s) != "" || strings.ContainsRune("(（\"'“‘「『《`[{<#@$", r)
}

// listMark is the mark of a list that s starts with: "- ", "2. ", "(b) ", "③",
// "一、", or nothing.
func listMark(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	if strings.ContainsRune("•·‣●○▪*-–—", r) || r >= '①' && r <= '⑳' {
		if rest := s[size:]; r >= '①' && r <= '⑳' || strings.HasPrefix(rest, " ") || r == '•' {
			return s[:size]
		}
		return ""
	}
	i := 0
	if strings.HasPrefix(s, "(") || strings.HasPrefix(s, "（") {
		i = size
	}
	n := 0
	for n < 3 {
		r, size := utf8.DecodeRuneInString(s[i:])
		if !unicode.IsDigit(r) && !strings.ContainsRune("一二三四五六七八九十", r) && !(n == 0 && r >= 'a' && r <= 'h') {
			break
		}
		n, i = n+1, i+size
	}
	r, size = utf8.DecodeRuneInString(s[i:])
	if n == 0 || !strings.ContainsRune(".)）、．", r) {
		return ""
	}
	if rest := s[i+size:]; r == '.' && rest != "" && !strings.HasPrefix(rest, " ") {
		return "" // 1.5 is a number
	}
	return s[:i+size]
}

// asks tells a question, or an order, from a statement.
func asks(text string) bool { return strings.ContainsAny(text, "?？؟") || opensAsking(text) }

// opensAsking tells whether a sentence without a question mark asks, or orders.
func opensAsking(s string) bool {
	if unspaced(s) {
		at, _ := first(s, hanAsking)
		return at >= 0
	}
	w := firstWord(s)
	return has(asking, w) || has(auxiliaries, w)
}

func firstWord(s string) string {
	end := strings.IndexFunc(s, func(r rune) bool { return !isWordRune(r) })
	if end < 0 {
		end = len(s)
	}
	return strings.ToLower(s[:end])
}

// isWordRune tells what words are made of.
func isWordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '_'
}

// unspaced tells whether a text is written without spaces between its words, by
// what there is more of: characters of Han and Kana, or other words.
func unspaced(s string) bool {
	han, words, in := 0, 0, false
	for _, r := range s {
		isHan := isHan(r)
		if isHan {
			han++
		}
		is := !isHan && isWordRune(r)
		if is && !in {
			words++
		}
		in = is
	}
	return han > words
}

func isHan(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r == 'ー'
}
