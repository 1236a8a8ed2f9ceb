package manage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/shape"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/storage"
)

// Cited is the input of Passage: what a citation says.
type Cited struct {
	By
	Space string `path:"space" doc:"id of the space"`
	Body  struct {
		Document string `json:"document_id" shape:"required,minlen=1,maxlen=512"`
		Version  int    `json:"document_version" shape:"required,min=1,max=2147483647"`
		Start    *int   `json:"start_offset,omitempty" shape:"min=0" doc:"of the citation, with end_offset"`
		End      *int   `json:"end_offset,omitempty" shape:"min=0"`
		Page     int    `json:"page_number,omitempty" shape:"min=0,max=10000000" doc:"of the citation"`
		Content  string `json:"content,omitempty" shape:"maxlen=4194304" doc:"of the evidence; needed where the citation has no offsets, else its page is what is cited"`
		MaxBytes int    `json:"max_bytes,omitempty" shape:"min=0,max=4194304,default=65536" doc:"of the text; what is cited is always whole"`
	} `body:"json"`
}

// Passage is the answer of Passage.
type Passage struct {
	Document knowledge.Document `json:"document" doc:"as of the version cited"`
	Of       string             `json:"of" doc:"source: the text is of the source bytes; text: of the text that was made of them"`
	Text     string             `json:"text"`
	Offset   int                `json:"offset" doc:"where the text begins in the source or the text, in bytes"`
	Start    int                `json:"start_offset" doc:"of what is cited, in the source or the text"`
	End      int                `json:"end_offset"`
	Page     int                `json:"page,omitempty" doc:"on which what is cited begins; pages end at form feeds"`
	Cut      bool               `json:"truncated" doc:"whether there is more before or behind"`
}

const defaultPassage = 64 << 10

// ReadPassage reads what a piece of evidence cites, with what stands around it,
// from the version that it cites. The account must be allowed to use the space.
func ReadPassage(c *Call, in *Cited) (*Passage, error) {
	b := &in.Body
	if (b.Start == nil) != (b.End == nil) || b.Start != nil && *b.Start > *b.End {
		return nil, &shape.Error{Field: "end_offset", Reason: "want both offsets, in order, or none"}
	}
	if err := c.Spaces.Catalog.Allow(c.By, in.Space, catalog.Use); err != nil {
		return nil, err
	}
	sp, err := c.Spaces.Catalog.Space(in.Space)
	if err != nil {
		return nil, err
	}
	if sp.Published == nil {
		return nil, &catalog.Error{Code: catalog.ErrUnpublished, Space: sp.ID, Message: fmt.Sprintf("space %q was never published", sp.ID)}
	}
	store, err := c.Registry.Knowledge(c.Context)
	if err != nil {
		return nil, err
	}
	ref := fmt.Sprintf("%s@%d", sp.Base, sp.Published.Generation)
	data, d, err := store.Source(c.Context, ref, b.Document, b.Version)
	if errors.Is(err, storage.ErrNotFound) { // cited before the last publication: the base keeps some versions
		ref = sp.Base
		data, d, err = store.Source(c.Context, ref, b.Document, b.Version)
	}
	if err != nil {
		return nil, err
	}
	d.Origin = "" // a place of this machine
	out := &Passage{Document: d, Of: "source", Page: b.Page}
	if b.Start == nil {
		out.Of = "text"
		if data, err = store.SourceBytes(c.Context, ref, d.TextHash); err != nil {
			return nil, err
		}
		out.Start, out.End = find(data, b.Content, b.Page)
	} else if out.Start, out.End = *b.Start, *b.End; out.End > len(data) {
		return nil, &shape.Error{Field: "end_offset", Reason: fmt.Sprintf("%d, and the source has %d bytes", out.End, len(data))}
	}
	if out.Start < 0 {
		return nil, &shape.Error{Field: "content", Reason: "does not stand in the document"}
	}
	out.cut(data, cmp.Or(b.MaxBytes, defaultPassage))
	return out, nil
}

// find is where content stands, on its page if it is there, or the page itself;
// -1 for nowhere.
func find(text []byte, content string, page int) (start, end int) {
	from, to := pageOf(text, page)
	if content == "" {
		return from, to
	}
	// What begins on the page may end behind it.
	if i := bytes.Index(text[from:], []byte(content)); i >= 0 && from+i < max(to, from+1) {
		return from + i, from + i + len(content)
	}
	i := bytes.Index(text, []byte(content))
	return i, i + len(content)
}

// pageOf is where a page begins and ends; the first where it is not known or not
// there.
func pageOf(text []byte, page int) (from, to int) {
	for n := 1; n < page; n++ {
		i := bytes.IndexByte(text[from:], '\f')
		if i < 0 {
			from = 0
			break
		}
		from += i + 1
	}
	if i := bytes.IndexByte(text[from:], '\f'); i >= 0 {
		return from, from + i
	}
	return from, len(text)
}

// cut keeps what is cited and as much as may be around it, between characters.
// Bytes that are no text become U+FFFD.
func (p *Passage) cut(data []byte, most int) {
	room := max(most-(p.End-p.Start), 0) / 2
	from, to := max(p.Start-room, 0), min(p.End+room, len(data))
	for from < p.Start && !utf8.RuneStart(data[from]) {
		from++
	}
	for to > p.End && to < len(data) && !utf8.RuneStart(data[to]) {
		to--
	}
	p.Text, p.Offset, p.Cut = string(data[from:to]), from, from > 0 || to < len(data)
}
