package dsl

import (
	"fmt"

	"github.com/quarrysearch/quarry/knowledge/catalog"
)

// A Report tells what a definition is to a workspace.
type Report struct {
	Name   string   // "" for none
	Spaces []string // that its nodes name, each once; never nil
	// Warnings are about spaces that the workspace does not have; never nil.
	Warnings []Warning
	// Refused is why this engine does not run the definition, nil when it does:
	// it is kept in any case, for another engine may run it.
	Refused error
}

// Inspect reads a definition of either kind, as Load does, and compares its
// spaces with those of a workspace.
// Errors: those of Load, for data that is no definition.
func Inspect(cat *catalog.Catalog, workspace string, data []byte) (*Report, error) {
	has := func(id string) bool {
		sp, err := cat.Space(id)
		return err == nil && sp.Workspace == workspace
	}
	d, notDSL := Parse(data)
	w, err := Load(data)
	if err != nil && notDSL != nil {
		return nil, err
	}
	r := &Report{Spaces: []string{}, Warnings: []Warning{}, Refused: err}
	if notDSL == nil {
		r.Name, r.Spaces, r.Warnings = d.Name(), append(r.Spaces, d.Spaces()...), append(r.Warnings, d.Missing(has)...)
		return r, nil
	}
	r.Name, r.Spaces = w.Name(), append(r.Spaces, w.Spaces()...)
	for _, id := range r.Spaces {
		if !has(id) {
			r.Warnings = append(r.Warnings, Warning{Space: id, Message: fmt.Sprintf("space %q is not in the workspace %s", id, workspace)})
		}
	}
	return r, nil
}
