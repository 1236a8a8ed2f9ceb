package workflow

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

func TestChat(t *testing.T) {
	for name, h := range misbehave() {
		c := chatServer(t, ChatOptions{Model: "m", Call: call.Options{Timeout: 200 * time.Millisecond}}, h)
		_, err := c.Complete(bg, ChatRequest{Messages: []Message{{"user", "x"}}})
		if code := CodeOf(err); err == nil || code == CodeInternal || code == CodeInvalid {
			t.Errorf("%s: %s, %v", name, code, err)
		}
	}
	for reply, want := range map[string]string{
		`{"choices":[]}`:                                                                      `no "choices"`,
		`{"error":{"message":"overloaded"}}`:                                                  "overloaded",
		`{"choices":[{"message":{}}]}`:                                                        "empty",
		`{"choices":[{"message":{"content":" \u200b"}}]}`:                                     "empty",
		`{"choices":[{"message":{"content":null},"finish_reason":"tool_calls"}]}`:             "tool_calls",
		`{"choices":[{"message":{"content":null,"refusal":"I can not"}}]}`:                    "I can not",
		`{"choices":[{"message":{"content":["x"]}}]}`:                                         "want string",
		`{"choices":[{"message":{"content":"` + strings.Repeat("x", 1+MaxTextBytes) + `"}}]}`: "at most",
		strings.Repeat(" ", 1+6*MaxTextBytes):                                                 "more than",
	} {
		c := chatServer(t, ChatOptions{Model: "m"}, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, reply) })
		if _, err := c.Complete(bg, ChatRequest{}); !errors.Is(err, call.ErrReply) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v", reply, err)
		}
	}
	c := chatServer(t, ChatOptions{}, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, strings.Replace(answer("half an ans"), `"stop"`, `"length"`, 1))
	})
	if _, err := c.Complete(bg, ChatRequest{}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("no model: %v", err)
	}
	vars := newVars(t, map[string]any{"user_message": "q"})
	a, err := Agent(bg, c, &AgentOptions{Model: "m"}, vars)
	if err != nil || a.Text != "half an ans" || len(a.Notes) != 1 || a.Reply.PromptTokens != 7 || a.Reply.AnswerTokens != 3 || a.Reply.Model != "m-1" {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestAgentContext(t *testing.T) {
	var seen []Message
	temperature := .5
	c := chatFunc(func(r ChatRequest) (ChatReply, error) {
		seen = r.Messages
		if *r.Temperature != temperature || r.MaxTokens != 9 {
			t.Errorf("%+v", r)
		}
		return ChatReply{Text: "ok"}, nil
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
type chatFunc func(r ChatRequest) (ChatReply, error)

func (f chatFunc) Complete(_ context.Context, r ChatRequest) (ChatReply, error) { return f(r) }
