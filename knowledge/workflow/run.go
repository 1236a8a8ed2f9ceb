package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/chat"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/knowledge/space"
	"github.com/quarrysearch/quarry/storage"
)

// An Environment holds what nodes use. A node whose part is missing fails with
// ErrNotConfigured; the others run.
type Environment struct {
	// Store answers search-knowledge-nodes.
	Store Searcher
	// Rerankers by model name; "cross-encoder" is the default model of
	// reranker-nodes and the one of ai-search-nodes.
	Rerankers map[string]rerank.Reranker
	// Embedder of ai-search-nodes.
	Embedder embed.Embedder
	// Chat answers ai-agent-nodes. A workflow's JSON names models, never
	// endpoints or keys: those are the program's.
	Chat chat.Model
	// Retriever answers knowledge-retrieval-v2 nodes, and Run says who runs the
	// workflow, for them: kind, account, workflow. Its Spaces are each node's.
	Retriever Retriever
	Run       catalog.Run
	// OnEvent gets the events, one after the other, in the goroutine of Run.
	OnEvent func(Event)
}

// An EventKind is "run" or "done".
type EventKind string

// The kinds of events.
const (
	EventRun  EventKind = "run"  // the node starts
	EventDone EventKind = "done" // it is finished, well or not
)

// An Event tells that a node starts or is finished. Each Run is followed by one
// Done of the same node.
type Event struct {
	Kind EventKind
	Node string // id
	Type string
	// Err is set with Done: the node's failure, for an ai-search-node that of
	// its {error}.
	Err error
}

// A Result is what a run gave. Its JSON is stable: keys and nodes come in one
// order.
type Result struct {
	// Outputs are the variables of the end node; after an error, those written
	// before it.
	Outputs map[string]any `json:"outputs"`
	// Trace has one entry a node, in the order of the run.
	Trace []NodeTrace `json:"trace"`
	// Error is what ended the run; nil when it reached its end.
	Error *ErrorObject `json:"error"`
}

// A Status says how a node ended.
type Status string

// The states of a node.
const (
	StatusOK      Status = "ok"
	StatusError   Status = "error"
	StatusSkipped Status = "skipped" // the run ended before it
)

// A NodeTrace tells how one node ran.
type NodeTrace struct {
	Node   string `json:"node"`
	Type   string `json:"type"`
	Status Status `json:"status"`
	// StartMS is the time from the start of the run, ElapsedMS that of the
	// node, both in milliseconds.
	StartMS   float64 `json:"start_ms"`
	ElapsedMS float64 `json:"elapsed_ms"`
	// Outputs are the names of the variables it wrote.
	Outputs []string `json:"outputs,omitempty"`
	// Items is how many results it gave, nil when it gives none.
	Items *int `json:"items,omitempty"`
	// Flags tell of degradations, Notes of what nobody asked for, Warnings of
	// failures that an on_error option kept from ending the run.
	Flags    []string `json:"degradation_flags,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// ProcessData tells how a knowledge-retrieval-v2 node found its evidence.
	ProcessData *space.ProcessData `json:"process_data,omitempty"`
	// Error of a failed node. An ai-search-node that gives {error} is failed
	// and ends no run.
	Error *ErrorObject `json:"error,omitempty"`

	failure error // what Error is made of
}

// A run is one Run on its way.
type run struct {
	env   *Environment
	vars  *Vars
	ends  []end // the end node's outputs; nil is all
	bytes int64 // of JSON written
}

// Run runs the nodes one after the other, on a context that holds the input.
// The Result is never nil. A node that fails ends the run: the error is a
// *NodeError, and Result.Error says the same. An input that no workflow can
// hold is an error without a node. A nil env is empty.
func (w *Workflow) Run(ctx context.Context, env *Environment, input map[string]any) (*Result, error) {
	if env == nil {
		env = &Environment{}
	}
	res := &Result{Outputs: map[string]any{}, Trace: make([]NodeTrace, len(w.nodes))}
	for i, n := range w.nodes {
		res.Trace[i] = NodeTrace{Node: n.id, Type: n.kind, Status: StatusSkipped}
	}
	vars, err := NewVars(input)
	if err != nil {
		err = fmt.Errorf("input: %w", err)
		res.Error = errorObject(err)
		return res, err
	}
	r := &run{env: env, vars: vars}
	start := time.Now()
	for i, n := range w.nodes {
		if err = r.step(ctx, n, &res.Trace[i], start); err != nil {
			break
		}
	}
	if r.ends == nil {
		for _, name := range vars.written {
			if v, ok := vars.Get(name); ok {
				res.Outputs[name] = v
			}
		}
	}
	for _, e := range r.ends {
		if v, err := vars.lookup(e.path); err == nil {
			res.Outputs[e.name] = v
		}
	}
	res.Error = errorObject(err)
	return res, err
}

// step runs one node.
func (r *run) step(ctx context.Context, n *node, t *NodeTrace, start time.Time) (err error) {
	if err := ctx.Err(); err != nil {
		return &NodeError{n.id, n.kind, fmt.Errorf("not started: %w", err)}
	}
	before := len(r.vars.written)
	from := time.Now()
	r.event(Event{Kind: EventRun, Node: n.id, Type: n.kind})
	err = n.run(ctx, r, t)
	for _, name := range slices.Clone(r.vars.written[before:]) {
		if err == nil {
			err = r.grow(name)
		}
		if err != nil { // a failed node leaves nothing behind
			delete(r.vars.m, name)
			r.vars.written = r.vars.written[:before]
			continue
		}
		t.Outputs = append(t.Outputs, name)
	}
	t.StartMS, t.ElapsedMS = milliseconds(from.Sub(start)), milliseconds(time.Since(from))
	t.Status = StatusOK
	if err != nil {
		err = &NodeError{n.id, n.kind, err}
		t.Outputs, t.failure = nil, err
	}
	if t.failure != nil {
		t.Status, t.Error = StatusError, errorObject(t.failure)
	}
	r.event(Event{Kind: EventDone, Node: n.id, Type: n.kind, Err: t.failure})
	return err
}

func (r *run) event(e Event) {
	if r.env.OnEvent != nil {
		r.env.OnEvent(e)
	}
}

func milliseconds(d time.Duration) float64 { return math.Round(float64(d.Microseconds())) / 1000 }

// grow counts a variable's JSON against the limit of the run.
func (r *run) grow(name string) error {
	c := counter{left: MaxOutputBytes - r.bytes}
	if err := json.NewEncoder(&c).Encode(r.vars.m[name]); err != nil {
		if c.left < 0 {
			return fmt.Errorf("%w: output %s: the nodes of a run write at most %d bytes of JSON", storage.ErrTooLarge, name, MaxOutputBytes)
		}
		return storage.Invalidf("output %s cannot be written as JSON: %v", name, err)
	}
	r.bytes = MaxOutputBytes - c.left
	return nil
}

// A counter counts down what is written to it.
type counter struct{ left int64 }

func (c *counter) Write(p []byte) (int, error) {
	if c.left -= int64(len(p)); c.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}
