package research

import (
	"context"
	"errors"
	"time"

	"github.com/quarrysearch/quarry/knowledge/chat"
)

// ErrBudget is the error of a model call that a step has no budget for.
var ErrBudget = errors.New("quarry: the budget of model calls is spent")

// Model calls of one run, at most: a direct question is judged, a complex one
// is also planned.
const (
	maxPlanCalls  = 1
	maxJudgeCalls = 1
)

// A Budget lets one step of a run ask a model, and counts. Only Run makes one
// that has calls left, one for each step; the zero value has none.
type Budget struct {
	left, calls int
	timeout     time.Duration
}

// Complete asks a model, or returns ErrBudget when nothing is left. A call that
// fails counts, too. It ends after Limits.CallTimeout, and when half of the
// time to the deadline of ctx is over: a model that hangs must leave the run
// time to do without it.
func (b *Budget) Complete(ctx context.Context, m chat.Model, r chat.Request) (chat.Reply, error) {
	if b == nil || b.left <= 0 {
		return chat.Reply{}, ErrBudget
	}
	if err := ctx.Err(); err != nil {
		return chat.Reply{}, err
	}
	b.left--
	b.calls++
	timeout := b.timeout
	if end, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return m.Complete(ctx, r)
}
