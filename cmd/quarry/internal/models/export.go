package models

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service"
)

// exportGroup is how many texts are in memory at once.
const exportGroup = 1024

// Exported counts what Export did.
type Exported struct {
	Texts     int   // rows written
	Blank     int   // rows of zeros among them
	Truncated []int // rows, from 0, of texts cut at the model's limit
}

// Export embeds texts and writes a row each to path, .fvecs or .f32, whole or
// not at all.
func (m *Model) Export(ctx context.Context, path string, kind embed.Kind, texts iter.Seq2[string, error], step func(done int)) (Exported, error) {
	var out Exported
	header := strings.HasSuffix(path, ".fvecs")
	if !header && !strings.HasSuffix(path, ".f32") {
		return out, fmt.Errorf("%s: want a name that ends in .fvecs or .f32", path)
	}
	err := writeFile(path, func(w io.Writer) error {
		group := make([]string, 0, exportGroup)
		flush := func() error {
			v, err := m.Texts(ctx, kind, group, func(done int) {
				if step != nil {
					step(out.Texts + done)
				}
			})
			if t, ok := errors.AsType[*service.TextError](err); ok {
				return fmt.Errorf("text %d: %w", out.Texts+t.Index+1, t.Err)
			}
			if err != nil {
				return err
			}
			group = group[:0]
			return out.write(w, v, header)
		}
		for text, err := range texts {
			if err != nil {
				return err
			}
			if group = append(group, text); len(group) == exportGroup {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return flush()
	})
	return out, err
}

func (x *Exported) write(w io.Writer, v *Vectors, header bool) error {
	buf := make([]byte, 0, 4+4*v.Dim)
	for i, blank := range v.Blank {
		if blank {
			x.Blank++
		}
		if v.Truncated[i] {
			x.Truncated = append(x.Truncated, x.Texts)
		}
		buf = buf[:0]
		if header {
			buf = binary.LittleEndian.AppendUint32(buf, uint32(v.Dim))
		}
		for _, f := range v.Data[i*v.Dim : (i+1)*v.Dim] {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(f))
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
		x.Texts++
	}
	return nil
}
