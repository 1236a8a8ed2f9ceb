package office

import (
	"context"
	"encoding/xml"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/storage"
)

// MaxColumns is how many columns a sheet may have, as in Excel.
const MaxColumns = 16384

// A Rows receives an XLSX sheet by sheet, row by row.
type Rows struct {
	Sheet func(name string) error
	// Row is called with the row's number in its sheet, from 1, and its cells
	// by column, "" where there is none. The slice is reused.
	Row func(number int, cells []string) error
}

// ReadXLSX calls rows for every sheet in the order of the workbook. Dates are
// written as ISO 8601, numbers with at most 15 digits, as Excel shows them;
// formulas by their stored result. Errors are as ReadDOCX's, or those of rows.
func ReadXLSX(ctx context.Context, data []byte, limit Limits, rows Rows) (Props, error) {
	a, err := open(ctx, data, limit)
	if err != nil {
		return Props{}, err
	}
	b := &book{a: a, rows: rows}
	props, err := a.props()
	if err == nil {
		err = b.load()
	}
	if err != nil {
		return props, err
	}
	for _, s := range b.sheets {
		if err := b.sheet(s.name, s.part); err != nil {
			return props, err
		}
	}
	return props, nil
}

type book struct {
	a      *archive
	rows   Rows
	sheets []struct{ name, part string }
	shared []string
	dates  []bool // by cell format
	from04 bool   // days count from 1904
}

func (b *book) load() error {
	rels, err := b.a.rels("xl/workbook.xml")
	if err != nil {
		return err
	}
	found, err := b.a.each("xl/workbook.xml", func(t xml.Token) error {
		e, ok := t.(xml.StartElement)
		if !ok {
			return nil
		}
		switch e.Name.Local {
		case "workbookPr":
			v, _ := attr(e, "date1904")
			b.from04 = v == "1" || v == "true"
		case "sheet":
			name, _ := attr(e, "name")
			id := ""
			for _, a := range e.Attr {
				if a.Name.Local == "id" && a.Name.Space != "" {
					id = a.Value
				}
			}
			b.sheets = append(b.sheets, struct{ name, part string }{name, rels[id]})
		}
		return nil
	})
	if err == nil && !found {
		err = storage.Corruptf("xl/workbook.xml", 0, "missing")
	}
	if err == nil {
		err = b.sharedStrings()
	}
	if err == nil {
		err = b.formats()
	}
	return err
}

func (b *book) sharedStrings() error {
	var text strings.Builder
	inText, phonetic := false, 0
	_, err := b.a.each("xl/sharedStrings.xml", func(t xml.Token) error {
		switch t := t.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "si":
				text.Reset()
			case "rPh":
				phonetic++
			case "t":
				inText = phonetic == 0
			}
		case xml.EndElement:
			switch t.Name.Local {
			case "si":
				b.shared = append(b.shared, text.String())
			case "rPh":
				phonetic--
			case "t":
				inText = false
			}
		case xml.CharData:
			if inText {
				text.Write(t)
			}
		}
		return nil
	})
	return err
}

// formats finds which cell formats show dates.
func (b *book) formats() error {
	custom := map[string]bool{}
	inCells := false
	_, err := b.a.each("xl/styles.xml", func(t xml.Token) error {
		switch t := t.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "numFmt":
				id, _ := attr(t, "numFmtId")
				code, _ := attr(t, "formatCode")
				custom[id] = isDateFormat(code)
			case "cellXfs":
				inCells = true
			case "xf":
				if inCells {
					id, _ := attr(t, "numFmtId")
					n, _ := strconv.Atoi(id)
					b.dates = append(b.dates, custom[id] || n >= 14 && n <= 17 || n == 22 || n >= 27 && n <= 36 || n >= 50 && n <= 58)
				}
			}
		case xml.EndElement:
			if t.Name.Local == "cellXfs" {
				inCells = false
			}
		}
		return nil
	})
	return err
}

// isDateFormat looks for a day or year outside quotes and brackets.
func isDateFormat(code string) bool {
	quoted, bracket := false, false
	for i := 0; i < len(code); i++ {
		switch c := code[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '\\':
			i++
		case c == '[':
			bracket = true
		case c == ']':
			bracket = false
		case !bracket && (c|0x20 == 'y' || c|0x20 == 'd'):
			return true
		}
	}
	return false
}

// sheetReader reads one sheet.
type sheetReader struct {
	b       *book
	number  int
	cells   []string
	col     int
	kind    string
	style   int
	inValue bool
	value   strings.Builder
}

func (b *book) sheet(name, part string) error {
	if err := b.rows.Sheet(name); err != nil {
		return err
	}
	s := &sheetReader{b: b}
	found, err := b.a.each(part, s.token)
	if err == nil && !found {
		return storage.Corruptf("xl/workbook.xml", 0, "sheet %q has no part", name)
	}
	return err
}

func (s *sheetReader) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		s.start(t)
	case xml.EndElement:
		switch t.Name.Local {
		case "v", "t":
			s.inValue = false
		case "c":
			s.endCell()
		case "row":
			return s.b.rows.Row(s.number, s.cells)
		}
	case xml.CharData:
		if s.inValue {
			s.value.Write(t)
		}
	}
	return nil
}

func (s *sheetReader) start(e xml.StartElement) {
	switch e.Name.Local {
	case "row":
		s.number++
		if r, ok := attr(e, "r"); ok {
			if n, err := strconv.Atoi(r); err == nil && n >= s.number && n <= 1<<20 {
				s.number = n
			}
		}
		s.cells, s.col = s.cells[:0], -1
	case "c":
		s.col++
		if ref, ok := attr(e, "r"); ok {
			if c := column(ref); c >= 0 {
				s.col = c
			}
		}
		s.kind, _ = attr(e, "t")
		st, _ := attr(e, "s")
		s.style, _ = strconv.Atoi(st)
		s.value.Reset()
	case "v", "t":
		s.inValue = true
	case "rPh":
		s.inValue = false
	}
}

// column reads the letters of a reference such as "AB12"; -1 when out of range.
func column(ref string) int {
	n := 0
	for i := 0; i < len(ref) && i < 4; i++ {
		c := ref[i] &^ 0x20
		if c < 'A' || c > 'Z' {
			break
		}
		n = n*26 + int(c-'A') + 1
	}
	if n > MaxColumns {
		return -1
	}
	return n - 1
}

func (s *sheetReader) endCell() {
	if s.col < 0 || s.col >= MaxColumns {
		return
	}
	for len(s.cells) <= s.col {
		s.cells = append(s.cells, "")
	}
	v := strings.TrimSpace(s.value.String())
	switch s.kind {
	case "s":
		i, err := strconv.Atoi(v)
		if v = ""; err == nil && i >= 0 && i < len(s.b.shared) {
			v = strings.TrimSpace(s.b.shared[i])
		}
	case "b":
		v = map[string]string{"1": "TRUE", "0": "FALSE"}[v]
	case "", "n":
		v = s.b.show(v, s.style)
	}
	s.cells[s.col] = v
}

// show writes a number as Excel would.
func (b *book) show(v string, style int) string {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return v
	}
	if style >= 0 && style < len(b.dates) && b.dates[style] && f >= 1 && f < 2958466 {
		return b.date(f)
	}
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	if f, err = strconv.ParseFloat(strconv.FormatFloat(f, 'g', 15, 64), 64); err != nil {
		return v
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// date turns days since the epoch into ISO 8601, with the time when there is one.
func (b *book) date(f float64) string {
	epoch := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	if b.from04 {
		epoch = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	} else if f < 60 {
		f++ // Excel counts a 29 February 1900
	}
	days, part := math.Modf(f)
	t := epoch.AddDate(0, 0, int(days)).Add(time.Duration(math.Round(part*86400)) * time.Second)
	if part == 0 {
		return t.Format("2006-01-02")
	}
	return t.Format("2006-01-02T15:04:05")
}
