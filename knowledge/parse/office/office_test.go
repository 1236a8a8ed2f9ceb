package office

import (
	"context"
	"errors"
	"testing"

	"github.com/quarrysearch/quarry/storage"
)

func TestColumn(t *testing.T) {
	for ref, want := range map[string]int{"A1": 0, "Z9": 25, "AA1": 26, "XFD1": 16383, "XFE1": -1, "12": -1, "zz": 701} {
		if got := column(ref); got != want {
			t.Errorf("column(%q) = %d, want %d", ref, got, want)
		}
	}
}

func TestDateFormat(t *testing.T) {
	for code, want := range map[string]bool{"yyyy-mm-dd": true, "d/m": true, "0.00": false, `"day" 0`: false, "[Red]0": false, "mm:ss": false, `\d0`: false} {
		if got := isDateFormat(code); got != want {
			t.Errorf("isDateFormat(%q) = %v", code, got)
		}
	}
}

func TestShow(t *testing.T) {
	b := &book{dates: []bool{false, true}}
	for _, c := range []struct {
		v, want string
		style   int
	}{
		{"1", "1900-01-01", 1}, {"59", "1900-02-28", 1}, {"61", "1900-03-01", 1}, {"45000.25", "2023-03-15T06:00:00", 1}, {"1e3", "1000", 0},
		{"0.1", "0.1", 0}, {"2.9999999999999996", "3", 0}, {"1e300", "1e+300", 0}, {"NaN", "NaN", 0}, {"text", "text", 0}, {"-5", "-5", 1}, {"7", "7", 9},
	} {
		if got := b.show(c.v, c.style); got != c.want {
			t.Errorf("show(%q, %d) = %q, want %q", c.v, c.style, got, c.want)
		}
	}
	b.from04 = true
	if got := b.show("1", 1); got != "1904-01-02" {
		t.Errorf("1904: %q", got)
	}
}

func TestNoArchive(t *testing.T) {
	limit := Limits{Inflated: 1 << 20, Ratio: 200, Depth: 64}
	if _, err := ReadDOCX(context.Background(), []byte("PK\x03\x04"), limit); !errors.Is(err, storage.ErrCorrupt) {
		t.Error(err)
	}
	if _, err := ReadXLSX(context.Background(), nil, limit, Rows{}); !errors.Is(err, storage.ErrCorrupt) {
		t.Error(err)
	}
	if Sniff([]byte("PK\x03\x04 word/document.xml cut")) != "docx" || Sniff([]byte("PK\x03\x04")) != "" {
		t.Error("Sniff")
	}
}
