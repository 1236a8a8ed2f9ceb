package dsl_test

import (
	"fmt"
	"strings"

	"github.com/quarrysearch/quarry/knowledge/workflow/dsl"
)

const definition = `kind: app # kept, as is all the rest
version: 0.3.1
app: {name: Handbook, mode: workflow}
workflow:
  graph:
    edges:
    - {source: start, target: evidence}
    - {source: evidence, target: end}
    nodes:
    - {id: start, data: {type: start, variables: [{variable: question, required: true}]}}
    - id: evidence
      data:
        type: knowledge-retrieval-v2
        control_space_ids: [hr-of-the-old-workspace]
        query_variable_selector: [start, question]
    - {id: end, data: {type: end, outputs: [{variable: found, value_selector: [evidence, result]}]}}
`

// An import whose space the workspace does not have: a warning, a space chosen
// again, a workflow ready to run.
func Example() {
	d, err := dsl.Parse([]byte(definition))
	if err != nil {
		fmt.Println(err)
		return
	}
	warnings := d.Missing(func(space string) bool { return space == "hr" })
	fmt.Println(warnings)
	fmt.Println(dsl.Unresolved(warnings))
	if d, err = d.Select("evidence", []string{"hr"}); err != nil {
		fmt.Println(err)
		return
	}
	w, err := d.Workflow()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Name(), w.Nodes(), w.Spaces())
	out, err := d.Export(dsl.YAML)
	first, _, _ := strings.Cut(string(out), "\n")
	fmt.Println(first, err)
	// Output:
	// [node "evidence": the space "hr-of-the-old-workspace" is not in this workspace; choose one before publishing]
	// [hr-of-the-old-workspace]
	// Handbook [start evidence end] [hr]
	// kind: app # kept, as is all the rest <nil>
}
