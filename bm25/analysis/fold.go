package analysis

import (
	"unicode"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/text/unicode/norm"
)

type foldFlags uint8

const (
	foldTurkish   foldFlags = 1 << iota // I folds to ı
	foldKeepMarks                       // apostrophes and quotation marks stay
)

// A folder is the working space of folding; the zero value is ready for use.
type folder struct {
	tmp  []byte
	iter norm.Iter
}

// normal appends the normal form of src. Unlike norm.Form.Append it allocates
// nothing when warm.
func (f *folder) normal(dst []byte, form norm.Form, src string) []byte {
	if form.QuickSpanString(src) == len(src) {
		return append(dst, src...)
	}
	f.iter.InitString(form, src)
	for !f.iter.Done() {
		dst = append(dst, f.iter.Next()...)
	}
	f.iter.InitString(form, " ") // let go of src
	return dst
}

// recompose composes dst[start:] in place.
func (f *folder) recompose(dst []byte, start int) []byte {
	if norm.NFC.QuickSpan(dst[start:]) == len(dst)-start {
		return dst
	}
	f.tmp = append(f.tmp[:0], dst[start:]...)
	f.iter.Init(norm.NFC, f.tmp)
	dst = dst[:start]
	for !f.iter.Done() {
		dst = append(dst, f.iter.Next()...)
	}
	return dst
}

// foldCase appends the case-folded compatibility form of src to dst: NFKC with
// full case folding, as NFKC_Casefold, and in addition
//   - invalid bytes, format characters (bidi marks, joiners, soft hyphens),
//     variation selectors, the Arabic tatweel and short vowels and the Hebrew
//     points are dropped,
//   - İ folds to i without the combining dot,
//   - decimal digits of every script become 0–9,
//   - apostrophes, the Hebrew geresh and gershayim and the middle dot of
//     Catalan, which word segmentation leaves inside words, are dropped unless
//     foldKeepMarks is set,
//   - with foldTurkish, I folds to ı, as Turkish and Azerbaijani write it.
//
// Diacritics are kept: a stemmer needs them. tmp is working space, returned so
// that its growth is kept. Cost: O(len(src)).
func (f *folder) foldCase(dst []byte, src string, flags foldFlags) []byte {
	turkish, keepMarks := flags&foldTurkish != 0, flags&foldKeepMarks != 0
	f.tmp = f.normal(f.tmp[:0], norm.NFKD, src)
	tmp := f.tmp
	start := len(dst)
	for i := 0; i < len(tmp); {
		r, w := utf8.DecodeRune(tmp[i:])
		i += w
		if r < utf8.RuneSelf {
			if r-'A' < 26 && r >= 'A' {
				if r == 'I' && turkish && !dotFollows(tmp[i:]) {
					dst = append(dst, "ı"...)
					continue
				}
				r += 'a' - 'A'
			}
			if !keepMarks && (r == '\'' || r == '"') {
				continue
			}
			dst = append(dst, byte(r))
			if r == 'i' && dotFollows(tmp[i:]) {
				i += 2
			}
			continue
		}
		if r == utf8.RuneError && w == 1 || dropped(r) || !keepMarks && innerMark(r) {
			continue
		}
		dst = appendFolded(dst, r)
	}
	return f.recompose(dst, start)
}

// dotFollows reports whether b starts with U+0307, the dot of İ.
func dotFollows(b []byte) bool { return len(b) >= 2 && b[0] == 0xcc && b[1] == 0x87 }

func appendFolded(dst []byte, r rune) []byte {
	switch r {
	case 'ß', 'ẞ':
		return append(dst, "ss"...)
	case 'ς':
		r = 'σ'
	case 0x0345: // iota subscript, as case folding has it
		r = 'ι'
	case '’', '‘', 'ʼ':
		r = '\''
	default:
		if d, ok := digitValue(r); ok {
			return append(dst, '0'+byte(d))
		}
		r = foldRune(r)
	}
	return utf8.AppendRune(dst, r)
}

// foldRune is simple case folding: the lower case of the letter, through the
// upper case so that letters with two lower cases (µ, ſ, ϐ) agree.
func foldRune(r rune) rune {
	if r >= 0x13a0 && r <= 0x13f5 || r >= 0xab70 && r <= 0xabbf || r >= 0x13f8 && r <= 0x13fd {
		return unicode.ToUpper(r) // Cherokee folds to upper case
	}
	l := unicode.ToLower(unicode.ToUpper(r))
	if l == 'i' && r != 'i' { // ı: upper case I belongs to i
		return r
	}
	return l
}

// innerMark lists the marks outside ASCII that stand inside words.
func innerMark(r rune) bool {
	switch r {
	case '’', '‘', 'ʼ', '·', '״', '׳', '‧':
		return true
	}
	return false
}

// digitValue is the value of a decimal digit outside ASCII.
func digitValue(r rune) (int, bool) {
	if r < 0x0660 {
		return 0, false
	}
	for _, t := range unicode.Nd.R16 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return int(r-rune(t.Lo)) % 10, true
		}
	}
	for _, t := range unicode.Nd.R32 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return int(r-rune(t.Lo)) % 10, true
		}
	}
	return 0, false
}

// dropped lists what carries no meaning for matching.
func dropped(r rune) bool {
	switch {
	case r < 0xad:
		return false
	case r < 0x0591:
		return r == 0xad || r == 0x034f
	case r <= 0x05c7:
		return unicode.Is(unicode.Mn, r)
	case r == 0x0640, r >= 0x064b && r <= 0x0652, r == 0x0670:
		return true
	case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef, r >= 0x180b && r <= 0x180d:
		return true
	}
	return unicode.Is(unicode.Cf, r)
}

// stripAccents appends src, which foldCase made, without the diacritics that
// readers and writers leave out: the combining marks of Latin and Greek
// letters, ё, the hamza and madda of Arabic letters, and the letters that have
// no decomposition (ø, ł, đ, æ, œ, ð, þ, ı). Marks that make another letter
// (й, Japanese voicing, Indic vowels) stay. ASCII comes back as it is.
func (f *folder) stripAccents(dst, src []byte) []byte {
	f.tmp = f.normal(f.tmp[:0], norm.NFD, unsafe.String(unsafe.SliceData(src), len(src)))
	tmp := f.tmp
	start := len(dst)
	var base rune
	for i := 0; i < len(tmp); {
		r, w := utf8.DecodeRune(tmp[i:])
		i += w
		if r >= 0x0300 && r <= 0x036f {
			if strippable(base, r) {
				continue
			}
		} else {
			base = r
		}
		switch r {
		case 'ø':
			r = 'o'
		case 'ł':
			r = 'l'
		case 'đ', 'ð':
			r = 'd'
		case 'ı':
			r = 'i'
		case 'æ':
			dst = append(dst, "ae"...)
			continue
		case 'œ':
			dst = append(dst, "oe"...)
			continue
		case 'þ':
			dst = append(dst, "th"...)
			continue
		case 'ى', 'ی':
			r = 'ي'
		case 'ک':
			r = 'ك'
		case 'ة':
			r = 'ه'
		case 0x0653, 0x0654, 0x0655:
			continue
		}
		dst = utf8.AppendRune(dst, r)
	}
	return f.recompose(dst, start)
}

// strippable tells whether mark is a mere accent on base.
func strippable(base, mark rune) bool {
	switch {
	case base < 0x0250, base >= 0x1e00 && base < 0x2000, base >= 0x0370 && base < 0x0400:
		return true
	case base >= 0x0400 && base < 0x0530:
		// ё, and the stress marks of dictionaries.
		return mark == 0x0301 || mark == 0x0300 || mark == 0x0308 && base == 'е'
	}
	return false
}

// isASCII reports whether every byte of b is ASCII.
func isASCII[T string | []byte](b T) bool {
	for i := 0; i < len(b); i++ {
		if b[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
