package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
)

// A spec describes a tool.
type spec struct {
	name, title, description string
	annotations              sdk.ToolAnnotations
	// refine narrows what the types of Go do not say: ranges, enumerations.
	refine func(in *jsonschema.Schema)
}

// A result is the structured answer to a call; text tells the same for reading.
type result interface{ text() string }

// A handler answers a call. Out is a pointer.
type handler[In any, Out result] func(context.Context, *registry.Registry, *In) (Out, error)

// add adds a tool with the schemas of its types. The SDK's own AddTool would send
// arguments and results through float64, and integers beyond 2^53 with them; here
// the schema checks a copy, and the bytes are decoded as they are.
func add[In any, Out result](s *server, t spec, h handler[In, Out]) error {
	in, err := jsonschema.For[In](nil)
	if err != nil {
		return err
	}
	if t.refine != nil {
		t.refine(in)
	}
	check, err := in.Resolve(nil)
	if err != nil {
		return err
	}
	out, err := jsonschema.ForType(reflect.TypeFor[Out]().Elem(), nil)
	if err != nil {
		return err
	}
	s.AddTool(&sdk.Tool{Name: t.name, Title: t.title, Description: t.description, Annotations: &t.annotations, InputSchema: in, OutputSchema: out},
		func(ctx context.Context, r *sdk.CallToolRequest) (res *sdk.CallToolResult, err error) {
			defer func() {
				if p := recover(); p != nil {
					s.o.Logger.Error("panic in a tool", "tool", t.name, "panic", p, "stack", string(debug.Stack()))
					res, err = failed(errors.New("internal error; the server's log tells more")), nil
				}
			}()
			ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
			defer cancel()
			args := new(In)
			if err := decode(r.Params.Arguments, check, args); err != nil {
				return failed(err), nil
			}
			reg, done, err := s.data.Use()
			if err != nil {
				return failed(err), nil
			}
			defer done()
			v, err := h(ctx, reg, args)
			if err != nil {
				s.o.Logger.Info("tool failed", "tool", t.name, "error", err)
				return failed(err), nil
			}
			data, err := json.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("%s: encoding the result: %w", t.name, err)
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: v.text()}}, StructuredContent: json.RawMessage(data)}, nil
		})
	return nil
}

// failed is the result of a call that did not work: the model sees the reason.
func failed(err error) *sdk.CallToolResult {
	text := strings.ReplaceAll(strings.ReplaceAll(err.Error(), "\n", "; "), ": quarry: ", ": ")
	if errors.Is(err, context.DeadlineExceeded) {
		text = "took too long: ask for less"
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: strings.TrimPrefix(text, "quarry: ")}}}
}

// decode checks arguments against their schema and reads them. A null is taken
// for an argument left out.
func decode(raw json.RawMessage, check *jsonschema.Resolved, into any) error {
	var fields map[string]json.RawMessage
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &fields); err != nil {
			return fmt.Errorf("arguments: want an object: %w", err)
		}
	}
	for name, v := range fields {
		if string(bytes.TrimSpace(v)) == "null" {
			delete(fields, name)
		}
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	if fields == nil {
		data = []byte("{}")
	}
	var loose map[string]any
	if err := json.Unmarshal(data, &loose); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	if err := check.Validate(loose); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	return nil
}

// limits sets the range of an integer or number argument.
func limits(in *jsonschema.Schema, name string, least, most float64) {
	p := in.Properties[name]
	p.Minimum, p.Maximum = &least, &most
}

// choices sets the values of a string argument.
func choices(in *jsonschema.Schema, name string, values ...any) {
	in.Properties[name].Enum = values
}
