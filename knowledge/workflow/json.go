package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/storage"
)

// A ConfigError says what is wrong with a workflow's or a node's JSON, and
// where. It matches storage.ErrInvalid, and what Err is.
type ConfigError struct {
	// Path leads to the value, "nodes[1].config.top_k" say; "" is the whole.
	Path string
	// Line and Column of the value in the JSON text, both from 1. Columns
	// count code points.
	Line, Column int
	// Reason says what is wrong.
	Reason string
	// Err is the cause, a *TemplateError for instance; or nil.
	Err error
}

func (e *ConfigError) Error() string {
	where := fmt.Sprintf("line %d, column %d", e.Line, e.Column)
	if e.Path == "" {
		return fmt.Sprintf("quarry: invalid: %s: %s", where, e.Reason)
	}
	return fmt.Sprintf("quarry: invalid: %s (%s): %s", e.Path, where, e.Reason)
}

// Is makes errors.Is(err, storage.ErrInvalid) true.
func (e *ConfigError) Is(target error) bool { return target == storage.ErrInvalid }

// Unwrap returns Err.
func (e *ConfigError) Unwrap() error { return e.Err }

// The kinds of JSON values, as messages name them.
const (
	kindObject  = "an object"
	kindArray   = "an array"
	kindText    = "text"
	kindNumber  = "a number"
	kindBoolean = "a boolean"
	kindNull    = "null"
)

// A jsonValue is a JSON value that knows where it stands. encoding/json alone
// would not do: it gives no position, takes a key twice, keys in another case,
// and null for anything.
type jsonValue struct {
	kind   string
	off    int    // first byte in the text
	text   string // of a text; the literal of a number
	truth  bool
	items  []*jsonValue
	fields []jsonField // in the order of the text
}

type jsonField struct {
	key   string
	off   int
	value *jsonValue
}

// plain is the value as encoding/json would decode it, with numbers as
// float64.
func (v *jsonValue) plain() any {
	switch v.kind {
	case kindObject:
		m := make(map[string]any, len(v.fields))
		for _, f := range v.fields {
			m[f.key] = f.value.plain()
		}
		return m
	case kindArray:
		list := make([]any, len(v.items))
		for i, item := range v.items {
			list[i] = item.plain()
		}
		return list
	case kindText:
		return v.text
	case kindNumber:
		x, err := strconv.ParseFloat(v.text, 64)
		if err != nil {
			return json.Number(v.text) // out of range: no check takes it for a number
		}
		return x
	case kindBoolean:
		return v.truth
	}
	return nil
}

// maxJSONDepth bounds the nesting of a workflow's JSON.
const maxJSONDepth = 32

// A jsonText is a JSON text being read.
type jsonText struct {
	data []byte
	dec  *json.Decoder
}

// parseJSON reads one JSON value that fills data. Time and memory are linear
// in data, at most limit bytes.
func parseJSON(data []byte, limit int) (*jsonText, *jsonValue, error) {
	t := &jsonText{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	t.dec.UseNumber()
	if len(data) > limit {
		return nil, nil, fmt.Errorf("%w: %d bytes of JSON, at most %d are read", storage.ErrTooLarge, len(data), limit)
	}
	if !utf8.Valid(data) {
		off := 0
		for off < len(data) {
			r, n := utf8.DecodeRune(data[off:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			off += n
		}
		return nil, nil, t.errorAt(off, "", "it is no UTF-8")
	}
	v, err := t.value("", 0)
	if err != nil {
		return nil, nil, err
	}
	off := t.next()
	if _, err := t.dec.Token(); err != io.EOF {
		return nil, nil, t.errorAt(off, "", "something follows the value")
	}
	return t, v, nil
}

// errorAt makes a ConfigError of a byte offset.
func (t *jsonText) errorAt(off int, path, format string, args ...any) *ConfigError {
	off = min(off, len(t.data))
	before := t.data[:off]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return &ConfigError{Path: path, Line: line, Column: column, Reason: fmt.Sprintf(format, args...)}
}

// next is the offset of the token that comes next.
func (t *jsonText) next() int {
	off := int(t.dec.InputOffset())
	for off < len(t.data) {
		switch t.data[off] {
		case ' ', '\t', '\r', '\n', ',', ':':
			off++
			continue
		}
		break
	}
	return off
}

// token reads a token and tells where it starts.
func (t *jsonText) token(path string) (json.Token, int, error) {
	off := t.next()
	tok, err := t.dec.Token()
	if err == nil {
		return tok, off, nil
	}
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, off, t.errorAt(len(t.data), path, "the JSON ends too early")
	case errors.As(err, &syntax):
		return nil, off, t.errorAt(max(off, int(syntax.Offset)-1), path, "no JSON: %s", syntax.Error())
	}
	return nil, off, t.errorAt(off, path, "no JSON: %s", err.Error())
}

func (t *jsonText) value(path string, depth int) (*jsonValue, error) {
	tok, off, err := t.token(path)
	if err != nil {
		return nil, err
	}
	v := &jsonValue{off: off}
	switch tok := tok.(type) {
	case json.Delim:
		switch {
		case depth == maxJSONDepth:
			return nil, t.errorAt(off, path, "nested more than %d deep", maxJSONDepth)
		case tok == '{':
			v.kind = kindObject
			return v, t.object(v, path, depth)
		case tok == '[':
			v.kind = kindArray
			return v, t.array(v, path, depth)
		}
		return nil, t.errorAt(off, path, "no JSON: %q where a value should be", tok.String())
	case string:
		v.kind, v.text = kindText, tok
	case json.Number:
		v.kind, v.text = kindNumber, tok.String()
	case bool:
		v.kind, v.truth = kindBoolean, tok
	default:
		v.kind = kindNull
	}
	return v, nil
}

func (t *jsonText) object(v *jsonValue, path string, depth int) error {
	seen := make(map[string]bool)
	for t.dec.More() {
		tok, off, err := t.token(path)
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return t.errorAt(off, path, "no JSON: a key is missing")
		}
		if seen[key] {
			return t.errorAt(off, join(path, key), "the key comes twice")
		}
		seen[key] = true
		child, err := t.value(join(path, key), depth+1)
		if err != nil {
			return err
		}
		v.fields = append(v.fields, jsonField{key, off, child})
	}
	_, _, err := t.token(path)
	return err
}

func (t *jsonText) array(v *jsonValue, path string, depth int) error {
	for t.dec.More() {
		child, err := t.value(fmt.Sprintf("%s[%d]", path, len(v.items)), depth+1)
		if err != nil {
			return err
		}
		v.items = append(v.items, child)
	}
	_, _, err := t.token(path)
	return err
}

// join adds a key to a path; a key that would confuse a reader is quoted and
// cut.
func join(path, key string) string {
	const shown = 40
	plain := key != "" && len(key) <= shown
	for _, r := range key {
		plain = plain && isNameRune(r)
	}
	if !plain {
		key = strconv.Quote(clip(key, shown))
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// clip cuts s to at most n bytes at a rune boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
