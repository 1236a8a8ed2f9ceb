package external

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/storage"
)

// A Filter is conditions made ready. An item meets them when the index finds it
// under Index and Keeps is true of it.
type Filter struct {
	Index filter.Filter
	all   bool   // of rest must hold, else any
	rest  []leaf // what the index cannot answer
}

// A leaf is one condition on one or more fields.
type leaf struct {
	fields []string
	typ    filter.Type
	make   func(field string) filter.Filter // nil where the index has none
	text   func(value string) bool          // then: of one text
	not    bool
}

// Exact tells whether the index answers all.
func (f *Filter) Exact() bool { return len(f.rest) == 0 }

// Compile checks conditions and makes them ready; nil conditions let all pass.
// Errors match storage.ErrInvalid and name the condition.
func (c *Conditions) Compile() (*Filter, error) {
	f := &Filter{all: true}
	if c == nil {
		return f, nil
	}
	switch c.LogicalOperator {
	case "", "and":
	case "or":
		f.all = false
	default:
		return nil, storage.Invalidf("metadata_condition.logical_operator is %.40q, want and or or", c.LogicalOperator)
	}
	if len(c.Conditions) == 0 || len(c.Conditions) > MaxConditions {
		return nil, storage.Invalidf("metadata_condition.conditions: %d, want 1 to %d", len(c.Conditions), MaxConditions)
	}
	var exact []filter.Filter
	var leaves []leaf
	for i := range c.Conditions {
		l, err := c.Conditions[i].compile()
		if err != nil {
			return nil, storage.Invalidf("metadata_condition.conditions[%d]: %v", i, err)
		}
		leaves = append(leaves, l)
		if l.make == nil {
			f.rest = append(f.rest, l)
			continue
		}
		exact = append(exact, l.filter())
	}
	switch {
	case f.all && len(exact) > 0:
		f.Index = filter.And(exact...)
	case f.all:
	case f.Exact():
		f.Index = filter.Or(exact...)
	default:
		f.rest = leaves // any of them may be the one that holds
	}
	return f, nil
}

// filter is a leaf as the index has it.
func (l *leaf) filter() filter.Filter {
	any := make([]filter.Filter, len(l.fields))
	for i, field := range l.fields {
		any[i] = l.make(field)
	}
	f := filter.Or(any...)
	if len(any) == 1 {
		f = any[0]
	}
	if l.not {
		return filter.Not(f)
	}
	return f
}

// Keeps looks at what the index could not answer.
func (f *Filter) Keeps(m *knowledge.Metadata) bool {
	for i := range f.rest {
		if f.rest[i].holds(m) != f.all {
			return !f.all
		}
	}
	return f.all || f.Exact()
}

// typeOf is the type in which a condition looks at a field.
func (l *leaf) typeOf(field string) filter.Type {
	if field == knowledge.FieldCreated || field == knowledge.FieldModified {
		return filter.Time
	}
	return l.typ
}

// holds looks at one item.
func (l *leaf) holds(m *knowledge.Metadata) bool {
	if l.make != nil {
		ok, err := filter.Match(l.filter(), func(field string) (filter.Type, bool) { return l.typeOf(field), true }, func(field string) filter.Value {
			v, err := filter.Normalize(value(m, field), l.typeOf(field))
			if err != nil || value(m, field) == nil {
				return filter.Value{} // of another type: the field does not have it
			}
			return v
		})
		return ok && err == nil
	}
	found := false
	for _, field := range l.fields {
		switch v := value(m, field).(type) {
		case string:
			found = found || l.text(v)
		case []string:
			for _, s := range v {
				found = found || l.text(s)
			}
		case []any:
			for _, e := range v {
				s, ok := e.(string)
				found = found || ok && l.text(s)
			}
		}
	}
	return found != l.not
}

// compile reads one condition.
func (c *Condition) compile() (leaf, error) {
	l := leaf{typ: filter.Keyword}
	if len(c.Name) == 0 || len(c.Name) > maxNames {
		return l, fmt.Errorf("name: %d names, want 1 to %d", len(c.Name), maxNames)
	}
	lists := 0
	for _, name := range c.Name {
		if strings.TrimSpace(name) == "" || len(name) > maxName {
			return l, fmt.Errorf("name %.40q: want 1 to %d bytes", name, maxName)
		}
		field := fieldOf(name)
		l.fields = append(l.fields, field)
		if isList(field) {
			lists++
		}
	}
	var err error
	switch op := c.Operator; op {
	case "is", "is not", "in", "not in":
		err = c.equal(&l)
	case "=", "≠", ">", "<", "≥", "≤":
		err = c.number(&l)
	case "before", "after":
		err = c.time(&l)
	case "empty", "not empty":
		l.make = empty
		l.not = op == "not empty"
	case "contains", "not contains", "start with", "end with":
		err = c.text(&l, lists)
	default:
		err = fmt.Errorf("comparison_operator %.40q is none of the 18", op)
	}
	return l, err
}

// equal compares with one value or several.
func (c *Condition) equal(l *leaf) error {
	values, ok := c.Value.([]any)
	if many := strings.HasSuffix(c.Operator, "in"); !many || !ok {
		values = []any{c.Value}
	}
	if len(values) > MaxValues {
		return fmt.Errorf("value: %d values, at most %d", len(values), MaxValues)
	}
	for i, v := range values {
		switch v := v.(type) {
		case string:
			if utf8.RuneCountInString(v) > MaxValue {
				return fmt.Errorf("value %d has more than %d characters", i, MaxValue)
			}
		case float64:
			l.typ = filter.Float64
		default:
			return fmt.Errorf("value %d: want text or a number", i)
		}
	}
	l.not = strings.Contains(c.Operator, "not")
	l.make = func(field string) filter.Filter { return filter.In(field, values...) }
	return nil
}

// number compares numbers.
func (c *Condition) number(l *leaf) error {
	x, ok := c.Value.(float64)
	if s, isText := c.Value.(string); isText {
		var err error
		x, err = strconv.ParseFloat(strings.TrimSpace(s), 64)
		ok = err == nil
	}
	if !ok || x-x != 0 {
		return fmt.Errorf("value: want a number")
	}
	l.typ, l.not = filter.Float64, c.Operator == "≠"
	compare := map[string]func(string, any) filter.Filter{"=": filter.Eq, "≠": filter.Eq, ">": filter.Gt, "<": filter.Lt, "≥": filter.Gte, "≤": filter.Lte}[c.Operator]
	l.make = func(field string) filter.Filter { return compare(field, x) }
	return nil
}

// time compares times.
func (c *Condition) time(l *leaf) error {
	s, ok := c.Value.(string)
	if !ok {
		return fmt.Errorf("value: want a time")
	}
	t, err := filter.Normalize(strings.TrimSpace(s), filter.Time)
	if err != nil {
		return fmt.Errorf("value: %w", err)
	}
	l.typ = filter.Time
	l.make = func(field string) filter.Filter {
		if c.Operator == "before" {
			return filter.Lt(field, t)
		}
		return filter.Gt(field, t)
	}
	return nil
}

// text looks into texts.
func (c *Condition) text(l *leaf, lists int) error {
	s, ok := c.Value.(string)
	if !ok || s == "" || utf8.RuneCountInString(s) > MaxValue {
		return fmt.Errorf("value: want text of 1 to %d characters", MaxValue)
	}
	l.not = c.Operator == "not contains"
	switch {
	case c.Operator == "start with":
		l.make = func(field string) filter.Filter { return filter.Prefix(field, s) }
	case c.Operator == "end with":
		l.text = func(v string) bool { return strings.HasSuffix(v, s) }
	case lists == len(l.fields):
		l.make = func(field string) filter.Filter { return filter.ContainsAny(field, s) }
	case lists > 0:
		return fmt.Errorf("name: lists and other fields in one condition")
	default:
		l.text = func(v string) bool { return strings.Contains(v, s) }
	}
	return nil
}

// empty matches what holds no value. Only fields that hold text can hold an
// empty one.
func empty(field string) filter.Filter {
	none := filter.Or(filter.Not(filter.Exists(field)), filter.IsEmpty(field))
	if isText(field) {
		return filter.Or(none, filter.Eq(field, ""))
	}
	return none
}

// fieldOf leads from a name to the field of a base.
func fieldOf(name string) string {
	switch name {
	case "document_name":
		return knowledge.FieldTitle
	case "upload_date":
		return knowledge.FieldCreated
	case "last_update_date":
		return knowledge.FieldModified
	case knowledge.FieldCreated, knowledge.FieldModified, knowledge.FieldVersion, knowledge.FieldPage, knowledge.FieldChunk:
		return name
	}
	if isList(name) || isText(name) || strings.HasPrefix(name, knowledge.MetaPrefix) {
		return name
	}
	return knowledge.MetaPrefix + name
}

func isList(field string) bool {
	switch field {
	case knowledge.FieldTags, knowledge.FieldAuthors, knowledge.FieldEntities, knowledge.FieldSection:
		return true
	}
	return false
}

func isText(field string) bool {
	switch field {
	case knowledge.FieldDocument, knowledge.FieldSource, knowledge.FieldTitle, knowledge.FieldFormat, knowledge.FieldArtifact,
		knowledge.FieldLanguage, knowledge.FieldFreshness, knowledge.FieldNodeKind, knowledge.FieldSourceID:
		return true
	}
	return false
}

// value is what an item has in a field; nil for none.
func value(m *knowledge.Metadata, field string) any {
	texts := func(list []string) any {
		if list == nil {
			return nil
		}
		return list
	}
	switch field {
	case knowledge.FieldTags:
		return texts(m.Tags)
	case knowledge.FieldAuthors:
		return texts(m.Authors)
	case knowledge.FieldEntities:
		return texts(m.Entities)
	case knowledge.FieldSection:
		return texts(m.SectionPath)
	case knowledge.FieldDocument:
		return m.DocumentID
	case knowledge.FieldSource:
		return m.Source
	case knowledge.FieldTitle:
		return m.Title
	case knowledge.FieldFormat:
		return m.Format
	case knowledge.FieldArtifact:
		return m.ArtifactHash
	case knowledge.FieldLanguage:
		return m.Language
	case knowledge.FieldFreshness:
		return m.Freshness
	case knowledge.FieldNodeKind:
		return m.NodeKind
	case knowledge.FieldSourceID:
		return m.SourceID
	case knowledge.FieldVersion:
		return m.DocumentVersion
	case knowledge.FieldChunk:
		return m.ChunkIndex
	case knowledge.FieldPage:
		if m.Page > 0 {
			return m.Page
		}
	case knowledge.FieldCreated:
		if !m.Created.IsZero() {
			return m.Created
		}
	case knowledge.FieldModified:
		if !m.Modified.IsZero() {
			return m.Modified
		}
	default:
		return m.Meta[strings.TrimPrefix(field, knowledge.MetaPrefix)]
	}
	return nil
}
