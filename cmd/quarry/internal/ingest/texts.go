package ingest

import (
	"fmt"
	"io"
	"iter"
	"strings"
	"sync/atomic"
)

// Texts yields a text a line. With keys, lines are JSON objects, and a text is
// what stands under the keys, joined by newlines; empty lines, and lines
// without any of the keys, are empty texts. An error names source and line and
// ends the sequence.
func (s Source) Texts(stdin io.Reader, keys []string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var raw atomic.Int64
		in, err := s.open(stdin, &raw)
		if err != nil {
			yield("", err)
			return
		}
		defer in.close() // read only: nothing to lose
		m := &Mapping{Text: keys}
		var p objectParser
		for {
			line, err := in.next()
			if err == io.EOF {
				return
			}
			text := ""
			if err == nil {
				text, err = m.joined(&p, line)
				if err != nil {
					err = fmt.Errorf("%s:%d: %w", s.Name, in.n, err)
				}
			}
			if !yield(text, err) || err != nil {
				return
			}
		}
	}
}

func (m *Mapping) joined(p *objectParser, line []byte) (string, error) {
	if len(m.Text) == 0 {
		return string(line), nil
	}
	if len(strings.TrimSpace(string(line))) == 0 {
		return "", nil
	}
	object, err := p.object(line)
	if err != nil {
		return "", err
	}
	texts, err := m.text(object)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, key := range m.Text {
		if texts[key] != "" {
			parts = append(parts, texts[key])
		}
	}
	return strings.Join(parts, "\n"), nil
}
