package show

import (
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/index"
)

func TestLine(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"a\n\t b", 0, "a b"},
		{"\x1b[31mred\x07", 0, "[31mred"},
		{"\u202eright to left", 0, "right to left"},
		{"می\u200cخواهم", 0, "می\u200cخواهم"},
		{"abcdef", 6, "abcdef"},
		{"abcdef", 5, "abcd…"},
		{"äöü…é", 4, "äöü…"},
		{"ab cdef", 4, "ab…"},
		{"bad \xff byte", 0, "bad \ufffd byte"},
	} {
		if got := Line(c.in, c.limit); got != c.want {
			t.Errorf("Line(%q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

func TestPassage(t *testing.T) {
	p := index.Passage{Text: "a \x1b[2J word\nis here", Start: 3, End: 20, Marks: []index.Span{{Start: 7, End: 11}, {Start: 15, End: 19}, {Start: 16, End: 18}, {Start: 90, End: 99}}}
	if got, want := Passage(p, true), "…a [2J \x1b[1mword\x1b[0m is \x1b[1mhere\x1b[0m…"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Passage(p, false); strings.Contains(got, "\x1b") {
		t.Errorf("%q: an escape without color", got)
	}
	if got := Passage(index.Passage{Text: "Whole. "}, false); got != "Whole." {
		t.Errorf("%q", got)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 40: "3.0 TiB", 5 << 50: "5120.0 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	got := Table([][]string{{"NAME", "N"}, {"ä", "10"}, {"long", "5"}}, []bool{false, true})
	if want := "NAME   N\nä     10\nlong   5\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
