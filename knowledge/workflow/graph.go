package workflow

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// The types of nodes.
const (
	TypeStart    = "start-node"
	TypeSearch   = "search-knowledge-node"
	TypeRerank   = "reranker-node"
	TypeAISearch = "ai-search-node"
	TypeAgent    = "ai-agent-node"
	TypeEnd      = "end-node"
	// TypeRetrieval retrieves from published spaces. TypeDataset is the node
	// that it stands beside: kept as it is, never run (ErrUnsupported).
	TypeRetrieval = "knowledge-retrieval-v2"
	TypeDataset   = "knowledge-retrieval"
)

// A Workflow is a checked workflow, ready to run. It is immutable: any number
// of runs may go on at the same time, except that each of its ai-search nodes
// serves one run after the other.
type Workflow struct {
	name  string
	nodes []*node // in the order of the run
}

// A node is one step.
type node struct {
	id, kind string
	run      func(ctx context.Context, r *run, t *NodeTrace) error

	spaces []string // ids, of a knowledge-retrieval-v2 node
	// output is the variable that holds what selectors call the node's
	// outputs; "" where each output is a variable of its own.
	output string
	// link is run when all nodes are known, with those before this one.
	link func(upstream map[string]*node) error

	off  int // in the JSON, for messages
	next []int
	from []int
}

// Name returns the workflow's name, "" when it has none.
func (w *Workflow) Name() string { return w.name }

// Nodes returns the ids of the nodes in the order in which they run.
func (w *Workflow) Nodes() []string {
	ids := make([]string, len(w.nodes))
	for i, n := range w.nodes {
		ids[i] = n.id
	}
	return ids
}

// Spaces returns the spaces that knowledge-retrieval-v2 nodes retrieve from,
// each once, in the order of the run.
func (w *Workflow) Spaces() []string {
	var ids []string
	for _, n := range w.nodes {
		for _, id := range n.spaces {
			if id = strings.TrimSpace(id); !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// Parse reads and checks a workflow's JSON:
//
//	{"name": text,
//	 "nodes": [{"id": text, "type": text, "config": {…}}, …],
//	 "edges": [{"from": id, "to": id}, …]}
//
// Without the key "edges" each node leads to the next one of the list. There is
// one start node, from which every node is reached, and one end node, which is
// reached from every node; there is no cycle. The error is a *ConfigError that
// names the place, or matches storage.ErrTooLarge.
func Parse(data []byte) (*Workflow, error) {
	t, v, err := parseJSON(data, MaxWorkflowBytes)
	if err != nil {
		return nil, err
	}
	root := t.reader("", v)
	w := &Workflow{name: root.text("name", "")}
	list, edges := root.required("nodes", kindArray), root.want("edges", kindArray)
	if err := root.end(); err != nil {
		return nil, err
	}
	if len(list.items) == 0 || len(list.items) > MaxNodes {
		return nil, t.errorAt(list.off, "nodes", "%d nodes, want 1 to %d", len(list.items), MaxNodes)
	}
	index := make(map[string]int)
	for i, item := range list.items {
		path := fmt.Sprintf("nodes[%d]", i)
		n, err := t.node(path, item)
		if err != nil {
			return nil, err
		}
		if first, ok := index[n.id]; ok {
			return nil, t.errorAt(item.off, path+".id", "the id %q is that of nodes[%d], too", n.id, first)
		}
		index[n.id] = i
		w.nodes = append(w.nodes, n)
	}
	if err := t.connect(w.nodes, edges, index); err != nil {
		return nil, err
	}
	if err := t.check(w.nodes); err != nil {
		return nil, err
	}
	for i, n := range w.nodes {
		if n.link == nil {
			continue
		}
		if err := n.link(upstream(w.nodes, i)); err != nil {
			return nil, err
		}
	}
	if w.nodes, err = t.sort(w.nodes); err != nil {
		return nil, err
	}
	return w, nil
}

// node reads one node and its config.
func (t *jsonText) node(path string, v *jsonValue) (*node, error) {
	o := t.reader(path, v)
	n := &node{id: o.variable("id", ""), off: v.off}
	o.required("id", kindText)
	n.kind = o.choice("type", "", TypeStart, TypeSearch, TypeRerank, TypeAISearch, TypeAgent, TypeRetrieval, TypeDataset, TypeEnd)
	o.required("type", kindText)
	config := o.take("config")
	if err := o.end(); err != nil {
		return nil, err
	}
	c := t.reader(path+".config", config)
	if config == nil {
		c.v = &jsonValue{kind: kindObject, off: v.off}
	}
	n.run = c.step(n)
	return n, c.end()
}

// connect reads the edges.
func (t *jsonText) connect(nodes []*node, edges *jsonValue, index map[string]int) error {
	link := func(from, to int) {
		nodes[from].next = append(nodes[from].next, to)
		nodes[to].from = append(nodes[to].from, from)
	}
	if edges == nil {
		for i := range len(nodes) - 1 {
			link(i, i+1)
		}
		return nil
	}
	if len(edges.items) > MaxEdges {
		return t.errorAt(edges.off, "edges", "%d edges, at most %d", len(edges.items), MaxEdges)
	}
	for i, item := range edges.items {
		o := t.reader(fmt.Sprintf("edges[%d]", i), item)
		var ends [2]int
		for j, key := range []string{"from", "to"} {
			v := o.required(key, kindText)
			if v == nil {
				continue
			}
			k, ok := index[v.text]
			if !ok {
				o.fail(key, v, "there is no node %q", clip(v.text, 40))
			}
			ends[j] = k
		}
		if err := o.end(); err != nil {
			return err
		}
		from, to := ends[0], ends[1]
		if slices.Contains(nodes[from].next, to) {
			return t.errorAt(item.off, o.path, "the edge from %q to %q comes twice", nodes[from].id, nodes[to].id)
		}
		link(from, to)
	}
	return nil
}

// check checks the shape of the graph but for cycles.
func (t *jsonText) check(nodes []*node) error {
	var ends [2]int
	for side, kind := range []string{TypeStart, TypeEnd} {
		var found []string
		for i, n := range nodes {
			if n.kind != kind {
				continue
			}
			ends[side] = i
			found = append(found, n.id)
			if side == 0 && len(n.from) > 0 || side == 1 && len(n.next) > 0 {
				return t.errorAt(n.off, fmt.Sprintf("nodes[%d]", i), "an edge leads into the start node or out of the end node %q", n.id)
			}
		}
		if len(found) != 1 {
			return t.errorAt(0, "nodes", "%d nodes of type %s (%s), want 1", len(found), kind, strings.Join(found, ", "))
		}
	}
	fromStart := reach(nodes, ends[0], func(n *node) []int { return n.next })
	toEnd := reach(nodes, ends[1], func(n *node) []int { return n.from })
	for _, c := range []struct {
		reached []bool
		what    string
	}{{fromStart, "not reached from the start node: "}, {toEnd, "no way to the end node from: "}} {
		var lost []string
		off := 0
		for i, n := range nodes {
			if !c.reached[i] {
				if lost == nil {
					off = n.off
				}
				lost = append(lost, n.id)
			}
		}
		if lost != nil {
			return t.errorAt(off, "nodes", "%s%s", c.what, strings.Join(lost, ", "))
		}
	}
	return nil
}

// upstream are the nodes that lead to one, by id.
func upstream(nodes []*node, to int) map[string]*node {
	out := make(map[string]*node)
	for i, is := range reach(nodes, to, func(n *node) []int { return n.from }) {
		if is && i != to {
			out[nodes[i].id] = nodes[i]
		}
	}
	return out
}

// reach marks the nodes that are reached from one.
func reach(nodes []*node, from int, next func(*node) []int) []bool {
	seen := make([]bool, len(nodes))
	todo := []int{from}
	seen[from] = true
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, j := range next(nodes[i]) {
			if !seen[j] {
				seen[j] = true
				todo = append(todo, j)
			}
		}
	}
	return seen
}

// sort puts nodes behind all that lead to them; of those that are free to run,
// the first of the list goes first.
func (t *jsonText) sort(nodes []*node) ([]*node, error) {
	waits := make([]int, len(nodes))
	for i, n := range nodes {
		waits[i] = len(n.from)
	}
	var out []*node
	for len(out) < len(nodes) {
		i := slices.Index(waits, 0)
		if i < 0 {
			ids, off := cycle(nodes, waits)
			return nil, t.errorAt(off, "edges", "a cycle: %s", strings.Join(ids, " → "))
		}
		waits[i] = -1
		out = append(out, nodes[i])
		for _, j := range nodes[i].next {
			waits[j]--
		}
	}
	return out, nil
}

// cycle finds one among the nodes that still wait: each has one that waits
// before it.
func cycle(nodes []*node, waits []int) (ids []string, off int) {
	at := slices.IndexFunc(waits, func(w int) bool { return w > 0 })
	seen := make(map[int]int)
	var walk []int
	for {
		if first, ok := seen[at]; ok {
			walk = append(walk[first:], at)
			break
		}
		seen[at] = len(walk)
		walk = append(walk, at)
		at = nodes[at].from[slices.IndexFunc(nodes[at].from, func(j int) bool { return waits[j] > 0 })]
	}
	slices.Reverse(walk) // it was found against the arrows
	for _, i := range walk {
		ids = append(ids, nodes[i].id)
	}
	return ids, nodes[walk[0]].off
}
