package service

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"

	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
)

// parseReply reads a provider's reply to n texts, of which the first is text
// first of the call. Each vector is finite; lengths are not compared yet.
func parseReply(s *shape, data []byte, n, first int) ([][]float32, error) {
	items, err := s.decode(s.name, data, n)
	if err != nil {
		// Python's and others' encoders write NaN and Infinity, which is no
		// JSON. As null they are reported with their place.
		plain, found := withoutNaN(data)
		if !found {
			return nil, err
		}
		if items, err = s.decode(s.name, plain, n); err != nil {
			return nil, err
		}
	}
	out := make([][]float32, n)
	for i, raw := range items {
		if out[i], err = parseVector(s.name, raw); err != nil {
			return nil, &TextError{first + i, err}
		}
	}
	return out, nil
}

// parseVector reads an array of numbers, or little-endian float32 in base64. It
// is given valid JSON.
func parseVector(service string, raw json.RawMessage) ([]float32, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) > 0 && raw[0] == '"':
		return parseBase64(service, raw)
	case len(raw) > 0 && raw[0] == '[':
		return parseNumbers(service, raw)
	}
	return nil, call.Replyf(service, "the embedding is neither an array nor base64")
}

func parseBase64(service string, raw []byte) ([]float32, error) {
	var text string
	if err := call.Decode(service, raw, &text); err != nil {
		return nil, err
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, call.Replyf(service, "the embedding is no base64: %v", err)
	}
	if len(b)%4 != 0 {
		return nil, call.Replyf(service, "the embedding has %d bytes, which are no float32s", len(b))
	}
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		if f := float64(v[i]); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, call.Replyf(service, "component %d is %v", i, f)
		}
	}
	return v, nil
}

// parseNumbers is given an array that is valid JSON. encoding/json would turn
// a null component, which is how some encoders write NaN, into 0.
func parseNumbers(service string, raw []byte) ([]float32, error) {
	body := bytes.TrimSpace(raw[1 : len(raw)-1])
	v := make([]float32, 0, bytes.Count(body, []byte{','})+1)
	for i := 0; len(body) > 0; i++ {
		item, rest, more := bytes.Cut(body, []byte{','})
		item = bytes.TrimSpace(item)
		f, err := strconv.ParseFloat(string(item), 32)
		switch {
		case err == nil && !math.IsInf(f, 0) && !math.IsNaN(f):
		case err != nil && string(item) != "null" && !math.IsInf(f, 0):
			return nil, call.Replyf(service, "component %d is not a number", i)
		default:
			return nil, call.Replyf(service, "component %d is not finite", i)
		}
		v = append(v, float32(f))
		if !more {
			break
		}
		body = rest
	}
	return v, nil
}

// withoutNaN replaces the words NaN, Infinity and -Infinity (and nan, inf)
// outside of strings by null. It is used on replies that were no JSON.
func withoutNaN(data []byte) (out []byte, found bool) {
	for i := 0; i < len(data); {
		c := data[i]
		switch {
		case c == '"':
			end := stringEnd(data, i)
			out = append(out, data[i:end]...)
			i = end
		case c == '-' || c == 'N' || c == 'I' || c == 'n' || c == 'i':
			n := wordLen(data[i:])
			if n > 0 {
				out = append(out, "null"...)
				found = true
				i += n
				continue
			}
			fallthrough
		default:
			out = append(out, c)
			i++
		}
	}
	return out, found
}

// stringEnd returns the end of the JSON string that begins at data[i].
func stringEnd(data []byte, i int) int {
	for j := i + 1; j < len(data); j++ {
		switch data[j] {
		case '\\':
			j++
		case '"':
			return j + 1
		}
	}
	return len(data)
}

// wordLen returns the length of the non-finite number that b begins with, or 0.
func wordLen(b []byte) int {
	for _, w := range [...]string{"-Infinity", "Infinity", "-inf", "inf", "-Inf", "Inf", "NaN", "-nan", "nan"} {
		if bytes.HasPrefix(b, []byte(w)) {
			return len(w)
		}
	}
	return 0
}

// normalize scales v to unit length into dst, summing in float64. A vector of
// zeros, which has no direction, stays so.
func normalize(dst, v []float32) {
	sum := 0.0
	for _, x := range v {
		sum += float64(float64(x) * float64(x))
	}
	if sum == 0 {
		clear(dst)
		return
	}
	norm := math.Sqrt(sum)
	for i, x := range v {
		dst[i] = float32(float64(x) / norm)
	}
}
