package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// A Chat answers one request to a language model. Implementations are safe for
// concurrent use and return when the context is over.
type Chat interface {
	Complete(ctx context.Context, r ChatRequest) (ChatReply, error)
}

// A Message is one turn. Role is "system", "user" or "assistant".
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// A ChatRequest asks a model.
type ChatRequest struct {
	// Model may be empty where the Chat has a default.
	Model    string
	Messages []Message
	// Temperature is sent when it is not nil, MaxTokens when it is not 0.
	Temperature *float64
	MaxTokens   int
}

// A ChatReply is a model's answer. Text is not blank.
type ChatReply struct {
	Text string
	// Model as the service names it, and why it stopped: "stop", "length".
	Model, FinishReason string
	// Tokens of request and answer; 0 when the service does not say.
	PromptTokens, AnswerTokens int
}

// ChatOptions say how an OpenAI-compatible endpoint is reached. BaseURL is
// required: nothing is sent anywhere by default.
type ChatOptions struct {
	// Call holds the base URL, up to "/chat/completions"; the name of the
	// environment variable with the API key, if one is needed; and time-outs
	// (default: a try 60 s) and tries (default 2). A key is taken from the
	// environment only, so KeyFile must be empty.
	Call call.Options
	// Model for requests that name none.
	Model string
}

// ChatClient is a Chat over an OpenAI-compatible endpoint.
type ChatClient struct {
	client *call.Client
	model  string
}

var _ Chat = (*ChatClient)(nil)

const chatName = "chat"

// NewChat returns a client. It reads the key and sends nothing. Errors match
// storage.ErrInvalid, and ErrNotConfigured when there is no base URL.
func NewChat(o ChatOptions) (*ChatClient, error) {
	switch {
	case o.Call.BaseURL == "":
		return nil, fmt.Errorf("%w: the chat endpoint has no base URL", ErrNotConfigured)
	case o.Call.KeyFile != "":
		return nil, storage.Invalidf("chat: the API key comes from an environment variable (KeyEnv), not from a file")
	}
	if o.Call.Tries == 0 {
		o.Call.Tries = 2
	}
	client, err := call.New(chatName, o.Call)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	return &ChatClient{client, o.Model}, nil
}

// Close closes idle connections.
func (c *ChatClient) Close() error { return c.client.Close() }

// chatBody is a request as the endpoint wants it.
type chatBody struct {
	Model       string    `json:"model"`
	Messages    []Message `json:"messages"`
	Temperature *float64  `json:"temperature,omitempty"`
	MaxTokens   int       `json:"max_tokens,omitempty"`
	Stream      bool      `json:"stream"`
}

// Complete implements Chat. Errors are those of package call.
func (c *ChatClient) Complete(ctx context.Context, r ChatRequest) (ChatReply, error) {
	if c == nil {
		return ChatReply{}, fmt.Errorf("%w: there is no chat endpoint", ErrNotConfigured)
	}
	if r.Model == "" {
		r.Model = c.model
	}
	if strings.TrimSpace(r.Model) == "" {
		return ChatReply{}, storage.Invalidf("chat: no model is named")
	}
	body, err := json.Marshal(chatBody{r.Model, r.Messages, r.Temperature, r.MaxTokens, false})
	if err != nil {
		return ChatReply{}, storage.Invalidf("chat: the request cannot be written: %v", err)
	}
	// JSON may write a character in up to six bytes.
	data, err := c.client.Post(ctx, "/chat/completions", body, 6*MaxTextBytes)
	if err != nil {
		return ChatReply{}, err
	}
	return decodeChat(data)
}

func decodeChat(data []byte) (ChatReply, error) {
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
	if err := call.Decode(chatName, data, &r); err != nil {
		return ChatReply{}, err
	}
	if r.Choices == nil || len(*r.Choices) == 0 {
		return ChatReply{}, call.Unanswered(chatName, "choices", r.Error)
	}
	first := (*r.Choices)[0]
	switch text := first.Message.Content; {
	case first.Message.Refusal != "":
		return ChatReply{}, call.Replyf(chatName, "the model refused: %s", clip(strings.Join(strings.Fields(first.Message.Refusal), " "), 300))
	case text == nil || service.IsBlank(*text):
		return ChatReply{}, call.Replyf(chatName, "the answer is empty (finish reason %q)", clip(first.FinishReason, 40))
	case len(*text) > MaxTextBytes:
		return ChatReply{}, call.Replyf(chatName, "the answer has %d bytes, at most %d", len(*text), MaxTextBytes)
	}
	return ChatReply{Text: *first.Message.Content, Model: r.Model, FinishReason: first.FinishReason,
		PromptTokens: r.Usage.PromptTokens, AnswerTokens: r.Usage.CompletionTokens}, nil
}
