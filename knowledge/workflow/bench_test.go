package workflow

import (
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/chat"
)

// Parse and render a template of 50 KB with 1,000 expressions.
func BenchmarkTemplate(b *testing.B) {
	source := strings.Repeat(`some text, {{user.name}}, and \{{more}} of the text; `, 1000)
	vars := newVars(b, map[string]any{"user": map[string]any{"name": "granite"}})
	b.SetBytes(int64(len(source)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := render(source, vars); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	b.SetBytes(int64(len(seedWorkflow)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse([]byte(seedWorkflow)); err != nil {
			b.Fatal(err)
		}
	}
}

// What the runner adds to the nodes of the seed's example: they answer at once.
func BenchmarkRun(b *testing.B) {
	env := &Environment{Store: &fakeStore{}, Rerankers: rerankers(), Chat: chatFunc(func(chat.Request) (chat.Reply, error) {
		return chat.Reply{Text: "ok"}, nil
	})}
	w, input := parseSeed(b), map[string]any{"user_message": "passage"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Run(bg, env, input); err != nil {
			b.Fatal(err)
		}
	}
}
