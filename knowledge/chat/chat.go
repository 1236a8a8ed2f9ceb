package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// ErrNotConfigured is the error of a client that has no endpoint.
var ErrNotConfigured = errors.New("quarry: no chat endpoint is configured")

// MaxReplyBytes bounds the text of a reply.
const MaxReplyBytes = 1 << 20

// Name is what errors call the service.
const Name = "chat"

// A Model answers one request to a language model. Implementations are safe for
// concurrent use and return when the context is over.
type Model interface {
	Complete(ctx context.Context, r Request) (Reply, error)
}

// A Message is one turn. Role is "system", "user" or "assistant".
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// A Request asks a model.
type Request struct {
	// Model may be empty where the Model has a default.
	Model    string
	Messages []Message
	// Temperature is sent when it is not nil, MaxTokens when it is not 0.
	Temperature *float64
	MaxTokens   int
}

// A Reply is a model's answer. Text is not blank.
type Reply struct {
	Text string
	// Model as the service names it, and why it stopped: "stop", "length".
	Model, FinishReason string
	// Tokens of request and answer; 0 when the service does not say.
	PromptTokens, AnswerTokens int
}

// Options say how an OpenAI-compatible endpoint is reached. BaseURL is
// required: nothing is sent anywhere by default.
type Options struct {
	// Call holds the base URL, up to "/chat/completions"; the name of the
	// environment variable with the API key, if one is needed; and time-outs
	// (default: a try 60 s) and tries (default 2). A key is taken from the
	// environment only, so KeyFile must be empty.
	Call call.Options
	// Model for requests that name none.
	Model string
}

// Client is a Model over an OpenAI-compatible endpoint.
type Client struct {
	client *call.Client
	model  string
}

var _ Model = (*Client)(nil)

// New returns a client. It reads the key and sends nothing. Errors match
// storage.ErrInvalid, and ErrNotConfigured when there is no base URL.
func New(o Options) (*Client, error) {
	switch {
	case o.Call.BaseURL == "":
		return nil, fmt.Errorf("%w: it has no base URL", ErrNotConfigured)
	case o.Call.KeyFile != "":
		return nil, storage.Invalidf("chat: the API key comes from an environment variable (KeyEnv), not from a file")
	}
	if o.Call.Tries == 0 {
		o.Call.Tries = 2
	}
	client, err := call.New(Name, o.Call)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	return &Client{client, o.Model}, nil
}

// Close closes idle connections.
func (c *Client) Close() error { return c.client.Close() }

// body is a request as the endpoint wants it.
type body struct {
	Model       string    `json:"model"`
	Messages    []Message `json:"messages"`
	Temperature *float64  `json:"temperature,omitempty"`
	MaxTokens   int       `json:"max_tokens,omitempty"`
	Stream      bool      `json:"stream"`
}

// Complete implements Model. Errors are those of package call.
func (c *Client) Complete(ctx context.Context, r Request) (Reply, error) {
	if c == nil {
		return Reply{}, ErrNotConfigured
	}
	if r.Model == "" {
		r.Model = c.model
	}
	if strings.TrimSpace(r.Model) == "" {
		return Reply{}, storage.Invalidf("chat: no model is named")
	}
	b, err := json.Marshal(body{r.Model, r.Messages, r.Temperature, r.MaxTokens, false})
	if err != nil {
		return Reply{}, storage.Invalidf("chat: the request cannot be written: %v", err)
	}
	// JSON may write a character in up to six bytes.
	data, err := c.client.Post(ctx, "/chat/completions", b, 6*MaxReplyBytes)
	if err != nil {
		return Reply{}, err
	}
	return decode(data)
}

// decode reads the body of a response.
func decode(data []byte) (Reply, error) {
	var r struct {
		Model   string `json:"model"`
		Choices *[]struct {
			Message struct {
				Content *string `json:"content"`
				Refusal string  `json:"refusal"`
			} `json:"message"`
			FinishReason string `json:"finish_reason"`
		} `json:"choices"`
		Usage struct {
			PromptTokens     int `json:"prompt_tokens"`
			CompletionTokens int `json:"completion_tokens"`
		} `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
	if err := call.Decode(Name, data, &r); err != nil {
		return Reply{}, err
	}
	if r.Choices == nil || len(*r.Choices) == 0 {
		return Reply{}, call.Unanswered(Name, "choices", r.Error)
	}
	first := (*r.Choices)[0]
	switch text := first.Message.Content; {
	case first.Message.Refusal != "":
		return Reply{}, call.Replyf(Name, "the model refused: %.300s", strings.Join(strings.Fields(first.Message.Refusal), " "))
	case text == nil || service.IsBlank(*text):
		return Reply{}, call.Replyf(Name, "the answer is empty (finish reason %.40q)", first.FinishReason)
	case len(*text) > MaxReplyBytes:
		return Reply{}, call.Replyf(Name, "the answer has %d bytes, at most %d", len(*text), MaxReplyBytes)
	}
	return Reply{Text: *first.Message.Content, Model: r.Model, FinishReason: first.FinishReason,
		PromptTokens: r.Usage.PromptTokens, AnswerTokens: r.Usage.CompletionTokens}, nil
}
