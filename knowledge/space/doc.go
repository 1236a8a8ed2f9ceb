// Package space answers with evidence: it publishes knowledge bases as spaces,
// retrieves from one to ten of them at a time, and cites what it returns so that
// anybody can check it.
//
// The promise: a run gets the best evidence of all its spaces or an error that
// names the first that failed, never the half of an answer; it gets nothing of a
// space that it may not use at that moment; and each piece of evidence names the
// place, the version and the hash of the source it is a copy of.
//
//	s, err := space.New(catalogue, store, nil)
//	report, err := s.Ingest(ctx, "ann", "handbook", knowledge.IngestRequest{Folders: …})
//	publication, err := s.Publish(ctx, "ann", "handbook", draftRevision)
//	result, err := s.Retrieve(ctx, space.Request{Run: run, Query: "…"})
//	err = s.Verify(ctx, result.Evidence[0])
//
// Who may use which space with which profile is asked of package catalog, what is
// in a space of package knowledge, and how mode research goes about it is said by
// package research. The rules are numbered S0 and S3 in the tests.
//
// # Life of a publication
//
//	base ─ Store.Freeze ─► generation n ─ Catalog.PublishSpace ─► runs read n ─► generations
//	                       (hard links)    (one transaction)                      nobody names: dropped
//
// A generation is kept while a publication or the current snapshot of a workflow
// names it, and while a retrieval reads it: from the moment it is granted to the
// end of the run. Runs never wait for a publication, nor it for them.
//
// # Life of a retrieval
//
//	request ─ checked ─► authorized, generations pinned ─► query embedded, once a model
//	   ─► each space in its mode, at most 4 at a time:
//	        fast      top K a leg ─ fused
//	        deep      5 × top K a leg ─ fused ─ 3 × top K reranked, if the profile has it
//	        research  package research, with one plan and one verdict for all spaces
//	      ─► threshold ─► top K
//	   ─► merged: −score, space, place ─► top N ─► authorized again ─► evidence
//
// Mode fast asks the reranker only when the profile has a threshold: one means
// nothing on a fused score (S3.3). A threshold acts on the scores it was made for:
// when the reranker has failed, and may, none is applied and a flag says so.
//
// Scores are not made relative within a space. Where modes, models, rerankers or
// top K of the spaces differ, their scores compare but weakly, and
// Trace.ProfilesDiffer says so.
//
// # Calls of models
//
// Research plans and judges through research.Planner and Judge. However many
// spaces a retrieval has, there is one plan at most, for a complex question, and
// one judgement of the evidence of all of them; Metrics.ModelCalls counts them.
// Fast and deep ask no model but the embedder and the reranker.
//
// # Invariants
//
//   - A result is whole or not there: on any error it is nil.
//   - Nothing of a draft, and nothing ingested after a publication, reaches a run.
//   - A published run never writes to the catalogue; a draft run binds its spaces,
//     once.
//   - content == source[start_offset:end_offset] where offsets are given. Where the
//     text is no copy of the source (PDF, DOCX, some HTML) they are left out, and
//     Verify holds the content against the text that is kept beside the source.
//   - Evidence passes the filters of the request, the neighbors that research takes
//     in included.
//
// # Revocation
//
// The catalogue is asked at the start of a run and, if it was written to
// meanwhile, again just before the run returns. So a run that starts after a
// revocation has returned never gives evidence of that space, and one under way
// gives it only if it was past the second question when the revocation took
// effect. A publication under way changes nothing for a run: it reads the
// generation that it has begun with to its end.
//
// # Limits
//
// A query of 16,000 code points, 10 spaces, top K and top N of 100, filters of 100
// values of 512 code points each; of evidence 8,192 code points and 64 sections of
// 512 code points each, cut with their offsets; 4 MiB for an answer as JSON, else
// storage.ErrTooLarge.
//
// # Concurrency
//
// A Service has no goroutines of its own. Ingest and Rebuild of a base wait for
// each other (package knowledge), and so do its publications. Locks are taken in
// the order publication of the base, pins, catalogue.
//
// # What was measured
//
// The dify-docs in English, Chinese and Japanese, a space each, 9,576 chunks, top
// K 20, encoder multilingual-e5-small, no reranker, planner and judge offline;
// nDCG@10 and recall@10 by page (TestCrossLingual):
//
//	                                               fast         deep         research
//	known items, own language, 379 queries      .851  .957   .853  .958   .853  .958
//	known items, two other languages, 379       .463  .630   .436  .586   .428  .579
//	two known items in one question, 379        .690  .774   .680  .757   .758  .857
//
// So research pays where a question has parts; across languages the keyword leg
// finds little, and a wider recall of it only adds what does not belong there.
//
// # Cost
//
// A retrieval costs one look into the catalogue in memory, one embedding of the
// query a model, two legs and top K document reads a space. Five spaces of 60,000
// chunks together, the embedding left out, on two cores: see BenchmarkRetrieve.
// Publish costs one link a document and one pass over the index.
package space
