package analysis

import "unicode"

// Classes of ASCII bytes, as word segmentation (UAX #29) sees them. The class
// of every byte from 0x80 on is asciiNone with the high bit left to the caller.
const (
	asciiNone  = iota // a segment of its own: white space, punctuation, controls
	asciiLower        // a–z
	asciiUpper        // A–Z
	asciiDigit        // 0–9
	asciiUnder        // _ (ExtendNumLet) joins letters, digits and itself
	asciiMidL         // : (MidLetter) joins two letters
	asciiMidN         // , ; (MidNum) join two digits
	asciiMidLN        // . ' (MidNumLet, Single_Quote) join two letters or two digits
	asciiHigh         // not ASCII
)

// asciiClass is constant data.
var asciiClass = func() (t [256]uint8) {
	for c := 0; c < 256; c++ {
		switch {
		case c >= 'a' && c <= 'z':
			t[c] = asciiLower
		case c >= 'A' && c <= 'Z':
			t[c] = asciiUpper
		case c >= '0' && c <= '9':
			t[c] = asciiDigit
		case c >= 0x80:
			t[c] = asciiHigh
		}
	}
	t['_'], t[':'], t[','], t[';'], t['.'], t['\''] =
		asciiUnder, asciiMidL, asciiMidN, asciiMidN, asciiMidLN, asciiMidLN
	return t
}()

// What a segment holds; only wordlike segments have any of these set.
type shape uint8

const (
	hasLetter shape = 1 << iota
	hasDigit
	hasInnerUpper // an upper-case letter after the first byte
	hasLower
	hasJoint // _ or an inner punctuation mark
	hasHigh  // a byte outside ASCII
	hasOdd   // one that is no plain letter
)

// plainClass holds the class of the letters up to U+052F, 0 for all else
// outside ASCII: Latin, Greek and Cyrillic letters that UAX #29 treats as it
// treats a–z (ALetter).
var plainClass = func() (t [0x540]uint8) {
	for r := rune(0xc0); r < 0x530; r++ {
		switch {
		case r == 0xd7 || r == 0xf7 || r >= 0x250 && r < 0x388, r == 0x3f6, r >= 0x482 && r <= 0x489, !unicode.IsLetter(r):
		case unicode.IsUpper(r):
			t[r] = asciiUpper
		default:
			t[r] = asciiLower
		}
	}
	return t
}()

// classAt returns the class and width of the character at j: asciiHigh for
// one that only the full algorithm knows.
func classAt(text string, j int) (class uint8, width int) {
	c := text[j]
	if c >= 0xc3 && c <= 0xd4 && j+1 < len(text) && text[j+1]&0xc0 == 0x80 {
		if k := plainClass[rune(c&0x1f)<<6|rune(text[j+1]&0x3f)]; k != 0 {
			return k, 2
		}
	}
	return asciiClass[c], 1
}

// plainSegment finds the UAX #29 word segment of text that starts at i, a
// segment boundary. It knows ASCII and the letters of plainClass, and returns
// ok = false when another character could decide where the segment ends; the
// caller then asks the full algorithm. A run of white space may be returned in
// pieces, which makes no difference to words. Tested against the library on
// random strings.
func plainSegment(text string, i int) (end int, sh shape, ok bool) {
	n := len(text)
	last, w := classAt(text, i)
	j := i + w
	if last == asciiNone || last > asciiUnder {
		return j, 0, last != asciiHigh && (j == n || text[j] < 0x80)
	}
	sh = classShape[last] | highShape[w]
	for j < n {
		c := asciiClass[text[j]]
		if c <= asciiUnder && c != asciiNone {
			sh |= innerShape[c]
			last = c
			j++
			continue
		}
		if c == asciiNone {
			return j, sh, true
		}
		if c == asciiHigh {
			c, w = classAt(text, j)
			if c == asciiHigh {
				return j, sh, false
			}
			sh |= innerShape[c] | hasHigh
			last = c
			j += w
			continue
		}
		if j+1 == n {
			return j, sh, true
		}
		next, w := classAt(text, j+1)
		if next == asciiHigh {
			return j, sh, false
		}
		letters := isCased(last) && isCased(next) && c != asciiMidN
		digits := last == asciiDigit && next == asciiDigit && c != asciiMidL
		if !letters && !digits {
			return j, sh, true
		}
		sh |= hasJoint | innerShape[next] | highShape[w]
		last = next
		j += 1 + w
	}
	return j, sh, true
}

func isCased(class uint8) bool { return class == asciiLower || class == asciiUpper }

// classShape is the shape of a segment that starts with a byte of each class;
// innerShape is what a later byte adds.
var (
	classShape = [...]shape{asciiLower: hasLetter | hasLower, asciiUpper: hasLetter, asciiDigit: hasDigit, asciiUnder: hasJoint}
	innerShape = [...]shape{asciiLower: hasLetter | hasLower, asciiUpper: hasLetter | hasInnerUpper, asciiDigit: hasDigit, asciiUnder: hasJoint}
)

// highShape is what the width of a character adds.
var highShape = [...]shape{1: 0, 2: hasHigh}

// lowerASCII appends the lower-cased bytes of an ASCII string.
func lowerASCII(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c-'A' < 26 {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
