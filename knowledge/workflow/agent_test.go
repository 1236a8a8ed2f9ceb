package workflow

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/chat"
	"github.com/quarrysearch/quarry/storage"
)

// An answer that the service has cut, and what it cost.
func TestAgentReply(t *testing.T) {
	c := chatServer(t, chat.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, strings.Replace(answer("half an ans"), `"stop"`, `"length"`, 1))
	})
	a, err := Agent(bg, c, &AgentOptions{Model: "m"}, newVars(t, map[string]any{"user_message": "q"}))
	if err != nil || a.Text != "half an ans" || len(a.Notes) != 1 || a.Reply.PromptTokens != 7 || a.Reply.AnswerTokens != 3 || a.Reply.Model != "m-1" {
		t.Errorf("%+v, %v", a, err)
	}
	// A client without an endpoint is the same as none.
	if _, err := Agent(bg, (*chat.Client)(nil), &AgentOptions{Model: "m"}, newVars(t, map[string]any{"user_message": "q"})); CodeOf(err) != CodeNotConfigured {
		t.Error(err)
	}
}

func TestAgentContext(t *testing.T) {
	var seen []chat.Message
	temperature := .5
	c := chatFunc(func(r chat.Request) (chat.Reply, error) {
		seen = r.Messages
		if *r.Temperature != temperature || r.MaxTokens != 9 {
			t.Errorf("%+v", r)
		}
		return chat.Reply{Text: "ok"}, nil
	})
	vars := newVars(t, map[string]any{"user_message": "q"})
	o := AgentOptions{Temperature: &temperature, MaxTokens: 9}
	if _, err := Agent(bg, c, &o, vars); err != nil || len(seen) != 1 || seen[0].Content != "q" {
		t.Errorf("no results: %q, %v", seen, err)
	}
	if v, _ := vars.Get("agent_sources"); mustJSON(t, v) != "[]" {
		t.Errorf("sources %s", mustJSON(t, v))
	}
	vars.Set("found", &Results{})
	if _, err := Agent(bg, c, &o, vars); err != nil || seen[0].Content != "Context:\n(nothing was found)\n\nq" {
		t.Errorf("empty results: %q, %v", seen, err)
	}
	vars.Set("found", &Results{Items: items(3)})
	vars.Set("later", &Results{Items: items(1)})
	o.ContextVariable, o.MaxContextChars = "found", 50
	a, err := Agent(bg, c, &o, vars)
	if err != nil || !strings.HasPrefix(seen[0].Content, "Context:\n[1] 0.md\npassage 0\n\n[2] 1.md\npassage 1") || len(a.Sources) != 2 || len(a.Notes) != 1 {
		t.Errorf("%q, %+v, %v", seen, a, err)
	}
	for _, bad := range []AgentOptions{{ContextVariable: "gone"}, {ContextVariable: "user_message"}, {Prompt: "{{gone}}"}, {SystemPrompt: "{{gone}}"}, {MaxTokens: -1}, {MaxContextChars: -1}} {
		seen = nil
		if _, err := Agent(bg, c, &bad, vars); !errors.Is(err, storage.ErrInvalid) || seen != nil {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// chatFunc is a chat of any behavior.
type chatFunc func(r chat.Request) (chat.Reply, error)

func (f chatFunc) Complete(_ context.Context, r chat.Request) (chat.Reply, error) { return f(r) }
