// Package workflow runs retrieval workflows: search knowledge bases, retrieve
// evidence from published spaces, rerank what was found, search texts that no base
// holds, let a language model answer from it; as nodes of a workflow's JSON, or
// each as a plain Go call. Package dsl reads other definitions.
//
// The promise: a workflow's JSON is checked as a whole before anything runs,
// and each error names the key and its place; each node either does what its
// config says or fails with an error that names it; nothing is degraded without
// a flag, and nothing goes to an address that the program did not give.
//
//	JSON ─ Parse ─ Workflow ─ Run(ctx, Environment, input) ─ Result {outputs, trace, error}
//	                 │
//	                 │     start ─ search ─ rerank ─ agent ─ end       one node at a time
//	                 │               │        │        │
//	                 └─ Vars:        ▼        ▼        ▼
//	                    user_message search_results  reranked_results  agent_response
//
// # Nodes
//
//	start-node             variables: names that the input must have
//	search-knowledge-node  knowledge_base_ids, query, top_k 5, score_threshold 0, search_mode
//	                       "vector" ("keyword", "hybrid"), output_variable "search_results";
//	                       retrieval_depth max(50, 4·top_k), on_error "fail" ("partial")
//	reranker-node          input_variable, top_k 5, model "cross-encoder", output_variable
//	                       "reranked_results"; query, on_error "fail" ("keep")
//	ai-search-node         query, input, rerank false, resultCount 10, searchType "semantic",
//	                       chunkOptions; output_variable "result", offset_unit "utf16" ("rune",
//	                       "byte"), with_score false
//	ai-agent-node          model, system_prompt, prompt "{{user_message}}", agent_mode "standard",
//	                       temperature, max_tokens; context_variable, max_context_chars 24000,
//	                       output_variable "agent_response", sources_variable "agent_sources"
//	knowledge-retrieval-v2 control_space_ids 1–10, query or query_variable_selector; mode "fast",
//	                       "deep", "research" (default: each space's), top_n 10, metadata_filters;
//	                       output_variable, default the node's id: {"result": […], "metrics": {…}}
//	knowledge-retrieval    any config: kept, and an error when it is reached (ErrUnsupported)
//	end-node               outputs: names of variables, or {"name": "path.to.value"} or {"name":
//	                       [node, variable, …]}; all that nodes wrote without it
//
// As Go calls: Search, Retrieve, Rerank, (*AISearch).Run, Agent. Unknown keys, keys that
// come twice, null, wrong types and values out of range are errors that name
// the key (ConfigError). The inputs of an ai-search-node are the exception:
// their types are checked when it runs, and what is wrong is its {error}.
//
// # Templates
//
// {{name}} and {{path.to.value}} lead into the context, objects by key, arrays
// by index from 0. In an ai-search-node an input that is one expression and
// nothing else stands for the value itself. An unknown variable, a value that
// is no text (a number is none), and a result that shows nothing are errors
// that name the expression and its place. Text that was put in is never looked
// at again, so what a user writes stays text. `\{{` stands for {{; a backslash
// anywhere else for itself.
//
// # Invariants
//
//   - A query that is blank, or that does not resolve, reaches no store, model
//     or service.
//   - A threshold acts on the score shown. Rerank keeps the old score beside the
//     new one.
//   - The context that an agent sees numbers its sources; the marker [n] there
//     and in the answer is the n-th of the sources variable. It goes into the
//     user's message: retrieved text gives no instructions as the system.
//   - A knowledge-retrieval-v2 node searches for text of a variable only. It
//     gives the evidence of all its spaces or fails; Environment.Run says who
//     asks, and a workflow's JSON cannot.
//   - Every node that started gets one Done event, also when it failed. A failed
//     node writes no variable and ends the run; those behind it are skipped. An
//     ai-search-node does not fail: its output is then {"error": …}.
//   - A workflow's JSON names models, never endpoints or API keys: a workflow
//     from a stranger can spend tokens, but neither read the environment nor
//     send anything elsewhere.
//
// # Choices
//
// The agent is shown the results that were written last, unless
// context_variable names others; evidence counts as results. Nodes run one after the other, in the order of
// their edges and, where that leaves a choice, of the list: a run is the same
// each time. A reranker scores all items of its input and the cut is made
// here, so that ties fall by the old order. Reranking with on_error "keep"
// leaves a part of the deadline for the nodes behind (rerank.Apply).
//
// # Limits
//
// MaxWorkflowBytes, MaxNodes, MaxEdges, MaxTemplateBytes, MaxTextBytes,
// MaxOutputBytes, MaxBases; 32 levels of JSON, 32 segments of a path.
//
// # Concurrency and cost
//
// A Workflow is immutable and may be run any number of times at once; runs of
// one ai-search-node wait for each other. Vars belong to one goroutine. Parsing
// and rendering are linear in their text; a run costs what its nodes cost and
// one encoding of their outputs, to hold MaxOutputBytes.
package workflow
