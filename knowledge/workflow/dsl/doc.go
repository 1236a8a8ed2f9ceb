// Package dsl imports and exports workflow definitions as the Dify family of
// products writes them: an app with a graph of nodes and edges, in YAML or JSON.
//
// The promise: what is imported is kept as it is. Nodes of types that nobody
// here knows, keys of nodes that are known, the old knowledge-retrieval node
// and its datasets: none is dropped, moved or rewritten. An export in the format
// of the import has its bytes.
//
//	bytes ─ Parse ─ Document ─┬─ Export(format) ─ bytes
//	                          ├─ Missing(has) ─ warnings ─ Unresolved: publishing waits
//	                          ├─ Select(node, spaces) ─ Document, the spaces chosen again
//	                          └─ Workflow ─ workflow.Workflow, to be run
//
// # Definition
//
//	app: {name, mode, …}           kind: app           version: 0.3.1
//	workflow:
//	  graph:
//	    nodes: [{id, type: custom, data: {type, title, …}}, …]
//	    edges: [{source, target, …}, …]
//
// The data of a knowledge-retrieval-v2 node: control_space_ids,
// query_variable_selector, mode, top_n, metadata_filters.
//
// # Round trip
//
//   - Parse and Export in the same format: the same bytes, comments, quotes and
//     line ends included.
//   - Export in the other format: keys and items in their order; comments,
//     anchors and the style of quotes are lost where JSON has none. Aliases are
//     written out. Text, numbers (every digit), booleans and null stay what they
//     are; YAML's times become text. What JSON cannot hold (.nan, !!binary, a tag
//     of one's own) is an error that names the place. There and back again gives
//     the same bytes from the second export on.
//   - Select writes the definition anew: order, comments and quotes stay, white
//     space and the folding of lines become those of the encoder, and are stable
//     from then on.
//   - Each export that is not a copy is read back and compared before it is
//     returned.
//
// # Import
//
// An import never fails for a space that is not there: it gives a warning that
// names node and space, and the caller keeps Unresolved with the workflow, so
// that the catalogue refuses to publish it until the spaces are chosen again.
// Inspect does all of that for bytes: name, spaces, warnings, and whether this
// engine runs them.
//
// # Running
//
// Workflow makes a workflow of a graph whose nodes all have types that this
// engine knows: start, end, knowledge-retrieval-v2, knowledge-retrieval (which
// parses and fails when it is reached), notes (left out), and the node types of
// package workflow with their config as data. Another type, an error branch, a
// retry, or an attachment in a known node is workflow.ErrUnsupported, and names
// the node: a workflow runs as it is written or not at all.
//
// # Bad input
//
// MaxBytes, MaxDepth, MaxValues, MaxNodes, MaxEdges. An alias counts as what it
// stands for, so a few lines that expand to a billion values are too large, and
// so is an alias within itself. Two documents, keys that come twice, merge keys
// (<<) and keys that are no scalars are errors, which all match
// storage.ErrInvalid or storage.ErrTooLarge and name line and column. Nothing is
// ever built of a tag.
//
// # Concurrency and cost
//
// A Document is immutable. Time is linear in the bytes and the values; memory
// some hundred bytes a value.
package dsl
