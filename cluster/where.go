package cluster

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// Operators of a condition of the cluster.
const (
	opAnd   = "And"
	opOr    = "Or"
	opNot   = "Not"
	opEqual = "Equal"
	opAny   = "ContainsAny"
	opGte   = "GreaterThanEqual"
	opLt    = "LessThan"
)

// A where is a condition as the cluster takes it. Operands of opAnd and opOr are
// one or more.
type where struct {
	op     string
	kids   []where
	prop   string
	values []string // one, but for opAny
}

func equal(prop, value string) where { return where{op: opEqual, prop: prop, values: []string{value}} }

// everything matches every document.
func everything() where { return equal(propStates, key(stateAlive)) }

// nothing matches no document: an id is hexadecimal.
func nothing() where { return equal(propID, "-") }

func hasState(state, field string) where { return equal(propStates, key(state+field)) }

// anyOf matches documents with one of the values; there is one or more.
func anyOf(prop string, values []string) where {
	if len(values) == 1 {
		return equal(prop, values[0])
	}
	return where{op: opAny, prop: prop, values: values}
}

func allOf(kids ...where) where {
	switch len(kids) {
	case 0:
		return everything()
	case 1:
		return kids[0]
	}
	return where{op: opAnd, kids: kids}
}

func oneOf(kids ...where) where {
	switch len(kids) {
	case 0:
		return nothing()
	case 1:
		return kids[0]
	}
	return where{op: opOr, kids: kids}
}

// not is the complement among the documents: the cluster's own counts places of
// deleted documents, too.
func not(w where) where { return allOf(everything(), where{op: opNot, kids: []where{w}}) }

// graphQL appends the condition as GraphQL writes it.
func (w *where) graphQL(b []byte) []byte {
	b = append(append(b, "{operator:"...), w.op...)
	if len(w.kids) > 0 {
		b = append(b, ",operands:["...)
		for i := range w.kids {
			b = w.kids[i].graphQL(appendComma(b, i))
		}
		return append(b, "]}"...)
	}
	b = append(append(append(b, `,path:["`...), w.prop...), `"],valueText:`...)
	if w.op == opAny {
		return append(appendStrings(b, w.values), '}')
	}
	return append(appendString(b, w.values[0]), '}')
}

// json appends the condition as JSON.
func (w *where) json(b []byte) []byte {
	b = append(append(append(b, `{"operator":"`...), w.op...), '"')
	if len(w.kids) > 0 {
		b = append(b, `,"operands":[`...)
		for i := range w.kids {
			b = w.kids[i].json(appendComma(b, i))
		}
		return append(b, "]}"...)
	}
	b = append(append(append(b, `,"path":["`...), w.prop...), `"],`...)
	if w.op == opAny {
		return append(appendStrings(append(b, `"valueTextArray":`...), w.values), '}')
	}
	return append(appendString(append(b, `"valueText":`...), w.values[0]), '}')
}

// compile makes the condition of a filter. A field that is not known, or has no
// type yet, is looked up anew: another program may have brought it.
func (c *Collection) compile(ctx context.Context, f filter.Filter) (where, error) {
	l := c.known.Load()
	stale := false
	lookup := func(field string) (filter.Type, bool) {
		t, ok := l.schema.Meta[field]
		stale = stale || !ok || t == filter.Undeclared
		return t, ok
	}
	compiled, err := filter.Compile(f, lookup)
	if stale {
		if l, err = c.refresh(ctx); err != nil {
			return where{}, err
		}
		compiled, err = filter.Compile(f, lookup)
	}
	if err != nil {
		return where{}, err
	}
	cond := compiled.Condition()
	return c.condition(ctx, l, &cond)
}

func (c *Collection) condition(ctx context.Context, l *layout, cond *filter.Condition) (where, error) {
	kids := make([]where, len(cond.Kids))
	for i := range cond.Kids {
		var err error
		if kids[i], err = c.condition(ctx, l, &cond.Kids[i]); err != nil {
			return where{}, err
		}
	}
	switch cond.Op {
	case filter.ConditionAnd:
		return allOf(kids...), nil
	case filter.ConditionOr:
		return oneOf(kids...), nil
	case filter.ConditionNot:
		return not(kids[0]), nil
	case filter.ConditionExists:
		return oneOf(hasState(stateValue, cond.Field), hasState(stateEmpty, cond.Field)), nil
	case filter.ConditionNull:
		return hasState(stateNull, cond.Field), nil
	case filter.ConditionEmpty:
		return hasState(stateEmpty, cond.Field), nil
	}
	return c.spans(ctx, l, cond)
}

// spans matches documents of which a value lies in one of the spans.
func (c *Collection) spans(ctx context.Context, l *layout, cond *filter.Condition) (where, error) {
	prop := prefixMeta + escape(cond.Field)
	if !l.props[prop] {
		return nothing(), nil // no document has a value
	}
	var single []string
	var any []where
	for _, s := range cond.Spans {
		switch {
		case s.One:
			single = append(single, key(s.Lo))
		case s.NoEnd && s.Lo == "":
			any = append(any, hasState(stateValue, cond.Field))
		case s.NoEnd:
			any = append(any, where{op: opGte, prop: prop, values: []string{key(s.Lo)}})
		default:
			hi, ok := valid(s.Hi)
			switch {
			case !ok && s.Lo == "":
				any = append(any, hasState(stateValue, cond.Field))
			case !ok:
				any = append(any, where{op: opGte, prop: prop, values: []string{key(s.Lo)}})
			case s.Lo == "":
				any = append(any, where{op: opLt, prop: prop, values: []string{key(hi)}})
			default:
				w, err := c.between(ctx, cond.Field, prop, key(s.Lo), key(hi))
				if err != nil {
					return where{}, err
				}
				any = append(any, w)
			}
		}
	}
	if len(single) > 0 {
		any = append(any, anyOf(prop, single))
	}
	return oneOf(any...), nil
}

// valid returns the least string of UTF-8 that is not below hi, the end of a
// span; false when there is none, that is, no end.
func valid(hi string) (string, bool) {
	if utf8.ValidString(hi) {
		return hi, true
	}
	// Only a prefix ends so: its last byte was raised by one.
	p := hi[:len(hi)-1] + string([]byte{hi[len(hi)-1] - 1})
	for p != "" {
		r, n := utf8.DecodeLastRuneInString(p)
		p = p[:len(p)-n]
		if r++; r == 0xD800 {
			r = 0xE000
		}
		if r <= utf8.MaxRune {
			return p + string(r), true
		}
	}
	return "", false
}

// maxBetween is how many documents with lists of values a span with two ends may
// have to look at.
const maxBetween = 10_000

// between matches documents of which one value lies from lo to below hi. The
// cluster asks each end by itself, so that two values of a list could meet one
// each: documents with lists that do so are looked at here.
func (c *Collection) between(ctx context.Context, field, prop, lo, hi string) (where, error) {
	both := allOf(where{op: opGte, prop: prop, values: []string{lo}}, where{op: opLt, prop: prop, values: []string{hi}})
	lists := allOf(hasState(stateList, field), both)
	hits, err := c.get(ctx, &selection{where: &lists, limit: maxBetween, props: []string{propID, "list:" + prop}})
	if err != nil {
		return where{}, err
	}
	if len(hits) == 0 {
		return both, nil
	}
	if len(hits) == maxBetween {
		return where{}, fmt.Errorf("%w: field %q: a range with two ends meets %d documents with lists of values, at most %d can be looked at in a cluster",
			storage.ErrTooLarge, field, len(hits), maxBetween)
	}
	var ids []string
	for i := range hits {
		for _, v := range hits[i].List {
			if lo <= v && v < hi {
				ids = append(ids, hits[i].Docid)
				break
			}
		}
	}
	single := allOf(both, not(hasState(stateList, field)))
	if len(ids) == 0 {
		return single, nil
	}
	return oneOf(single, anyOf(propID, ids)), nil
}
