package office

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/quarrysearch/quarry/storage"
)

// ErrEncrypted is returned for an archive whose parts need a password.
var ErrEncrypted = errors.New("office: encrypted")

// Limits bound what reading one file may cost. All must be positive.
type Limits struct {
	Inflated int // bytes over all parts read
	Ratio    int // of inflated bytes to those of the file, past 1 MiB
	Depth    int // of XML elements
}

// Sniff tells "docx", "xlsx" or "" for the bytes of a ZIP archive.
func Sniff(data []byte) string {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		// A cut archive has no directory; its first local headers still tell,
		// so that the error names the format.
		switch head := data[:min(len(data), 64<<10)]; {
		case bytes.Contains(head, []byte("word/")):
			return "docx"
		case bytes.Contains(head, []byte("xl/")):
			return "xlsx"
		}
		return ""
	}
	for _, f := range z.File {
		switch {
		case strings.EqualFold(f.Name, "word/document.xml"):
			return "docx"
		case strings.EqualFold(f.Name, "xl/workbook.xml"):
			return "xlsx"
		}
	}
	return ""
}

// archive is a ZIP file with a budget over all its parts.
type archive struct {
	ctx   context.Context
	zip   *zip.Reader
	size  int
	used  int
	limit Limits
}

func open(ctx context.Context, data []byte, limit Limits) (*archive, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, storage.Corruptf("archive", 0, "%v", err)
	}
	return &archive{ctx: ctx, zip: z, size: len(data), limit: limit}, nil
}

// each calls fn for the XML tokens of a part, with the depth of the element they
// are in. It returns false when the archive has no such part.
func (a *archive) each(name string, fn func(t xml.Token) error) (bool, error) {
	for _, f := range a.zip.File {
		if !strings.EqualFold(strings.TrimPrefix(f.Name, "/"), name) {
			continue
		}
		if f.Flags&1 != 0 {
			return true, fmt.Errorf("%w: %s", ErrEncrypted, name)
		}
		r, err := f.Open()
		if err != nil {
			return true, storage.Corruptf(name, 0, "%v", err)
		}
		err = a.tokens(name, r, fn)
		return true, errors.Join(err, r.Close())
	}
	return false, nil
}

func (a *archive) tokens(name string, r io.Reader, fn func(t xml.Token) error) error {
	b := &budgeted{r: r, a: a}
	d := xml.NewDecoder(b)
	depth := 0
	for {
		t, err := d.Token()
		switch {
		case err == io.EOF:
			return nil
		case b.err != nil:
			return b.err
		case err != nil:
			return storage.Corruptf(name, d.InputOffset(), "%v", err)
		}
		switch t.(type) {
		case xml.StartElement:
			if depth++; depth > a.limit.Depth {
				return fmt.Errorf("%w: elements of %s nested deeper than %d", storage.ErrTooLarge, name, a.limit.Depth)
			}
		case xml.EndElement:
			depth--
		}
		if err := fn(t); err != nil {
			return err
		}
	}
}

// budgeted counts inflated bytes against the archive's limits.
type budgeted struct {
	r   io.Reader
	a   *archive
	err error // limit broken or context ended
}

func (b *budgeted) Read(p []byte) (int, error) {
	if b.err == nil {
		b.err = b.a.ctx.Err()
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.r.Read(p)
	b.a.used += n
	switch {
	case b.a.used > b.a.limit.Inflated:
		b.err = fmt.Errorf("%w: archive inflates to more than %d bytes", storage.ErrTooLarge, b.a.limit.Inflated)
	case b.a.used > 1<<20 && b.a.used/b.a.limit.Ratio > b.a.size:
		b.err = fmt.Errorf("%w: archive inflates to more than %d times its size", storage.ErrTooLarge, b.a.limit.Ratio)
	}
	if b.err != nil {
		return 0, b.err
	}
	return n, err
}

func attr(e xml.StartElement, local string) (string, bool) {
	for _, a := range e.Attr {
		if a.Name.Local == local {
			return a.Value, true
		}
	}
	return "", false
}

// on reads an OOXML switch: an element alone is on.
func on(e xml.StartElement) bool {
	v, ok := attr(e, "val")
	return !ok || v != "0" && v != "false" && v != "off" && v != "none"
}

// Props are the core properties of a file; times are as written there.
type Props struct {
	Title, Author, Description, Language, Created, Modified string
}

func (a *archive) props() (Props, error) {
	var p Props
	fields := map[string]*string{"title": &p.Title, "creator": &p.Author, "description": &p.Description,
		"language": &p.Language, "created": &p.Created, "modified": &p.Modified}
	var open *string
	_, err := a.each("docProps/core.xml", func(t xml.Token) error {
		switch t := t.(type) {
		case xml.StartElement:
			open = fields[t.Name.Local]
		case xml.EndElement:
			open = nil
		case xml.CharData:
			if open != nil && len(*open)+len(t) < 4096 {
				*open += string(t)
			}
		}
		return nil
	})
	if errors.Is(err, storage.ErrCorrupt) {
		return p, nil // a file reads well without its properties
	}
	return p, err
}

// rels maps the relationship ids of a part to the names of other parts.
func (a *archive) rels(part string) (map[string]string, error) {
	dir, base := path.Split(part)
	out := map[string]string{}
	_, err := a.each(dir+"_rels/"+base+".rels", func(t xml.Token) error {
		if e, ok := t.(xml.StartElement); ok && e.Name.Local == "Relationship" {
			id, _ := attr(e, "Id")
			target, _ := attr(e, "Target")
			if !strings.HasPrefix(target, "/") {
				target = "/" + dir + target
			}
			out[id] = strings.TrimPrefix(path.Clean(target), "/")
		}
		return nil
	})
	return out, err
}
