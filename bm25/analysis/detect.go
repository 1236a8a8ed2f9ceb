package analysis

import (
	"strings"
	"unicode"
)

// scriptLanguages lead from a script to the analyzer and language it stands for alone.
// Scripts that many languages share (Latin, Cyrillic, Arabic, Devanagari) take
// the one language the engine has an analyzer for, or are told apart by words.
var scriptLanguages = []struct {
	table          *unicode.RangeTable
	analyzer, code string
}{
	{unicode.Hangul, "standard", "ko"},
	{unicode.Thai, "standard", "th"},
	{unicode.Hebrew, "standard", "he"},
	{unicode.Greek, "greek", "el"},
	{unicode.Tamil, "tamil", "ta"},
	{unicode.Devanagari, "hindi", "hi"},
	{unicode.Cyrillic, "russian", ""},
	{unicode.Arabic, "arabic", ""},
}

// latin are the languages told apart by their stop words.
var latin = []struct{ analyzer, code string }{
	{"english", "en"}, {"german", "de"}, {"french", "fr"}, {"spanish", "es"}, {"italian", "it"}, {"portuguese", "pt"}, {"dutch", "nl"},
	{"danish", "da"}, {"norwegian", "no"}, {"swedish", "sv"}, {"finnish", "fi"}, {"hungarian", "hu"}, {"romanian", "ro"},
	{"turkish", "tr"}, {"vietnamese", "vi"}, {"irish", "ga"},
}

// A Detector tells languages apart. It never changes.
type Detector struct{ latin []*Analyzer }

// NewDetector makes the stop words of the languages it tells apart ready.
func NewDetector() *Detector {
	d := &Detector{latin: make([]*Analyzer, len(latin))}
	for i, l := range latin {
		d.latin[i] = ForLanguage(l.code)
	}
	return d
}

const (
	languageRunes = 8192 // looked at from the start of a text
	languageWords = 400  // compared with stop words
	// languageLeast is the share of stop words a language must show: running
	// text has a third or more, lists of names and code have few.
	languageLeast = 0.12
)

// Language returns the analyzer of a text and, where it is sure, its language:
// the declared one first, then what script and stop words say. Texts without
// enough words are "standard". It is linear in the first 8,192 characters.
func (d *Detector) Language(declared, text string) (analyzer, code string) {
	if declared != "" {
		return ForLanguage(declared).Name(), declared
	}
	var letters, latins, han, kana int
	counts := make([]int, len(scriptLanguages))
	n := 0
	end := len(text)
	for i, r := range text {
		if n++; n > languageRunes {
			end = i
			break
		}
		switch {
		case r < 0x80:
			if r|0x20 >= 'a' && r|0x20 <= 'z' {
				letters++
				latins++
			}
		case !unicode.IsLetter(r):
		default:
			letters++
			switch {
			case unicode.Is(unicode.Latin, r):
				latins++
			case unicode.Is(unicode.Han, r):
				han++
			case unicode.In(r, unicode.Hiragana, unicode.Katakana):
				kana++
			default:
				for j := range scriptLanguages {
					if unicode.Is(scriptLanguages[j].table, r) {
						counts[j]++
						break
					}
				}
			}
		}
	}
	// A character of Han or Kana says as much as several letters.
	if cjk := han + kana; cjk*4 > letters {
		if kana*10 > cjk {
			return "japanese", "ja"
		}
		return "chinese", "zh"
	}
	for j, c := range counts {
		if c*2 > letters {
			return scriptLanguages[j].analyzer, scriptLanguages[j].code
		}
	}
	if latins*2 <= letters {
		return "standard", ""
	}
	return d.latinLanguage(text[:end])
}

func (d *Detector) latinLanguage(text string) (analyzer, code string) {
	hits := make([]int, len(d.latin))
	words := 0
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' }) {
		if len(w) < 2 {
			continue // variables look like the short words of some languages
		}
		if words++; words > languageWords {
			break
		}
		w = strings.ToLower(w)
		for i, a := range d.latin {
			if a.IsStopWord(w) {
				hits[i]++
			}
		}
	}
	words = min(words, languageWords)
	best := 0
	for i := range hits {
		if hits[i] > hits[best] {
			best = i
		}
	}
	if words < 5 || float64(hits[best]) < languageLeast*float64(words) {
		return "standard", ""
	}
	return latin[best].analyzer, latin[best].code
}
