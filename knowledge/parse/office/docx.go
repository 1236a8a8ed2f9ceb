package office

import (
	"context"
	"encoding/xml"
	"strconv"
	"strings"

	"github.com/quarrysearch/quarry/storage"
)

// A Word is what a DOCX says, in reading order.
type Word struct {
	Props  Props
	Items  []Item
	Breaks bool // page breaks were stated, as form feeds in the items' text
	Laid   bool // the breaks are those of the last layout, so page numbers are right
}

// An Item is a paragraph or a table row.
type Item struct {
	Text        string // cells of a row apart by " | "; may hold \n, \t and \f
	Level       int    // of a heading, 1–9; 0 otherwise
	List        bool
	Table       int // number of the table, from 1, for a row; 0 otherwise
	First, Last int // paragraphs, from 1
}

// ReadDOCX reads the main text of a DOCX, then its notes. Deleted text, field
// codes and the fallback copies of drawings are left out. Errors match
// storage.ErrCorrupt, storage.ErrTooLarge or ErrEncrypted.
func ReadDOCX(ctx context.Context, data []byte, limit Limits) (*Word, error) {
	a, err := open(ctx, data, limit)
	if err != nil {
		return nil, err
	}
	w := &Word{}
	if w.Props, err = a.props(); err != nil {
		return nil, err
	}
	r := &wordReader{out: w}
	if r.levels, err = a.styles(); err != nil {
		return nil, err
	}
	switch found, err := a.each("word/document.xml", r.token); {
	case err != nil:
		return nil, err
	case !found:
		return nil, storage.Corruptf("word/document.xml", 0, "missing")
	}
	for _, notes := range []string{"word/footnotes.xml", "word/endnotes.xml"} {
		r.notes = true
		if _, err := a.each(notes, r.token); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// styles maps style ids to heading levels.
func (a *archive) styles() (map[string]int, error) {
	levels, based := map[string]int{}, map[string]string{}
	id := ""
	_, err := a.each("word/styles.xml", func(t xml.Token) error {
		e, ok := t.(xml.StartElement)
		if !ok {
			return nil
		}
		v, _ := attr(e, "val")
		switch e.Name.Local {
		case "style":
			id, _ = attr(e, "styleId")
		case "name":
			if n, ok := strings.CutPrefix(strings.ToLower(v), "heading "); ok {
				if l, err := strconv.Atoi(n); err == nil && l >= 1 && l <= 9 {
					levels[id] = l
				}
			}
		case "outlineLvl":
			if l, err := strconv.Atoi(v); err == nil && l >= 0 && l < 9 && levels[id] == 0 {
				levels[id] = l + 1
			}
		case "basedOn":
			based[id] = v
		}
		return nil
	})
	for id := range based {
		// A chain of at most 16 styles: Word allows 11, a cycle is somebody's joke.
		at := id
		for range 16 {
			if levels[at] != 0 {
				break
			}
			at = based[at]
		}
		if l := levels[at]; l != 0 && levels[id] == 0 {
			levels[id] = l
		}
	}
	return levels, err
}

// para is an open paragraph. Text boxes open one inside another.
type para struct {
	text  strings.Builder
	level int
	list  bool
	num   int
}

type wordReader struct {
	out    *Word
	levels map[string]int
	notes  bool

	paras   []*para
	count   int // paragraphs begun
	skip    int // depth inside what is left out
	inText  bool
	tables  int // open tables
	table   int // tables begun at the top
	row     strings.Builder
	cell    strings.Builder
	cells   int
	rowNum  int
	fresh   bool // an explicit page break, and no text since
	pending int  // page breaks met inside a row
}

func left(name string) bool {
	switch name {
	case "del", "moveFrom", "Fallback", "instrText", "delText", "delInstrText":
		return true
	}
	return false
}

func (r *wordReader) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		if r.skip > 0 || left(t.Name.Local) {
			r.skip++
			return nil
		}
		r.start(t)
	case xml.EndElement:
		if r.skip > 0 {
			r.skip--
			return nil
		}
		r.end(t.Name.Local)
	case xml.CharData:
		if r.inText && r.skip == 0 && len(r.paras) > 0 {
			r.paras[len(r.paras)-1].text.Write(t)
			r.fresh = r.fresh && len(t) == 0
		}
	}
	return nil
}

func (r *wordReader) start(e xml.StartElement) {
	v, _ := attr(e, "val")
	switch e.Name.Local {
	case "p":
		r.count++
		r.paras = append(r.paras, &para{num: r.count})
	case "tbl":
		if r.tables++; r.tables == 1 {
			r.table++
		}
	case "tr":
		if r.tables == 1 {
			r.row.Reset()
			r.cells, r.rowNum = 0, r.count+1
		}
	case "tc":
		if r.tables == 1 {
			r.cell.Reset()
		}
	}
	if len(r.paras) == 0 {
		return
	}
	p := r.paras[len(r.paras)-1]
	switch e.Name.Local {
	case "pStyle":
		p.level = r.levels[v]
	case "outlineLvl":
		if l, err := strconv.Atoi(v); err == nil && l >= 0 && l < 9 {
			p.level = l + 1
		}
	case "numPr":
		p.list = true
	case "pageBreakBefore":
		if on(e) {
			r.pageBreak(p, true)
		}
	case "t":
		r.inText = true
	case "tab":
		// In pPr tabs are definitions with a position.
		if _, def := attr(e, "pos"); !def {
			p.text.WriteByte('\t')
		}
	case "cr":
		p.text.WriteByte('\n')
	case "noBreakHyphen":
		p.text.WriteByte('-')
	case "br":
		if kind, _ := attr(e, "type"); kind == "page" {
			r.pageBreak(p, true)
		} else {
			p.text.WriteByte('\n')
		}
	case "lastRenderedPageBreak":
		r.pageBreak(p, false)
	}
}

// pageBreak puts a form feed. The layout's own break right after an explicit one
// is the same break, told twice.
func (r *wordReader) pageBreak(p *para, explicit bool) {
	if r.notes || !explicit && r.fresh {
		r.out.Laid = r.out.Laid || !r.notes
		return
	}
	r.out.Breaks = true
	r.out.Laid = r.out.Laid || !explicit
	r.fresh = explicit
	if r.tables > 0 {
		r.pending++
		return
	}
	p.text.WriteByte('\f')
}

func (r *wordReader) end(name string) {
	switch name {
	case "t":
		r.inText = false
	case "p":
		if n := len(r.paras); n > 0 {
			p := r.paras[n-1]
			r.paras = r.paras[:n-1]
			r.endPara(p)
		}
	case "tc":
		if r.tables == 1 {
			if r.cells++; r.cells > 1 {
				r.row.WriteString(" | ")
			}
			r.row.WriteString(strings.Join(strings.Fields(r.cell.String()), " "))
			r.cell.Reset()
		}
	case "tr":
		if r.tables == 1 {
			r.endRow()
		}
	case "tbl":
		r.tables = max(0, r.tables-1)
	}
}

func (r *wordReader) endRow() {
	text := r.row.String()
	if strings.Trim(text, " |") == "" {
		text = ""
	}
	// A row that crosses a page ends on the later one; its text stays in one piece.
	text += strings.Repeat("\f", r.pending)
	r.pending = 0
	if text != "" {
		r.out.Items = append(r.out.Items, Item{Text: text, Table: r.table, First: min(r.rowNum, r.count), Last: r.count})
	}
	r.row.Reset()
}

func (r *wordReader) endPara(p *para) {
	text := p.text.String()
	if r.tables > 0 {
		r.cell.WriteByte(' ')
		r.cell.WriteString(text)
		return
	}
	text = strings.Trim(text, " \t\n")
	if text != "" {
		level := p.level
		if strings.Trim(text, " \t\n\f") == "" {
			level = 0
		}
		r.out.Items = append(r.out.Items, Item{Text: text, Level: level, List: p.list, First: p.num, Last: p.num})
	}
}
