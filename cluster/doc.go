// Package cluster is a collection on a cluster of Weaviate nodes: the documents,
// batches and queries of package index, on many machines with replicas, through
// net/http and JSON.
//
//	c, err := cluster.Open(ctx, cluster.Options{URLs: urls, Collection: "docs", Schema: …})
//	err = c.Apply(ctx, batch)
//	res, err := c.Search(ctx, index.Query{…})
//
// # Promise
//
// A filter, a count, a facet, a document and the set of documents that a text
// matches are those of package index, exactly; package collection/conformance
// holds both to it. What a cluster cannot do so is refused, with an error that
// names it. What differs is told under "Ranks".
//
// # How a document is kept
//
//	id        ─► UUID of version 5, and docid: the id in hexadecimal, as filters and sorting want it
//	text      ─► t_FIELD: the terms that our analyzer makes, with spaces between them
//	metadata  ─► m_FIELD: a key for each value, whose byte order is that of values
//	both      ─► stored: the document as JSON, as it is given back
//	             states: which fields are there, null, an empty list, or of several values
//	vectors   ─► v_FIELD: named vectors; of unit length under cosine
//
// So every analyzer of ours works there as here, since the nodes only split at
// spaces; 64-bit integers and times are exact; and missing, null and empty are
// three things (semantics S0.7). Names are escaped. What the schema of the cluster
// has no place for stands in its descriptions, as JSON.
//
// # Writes
//
// A write waits for all replicas, so that every later search sees it; where one
// does not answer it is sent again and content with a majority (QUORUM), and so are
// the writes of the next 15 s: what is acknowledged is on a majority. Objects are
// told of one by one in the answer to a batch; those that were refused are sent
// again. Every request may be sent twice, so each is: after a timeout, a lost
// connection or an answer that means the node, at another node, until the context
// ends; then the error is ErrUnavailable, and the batch may have been carried out
// in part. Only a write to documents that got no answer in its time (Options.Attempt)
// is not sent again, since it may yet be carried out, over what is written next.
// Deletions carry their time, replicas repair each other in the background, and what
// is deleted stays so (deletionStrategy TimeBasedResolution): the clocks of nodes and
// clients must agree to within the time in which an id is put and deleted.
//
// # Reads
//
// Get and Exists ask a majority of the replicas. Search, Count, Stats and
// Documents ask one replica of each shard: a node that has just come back answers
// without what it missed until it is repaired, some seconds. DeleteWhere looks for
// its documents on a majority. There is no snapshot: a Snapshot is the collection
// at each call, and later pages (Results.Next) may miss or repeat hits while
// documents are written, and hits by vector where a node's graph or a wider search
// finds others.
//
// One fault of Weaviate 1.35.2 stays: a node that was down counts, after its repair,
// also what was replaced or deleted meanwhile, so that Count, Total, facets and Σ idf
// from that node are too high (up to 216 for 93 in a test that writes the same
// documents all the time). Hits, Get and Documents are right.
//
// # Ranks
//
//   - Vectors are searched by Weaviate's graph, exactly where a filter leaves
//     fewer than 40,000. Query.Ef and TargetRecall are not used, with a note.
//   - Keywords have the BM25 of Weaviate: idf and mean length are those of each
//     shard, the length of a text is the number of its different terms, several
//     fields are taken as one (BM25F). Of 800 made-up texts overlap@10 with an
//     Index is 0.89 on one shard and about 0.8 on three; it grows with the texts of
//     a shard. Which documents match does not differ.
//   - Raw is that value, and the leg score x(1+k1)/(1+k1·x) with x = Raw/Σ idf,
//     the idf of the whole collection, at most 5 s old; x above 0.9 is drawn in
//     below 1. Legs are fused here, by package fusion, as an Index does.
//   - Of equal scores the lower id comes first, as far as 256 of them meet the end of
//     what a page, or a leg of a hybrid query, needs: a node chooses among more.
//
// Explain says so with each hit.
//
// # What is refused
//
//   - In text: phrases, prefixes, patterns and words with errors; best and
//     constant clauses and boosts of words; several fields joined by the best of
//     them; boosts of fields that are no whole numbers to each other; some but not
//     all of more than 8 words; more than 1,024 words; fields with different k1 and b.
//   - Of vectors: exact search, and a way to go (VectorQuery.Plan); sparse vectors.
//     VectorField.Bits is kept and not used: the nodes hold floats.
//   - Groups; more than 10,000 hits to rank; facets of more than 50,000 values; a
//     range with two ends that 10,000 documents with lists of values meet;
//     where a document was lost (Query.ExplainID), with a word in the plan.
//   - What is no call of a collection.Collection: the words of a field and
//     suggestions, snapshots of the server, merging, check, inspect and backup of
//     files (SCALE.md has the nodes' own backup), generations of a knowledge base
//     (Freeze), and so the spaces that are published of them.
//
// # Nodes
//
// Options.URLs are asked in turn. One that fails is passed by for a while, from
// 250 ms to 10 s, unless all fail. The nodes must run with
// USE_INVERTED_SEARCHABLE=false before the collection is made (the keyword search
// of Weaviate 1.35.2 loses documents otherwise), QUERY_MAXIMUM_RESULTS of 10,000 or
// more, and AUTOSCHEMA_ENABLED=false; SCALE.md has all settings.
//
// # Concurrency and cost
//
// All methods may be called from any goroutine. A search is one request a leg, and
// one for idf where it is not known, at the same time; one more where equal scores
// meet the end of a leg; counts and facets are one more; a range with two ends asks
// for documents with lists of values first. Range filters walk the different values
// of their field, facets the documents they count. Documents lists all ids before the
// first document.
package cluster
