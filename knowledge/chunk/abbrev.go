package chunk

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxAbbrev is how many bytes before a full stop are looked at.
const maxAbbrev = 24

// endsSentence decides about the full stop at stop, white space behind it and
// at next a rune that is not a lower-case letter. It returns false, and so
// joins, when the word before the full stop is, or may well be, one that has
// a full stop of its own: a title (Dr.), initials (J.), an ordinal (29.), an
// abbreviation with inner full stops (e.g.). Where such a word may also end a
// sentence, an English word that opens sentences (The, He …) decides for the
// end.
func endsSentence(text string, from, stop, next int) bool {
	start := wordBefore(text, from, stop)
	word := text[start:stop]
	if word == "" {
		return true
	}
	digits, letters, stops := 0, 0, 0
	for _, r := range word {
		switch {
		case r == '.':
			stops++
		case unicode.IsDigit(r):
			digits++
		default:
			letters++
		}
	}
	first := start-from < 64 && skipBlank(text, from, start) == start // nothing before it
	switch {
	case digits > 0 && letters == 0:
		// Ordinals of the languages that write them so have one or two
		// digits and stand before a word; 1999. and 3.14. are numbers.
		if stops > 0 || digits > 2 || isMoney(text, from, start) {
			return true
		}
		k, _, _ := kindAt(text, next)
		if k != kUpper {
			return k != kNumber
		}
		return !first && opensSentence(text, next)
	case digits > 0:
		return true
	case stops > 0: // U.S., e.g., z.B.
		return opensSentence(text, next)
	case letters == 1:
		r, _ := utf8.DecodeRuneInString(word)
		if !unicode.IsUpper(r) && !unicode.IsLower(r) {
			return true
		}
		return !first && opensSentence(text, next)
	case strings.Trim(word, "IVXLCDM") == "": // Ludwig XIV. starb
		return !first && opensSentence(text, next)
	}
	switch abbreviation(word) {
	case always:
		return false
	case beforeNumber:
		k, _, _ := kindAt(text, next)
		return k != kNumber
	}
	return true
}

// wordBefore returns the start of the run of letters, digits and inner full
// stops before stop; stop itself when the run is longer than maxAbbrev.
func wordBefore(text string, from, stop int) int {
	i := stop
	for i > from {
		r, w := utf8.DecodeLastRuneInString(text[from:i])
		if r == '.' {
			// Inner only: a letter or digit must stand before it.
			p, _ := utf8.DecodeLastRuneInString(text[from : i-1])
			if i-1 == from || !unicode.IsLetter(p) && !unicode.IsDigit(p) {
				break
			}
		} else if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.M, r) {
			break
		}
		if i -= w; stop-i > maxAbbrev {
			return stop
		}
	}
	return i
}

// isMoney reports whether a currency sign, a hash or a decimal mark stands
// before the number at i.
func isMoney(text string, from, i int) bool {
	r, _ := utf8.DecodeLastRuneInString(text[from:i])
	return r == ',' || r == '#' || r == '-' || unicode.Is(unicode.Sc, r)
}

// opensSentence reports whether the word at i is an English one that hardly
// ever follows a title, an initial or an ordinal.
func opensSentence(text string, i int) bool {
	e := i
	for e < len(text) && e < i+8 && asciiKind[text[e]&0x7f] <= kUpper && asciiKind[text[e]&0x7f] >= kLower && text[e] < utf8.RuneSelf {
		e++
	}
	switch text[i:e] {
	case "A", "An", "And", "As", "At", "But", "For", "He", "Her", "His", "How", "However", "I", "If", "In", "It", "Its",
		"My", "No", "On", "Our", "She", "So", "Some", "That", "The", "Their", "Then", "There", "These", "They", "This",
		"Those", "To", "We", "What", "When", "Where", "While", "Who", "Why", "With", "You", "Your":
		return true
	}
	return false
}

type abbrevKind uint8

const (
	never        abbrevKind = iota
	always                  // stands before what it belongs to
	beforeNumber            // a word of its own unless a number follows
)

// abbreviation tells whether word, without its full stop, is an abbreviation
// of English, German, French, Spanish, Italian, Portuguese, Dutch, Polish,
// Czech, Swedish, Turkish or Russian that stands before a name or a number.
// Those that mostly end a sentence (etc., usw., Inc.) are left out: before a
// lower-case letter no full stop ends one anyway.
func abbreviation(word string) abbrevKind {
	if len(word) > 12 {
		return never
	}
	switch strings.ToLower(word) {
	// Titles and ranks.
	case "dr", "dra", "drs", "mr", "mrs", "ms", "mx", "prof", "profa", "st", "ste", "sr", "sra", "srta", "jr", "rev", "fr", "hr", "frl",
		"hon", "gen", "col", "maj", "capt", "cpt", "cmdr", "adm", "lt", "sgt", "cpl", "pvt", "gov", "sen", "rep", "pres", "supt",
		"mme", "mlle", "mgr", "mons", "msgr", "sig", "dott", "avv", "arch", "ing", "dipl", "mag", "univ", "dhr", "mevr", "mej", "bpk",
		"exmo", "exma", "ud", "uds", "dña", "inż", "mgr.inż", "doc", "mudr", "judr", "tov", "sn", "av",
		"г-н", "гр", "тов", "проф", "акад", "им", "ул", "пр", "св":
		return always
	// Pointers into texts, and words before names.
	case "vs", "cf", "viz", "approx", "ca", "ed", "eds", "vol", "vols", "figs", "eqs", "nos", "pp", "pg", "al", "dept", "mt", "ft", "ave", "blvd",
		"bzw", "vgl", "bd", "hrsg", "evtl", "ggf", "inkl", "exkl", "abb", "bsp", "sog", "geb", "gest", "str", "tel", "nr", "anm", "kap", "zit",
		"éd", "env", "chap", "fasc", "pág", "págs", "núm", "núms", "vol.", "aprox", "ej", "p.ej", "ecc.", "pagg",
		"bijv", "resp", "incl", "nl", "mln", "mld", "np", "tzn", "tj", "tzv", "např", "čl", "kl", "bl", "örn", "bkz", "yy",
		"рис", "стр", "гл", "табл", "см", "ср", "напр", "тыс", "млн", "млрд", "обл":
		return always
	// Months and days that are not words.
	case "jan", "feb", "febr", "apr", "aug", "sept", "okt", "nov", "dez", "janv", "févr", "juil", "déc", "ene", "abr", "dic",
		"tue", "tues", "thu", "thur", "thurs":
		return always
	case "no", "fig", "art", "arts", "sec", "sect", "ch", "cap", "op", "par", "para", "eq", "ex", "abs", "tab", "pt", "ver", "mar", "oct", "dec",
		"jun", "jul", "sep", "item", "bk", "ref", "refs", "pos", "ziff", "rn", "std", "mio", "mrd", "est", "max", "min":
		return beforeNumber
	}
	return never
}
