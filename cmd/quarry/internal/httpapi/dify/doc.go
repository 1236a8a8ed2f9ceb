// Package dify answers Dify's External Knowledge API on a data directory, by
// package knowledge/workflow/external: its endpoint is this server's /v1.
//
//	POST /v1/retrieval ─ external.Handler ─ Retriever ─┬─ a knowledge base, by words and by meaning
//	                                                   └─ a published space, as the account of the key
//
// A knowledge_id is the id of a knowledge base, ID@N for a generation of one, or,
// for a key that is bound to an account, the id of a space that the account may
// use; a base goes before a space of the same id. Failures have Dify's form,
// {"error_code", "error_msg"}, those of the server before the handler, too.
//
// A Handler serves any number of goroutines. It costs what its search costs.
package dify
