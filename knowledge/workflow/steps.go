package workflow

import (
	"context"
	"fmt"

	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/storage"
)

// step decodes the config of a node and returns what runs it.
func (o *object) step(n *node) func(ctx context.Context, r *run, t *NodeTrace) error {
	switch n.kind {
	case TypeStart:
		return stepStart(o.names("variables"))
	case TypeSearch:
		c := decodeSearch(o)
		return func(ctx context.Context, r *run, t *NodeTrace) error {
			out, err := Search(ctx, r.env.Store, &c, r.vars)
			return t.results(out, err)
		}
	case TypeRerank:
		c := decodeRerank(o)
		return func(ctx context.Context, r *run, t *NodeTrace) error {
			out, err := Rerank(ctx, r.env.Rerankers[c.Model], &c, r.vars)
			return t.results(out, err)
		}
	case TypeAISearch:
		return stepAISearch(decodeAISearch(o))
	case TypeAgent:
		c := decodeAgent(o)
		return func(ctx context.Context, r *run, t *NodeTrace) error {
			a, err := Agent(ctx, r.env.Chat, &c, r.vars)
			if err == nil {
				t.Notes = a.Notes
			}
			return err
		}
	case TypeRetrieval:
		c := decodeRetrieval(o, n)
		return func(ctx context.Context, r *run, t *NodeTrace) error {
			out, err := Retrieve(ctx, r.env.Retriever, r.env.Run, c, r.vars)
			if err != nil {
				return err
			}
			items := len(out.Result)
			t.Items, t.Flags, t.ProcessData = &items, out.Metrics.DegradationFlags, &out.ProcessData
			return nil
		}
	case TypeDataset:
		o.takeAll()
		return func(context.Context, *run, *NodeTrace) error {
			return fmt.Errorf("%w: its datasets are not spaces; put a %s node in its place", ErrUnsupported, TypeRetrieval)
		}
	case TypeEnd:
		return stepEnd(o.ends("outputs", n))
	}
	return nil // the type is unknown, which was said
}

// names reads a list of variables' names; nil when the key is missing.
func (o *object) names(key string) []string {
	names := o.texts(key)
	for i, name := range names {
		if err := checkName(name); err != nil {
			o.failItem(key, i, nil, "%v", err)
		}
	}
	return names
}

// An end is one output of a workflow: a name, and the path to its value.
type end struct {
	name string
	path []string
}

// ends reads the outputs of an end node: a list of variables' names, or an
// object of paths and selectors by name; nil when the key is missing.
func (o *object) ends(key string, n *node) []end {
	v := o.take(key)
	if v == nil || v.kind != kindObject {
		var out []end
		for _, name := range o.names(key) {
			out = append(out, end{name, []string{name}})
		}
		if v != nil && out == nil {
			out = []end{}
		}
		return out
	}
	paths := o.t.reader(join(o.path, key), v)
	out := make([]end, len(v.fields))
	selectors := make([]*selector, len(v.fields))
	for i, f := range v.fields {
		out[i].name = f.key
		if err := checkName(f.key); err != nil {
			paths.fail(f.key, f.value, "%v", err)
		}
		if f.value.kind == kindArray {
			selectors[i] = paths.selector(f.key)
			continue
		}
		text := paths.text(f.key, "")
		path, reason := parsePath(text)
		if reason != "" {
			paths.fail(f.key, f.value, "%s", reason)
		}
		out[i].path = path
	}
	if err := paths.end(); err != nil {
		o.fail(key, v, "%v", err)
	}
	n.link = func(upstream map[string]*node) (err error) {
		for i, s := range selectors {
			if s != nil && err == nil {
				out[i].path, err = s.path(upstream)
			}
		}
		return err
	}
	return out
}

// results notes what a search or a reranker gave.
func (t *NodeTrace) results(out *Results, err error) error {
	if err != nil {
		return err
	}
	n := len(out.Items)
	t.Items, t.Flags, t.Notes = &n, out.Flags, out.Notes
	for _, e := range out.Errors {
		t.Warnings = append(t.Warnings, clip(e.Error(), maxMessage))
	}
	return nil
}

// stepStart wants the variables that its config names.
func stepStart(names []string) func(context.Context, *run, *NodeTrace) error {
	return func(_ context.Context, r *run, _ *NodeTrace) error {
		for _, name := range names {
			v, ok := r.vars.Get(name)
			if text, isText := v.(string); !ok || v == nil || isText && service.IsBlank(text) {
				return storage.Invalidf("the variable %s is missing or blank", name)
			}
		}
		return nil
	}
}

// stepEnd picks the outputs: those that its config names, all without a config.
func stepEnd(ends []end) func(context.Context, *run, *NodeTrace) error {
	return func(_ context.Context, r *run, _ *NodeTrace) error {
		for _, e := range ends {
			if _, err := r.vars.lookup(e.path); err != nil {
				return storage.Invalidf("outputs: %v", err)
			}
		}
		r.ends = ends
		return nil
	}
}

// stepAISearch makes one node of a workflow: its runs share a slot.
func stepAISearch(c aiConfig) func(context.Context, *run, *NodeTrace) error {
	slot := make(chan struct{}, 1)
	return func(ctx context.Context, r *run, t *NodeTrace) error {
		a := &AISearch{embedder: r.env.Embedder, reranker: r.env.Rerankers[DefaultRerankModel], slot: slot}
		out := c.run(ctx, a, r.vars, nil)
		if out.Err != nil {
			// It ends no run: nodes further on see the {error}.
			t.failure = out.Err
		} else {
			n := len(out.Passages)
			t.Items = &n
		}
		return r.vars.Set(c.output, out)
	}
}
