package analysis

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/blevesearch/snowballstem"
)

// TestPlainSegmentEqualsTheLibrary compares the hand-written segmentation with
// the full algorithm at every boundary of random strings.
func TestPlainSegmentEqualsTheLibrary(t *testing.T) {
	alphabets := []string{
		"ab1_.", "aZ09_.,:;'\" -", "aé1.'", "aяΩé_:.,1'\u00ad\u0301", "ab\r\n\t .\u200dא\"ー", "a\u0301b'..é1,\xffŉßµªº·ĿŀÅĀƁǰΆ·;ѡ҂",
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 60000 {
		alphabet := []rune(alphabets[rng.IntN(len(alphabets))])
		var b strings.Builder
		for range 1 + rng.IntN(12) {
			if rng.IntN(30) == 0 {
				b.WriteRune(rune(rng.IntN(0x600)))
			}
			b.WriteRune(alphabet[rng.IntN(len(alphabet))])
		}
		comparePlain(t, b.String())
	}
	for r := rune(0); r < 0x560; r++ {
		for _, text := range []string{string(r), "a" + string(r) + "b", "a." + string(r), string(r) + "'a", "1" + string(r) + "1", "_" + string(r), string(r) + "\u0301"} {
			comparePlain(t, text)
		}
	}
}

func comparePlain(t *testing.T, text string) {
	t.Helper()
	it := words.FromString(text)
	for it.Next() {
		end, sh, ok := plainSegment(text, it.Start())
		if !ok {
			continue
		}
		seg := it.Value()
		if strings.ContainsRune(" \r\n", rune(seg[0])) && strings.IndexFunc(seg, unicode.IsLetter) < 0 {
			continue // white space may come in pieces
		}
		if end != it.End() {
			t.Fatalf("%q at %d: plain segment ends at %d, the library's at %d", text, it.Start(), end, it.End())
		}
		word := strings.IndexFunc(seg, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) >= 0
		if word != (sh&(hasLetter|hasDigit) != 0) {
			t.Fatalf("%q: shape %b", seg, sh)
		}
	}
}

// TestFoldAgreesWithUnicode folds every character and its NFKC case folding
// and expects the same result.
func TestFoldAgreesWithUnicode(t *testing.T) {
	var f folder
	fold := cases.Fold()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0xd800 && r < 0xe000 || r >= 0x30000 && r < 0xe0000 || r > 0xe1000 {
			continue
		}
		src := "x" + string(r) + "y"
		ref := norm.NFKC.String(fold.String(norm.NFKC.String(fold.String(norm.NFD.String(src)))))
		a := string(f.foldCase(nil, src, 0))
		b := string(f.foldCase(nil, ref, 0))
		if a != b {
			t.Errorf("U+%04X: %q folds to %q, its case folding %q to %q", r, src, a, ref, b)
		}
		if again := string(f.foldCase(nil, a, 0)); again != a {
			t.Errorf("U+%04X: %q folds again to %q", r, a, again)
		}
		for _, form := range []norm.Form{norm.NFC, norm.NFD} {
			if c := string(f.foldCase(nil, form.String(src), 0)); c != a {
				t.Errorf("U+%04X: another normal form folds to %q, not %q", r, c, a)
			}
		}
	}
}

// TestStemLendsItsBuffer compares the stems of one reused environment on lent
// bytes with those of a new environment a word.
func TestStemLendsItsBuffer(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var s Scratch
	for _, l := range languages {
		if l.stem == nil {
			continue
		}
		seed := strings.Fields(l.stops + " running generalization nationalities happily")
		for i := range 3000 {
			word := seed[rng.IntN(len(seed))]
			if i%2 == 1 {
				word += seed[rng.IntN(len(seed))]
			}
			if len(word) > maxStem {
				continue
			}
			env := snowballstem.NewEnv(word)
			l.stem(env)
			s.buf = append(s.buf[:0], word...)
			s.stem(l.stem)
			if want := env.Current(); want != "" && string(s.buf) != want {
				t.Fatalf("%s: %q gives %q, a new environment %q", l.name, word, s.buf, want)
			}
		}
	}
}

// TestClassify compares the short cuts of classify with the tables of unicode.
func TestClassify(t *testing.T) {
	for r := rune(utf8.RuneSelf); r <= unicode.MaxRune; r++ {
		want := charOther
		switch {
		case unicode.IsUpper(r):
			want = charUpper
		case unicode.IsLower(r):
			want = charLower
		case unicode.IsLetter(r), unicode.IsMark(r):
		case unicode.Is(unicode.Nd, r):
			want = charDigit
		case unicode.Is(unicode.Pc, r), r == '\u2024', r == '\ufe52', r == '\uff0e', r == '\uff1a', r == '\ufe55':
			want = charSeparator
		}
		text := string(r)
		if got, w := charAt(text, 0, len(text)); got != want && utf8.ValidRune(r) || classify(r) != want || w != len(text) {
			t.Fatalf("%U is %d, want %d", r, got, want)
		}
	}
}
