package workflow

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/storage"
)

// A TemplateError says which expression of a template is wrong, and where. It
// matches storage.ErrInvalid.
type TemplateError struct {
	// Expression is the text between the braces, "" for the whole template.
	Expression string
	// Offset is that of the expression's opening braces, in bytes from 0; Line
	// and Column are the same place, from 1, the column in code points.
	Offset, Line, Column int
	// Reason says what is wrong.
	Reason string
}

func (e *TemplateError) Error() string {
	if e.Expression == "" {
		return fmt.Sprintf("template at line %d, column %d: %s", e.Line, e.Column, e.Reason)
	}
	return fmt.Sprintf("template expression {{%s}} at line %d, column %d: %s", clip(e.Expression, 80), e.Line, e.Column, e.Reason)
}

// Is makes errors.Is(err, storage.ErrInvalid) true.
func (e *TemplateError) Is(target error) bool { return target == storage.ErrInvalid }

// A Template is a text with expressions, {{name}} or {{path.to.value}}, in it.
// It is immutable.
type Template struct {
	source string
	parts  []part
}

// A part is a literal, or an expression when path is not nil.
type part struct {
	literal    string
	path       []string
	start, end int // of an expression's inside, in the source
}

const (
	opening = "{{"
	closing = "}}"
	escaped = `\{{` // stands for {{
)

// ParseTemplate reads a template. A path's segments are separated by full
// stops; each is made of letters, digits, marks, '_' and '-'. White space
// around a path is allowed. `\{{` stands for {{, and }} alone for itself. The
// error is a *TemplateError, or matches storage.ErrTooLarge for a source above
// MaxTemplateBytes. Time is linear in the source.
func ParseTemplate(source string) (*Template, error) {
	if len(source) > MaxTemplateBytes {
		return nil, fmt.Errorf("%w: template of %d bytes, at most %d", storage.ErrTooLarge, len(source), MaxTemplateBytes)
	}
	t := &Template{source: source}
	if !utf8.ValidString(source) {
		return nil, t.errorAt(0, "", "it is no UTF-8")
	}
	for rest := 0; rest < len(source); {
		open := strings.Index(source[rest:], opening)
		if open < 0 {
			t.literal(source[rest:])
			break
		}
		open += rest
		if open > rest && source[open-1] == escaped[0] {
			t.literal(source[rest : open-1])
			t.literal(opening)
			rest = open + len(opening)
			continue
		}
		t.literal(source[rest:open])
		start := open + len(opening)
		length := strings.IndexAny(source[start:], "{}")
		if length < 0 || !strings.HasPrefix(source[start+length:], closing) {
			return nil, t.errorAt(open, firstLine(source[start:]), "want }} behind the path")
		}
		p := part{start: start, end: start + length}
		var reason string
		if p.path, reason = parsePath(source[p.start:p.end]); reason != "" {
			return nil, t.errorAt(open, source[p.start:p.end], "%s", reason)
		}
		t.parts = append(t.parts, p)
		rest = p.end + len(closing)
	}
	return t, nil
}

func (t *Template) literal(s string) {
	if s != "" {
		t.parts = append(t.parts, part{literal: s})
	}
}

// firstLine is what a message shows of an expression that does not end.
func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return clip(s, 40)
}

// errorAt makes a TemplateError. The offset is that of the opening braces.
func (t *Template) errorAt(off int, expression, format string, args ...any) *TemplateError {
	before := t.source[:off]
	return &TemplateError{
		Expression: strings.TrimSpace(expression), Offset: off,
		Line:   1 + strings.Count(before, "\n"),
		Column: 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]),
		Reason: fmt.Sprintf(format, args...),
	}
}

// maxPathDepth is the number of segments of a path.
const maxPathDepth = 32

// parsePath reads a path; reason says why it is none.
func parsePath(s string) (path []string, reason string) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, "it is empty"
	}
	if strings.Count(s, ".") >= maxPathDepth {
		return nil, fmt.Sprintf("more than %d segments", maxPathDepth)
	}
	path = strings.Split(s, ".")
	for _, name := range path {
		if name == "" {
			return nil, "a segment is empty"
		}
		for _, r := range name {
			if !isNameRune(r) {
				return nil, fmt.Sprintf("%q is not allowed in a path", r)
			}
		}
	}
	return path, ""
}

func isNameRune(r rune) bool {
	return r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// checkName checks the name of a variable: one segment of a path.
func checkName(name string) error {
	const most = 100
	switch {
	case name == "" || len(name) > most:
		return storage.Invalidf("variable name %q: want 1 to %d bytes", clip(name, most), most)
	case strings.ContainsFunc(name, func(r rune) bool { return !isNameRune(r) }):
		return storage.Invalidf("variable name %q: want letters, digits, '_' and '-'", name)
	}
	return nil
}

// Paths returns the paths of the expressions, in order.
func (t *Template) Paths() []string {
	var out []string
	for _, p := range t.parts {
		if p.path != nil {
			out = append(out, strings.Join(p.path, "."))
		}
	}
	return out
}

// Render replaces each expression by the text its path leads to in vars; that
// text is never looked at again. An unknown variable, a value that is no text,
// and a blank result are each a *TemplateError that names an expression; a
// result above MaxTextBytes is storage.ErrTooLarge. Time is linear in source
// and result.
func (t *Template) Render(vars *Vars) (string, error) {
	values, err := t.values(vars)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(values, func(s string) bool { return !service.IsBlank(s) }) {
		return strings.Join(values, ""), nil
	}
	for _, p := range t.parts {
		if p.path != nil {
			return "", t.errorOf(p, "the result is blank")
		}
	}
	return "", t.errorAt(0, "", "it is blank")
}

// values are the texts of the parts.
func (t *Template) values(vars *Vars) ([]string, error) {
	values, size := make([]string, len(t.parts)), 0
	for i, p := range t.parts {
		values[i] = p.literal
		if p.path != nil {
			v, err := vars.lookup(p.path)
			if err != nil {
				return nil, t.errorOf(p, "%v", err)
			}
			text, ok := v.(string)
			if !ok {
				return nil, t.errorOf(p, "its value is %s, want text", describe(v))
			}
			values[i] = text
		}
		if size += len(values[i]); size > MaxTextBytes {
			return nil, fmt.Errorf("%w: the text of a template, more than %d bytes", storage.ErrTooLarge, MaxTextBytes)
		}
	}
	return values, nil
}

// value is what the template stands for where more than text is allowed: the
// value itself of a template that is one expression, else the text, which may
// be blank.
func (t *Template) value(vars *Vars) (any, error) {
	if len(t.parts) == 1 && t.parts[0].path != nil {
		v, err := vars.lookup(t.parts[0].path)
		if err != nil {
			return nil, t.errorOf(t.parts[0], "%v", err)
		}
		return v, nil
	}
	values, err := t.values(vars)
	return strings.Join(values, ""), err
}

func (t *Template) errorOf(p part, format string, args ...any) *TemplateError {
	return t.errorAt(p.start-len(opening), t.source[p.start:p.end], format, args...)
}

// render parses and renders a template in one go.
func render(source string, vars *Vars) (string, error) {
	t, err := ParseTemplate(source)
	if err != nil {
		return "", err
	}
	return t.Render(vars)
}
