package workflow

import (
	"context"
	"errors"
	"fmt"

	"github.com/quarrysearch/quarry/knowledge/aisearch"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/chat"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// ErrNotConfigured is the error of a node that needs something the Environment
// does not have: a store, a reranker, a chat endpoint.
var ErrNotConfigured = errors.New("quarry: not configured")

// Limits of workflows. What exceeds one is an error that matches
// storage.ErrTooLarge, or names the value in a workflow's JSON.
const (
	// MaxWorkflowBytes bounds the JSON of a workflow or of a node's config.
	MaxWorkflowBytes = 1 << 20
	// MaxNodes and MaxEdges bound a workflow.
	MaxNodes = 100
	MaxEdges = 1000
	// MaxTemplateBytes bounds the source of a template.
	MaxTemplateBytes = 64 << 10
	// MaxTextBytes bounds the text a template renders to, and what is read of
	// an agent's answer.
	MaxTextBytes = 1 << 20
	// MaxOutputBytes bounds the JSON of all that the nodes of one run write.
	MaxOutputBytes = 16 << 20
	// MaxBases bounds the knowledge bases of one search.
	MaxBases = 100
)

// A Code classes an error for programs that read a run's JSON.
type Code string

// The codes.
const (
	CodeInvalid       Code = "invalid"        // a config, a variable or an input
	CodeDenied        Code = "denied"         // a space that the run may not use
	CodeUnsupported   Code = "unsupported"    // see ErrUnsupported
	CodeNotFound      Code = "not_found"      // a knowledge base
	CodeNotConfigured Code = "not_configured" // see ErrNotConfigured
	CodeTooLarge      Code = "too_large"      // a limit
	CodeUnavailable   Code = "unavailable"    // a service; it may work later
	CodeRefused       Code = "refused"        // a service; repeating does not help
	CodeBadReply      Code = "bad_reply"      // a service or model broke its contract
	CodeCanceled      Code = "canceled"
	CodeDeadline      Code = "deadline"
	CodeInternal      Code = "internal"
)

// codes are tried in order: what ended the run goes before what it caused, and
// a class before the wider one it is part of.
var codes = [...]struct {
	err  error
	code Code
}{
	{context.Canceled, CodeCanceled},
	{context.DeadlineExceeded, CodeDeadline},
	{ErrNotConfigured, CodeNotConfigured},
	{chat.ErrNotConfigured, CodeNotConfigured},
	{ErrUnsupported, CodeUnsupported},
	{catalog.ErrPermission, CodeDenied},
	{catalog.ErrNotBound, CodeDenied},
	{catalog.ErrInactive, CodeDenied},
	{catalog.ErrUnpublished, CodeDenied},
	{catalog.ErrWorkspace, CodeDenied},
	{call.ErrReply, CodeBadReply},
	{embed.ErrContract, CodeBadReply},
	{aisearch.ErrRerank, CodeBadReply},
	{call.ErrUnavailable, CodeUnavailable},
	{call.ErrRefused, CodeRefused},
	{storage.ErrTooLarge, CodeTooLarge},
	{storage.ErrNotFound, CodeNotFound},
	{storage.ErrInvalid, CodeInvalid},
}

// CodeOf returns the code of an error; "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return CodeInternal
}

// A NodeError is the failure of one node. It wraps the cause.
type NodeError struct {
	Node string // id
	Type string
	Err  error
}

func (e *NodeError) Error() string { return fmt.Sprintf("node %q (%s): %v", e.Node, e.Type, e.Err) }

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// An ErrorObject is an error as a run's JSON shows it.
type ErrorObject struct {
	Node    string `json:"node,omitempty"` // id; "" when no node failed
	Type    string `json:"type,omitempty"` // of the node
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// errorObject makes the object of an error; nil for nil.
func errorObject(err error) *ErrorObject {
	if err == nil {
		return nil
	}
	o := &ErrorObject{Code: CodeOf(err), Message: err.Error()}
	var n *NodeError
	if errors.As(err, &n) {
		o.Node, o.Type, o.Message = n.Node, n.Type, n.Err.Error()
	}
	o.Message = clip(o.Message, maxMessage)
	return o
}

// maxMessage bounds what a run's JSON repeats of an error.
const maxMessage = 2000
