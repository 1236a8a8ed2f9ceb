package dify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/knowledge/workflow/external"
	"github.com/quarrysearch/quarry/storage"
)

// Options of a handler.
type Options struct {
	Registry *registry.Registry
	// Account is the account that the caller of a request acts as; empty: none.
	Account func(context.Context) string
	// OnError is told what the caller is not.
	OnError func(*http.Request, error)
}

// New makes the handler. Keys are the server's to check, before it; that a
// request has one is checked here, as Dify's documentation wants.
func New(o Options) (http.Handler, error) {
	return external.New(external.Options{Retriever: retriever(o), OnError: o.OnError,
		Authorize: func(context.Context, string, string) bool { return true }})
}

type retriever Options

// Retrieve searches the base of a request, or asks the space.
func (o retriever) Retrieve(ctx context.Context, r *external.Request) ([]external.Record, error) {
	records, err := o.base(ctx, r)
	account := o.Account(ctx)
	if account == "" || !errors.Is(err, storage.ErrNotFound) {
		return records, err
	}
	spaces, err := o.Registry.Spaces(ctx)
	if err != nil {
		return nil, err
	}
	return external.Spaces{Retriever: spaces, Account: account}.Retrieve(ctx, r)
}

func (o retriever) base(ctx context.Context, r *external.Request) ([]external.Record, error) {
	id, _, _ := strings.Cut(r.KnowledgeID, "@")
	if registry.CheckName("knowledge base", id) != nil {
		return nil, fmt.Errorf("%w: knowledge base %.80q", storage.ErrNotFound, r.KnowledgeID)
	}
	store, err := o.Registry.Knowledge(ctx)
	if err != nil {
		return nil, err
	}
	return external.Store{Searcher: store}.Retrieve(ctx, r)
}

// Refuse answers for what a request failed before the handler: a status of HTTP
// and a text for people.
func Refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	f := external.Failure{Code: external.CodeInternal, Message: detail}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		status, f.Code = http.StatusForbidden, external.CodeDenied
		scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || strings.TrimSpace(key) == "" {
			f.Code = external.CodeNoBearer
		}
	case http.StatusBadRequest:
		f.Code = external.CodeInvalid
	}
	b, err := json.Marshal(f)
	if err != nil { // there is nothing in it that cannot be encoded
		b = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(cmp.Or(status, http.StatusInternalServerError))
	_, _ = w.Write(append(b, '\n')) // a client that went away
}

// Request, Answer and Failure describe what the handler reads and writes.
type Request struct {
	Knowledge string      `json:"knowledge_id" shape:"required,minlen=1,maxlen=1000" doc:"id of a knowledge base, or of a space that the key's account may use"`
	Query     string      `json:"query" shape:"required,minlen=1" doc:"text; at most 16000 characters"`
	Setting   setting     `json:"retrieval_setting,omitempty"`
	Condition *conditions `json:"metadata_condition,omitempty" doc:"of knowledge bases only"`
}

type setting struct {
	TopK      int     `json:"top_k,omitempty" shape:"min=1,max=100,default=5"`
	Threshold float64 `json:"score_threshold,omitempty" shape:"min=0,max=1" doc:"inclusive"`
}

type conditions struct {
	Operator   string      `json:"logical_operator,omitempty" shape:"enum=and|or,default=and"`
	Conditions []condition `json:"conditions" shape:"required,maxitems=50"`
}

type condition struct {
	Name     any    `json:"name" shape:"required" doc:"a field, or a list of fields of which any may meet the condition"`
	Operator string `json:"comparison_operator" shape:"required,enum=is|is not|in|not in|contains|not contains|start with|end with|empty|not empty|=|≠|>|<|≥|≤|before|after"`
	Value    any    `json:"value,omitempty" doc:"a text, a number, or a list of them; none for empty and not empty"`
}

// Answer is what a request gets.
type Answer struct {
	Records []record `json:"records" doc:"best first"`
}

type record struct {
	Content  string         `json:"content"`
	Score    float64        `json:"score"`
	Title    string         `json:"title"`
	Metadata map[string]any `json:"metadata"`
}

// Failure is what a request that failed gets.
type Failure struct {
	Code    int    `json:"error_code" doc:"1001 no bearer key, 1002 the key may not do this, 2001 no such knowledge, 4000 a wrong request, 5000 a fault inside"`
	Message string `json:"error_msg"`
}
