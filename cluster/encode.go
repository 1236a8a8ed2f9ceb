package cluster

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/index/segment"
	"github.com/quarrysearch/quarry/storage"
)

// namespace of the UUIDs, a random one.
const namespace = "\x6f\x1c\x0d\x1e\x52\x7a\x4c\x0b\x9a\x37\x0e\x3d\xb4\x88\x21\xc5"

// uuid is the name-based UUID (version 5 of RFC 9562) of a document id.
func uuid(id string) string {
	h := sha1.New()
	h.Write([]byte(namespace))
	h.Write([]byte(id))
	var sum [sha1.Size]byte
	h.Sum(sum[:0])
	sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80
	var b [36]byte
	for i, part := range [...][2]int{{0, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 16}} {
		hex.Encode(b[part[0]*2+i:], sum[part[0]:part[1]])
		if i < 4 {
			b[part[1]*2+i] = '-'
		}
	}
	return string(b[:])
}

// idKey is an id as the cluster holds it: hexadecimal, since the cluster sorts
// without regard to case.
func idKey(id string) string { return hex.EncodeToString([]byte(id)) }

// unID is the inverse of idKey.
func unID(s string) (string, error) {
	id, err := hex.DecodeString(s)
	if err != nil || len(id) == 0 {
		return "", fmt.Errorf("%w: the cluster holds %.40q where an id of this program was looked for", storage.ErrCorrupt, s)
	}
	return string(id), nil
}

// key is a value as the cluster indexes it. It strips white space off both ends
// of a value, so that the value stands between two other characters; the NUL
// keeps the byte order: a string comes before what it begins.
func key(s string) string { return "=" + s + "\x00" }

// unkey is the inverse of key.
func unkey(s string) (string, error) {
	if len(s) < 2 || s[0] != '=' || s[len(s)-1] != 0 {
		return "", fmt.Errorf("%w: the cluster holds %.40q where a key of this program was looked for", storage.ErrCorrupt, s)
	}
	return s[1 : len(s)-1], nil
}

// States of a document, each with the name of a field.
const (
	stateAlive  = "*"  // of every document
	stateText   = "t:" // the text field is there
	stateVector = "x:" // the vector is there
	stateList   = "l:" // metadata: more than one different value
	stateValue  = "v:" // metadata: a value or more
	stateEmpty  = "e:" // metadata: an empty list
	stateNull   = "n:" // metadata: null
)

// An encoder writes documents as the cluster takes them.
type encoder struct {
	class   string
	l       *layout
	scratch *analysis.Scratch
	vec     []float32
	terms   []byte
	states  []string
	keys    []string
}

// object appends a document to b.
func (e *encoder) object(b []byte, d *segment.Doc) ([]byte, error) {
	b = append(b, `{"class":"`...)
	b = append(b, e.class...)
	b = append(b, `","id":"`...)
	b = append(b, uuid(d.ID)...)
	b = append(b, `","properties":{"docid":`...)
	b = appendString(b, idKey(d.ID))
	e.states = append(e.states[:0], stateAlive)
	for _, t := range d.Texts {
		f := e.l.text[t.Field]
		e.states = append(e.states, stateText+t.Field)
		b = appendName(b, f.prop)
		b = appendString(b, e.words(f.analyzer, t.Text))
	}
	for _, m := range d.Metas {
		e.keys = e.keys[:0]
		for k := range m.Value.Keys() {
			e.keys = append(e.keys, key(k))
		}
		slices.Sort(e.keys)
		e.keys = slices.Compact(e.keys)
		switch {
		case m.Value.IsNull():
			e.states = append(e.states, stateNull+m.Field)
		case len(e.keys) == 0:
			e.states = append(e.states, stateEmpty+m.Field)
		default:
			e.states = append(e.states, stateValue+m.Field)
			if len(e.keys) > 1 {
				e.states = append(e.states, stateList+m.Field)
			}
			b = appendName(b, prefixMeta+escape(m.Field))
			b = appendStrings(b, e.keys)
		}
	}
	for _, v := range d.Vectors {
		e.states = append(e.states, stateVector+v.Field)
	}
	for i, s := range e.states {
		e.states[i] = key(s)
	}
	b = appendName(b, propStates)
	b = appendStrings(b, e.states)
	stored, err := appendStored(e.terms[:0], d)
	if err != nil {
		return b, err
	}
	e.terms = stored
	b = appendName(b, propStored)
	b = append(appendString(b, stored), '}')
	if len(d.Vectors) > 0 {
		b = e.vectors(append(b, `,"vectors":{`...), d.Vectors)
	}
	return append(b, '}'), nil
}

// vectors appends the vectors, those under cosine in unit length, as an Index
// keeps them.
func (e *encoder) vectors(b []byte, vs []segment.Vector) []byte {
	for i, v := range vs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, prefixVector+escape(v.Field)...)
		b = append(b, `":`...)
		metric := quant.Cosine
		for _, f := range e.l.schema.Vectors {
			if f.Name == v.Field {
				metric = f.Metric
			}
		}
		e.vec = append(e.vec[:0], v.Vec...)
		metric.Prepare(e.vec, v.Vec)
		b = appendVector(b, e.vec)
	}
	return append(b, '}')
}

// words are the terms of a text, with a space between them; valid until the next
// call.
func (e *encoder) words(a *analysis.Analyzer, text string) []byte {
	e.terms = e.terms[:0]
	a.Tokens(e.scratch, text, func(t *analysis.Token) {
		if len(e.terms) > 0 {
			e.terms = append(e.terms, ' ')
		}
		e.terms = appendTerm(e.terms, t.Term)
	})
	return e.terms
}

// appendTerm appends a term such that no white space is in it.
func appendTerm(b, term []byte) []byte {
	if !strings.ContainsFunc(string(term), unicode.IsSpace) {
		return append(b, term...)
	}
	for _, r := range string(term) {
		if unicode.IsSpace(r) {
			r = '\x01'
		}
		b = utf8.AppendRune(b, r)
	}
	return b
}

// stored is the form of a document in its property: what an Index gives back.
type stored struct {
	Text map[string]string `json:"t"`
	Meta map[string]any    `json:"m"`
}

func appendStored(b []byte, d *segment.Doc) ([]byte, error) {
	b = append(b, `{"t":{`...)
	n := 0
	for _, t := range d.Texts {
		if !t.NotStored {
			b = appendString(appendComma(b, n), t.Field)
			b = appendString(append(b, ':'), t.Text)
			n++
		}
	}
	b = append(b, `},"m":{`...)
	for i, m := range d.Metas {
		b = appendString(appendComma(b, i), m.Field)
		v, err := m.Value.MarshalJSON()
		if err != nil {
			return b, fmt.Errorf("document %q: metadata field %q: %w", d.ID, m.Field, err)
		}
		b = append(append(b, ':'), v...)
	}
	return append(b, "}}"...), nil
}

// errStale tells that a document holds what the layout does not know.
var errStale = errors.New("cluster: the schema is out of date")

// decodeStored is the inverse of appendStored.
func decodeStored(l *layout, data string) (text map[string]string, meta map[string]any, err error) {
	var s stored
	d := json.NewDecoder(strings.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&s); err != nil {
		return nil, nil, fmt.Errorf("%w: stored document: %w", storage.ErrCorrupt, err)
	}
	for name, v := range s.Meta {
		t, ok := l.schema.Meta[name]
		if list, is := v.([]any); !ok || t == filter.Undeclared && v != nil && !(is && len(list) == 0) {
			return nil, nil, errStale // another program has brought it
		}
		value, err := filter.Normalize(v, t)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: stored document: metadata field %q: %w", storage.ErrCorrupt, name, err)
		}
		s.Meta[name] = value.Any()
	}
	return s.Text, s.Meta, nil
}

// document makes a document of what the cluster holds.
func (l *layout) document(docid, data string, vectors map[string][]float32) (index.Document, error) {
	id, err := unID(docid)
	if err != nil {
		return index.Document{}, err
	}
	d := index.Document{ID: id}
	if d.Text, d.Meta, err = decodeStored(l, data); err != nil {
		return d, fmt.Errorf("document %q: %w", id, err)
	}
	if len(d.Text) == 0 {
		d.Text = nil
	}
	if len(d.Meta) == 0 {
		d.Meta = nil
	}
	for _, f := range l.schema.Vectors {
		v := vectors[prefixVector+escape(f.Name)]
		switch {
		case len(v) == 0:
			continue
		case len(v) != f.Dim:
			return d, fmt.Errorf("%w: document %q: vector field %q has %d components, want %d", storage.ErrCorrupt, id, f.Name, len(v), f.Dim)
		case d.Vectors == nil:
			d.Vectors = make(map[string][]float32, len(vectors))
		}
		d.Vectors[f.Name] = v
	}
	return d, nil
}

func appendComma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

// appendName appends a comma and the name of a member; it needs no escaping.
func appendName(b []byte, name string) []byte {
	return append(append(append(b, `,"`...), name...), `":`...)
}

func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		b = appendString(appendComma(b, i), s)
	}
	return append(b, ']')
}

// appendString appends a JSON string, which is a string of GraphQL, too.
func appendString[S string | []byte](b []byte, s S) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= ' ' && c != '"' && c != '\\' && c != 0x7f {
			continue
		}
		b = append(append(b, s[from:i]...), '\\')
		from = i
		if s[i] != '"' && s[i] != '\\' {
			b = append(b, 'u', '0', '0', digits[s[i]>>4], digits[s[i]&15])
			from++
		}
	}
	return append(append(b, s[from:]...), '"')
}

// appendVector appends the shortest numbers that are read back as the same
// float32 values.
func appendVector(b []byte, v []float32) []byte {
	b = append(b, '[')
	for i, x := range v {
		b = strconv.AppendFloat(appendComma(b, i), float64(x), 'g', -1, 32)
	}
	return append(b, ']')
}
