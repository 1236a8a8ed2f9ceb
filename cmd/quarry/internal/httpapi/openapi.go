package httpapi

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi/shape"
)

const openAPIVersion = "3.1.0"

// openAPI makes the description of the API from the table.
func (a *API) openAPI() ([]byte, error) {
	var strict []*shape.Shape
	for _, r := range a.routes {
		if r.body != nil {
			strict = append(strict, r.body)
		}
	}
	each, err := shape.Of(reflect.TypeFor[document]()) // of bulk's lines
	if err != nil {
		return nil, err
	}
	problem, err := shape.Of(reflect.TypeFor[Problem]())
	if err != nil {
		return nil, err
	}
	c := shape.NewComponents(append(strict, each)...)
	problemRef := problem.Schema(c)
	c.Schemas["Problem"].(map[string]any)["properties"].(map[string]any)["code"] = map[string]any{"type": "string", "enum": Codes(), "description": "the class of the failure, stable"}
	paths := map[string]map[string]any{}
	for _, r := range a.routes {
		if paths[r.path] == nil {
			paths[r.path] = map[string]any{}
		}
		paths[r.path][strings.ToLower(r.method)] = r.operation(c, problemRef, each)
	}
	return json.MarshalIndent(map[string]any{
		"openapi":           openAPIVersion,
		"jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
		"info": map[string]any{"title": "quarry", "version": a.version(), "license": map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "Hybrid search over collections, and cited evidence from knowledge bases. Every answer ends with took, what each stage took in milliseconds; failures are problem+json with a stable code."},
		"servers":  []any{map[string]any{"url": "/"}},
		"paths":    paths,
		"security": []any{map[string]any{"key": []string{}}, map[string]any{"header": []string{}}},
		"components": map[string]any{"schemas": c.Schemas, "securitySchemes": map[string]any{
			"key":    map[string]any{"type": "http", "scheme": "bearer", "description": "a key of quarry keys; not needed on a server without keys"},
			"header": map[string]any{"type": "apiKey", "in": "header", "name": "X-API-Key"},
		}},
		"tags": tags(),
	}, "", " ")
}

func (a *API) version() string {
	if a.o.Version == "" {
		return "devel"
	}
	return a.o.Version
}

func tags() []any {
	var out []any
	for _, t := range [][2]string{{"server", "the server itself"}, {"collections", "indexes of documents"}, {"documents", "put, get, delete"}, {"search", "words, vectors, filters"},
		{"snapshots", "collections as they were"}, {"knowledge", "bases of files, searched for cited passages"}, {"spaces", "published bases, asked for evidence"}, {"catalogue", "workspaces, accounts, spaces and workflows"}, {"nodes", "nodes of workflows, and workflows"}} {
		out = append(out, map[string]any{"name": t[0], "description": t[1]})
	}
	return out
}

// operation describes one row.
func (r *route) operation(c *shape.Components, problem map[string]any, each *shape.Shape) map[string]any {
	ok := map[string]any{"description": "done"}
	failed := map[string]any{"application/problem+json": map[string]any{"schema": problem}}
	switch {
	case r.foreign != nil:
		ok["content"] = map[string]any{"application/json": map[string]any{"schema": r.foreign.out.Schema(c)}}
		failed = map[string]any{"application/json": map[string]any{"schema": r.foreign.failure.Schema(c)}}
	case r.gives != "":
		ok["content"] = map[string]any{r.gives: map[string]any{}}
	case r.answer != nil:
		schema := r.answer.Schema(c)
		c.Add(schema, "took", map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "number"}, "description": "milliseconds of each stage, and total_ms"})
		ok["content"] = map[string]any{"application/json": map[string]any{"schema": schema}}
	}
	out := map[string]any{
		"operationId": r.id, "tags": []string{r.tag}, "summary": r.summary, "x-access": r.access.String(),
		"responses": map[string]any{
			itoa(r.status): ok,
			"default":      map[string]any{"description": "failed", "content": failed},
		},
	}
	if r.access == Public {
		out["security"] = []any{}
	}
	params := []any{}
	for _, q := range r.params.List() {
		in := "query"
		if q.InPath {
			in = "path"
		}
		params = append(params, map[string]any{"name": q.Name, "in": in, "required": q.Required(), "description": q.Doc, "schema": q.Schema(c)})
	}
	if len(params) > 0 {
		out["parameters"] = params
	}
	if body := r.requestBody(c, each); body != nil {
		out["requestBody"] = body
	}
	return out
}

func (r *route) requestBody(c *shape.Components, each *shape.Shape) map[string]any {
	switch {
	case r.foreign != nil:
		return map[string]any{"required": true, "content": map[string]any{"application/json": map[string]any{"schema": r.foreign.in.Schema(c)}}}
	case r.body != nil:
		return map[string]any{"required": true, "content": map[string]any{"application/json": map[string]any{"schema": r.body.Schema(c)}}}
	case r.takes == mediaNDJSON:
		return map[string]any{"required": true, "description": "one document a line, plain or gzip", "content": map[string]any{mediaNDJSON: map[string]any{"schema": each.Schema(c)}}}
	case r.takes == "multipart/form-data":
		return map[string]any{"required": true, "content": map[string]any{r.takes: map[string]any{"schema": map[string]any{"type": "object", "properties": map[string]any{
			"file": map[string]any{"type": "array", "items": map[string]any{"type": "string", "contentMediaType": "application/octet-stream"}}}}}}}
	case r.takes != "":
		return map[string]any{"required": true, "content": map[string]any{r.takes: map[string]any{}}}
	}
	return nil
}
