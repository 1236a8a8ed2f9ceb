// Package peers holds what measures other engines on the files that quarry bench
// is run on, in the same JSON lines, so that a claim is a ratio from one run:
//
//	vectors.py   hnswlib, faiss, usearch, vsag, zvec, Qdrant Edge (Python)
//	text.py      Tantivy (Python)
//	bleve        bleve (Go)
//	lucene       Lucene (Java)
//
// README.md tells how to set them up and run them. Nothing here is imported by
// anything; the versions are pinned in requirements.txt, go.mod and
// lucene/pom.xml.
//
// Rules: one query thread, warm, the same k; the least disturbed pass counts;
// recall beside every vector figure; nothing else running; ratios are quoted,
// never times from different runs.
package peers
