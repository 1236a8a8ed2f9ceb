package models

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/embed"
)

func TestSource(t *testing.T) {
	abs, err := filepath.Abs("m.qem")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags Flags
		want  Source
		fails string
	}{
		{Flags{Embed: "e5"}, Source{Model: "e5"}, ""},
		{Flags{Embed: "m.qem"}, Source{Model: abs}, ""},
		{Flags{Embed: "openai:m", EmbedKeyEnv: "KEY"}, Source{Model: "openai:m", KeyEnv: "KEY"}, ""},
		{Flags{Embed: "tei:http://h:1#m"}, Source{Model: "tei:http://h:1#m"}, ""},
		{Flags{}, Source{}, "--embed is missing"},
		{Flags{Embed: "jina:"}, Source{}, "nothing behind the colon"},
		{Flags{Embed: "e5", EmbedKeyFile: "k"}, Source{}, "is no service"},
	} {
		got, err := c.flags.Source()
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%+v: %v, want %s", c.flags, err, c.fails)
			}
		} else if err != nil || got != c.want {
			t.Errorf("%+v: %+v, %v", c.flags, got, err)
		}
	}
}

func TestRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "idx")
	if r, err := ReadRecord(dir); r != nil || err != nil {
		t.Fatal(r, err)
	}
	id := embed.Identity{Name: "made/up", Revision: "sha256:0123456789abcdef", Dim: 8, Metric: "cosine", Tokenizer: "a", Floor: 0.5}
	m := &Model{Source: Source{Model: "e5"}, id: id}
	want := NewRecord(m, "v")
	for range 2 { // the second replaces the first
		if err := want.Write(dir + "/"); err != nil {
			t.Fatal(err)
		}
	}
	r, err := ReadRecord(dir)
	if err != nil || *r != *want {
		t.Fatalf("%+v, %v", r, err)
	}
	m.id.Floor = 0 // changes scores, no vector
	if err := r.Check(dir, m); err != nil {
		t.Error(err)
	}
	m.id.Tokenizer = "b"
	if err := r.Check(dir, m); !errors.Is(err, ErrOtherModel) || !strings.Contains(err.Error(), "tokenizer a") || !strings.Contains(err.Error(), "tokenizer b") {
		t.Errorf("another tokenizer: %v", err)
	}
}

// recorder gives each text its first byte, and says that "c" was
// cut.
type recorder struct{ t *testing.T }

func (recorder) Identity() embed.Identity { return embed.Identity{Name: "recorder", Dim: 1} }

func (r recorder) Embed(_ context.Context, _ embed.Kind, texts []string) (embed.Result, error) {
	if len(texts) > 2 {
		r.t.Errorf("%d texts in a group of 2", len(texts))
	}
	var out embed.Result
	for i, text := range texts {
		out.Vectors = append(out.Vectors, float32(text[0]))
		if text == "c" {
			out.Truncated = append(out.Truncated, i)
		}
	}
	return out, nil
}

func TestTextsLeavesBlankOut(t *testing.T) {
	m := &Model{Embedder: recorder{t}, id: embed.Identity{Dim: 1}, group: 2}
	last := 0
	v, err := m.Texts(t.Context(), embed.Passage, []string{"", "a", " ", "b", "c", "\u200b"}, func(done int) { last = done })
	if err != nil || last != 6 {
		t.Fatal(last, err)
	}
	for i, want := range []float32{0, 'a', 0, 'b', 'c', 0} {
		if row := v.Row(i); (row == nil) != (want == 0) || row != nil && row[0] != want || v.Truncated[i] != (want == 'c') {
			t.Errorf("text %d: %v, cut %v", i, row, v.Truncated[i])
		}
	}
	if v, err := m.Texts(t.Context(), embed.Passage, nil, nil); err != nil || len(v.Data) != 0 {
		t.Error(v, err)
	}
}
