package parse

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/knowledge/parse/office"
)

func (b *builder) officeLimits() office.Limits {
	return office.Limits{Inflated: b.opt.MaxInflated, Ratio: b.opt.MaxRatio, Depth: max(b.opt.MaxDepth, 16)}
}

// officeErr gives the errors of package office the name of the file.
func (b *builder) officeErr(err error) error {
	if errors.Is(err, office.ErrEncrypted) {
		return fmt.Errorf("%w: %v", ErrEncrypted, err)
	}
	return err
}

func (b *builder) setProps(p office.Props) {
	b.meta = Metadata{Title: shortTitle(p.Title), Description: p.Description, Language: p.Language,
		Date: parseTime(p.Created), Modified: parseTime(p.Modified)}
	if p.Author != "" {
		b.meta.Authors = []string{p.Author}
	}
}

// docx writes paragraphs apart by blank lines, list items and table rows by line
// ends. The map counts paragraphs.
func (b *builder) docx(data []byte) error {
	w, err := office.ReadDOCX(b.ctx, data, b.officeLimits())
	if err != nil {
		return b.officeErr(err)
	}
	b.unit = ParaNumber
	b.setProps(w.Props)
	table, tableStart := 0, 0
	endTable := func() {
		if table != 0 {
			end := len(strings.TrimRight(string(b.buf[tableStart:]), "\n\f"))
			b.block(Table, tableStart, tableStart+end, 0, "")
			b.insert("\n")
		}
		table = 0
	}
	for _, it := range w.Items {
		if !b.alive() {
			return b.err
		}
		if it.Table != table {
			endTable()
			table, tableStart = it.Table, len(b.buf)
		}
		text := validText(it.Text)
		start := len(b.buf)
		b.whole(text, it.First, it.Last+1)
		switch {
		case table != 0:
			b.insert("\n")
			continue
		case it.Level > 0:
			// Page breaks around the words stay outside of the heading.
			from := start + len(text) - len(strings.TrimLeft(text, " \n\t\f"))
			end := start + len(strings.TrimRight(text, " \n\t\f"))
			b.heading(it.Level, text, from, end)
			b.block(Heading, from, end, 0, "")
		case it.List:
			b.block(ListItem, start, len(b.buf), 0, "")
			b.insert("\n")
			continue
		default:
			b.block(Paragraph, start, len(b.buf), 0, "")
		}
		b.insert("\n\n")
	}
	endTable()
	b.trim(0)
	if w.Breaks && !w.Laid {
		b.warn(-1, "the file states manual page breaks only: page numbers are a lower bound")
	}
	if w.Breaks {
		b.pages = pagesFrom(string(b.buf))
	}
	return b.err
}

// xlsx writes a sheet as a section and its rows as records. The first row with a
// cell names the columns. The map counts rows over all sheets.
func (b *builder) xlsx(data []byte) error {
	b.unit = RowNumber
	var header []string
	cells, rows := 0, 0
	props, err := office.ReadXLSX(b.ctx, data, b.officeLimits(), office.Rows{
		Sheet: func(name string) error {
			header = nil
			name = shortTitle(validText(name))
			start := len(b.buf)
			b.insert(name)
			b.heading(1, name, start, len(b.buf))
			b.block(Heading, start, len(b.buf), 0, "")
			b.insert("\n\n")
			return b.err
		},
		Row: func(number int, row []string) error {
			rows++
			if cells += len(row); cells > b.opt.MaxCells {
				return tooLarge("more than %d cells", b.opt.MaxCells)
			}
			if !b.alive() {
				return b.err
			}
			if strings.Join(row, "") == "" {
				return nil
			}
			if header == nil {
				for i, c := range row {
					header = append(header, headerName(validText(c), i))
				}
				return nil
			}
			at := rows
			b.record(number, header, len(row), func(i int) bool { return row[i] == "" },
				func(i int) { b.whole(validText(row[i]), at, at+1) })
			return b.err
		},
	})
	if err != nil {
		return b.officeErr(err)
	}
	b.setProps(props)
	b.trim(0)
	return b.err
}
