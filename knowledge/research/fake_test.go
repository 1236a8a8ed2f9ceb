package research

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/quarrysearch/quarry/knowledge/chat"
)

var (
	bg      = context.Background()
	errDown = errors.New("down")
)

// A shelf is a Searcher over a few texts: a passage is found by each word it
// shares with the query, the more the better. It records what it was asked.
type shelf struct {
	texts   []string // "id: text"
	rerank  func([]Passage) ([]Passage, bool, error)
	next    map[string][]string // neighbors by ID
	calls   []string
	queries [][]string
	err     error
}

func (s *shelf) passage(i int) Passage {
	id, text, _ := strings.Cut(s.texts[i], ": ")
	return Passage{ID: id, Text: text}
}

func (s *shelf) Search(_ context.Context, queries []string) ([][]Passage, error) {
	s.calls, s.queries = append(s.calls, "search"), append(s.queries, queries)
	out := make([][]Passage, len(queries))
	for i, q := range queries {
		words := strings.FieldsFunc(strings.ToLower(q), func(r rune) bool { return !isWordRune(r) })
		for j := range s.texts {
			p, n := s.passage(j), 0
			for _, w := range words {
				if strings.Contains(" "+p.Text+" ", " "+w+" ") {
					n++
				}
			}
			if n > 0 {
				p.Score = float64(n) / float64(len(words))
				at := 0
				for at < len(out[i]) && out[i][at].Score >= p.Score {
					at++
				}
				out[i] = append(out[i][:at], append([]Passage{p}, out[i][at:]...)...)
			}
		}
	}
	return out, s.err
}

func (s *shelf) Expand(_ context.Context, seeds []Passage) ([][]Passage, error) {
	s.calls = append(s.calls, fmt.Sprintf("expand %d", len(seeds)))
	out := make([][]Passage, len(seeds))
	for i, seed := range seeds {
		for _, id := range s.next[seed.ID] {
			out[i] = append(out[i], Passage{ID: id, Text: "next to " + seed.ID})
		}
	}
	return out, nil
}

func (s *shelf) Rerank(_ context.Context, p []Passage) ([]Passage, bool, error) {
	s.calls = append(s.calls, fmt.Sprintf("rerank %d", len(p)))
	if s.rerank == nil {
		return nil, false, nil
	}
	return s.rerank(p)
}

// scored is a reranker that likes passages with a word.
func scored(word string) func([]Passage) ([]Passage, bool, error) {
	return func(p []Passage) ([]Passage, bool, error) {
		out := make([]Passage, len(p))
		for i := range p {
			out[len(p)-1-i] = p[i]
			out[len(p)-1-i].Score = 0.1
			if strings.Contains(p[i].Text, word) {
				out[len(p)-1-i].Score = 0.9
			}
		}
		return out, true, nil
	}
}

// A talker is a chat model of any behavior that counts its calls.
type talker struct {
	calls atomic.Int64
	say   func(ctx context.Context, r chat.Request) (string, error)
}

func (t *talker) Complete(ctx context.Context, r chat.Request) (chat.Reply, error) {
	t.calls.Add(1)
	text, err := t.say(ctx, r)
	return chat.Reply{Text: text}, err
}

// talks answers plans and judgements with fixed texts.
func talks(plan, verdict string) *talker {
	return &talker{say: func(_ context.Context, r chat.Request) (string, error) {
		if strings.Contains(r.Messages[0].Content, `{"queries"`) {
			return plan, nil
		}
		return verdict, nil
	}}
}

// ids are the IDs of passages, in order.
func ids(p []Passage) string {
	var out []string
	for i := range p {
		out = append(out, p[i].ID)
	}
	return strings.Join(out, " ")
}

// library has texts about two things.
func library() *shelf {
	return &shelf{texts: []string{
		"backup: back up a base with quarry backup",
		"restore: restore a base from a copy",
		"merge: segments are merged in the background",
		"refund: a refund takes thirty days",
		"ship: shipping is free above fifty",
	}}
}
