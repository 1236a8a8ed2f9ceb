package parse

import (
	"crypto/sha256"
	"time"
)

// Format names a kind of file.
type Format string

// The formats that Parse reads. The zero Format asks Parse to detect it.
const (
	Markdown Format = "markdown"
	HTML     Format = "html"
	Text     Format = "text"
	PDF      Format = "pdf"
	DOCX     Format = "docx"
	CSV      Format = "csv" // also tab, semicolon and bar separated
	XLSX     Format = "xlsx"
	JSONL    Format = "jsonl" // also a JSON array of records
)

// A Document is one parsed file. All offsets are bytes of Text unless they say
// otherwise. A Document is immutable by convention and safe to share.
type Document struct {
	Name     string            // as given to Parse
	Format   Format            // as detected or asked for
	Encoding string            // of the source: "utf-8", "utf-16le", "windows-1252", …; empty for PDF, DOCX, XLSX
	Source   []byte            // the bytes given to Parse, not a copy
	Hash     [sha256.Size]byte // SHA-256 of Source: the artifact hash of a citation
	Text     string            // readable text, valid UTF-8
	Sections []Section         // in order of Start, parents before their children
	Pages    []Page            // in order, covering Text without a gap; empty when the format states no pages
	Blocks   []Block           // in order of Start, never overlapping
	Map      Map               // from ranges of Text to places in the source
	Metadata Metadata
	Warnings []Warning // what was lost or guessed, in order of discovery
}

// A Section is a heading and what belongs to it, its subsections included.
type Section struct {
	Level  int      // 1 is the highest; levels may be skipped
	Title  string   // without markup; may be empty
	Start  int      // of the heading in Text
	Body   int      // end of the heading, Start ≤ Body ≤ End
	End    int      // start of the next heading of this level or a higher one
	Parent int      // index in Document.Sections, -1 at the top
	Path   []string // titles from the top down to this one
}

// A Page is one page of the source. Its range includes the form feed that ends it.
type Page struct {
	Number     int // from 1, as the reader of the file counts
	Start, End int
}

// A BlockKind says what a Block is.
type BlockKind uint8

// Kinds of blocks. A chunker keeps Code, Table and Record whole where it can.
const (
	Paragraph BlockKind = iota
	Heading
	ListItem
	Quote
	Code
	Table
	Record  // one row or JSON value
	Literal // HTML inside Markdown, front matter of another kind
)

// String returns the kind in lower case.
func (k BlockKind) String() string {
	names := [...]string{"paragraph", "heading", "list item", "quote", "code", "table", "record", "literal"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// A Block is a stretch of Text that belongs together.
type Block struct {
	Kind       BlockKind
	Start, End int
	// Number is where the reader of the file finds a Record: the row of its
	// sheet for XLSX, the line where it starts for CSV and JSONL. 0 otherwise.
	Number int
	Lang   string // info word of a fenced code block
}

// Metadata is what a file says of itself.
type Metadata struct {
	Title       string
	Description string
	Language    string // BCP 47 as the file says it, "" when it does not
	Authors     []string
	Date        time.Time // created or published; zero when unknown
	Modified    time.Time // zero when unknown
	// Fields holds the front matter of Markdown and the meta elements of HTML:
	// string, int64, float64, bool, time.Time, []any, map[string]any or nil.
	Fields map[string]any
}

// A Warning is something the reader of the text should know.
type Warning struct {
	Message string
	Offset  int // byte of the source, -1 when unknown or meaningless
	Page    int // 0 when it is about no page
}

// SectionAt returns the index of the deepest section that holds the offset, or
// -1 before the first heading. It takes O(log n + depth).
func (d *Document) SectionAt(off int) int {
	lo, hi := 0, len(d.Sections)
	for lo < hi {
		mid := (lo + hi) / 2
		if d.Sections[mid].Start <= off {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	i := lo - 1
	for i >= 0 && off >= d.Sections[i].End && d.Sections[i].End < len(d.Text) {
		i = d.Sections[i].Parent
	}
	return i
}

// PageAt returns the number of the page that holds the offset, or 0 when the
// document has no pages. An offset at or past the end is on the last page.
func (d *Document) PageAt(off int) int {
	lo, hi := 0, len(d.Pages)
	for lo < hi {
		mid := (lo + hi) / 2
		if d.Pages[mid].Start <= off {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	// Empty pages share a start: the first that reaches beyond off holds it.
	for lo > 1 && d.Pages[lo-1].End <= off && off < len(d.Text) {
		lo--
	}
	if lo == 0 {
		return 0
	}
	return d.Pages[lo-1].Number
}
