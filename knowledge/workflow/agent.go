package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/chat"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// AgentOptions is the config of an ai-agent-node. The zero value of each field
// stands for its default.
type AgentOptions struct {
	// Model; default that of the chat.Model.
	Model string
	// SystemPrompt is a template; none is sent by default.
	SystemPrompt string
	// Prompt is a template, of what the user says; default
	// "{{user_message}}".
	Prompt string
	// ContextVariable holds the search results that the model is shown: a
	// variable, or a path into one. Default: the results written last, if any.
	ContextVariable string
	// MaxContextChars bounds what is shown of them, in code points; default
	// 24,000.
	MaxContextChars int
	// Temperature, 0 to 2; nil leaves it to the service.
	Temperature *float64
	// MaxTokens of the answer; 0 leaves it to the service.
	MaxTokens int
	// OutputVariable gets the answer; default "agent_response".
	OutputVariable string
	// SourcesVariable gets the sources: the marker [n] in context and answer
	// is the n-th. Default "agent_sources".
	SourcesVariable string
}

// Defaults and ranges of agent nodes.
const (
	DefaultAgentOutput  = "agent_response"
	DefaultAgentSources = "agent_sources"
	DefaultPrompt       = "{{user_message}}"

	defaultContextChars = 24_000
	maxContextChars     = 1_000_000
	maxAnswerTokens     = 1_000_000
)

// decodeAgent reads the config of an ai-agent-node.
func decodeAgent(o *object) AgentOptions {
	a := AgentOptions{
		Model:           o.text("model", ""),
		SystemPrompt:    o.template("system_prompt", ""),
		Prompt:          o.template("prompt", DefaultPrompt),
		ContextVariable: o.text("context_variable", ""),
		MaxContextChars: o.integer("max_context_chars", defaultContextChars, 1, maxContextChars),
		MaxTokens:       o.integer("max_tokens", 0, 1, maxAnswerTokens),
		OutputVariable:  o.variable("output_variable", DefaultAgentOutput),
		SourcesVariable: o.variable("sources_variable", DefaultAgentSources),
	}
	o.choice("agent_mode", "standard", "standard")
	if x := o.number("temperature", -1, 0, 2); x >= 0 {
		a.Temperature = &x
	}
	if _, reason := parsePath(a.ContextVariable); a.ContextVariable != "" && reason != "" {
		o.fail("context_variable", nil, "%s", reason)
	}
	if a.OutputVariable == a.SourcesVariable {
		o.fail("sources_variable", nil, "is the output_variable, too")
	}
	return a
}

// ParseAgent reads the config of an ai-agent-node. The error is a *ConfigError.
func ParseAgent(config []byte) (*AgentOptions, error) {
	o, err := parseConfig(config)
	if err != nil {
		return nil, err
	}
	a := decodeAgent(o)
	return &a, o.end()
}

// An Answer is what an agent gave.
type Answer struct {
	Text string
	// Sources the model was shown: the marker [n] in Text is Sources[n-1].
	Sources []knowledge.ContextSource
	// Notes tell of a context or an answer that was cut, and of markers that
	// no source has.
	Notes []string
	Reply chat.Reply
}

// Agent runs an ai-agent-node: it shows the model the search results, numbered
// by source, and the user's prompt behind them, and writes answer and sources to
// their variables. The retrieved text goes into the user's message, never into
// the system prompt. Nil options are all defaults.
func Agent(ctx context.Context, c chat.Model, o *AgentOptions, vars *Vars) (*Answer, error) {
	if o == nil {
		o = &AgentOptions{}
	}
	if o.MaxContextChars < 0 || o.MaxTokens < 0 || o.Temperature != nil && !(*o.Temperature >= 0 && *o.Temperature <= 2) {
		return nil, storage.Invalidf("max_context_chars %d, max_tokens %d: negative; or the temperature is not 0 to 2", o.MaxContextChars, o.MaxTokens)
	}
	r := chat.Request{Model: o.Model, Temperature: o.Temperature, MaxTokens: o.MaxTokens}
	if o.SystemPrompt != "" {
		system, err := render(o.SystemPrompt, vars)
		if err != nil {
			return nil, fmt.Errorf("system_prompt: %w", err)
		}
		r.Messages = append(r.Messages, chat.Message{Role: "system", Content: system})
	}
	prompt := o.Prompt
	if prompt == "" {
		prompt = DefaultPrompt
	}
	user, err := render(prompt, vars)
	if err != nil {
		return nil, fmt.Errorf("prompt: %w", err)
	}
	shown, found, err := o.context(vars)
	if err != nil {
		return nil, err
	}
	if found {
		user = "Context:\n" + shown.Text + "\n\n" + user
	}
	r.Messages = append(r.Messages, chat.Message{Role: "user", Content: user})
	if c == nil {
		return nil, fmt.Errorf("%w: there is no chat endpoint", ErrNotConfigured)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	reply, err := c.Complete(ctx, r)
	if err != nil {
		return nil, err
	}
	if len(reply.Text) > MaxTextBytes {
		return nil, call.Replyf(chat.Name, "the answer has %d bytes, at most %d", len(reply.Text), MaxTextBytes)
	}
	a := &Answer{Text: reply.Text, Sources: shown.Sources, Reply: reply}
	a.note(&shown)
	return a, errors.Join(
		write(vars, o.OutputVariable, DefaultAgentOutput, a.Text),
		write(vars, o.SourcesVariable, DefaultAgentSources, a.Sources))
}

// context assembles what the model is shown; found tells whether there are
// results at all, maybe of no items.
func (o *AgentOptions) context(vars *Vars) (c knowledge.Context, found bool, err error) {
	c.Sources = []knowledge.ContextSource{}
	var in *Results
	switch {
	case o.ContextVariable != "":
		value, err := vars.Lookup(o.ContextVariable)
		if err == nil {
			in, err = resultsOf(value)
		}
		if err != nil {
			return c, false, fmt.Errorf("context_variable: %w", err)
		}
	case vars != nil:
		in = vars.results
	}
	if in == nil {
		return c, false, nil
	}
	most := o.MaxContextChars
	if most == 0 {
		most = defaultContextChars
	}
	if c, err = knowledge.AssembleContext(in.Items, knowledge.ContextOptions{MaxRunes: most}); err != nil {
		return c, false, fmt.Errorf("context: %w", err)
	}
	if c.Text == "" {
		c.Text = "(nothing was found)"
	}
	return c, true, nil
}

func (a *Answer) note(shown *knowledge.Context) {
	if shown.Truncated {
		a.Notes = append(a.Notes, "max_context_chars left out a part of the results")
	}
	if a.Reply.FinishReason == "length" {
		a.Notes = append(a.Notes, "the answer was cut at the limit of tokens")
	}
	if bad := strayMarkers(a.Text, len(a.Sources)); len(bad) > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("the answer cites %s, and there are %d sources", strings.Join(bad, ", "), len(a.Sources)))
	}
}

// strayMarkers returns the markers [n] of a text that no source has, each once,
// at most ten.
func strayMarkers(text string, sources int) (bad []string) {
	for len(bad) < 10 {
		_, rest, ok := strings.Cut(text, "[")
		if !ok {
			break
		}
		text = rest
		digits := 0
		for digits < len(rest) && digits < 4 && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		if digits == 0 || digits == len(rest) || rest[digits] != ']' {
			continue
		}
		n, err := strconv.Atoi(rest[:digits])
		if marker := "[" + rest[:digits] + "]"; err == nil && (n < 1 || n > sources) && !slices.Contains(bad, marker) {
			bad = append(bad, marker)
		}
	}
	return bad
}
