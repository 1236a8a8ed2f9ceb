package pattern

import (
	"slices"

	"github.com/quarrysearch/quarry/storage"
)

const (
	// MaxErrors is the greatest number of errors of a fuzzy word.
	MaxErrors = 2
	// MaxWord is the greatest length, in characters, of a word that may have
	// errors; a longer one has to match as it is.
	MaxWord = 64
)

// Fuzzy returns the automaton of the terms that differ from a word by at most
// errors errors, none of them in the first prefix characters. To insert, delete
// or replace a character is one error, and so is to swap two neighbors.
// Errors: ErrInvalid.
func Fuzzy(word string, errors, prefix int) (*DFA, error) {
	if errors < 0 || errors > MaxErrors || prefix < 0 {
		return nil, storage.Invalidf("fuzzy: %d errors after %d characters: want 0 to %d, and a prefix of at least 0", errors, prefix, MaxErrors)
	}
	f := &fuzzy{word: []rune(word), max: errors}
	f.prefix = min(prefix, len(f.word))
	if len(f.word) > MaxWord {
		f.max = 0
	}
	d, err := build(word, f)
	if err != nil {
		return nil, err
	}
	d.length = max(len(f.word), 1)
	return d, nil
}

// A fuzzy word as an nfa. A state says: the first i characters of the word are
// dealt with, with e errors so far; swap: so are the next two, once the first
// of them comes, as the second one just did.
type fuzzy struct {
	word   []rune
	max    int
	prefix int
}

const (
	swapBit   = 1
	errorBits = 2
	errorMask = 1<<errorBits - 1
)

func place(i, e int, swap uint32) uint32 { return uint32(i)<<(errorBits+1) | uint32(e)<<1 | swap }

func unplace(x uint32) (i, e int, swap bool) {
	return int(x >> (errorBits + 1)), int(x >> 1 & errorMask), x&swapBit != 0
}

func (f *fuzzy) start() []uint32 { return []uint32{place(0, 0, 0)} }

func (f *fuzzy) accept(set []uint32) int8 {
	best := int8(dead)
	for _, x := range set {
		i, e, swap := unplace(x)
		left := len(f.word) - i
		if swap || i < f.prefix && left > 0 || e+left > f.max {
			continue
		}
		if n := int8(e + left); best == dead || n < best {
			best = n
		}
	}
	return best
}

func (f *fuzzy) ranges(set []uint32, cuts []rune) []rune {
	for _, x := range set {
		i, e, _ := unplace(x)
		if e < f.max && i >= f.prefix {
			cuts = append(cuts, 0)
		}
		for j := i; j < len(f.word) && j <= i+f.max+1-e; j++ {
			cuts = append(cuts, f.word[j], f.word[j]+1)
		}
	}
	return cuts
}

func (f *fuzzy) next(set []uint32, r rune, dst []uint32) []uint32 {
	for _, x := range set {
		i, e, swap := unplace(x)
		if swap {
			if f.word[i] == r {
				dst = append(dst, place(i+2, e, 0))
			}
			continue
		}
		for ; e <= f.max; i, e = i+1, e+1 { // from the second time on, the word's character is left out
			if i < len(f.word) && f.word[i] == r {
				dst = append(dst, place(i+1, e, 0))
			}
			if i < f.prefix {
				break
			}
			if e < f.max {
				dst = append(dst, place(i, e+1, 0))
				if i < len(f.word) {
					dst = append(dst, place(i+1, e+1, 0))
				}
				if i+1 < len(f.word) && f.word[i+1] == r {
					dst = append(dst, place(i, e+1, swapBit))
				}
			}
			if i >= len(f.word) {
				break
			}
		}
	}
	slices.Sort(dst)
	return reduce(slices.Compact(dst))
}

// reduce drops the states that another one makes needless: what a word at
// place j with f errors accepts, one at place i accepts with |i−j| errors more.
func reduce(set []uint32) []uint32 {
	out := set[:0]
	for _, x := range set {
		j, f, swap := unplace(x)
		needless := func(y uint32) bool {
			i, e, s := unplace(y)
			return !s && y != x && f-e >= max(i-j, j-i) && f > e
		}
		if !swap && slices.ContainsFunc(set, needless) {
			continue
		}
		out = append(out, x)
	}
	return out
}
