package parse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"golang.org/x/net/html"

	"github.com/quarrysearch/quarry/knowledge/parse/office"
)

// byExtension maps a name's extension to what it claims.
func byExtension(name string) Format {
	// A name may come from another system: both slashes separate.
	switch strings.ToLower(path.Ext(strings.ReplaceAll(name, `\`, "/"))) {
	case ".md", ".markdown", ".mdown", ".mkd", ".mdx":
		return Markdown
	case ".html", ".htm", ".xhtml", ".xht":
		return HTML
	case ".txt", ".text", ".log", ".rst", ".adoc", ".org":
		return Text
	case ".pdf":
		return PDF
	case ".docx", ".docm", ".dotx":
		return DOCX
	case ".xlsx", ".xlsm", ".xltx":
		return XLSX
	case ".csv", ".tsv", ".tab":
		return CSV
	case ".jsonl", ".ndjson", ".json":
		return JSONL
	}
	return ""
}

// magics of files that hold no text Parse could read, by their first bytes.
var magics = []struct{ prefix, what string }{
	{"\x89PNG\r\n\x1a\n", "PNG image"}, {"\xff\xd8\xff", "JPEG image"}, {"GIF8", "GIF image"}, {"RIFF", "RIFF media"},
	{"\x1f\x8b", "gzip archive"}, {"BZh", "bzip2 archive"}, {"\xfd7zXZ", "xz archive"}, {"\x28\xb5\x2f\xfd", "zstd archive"},
	{"7z\xbc\xaf\x27\x1c", "7z archive"}, {"Rar!", "RAR archive"}, {"\x7fELF", "ELF program"}, {"MZ\x90", "Windows program"},
	{"\xca\xfe\xba\xbe", "class file or fat binary"}, {"SQLite format 3\x00", "SQLite database"}, {"OggS", "Ogg media"},
	{"ID3", "MP3 audio"}, {"fLaC", "FLAC audio"}, {"%!PS", "PostScript"}, {`{\rtf`, "RTF document"}, {"\x00asm", "WebAssembly"},
}

// detect decides the format. Bytes that name a binary format win over the
// extension; among text formats the extension wins, for their bytes overlap.
func (b *builder) detect(data []byte) (Format, error) {
	claimed := byExtension(b.name)
	if b.opt.Format != "" {
		claimed = b.opt.Format
	}
	found, err := sniffBinary(data)
	if err != nil {
		return claimed, err
	}
	switch {
	case found != "":
		if b.opt.Format != "" && b.opt.Format != found {
			return claimed, fmt.Errorf("%w: asked for %s, the bytes are %s", ErrUnsupported, b.opt.Format, found)
		}
		if claimed != "" && claimed != found {
			b.warn(0, "named like %s, read as the %s it is", claimed, found)
		}
		return found, nil
	case claimed == PDF || claimed == DOCX || claimed == XLSX:
		if len(data) == 0 {
			return claimed, b.corrupt(0, "empty file")
		}
		return claimed, b.corrupt(0, "no %s signature", claimed)
	}
	if what := looksBinary(data); what != "" {
		return claimed, fmt.Errorf("%w: %s", ErrUnsupported, what)
	}
	if claimed != "" {
		return claimed, nil
	}
	return sniffText(data), nil
}

// sniffBinary recognizes PDF, Office archives and what resembles them.
func sniffBinary(data []byte) (Format, error) {
	// Readers accept a PDF header anywhere in the first KiB, but only after
	// junk, not after text that happens to mention it.
	if i := bytes.Index(data[:min(len(data), 1024)], []byte("%PDF-")); i == 0 || i > 0 && bytes.Contains(data[max(0, len(data)-2048):], []byte("%%EOF")) {
		return PDF, nil
	}
	if bytes.HasPrefix(data, []byte("PK\x03\x04")) {
		switch kind := office.Sniff(data); kind {
		case "docx":
			return DOCX, nil
		case "xlsx":
			return XLSX, nil
		default:
			return "", fmt.Errorf("%w: ZIP archive without a Word or Excel part", ErrUnsupported)
		}
	}
	if bytes.HasPrefix(data, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")) {
		// Encrypted OOXML lies in the old container, its parts named in UTF-16.
		if bytes.Contains(data, []byte("E\x00n\x00c\x00r\x00y\x00p\x00t\x00e\x00d\x00P\x00a\x00c\x00k")) {
			return "", fmt.Errorf("%w: password-protected Office document", ErrEncrypted)
		}
		return "", fmt.Errorf("%w: Office document from before 2007 (save it as DOCX or XLSX)", ErrUnsupported)
	}
	return "", nil
}

// looksBinary names what data is when it is not text.
func looksBinary(data []byte) string {
	for _, m := range magics {
		if bytes.HasPrefix(data, []byte(m.prefix)) && hasControl(data) {
			return m.what
		}
	}
	if bytes.HasPrefix(data, []byte(`{\rtf`)) {
		return "RTF document"
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return ""
	}
	if _, ok := looksUTF16(data); ok {
		return ""
	}
	head := data[:min(len(data), 64<<10)]
	control := 0
	for _, c := range head {
		if c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != '\v' && c != '\b' && c != 0x1b {
			control++
		}
	}
	if control*50 > len(head) {
		return "binary data"
	}
	return ""
}

// hasControl guards the short magics: a text may start with "BZh" or "ID3".
func hasControl(data []byte) bool {
	for _, c := range data[:min(len(data), 512)] {
		if c == 0 || c < 8 {
			return true
		}
	}
	return false
}

// sniffText guesses among the text formats; plain text when unsure.
func sniffText(data []byte) Format {
	head := bytes.TrimPrefix(data[:min(len(data), 4096)], []byte("\xef\xbb\xbf"))
	head = bytes.TrimLeft(head, " \t\r\n")
	low := bytes.ToLower(head[:min(len(head), 1024)])
	for _, p := range []string{"<!doctype html", "<html", "<head", "<body"} {
		if bytes.HasPrefix(low, []byte(p)) {
			return HTML
		}
	}
	if bytes.HasPrefix(low, []byte("<")) && (bytes.Contains(low, []byte("<html")) || bytes.Contains(low, []byte("<body"))) {
		return HTML
	}
	if len(head) > 0 && head[0] == '{' {
		line, _, whole := bytes.Cut(head, []byte("\n"))
		if (whole || len(data) < 4096) && json.Valid(bytes.TrimSpace(line)) {
			return JSONL
		}
	}
	if bytes.HasPrefix(head, []byte("---\n")) || bytes.HasPrefix(head, []byte("---\r\n")) {
		return Markdown
	}
	for _, line := range bytes.Split(head, []byte("\n")) {
		t := bytes.TrimLeft(line, "#")
		if n := len(line) - len(t); n > 0 && n <= 6 && bytes.HasPrefix(t, []byte(" ")) || bytes.HasPrefix(line, []byte("```")) {
			return Markdown
		}
	}
	return Text
}

// htmlCharset finds the encoding that the document declares in its first 4 KiB,
// unless its bytes are valid in UTF-8 with or without that claim.
func htmlCharset(data []byte) string {
	if looks := data[:min(len(data), 4096)]; len(looks) >= 2 && (looks[0] == 0xff || looks[0] == 0xfe || looks[0] == 0xef) {
		return "" // a mark, or none of our business
	}
	z := html.NewTokenizer(bytes.NewReader(data[:min(len(data), 4096)]))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return ""
		case html.StartTagToken, html.SelfClosingTagToken:
			t := z.Token()
			if t.Data == "body" {
				return ""
			}
			if t.Data != "meta" {
				continue
			}
			if label := metaCharset(t.Attr); label != "" {
				return label
			}
		}
	}
}

func metaCharset(attr []html.Attribute) string {
	for _, a := range attr {
		switch a.Key {
		case "charset":
			return knownCharset(a.Val)
		case "content":
			if _, after, ok := strings.Cut(strings.ToLower(a.Val), "charset="); ok {
				after, _, _ = strings.Cut(after, ";")
				return knownCharset(strings.Trim(after, ` "'`))
			}
		}
	}
	return ""
}

// knownCharset drops labels that nothing decodes; UTF-16, which a page that
// could be read this far is not; and UTF-8, which the bytes show better.
func knownCharset(label string) string {
	codec, _, other, err := sniff(nil, label)
	if err != nil || other == nil && codec != windows1252 {
		return ""
	}
	return label
}
