package httpapi

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/index"
)

// appendJSON writes a search answer as encoding/json does, but for what is rare
// in a third of the time: hits are most of what a server writes.
func (a *searchAnswer) appendJSON(b []byte) ([]byte, error) {
	b, err := appendHits(append(b, `{"hits":`...), a.Hits)
	if err == nil && len(a.Groups) > 0 {
		b, err = appendGroups(append(b, `,"groups":`...), a.Groups)
	}
	if err != nil {
		return b, err
	}
	if a.Total != nil {
		b = strconv.AppendInt(append(b, `,"total":`...), int64(*a.Total), 10)
	}
	if a.Next != "" {
		b = appendString(append(b, `,"next":`...), a.Next)
	}
	for _, rare := range []struct {
		key   string
		there bool
		v     any
	}{{"facets", len(a.Facets) > 0, a.Facets}, {"plan", a.Plan != nil, a.Plan}, {"notes", len(a.Notes) > 0, a.Notes}} {
		if rare.there {
			b = append(append(append(b, `,"`...), rare.key...), `":`...)
			if b, err = appendAny(b, rare.v); err != nil {
				return b, err
			}
		}
	}
	return append(b, '}'), nil
}

// MarshalJSON serves answers inside others.
func (a *searchAnswer) MarshalJSON() ([]byte, error) { return a.appendJSON(nil) }

func appendGroups(b []byte, groups []index.Group) ([]byte, error) {
	b = append(b, '[')
	var err error
	for i := range groups {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendAny(append(b, `{"value":`...), groups[i].Value); err != nil {
			return b, err
		}
		if b, err = appendHits(append(b, `,"hits":`...), groups[i].Hits); err != nil {
			return b, err
		}
		b = append(b, '}')
	}
	return append(b, ']'), nil
}

func appendHits(b []byte, hits []index.Hit) ([]byte, error) {
	b = append(b, '[')
	var err error
	for i := range hits {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendHit(b, &hits[i]); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func appendHit(b []byte, h *index.Hit) ([]byte, error) {
	b = appendString(append(b, `{"id":`...), h.ID)
	b = appendFloat(append(b, `,"score":`...), h.Score)
	b = appendString(append(b, `,"score_kind":`...), string(h.Kind))
	b = appendLeg(b, `,"keyword":`, h.Keyword)
	b = appendLeg(b, `,"vector":`, h.Vector)
	b = appendLeg(b, `,"sparse":`, h.Sparse)
	var err error
	if len(h.Fields) > 0 {
		b = append(b, `,"fields":{`...)
		keys := make([]string, 0, 16) // on the stack
		for key := range h.Fields {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for i, key := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, key), ':')
			if b, err = appendAny(b, h.Fields[key]); err != nil {
				return b, err
			}
		}
		b = append(b, '}')
	}
	if len(h.Highlights) > 0 {
		if b, err = appendAny(append(b, `,"highlights":`...), h.Highlights); err != nil {
			return b, err
		}
	}
	if h.Explanation != nil {
		if b, err = appendAny(append(b, `,"explanation":`...), h.Explanation); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

func appendLeg(b []byte, key string, l *index.Leg) []byte {
	if l == nil {
		return b
	}
	b = strconv.AppendInt(append(append(b, key...), `{"rank":`...), int64(l.Rank), 10)
	b = appendFloat(append(b, `,"raw":`...), l.Raw)
	return append(appendFloat(append(b, `,"score":`...), l.Score), '}')
}

// appendAny writes what a document holds; what is not plain is encoding/json's.
func appendAny(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case string:
		return appendString(b, v), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case float64:
		return appendFloat(b, v), nil
	case time.Time:
		return append(v.AppendFormat(append(b, '"'), time.RFC3339Nano), '"'), nil
	case []string:
		b = append(b, '[')
		for i, s := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, s)
		}
		return append(b, ']'), nil
	}
	text, err := json.Marshal(v)
	return append(b, text...), err
}

// appendFloat writes a number, as encoding/json does. What is not finite is not
// found in an index.
func appendFloat(b []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, f, format, -1, 64)
}

const hexDigits = "0123456789abcdef"

// appendString writes a string. Bytes that are not UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += n
			continue
		case c >= ' ' && c != '"' && c != '\\':
			i++
			continue
		}
		b = append(append(b, s[start:i]...), '\\')
		switch c {
		case '"', '\\':
			b = append(b, c)
		case '\n':
			b = append(b, 'n')
		case '\r':
			b = append(b, 'r')
		case '\t':
			b = append(b, 't')
		default:
			b = append(b, 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}
