// Package shape reads JSON and parameters strictly into Go values, and describes
// in JSON Schema exactly what it reads: both come from the same Go type, so that
// they cannot tell different things.
//
//	Go type ─ Of ─► Shape ─┬─ Decode(JSON, &value)       what the type does not say is an error
//	                       └─ Schema(components)         what the type says, for OpenAPI 3.1
//	Go type ─ ParamsOf ─► Params ─ Decode(path, query, &value)
//
// # What a type says
//
// Fields by their json tags; embedded structs are flattened; fields without a
// tag, and "-", do not exist. A tag shape:"…" adds, separated by commas:
//
//	required           the key must be there
//	min=N, max=N       range of a number, both ends included
//	minlen=N, maxlen=N bytes of a string
//	maxitems=N         of a list, or keys of a map
//	enum=a|b|c         the only strings there are; an empty choice is written as ||
//	default=X          for the description only: a zero value stands for it
//
// and doc:"…" describes it. Pointers tell an absent key from a zero value. Lists,
// maps with string keys, structs, strings, bools, integers and floats have their
// JSON forms; time.Time is RFC 3339; any is any JSON (numbers as json.Number,
// with all their digits), and so is Raw, kept as text.
//
// # What is refused
//
// Unknown keys, keys that come twice, null (where not any), a number for a
// string and the reverse, fractions for integers, numbers out of range or beyond
// float64, bytes that are not UTF-8, half a surrogate pair, nesting deeper than
// MaxDepth, and anything after the value. The error names the field, as
// "facets[2].limit", and matches storage.ErrInvalid.
//
// # Cost
//
// A type is looked at once. Decoding is linear in the text, and keeps no more of
// it than the value does: strings without escapes share the text's memory.
// Shapes are immutable and free for all goroutines.
package shape
