package space

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/storage"
)

// Filters are the metadata filters of a retrieval: a closed set. Values of one
// filter are alternatives, the filters hold together. A document that does not
// have a field never passes a filter on it. The zero Filters let all pass; a list
// that is not nil but empty is an error, since "none of nothing" would be either
// everything or nothing to somebody.
//
// Values are compared as stored, case included, but for languages: "zh" also
// stands for "zh-Hans" and every other "zh-…".
type Filters struct {
	// CreatedAfter and CreatedBefore bound the creation time that a document
	// states: the first included, the second not. RFC 3339, or a date, which
	// is its midnight in UTC.
	CreatedAfter  string `json:"created_after,omitempty"`
	CreatedBefore string `json:"created_before,omitempty"`
	// DocumentTypes are formats: "markdown", "pdf", …
	DocumentTypes []string `json:"document_types,omitempty"`
	Entities      []string `json:"entities,omitempty"`
	// Freshness is of fresh, stale, expired and unknown.
	Freshness []string `json:"freshness,omitempty"`
	Languages []string `json:"languages,omitempty"` // BCP 47
	// NodeKinds is of chunk, section, table, image and summary.
	NodeKinds []string `json:"node_kinds,omitempty"`
	SourceIDs []string `json:"source_ids,omitempty"`
	Tags      []string `json:"tags,omitempty"`
}

// Limits of Filters.
const (
	MaxFilterValues = 100
	MaxFilterValue  = 512 // code points
	maxFilterBytes  = 4 << 20
)

// filterList is one of the filters that are lists.
type filterList struct {
	key    string
	field  string
	values *[]string
	closed []string // the only values there are; nil: any
}

func (f *Filters) lists() []filterList {
	return []filterList{
		{"document_types", knowledge.FieldFormat, &f.DocumentTypes, nil},
		{"entities", knowledge.FieldEntities, &f.Entities, nil},
		{"freshness", knowledge.FieldFreshness, &f.Freshness, []string{"fresh", "stale", "expired", "unknown"}},
		{"languages", knowledge.FieldLanguage, &f.Languages, nil},
		{"node_kinds", knowledge.FieldNodeKind, &f.NodeKinds, []string{knowledge.NodeChunk, knowledge.NodeSection, knowledge.NodeTable, knowledge.NodeImage, knowledge.NodeSummary}},
		{"source_ids", knowledge.FieldSourceID, &f.SourceIDs, nil},
		{"tags", knowledge.FieldTags, &f.Tags, nil},
	}
}

// ParseFilters reads filters of a JSON object whose keys are those of Filters.
// Unknown and repeated keys, null, wrong types and everything that Check refuses
// are errors that name the key and match storage.ErrInvalid.
func ParseFilters(data []byte) (Filters, error) {
	var f Filters
	if len(data) > maxFilterBytes {
		return f, fmt.Errorf("%w: filters of %d bytes, at most %d", storage.ErrTooLarge, len(data), maxFilterBytes)
	}
	if !utf8.Valid(data) {
		return f, storage.Invalidf("filters: not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return f, storage.Invalidf("filters: want a JSON object")
	}
	seen := make(map[string]bool)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return Filters{}, storage.Invalidf("filters: %v", err)
		}
		key, _ := t.(string)
		if seen[key] {
			return Filters{}, invalidFilter(key, "it comes twice")
		}
		seen[key] = true
		if err := f.read(d, key); err != nil {
			return Filters{}, err
		}
	}
	if _, err := d.Token(); err != nil {
		return Filters{}, storage.Invalidf("filters: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Filters{}, storage.Invalidf("filters: something follows the object")
	}
	return f, f.Check()
}

// read takes the value of a key.
func (f *Filters) read(d *json.Decoder, key string) error {
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return invalidFilter(key, "%v", err)
	}
	switch key {
	case "created_after":
		return readTime(raw, key, &f.CreatedAfter)
	case "created_before":
		return readTime(raw, key, &f.CreatedBefore)
	}
	for _, l := range f.lists() {
		if l.key != key {
			continue
		}
		// Pointers, so that a null inside is seen.
		var values []*string
		if raw[0] != '[' || json.Unmarshal(raw, &values) != nil || slices.Contains(values, nil) {
			return invalidFilter(key, "want a list of text")
		}
		*l.values = make([]string, 0, min(len(values), MaxFilterValues+1))
		for _, v := range values[:min(len(values), MaxFilterValues+1)] {
			*l.values = append(*l.values, *v)
		}
		return nil
	}
	return invalidFilter(key, "there is no such filter")
}

func readTime(raw json.RawMessage, key string, to *string) error {
	if raw[0] != '"' || json.Unmarshal(raw, to) != nil {
		return invalidFilter(key, "want text")
	}
	if *to == "" {
		return invalidFilter(key, "it is empty")
	}
	return nil
}

func invalidFilter(key, format string, args ...any) error {
	if utf8.RuneCountInString(key) > 64 {
		key = string([]rune(key)[:64]) + "…"
	}
	return storage.Invalidf("filters: %q: %s", key, fmt.Sprintf(format, args...))
}

// Check finds what no retrieval accepts: an empty list, more than
// MaxFilterValues values, one that is empty, no UTF-8 or of more than
// MaxFilterValue code points, freshness and node kinds that do not exist, times
// that are none, and a creation time that must be before it is after.
func (f Filters) Check() error {
	_, err := f.compile()
	return err
}

// compile makes the filter over chunks; the zero filter when all pass.
func (f Filters) compile() (filter.Filter, error) {
	var all []filter.Filter
	from, err := parseTime("created_after", f.CreatedAfter)
	if err != nil {
		return filter.Filter{}, err
	}
	to, err := parseTime("created_before", f.CreatedBefore)
	if err != nil {
		return filter.Filter{}, err
	}
	if f.CreatedAfter != "" && f.CreatedBefore != "" && !from.Before(to) {
		return filter.Filter{}, invalidFilter("created_after", "%s is not before created_before %s, which is excluded", f.CreatedAfter, f.CreatedBefore)
	}
	if f.CreatedAfter != "" {
		all = append(all, filter.Gte(knowledge.FieldCreated, from))
	}
	if f.CreatedBefore != "" {
		all = append(all, filter.Lt(knowledge.FieldCreated, to))
	}
	for _, l := range f.lists() {
		if *l.values == nil {
			continue
		}
		if err := l.check(); err != nil {
			return filter.Filter{}, err
		}
		all = append(all, l.compile())
	}
	if len(all) == 0 {
		return filter.Filter{}, nil
	}
	return filter.And(all...), nil
}

// letNeighbor tells whether a chunk passes that stands next to one that does. It
// has the same document, so that kind and entities alone may differ.
func (f *Filters) letNeighbor(m *knowledge.Metadata) bool {
	return (f.NodeKinds == nil || slices.Contains(f.NodeKinds, m.NodeKind)) &&
		(f.Entities == nil || slices.ContainsFunc(f.Entities, func(e string) bool { return slices.Contains(m.Entities, e) }))
}

func (l *filterList) check() error {
	values := *l.values
	switch {
	case len(values) == 0:
		return invalidFilter(l.key, "the list is empty; leave it out to let all pass")
	case len(values) > MaxFilterValues:
		return invalidFilter(l.key, "more than %d values", MaxFilterValues)
	}
	for i, v := range values {
		n := utf8.RuneCountInString(v)
		switch {
		case strings.TrimSpace(v) == "":
			return invalidFilter(l.key, "value %d is blank", i+1)
		case n > MaxFilterValue:
			return invalidFilter(l.key, "value %d has %d characters, at most %d", i+1, n, MaxFilterValue)
		case !utf8.ValidString(v):
			return invalidFilter(l.key, "value %d is not UTF-8", i+1)
		case l.closed != nil && !slices.Contains(l.closed, v):
			return invalidFilter(l.key, "%q is not one of %s", v, strings.Join(l.closed, ", "))
		}
	}
	return nil
}

func (l *filterList) compile() filter.Filter {
	in := filter.In(l.field, *l.values)
	if l.field != knowledge.FieldLanguage {
		return in
	}
	ways := []filter.Filter{in}
	for _, v := range *l.values {
		ways = append(ways, filter.Prefix(l.field, v+"-"))
	}
	return filter.Or(ways...)
}

// parseTime reads RFC 3339, strictly, or a date. "" is the zero time.
func parseTime(key, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	// It takes an hour of one digit, and a comma for the point.
	if err != nil || s[len("2006-01-02T15")] != ':' || strings.Contains(s, ",") {
		if len(s) > 64 {
			s = strings.ToValidUTF8(s[:64], "") + "…"
		}
		return t, invalidFilter(key, "%q is no time: want 2006-01-02T15:04:05Z, with offset Z or +02:00, or a date 2006-01-02", s)
	}
	return t, nil
}
