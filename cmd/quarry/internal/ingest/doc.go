// Package ingest turns lines of JSON into documents and applies them in batches.
//
// Promise: every line is applied, or reported with its number; a run that is cut
// off at any point and resumed leaves the index as one that was not.
//
//	Source ──lines──► Mapping ──documents──► Run ──batches──► apply ──► Checkpoint
//	 .gz, stdin        fields, types          reads ahead       caller     line reached
//
// # Resuming
//
// The checkpoint is a small file that lies beside the index, not in it: it is
// about the input. It names the sources and the last line whose batch was
// acknowledged, and is replaced after each acknowledged batch. A crash between
// the two leaves a checkpoint one batch old; that batch is then applied again,
// which changes nothing, because a document replaces the one of its id. It is
// removed when the last line is in.
//
// Run reads one batch ahead of the one that is being applied. Nothing here is
// safe for concurrent use by the caller.
package ingest
