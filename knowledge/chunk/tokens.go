package chunk

import (
	"strings"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/storage"
)

const (
	// maxTokensPerByte bounds what a model's tokenizer makes of a byte. The
	// worst known is U+FDFA, 3 bytes, 18 runes after NFKC.
	maxTokensPerByte = 6
	// tokenBlock is the size of the texts a Tokenizer is given.
	tokenBlock = 64 << 10
	// maxWordToken is where Words cuts long words: hashes and base64 lines
	// are many tokens for every model.
	maxWordToken = 32
)

// Words is the Tokenizer used when none is given: each UAX #29 segment that
// is not white space is a token, and one longer than 32 bytes is cut every 32
// bytes. It is no embedding model's: wordpiece and BPE vocabularies give some
// 1.3 times as many for English.
func Words(text string, emit func(start, end int)) {
	w := wordScanner{text: text}
	for i := 0; i < len(text); {
		end, kind := w.next(i)
		if kind != isSpace {
			for end-i > maxWordToken {
				at := i + maxWordToken
				for at > i && !utf8.RuneStart(text[at]) {
					at--
				}
				if at == i {
					at = i + maxWordToken // no UTF-8
				}
				emit(i, at)
				i = at
			}
			emit(i, end)
		}
		i = end
	}
}

// blockEnd returns where a block of text that starts at i ends: after the
// last line end of its second half, else after its last white space, else
// between two runes.
func blockEnd(text string, i int) int {
	if len(text)-i <= tokenBlock {
		return len(text)
	}
	half, end := i+tokenBlock/2, i+tokenBlock
	if k := strings.LastIndexByte(text[half:end], '\n'); k >= 0 {
		return half + k + 1
	}
	if k := strings.LastIndexByte(text[half:end], ' '); k >= 0 {
		return half + k + 1
	}
	for k := end; k > half; k-- {
		if utf8.RuneStart(text[k]) {
			return k
		}
	}
	return end
}

// eachToken calls f with the start of each token of text[from:end], block by
// block, until f returns false.
func eachToken(t Tokenizer, text string, from, end int, f func(start int) bool) error {
	text = text[:end]
	more := true
	for i := from; i < end && more; {
		stop := blockEnd(text, i)
		last, bad := 0, -1
		badEnd := 0
		t(text[i:stop], func(a, b int) {
			if !more || bad >= 0 {
				return
			}
			if a < last || b < a || b > stop-i {
				bad, badEnd = max(a, 0), b
				return
			}
			last = a
			more = f(i + a)
		})
		if bad >= 0 {
			return storage.Invalidf("tokenizer: span [%d, %d) after one from %d, in a text of %d bytes", bad, badEnd, last, stop-i)
		}
		i = stop
	}
	return nil
}

// feedTokens gives the tokens of text[from:end]: one atom a token, or several
// where they share a grapheme cluster, which is not cut, unless it holds about
// limit tokens or more. Bytes of no token go with the token before them.
func feedTokens(s *settings, text string, from, end int, out sink) error {
	c := cutter{text: text[:end], border: newClusters(text[:end], from), from: from, sink: out}
	weight, stopped := 0, false
	// A cluster is cut before the rune that might go above the limit.
	full := s.limit - min(4*maxTokensPerByte, s.limit/8)
	// The first token takes what is before it.
	err := eachToken(s.tokenize, text, from, end, func(start int) bool {
		if weight == 0 {
			weight = 1
			return true
		}
		if start > c.from && (c.border.border(start) || weight >= full && start < end && utf8.RuneStart(text[start])) {
			if !c.cut(start, weight, weight) {
				stopped = true
				return false
			}
			weight = 0
		}
		weight++
		return true
	})
	if err != nil || stopped {
		return err
	}
	c.cut(end, max(weight, 1), max(weight, 1))
	return nil
}

// countTokens returns the number of tokens of text[from:end].
func countTokens(t Tokenizer, text string, from, end int) (n int, err error) {
	err = eachToken(t, text, from, end, func(int) bool { n++; return true })
	return n, err
}
