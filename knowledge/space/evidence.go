package space

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/storage"
)

// Evidence is a stretch of a document with what is needed to check it. Its JSON
// is that of a knowledge-retrieval-v2 node.
type Evidence struct {
	Content string `json:"content"`
	// Title is the innermost section, else the title of the document, else its
	// id.
	Title    string           `json:"title"`
	Metadata EvidenceMetadata `json:"metadata"`
}

// EvidenceMetadata tells where evidence comes from and how it was found.
type EvidenceMetadata struct {
	Citation Citation `json:"citation"`
	// Score is in [0,1]. Scores of spaces with different profiles are only
	// weakly comparable.
	Score float64 `json:"score"`
	// Sources names the legs that found it, of "dense" and "fts"; none for a
	// neighbor of what they found.
	Sources []string `json:"sources"`
	SpaceID string   `json:"space_id"`
}

// A Citation names a place in a version of a document.
type Citation struct {
	DocumentID      string   `json:"document_id"`
	DocumentVersion int      `json:"document_version"`
	SectionPath     []string `json:"section_path"`
	PageNumber      int      `json:"page_number,omitempty"` // from 1; 0 unknown
	// StartOffset and EndOffset are bytes of the source of that version, which
	// there holds exactly the content. Nil where the content is no copy of it:
	// text out of a PDF, a DOCX file, HTML with entities.
	StartOffset *int `json:"start_offset,omitempty"`
	EndOffset   *int `json:"end_offset,omitempty"`
	// ArtifactHash is the SHA-256 of the source bytes, in hexadecimal.
	ArtifactHash string `json:"artifact_hash"`
}

// Legs, as Sources names them.
const (
	SourceDense = "dense"
	SourceFTS   = "fts"
)

// Limits of an answer. Content and section paths that exceed theirs are cut, and
// offsets follow; an answer that is larger than MaxAnswerBytes is an error.
const (
	MaxContent      = 8192    // code points of a piece of evidence
	MaxSections     = 64      // of a section path: the innermost are kept
	MaxSection      = 512     // code points of a section and of a title
	MaxAnswerBytes  = 4 << 20 // of the evidence as JSON
	worstJSONGrowth = 6       // bytes of JSON for a byte of text, at most
)

// evidenceOf makes evidence of an item that space id has found.
func evidenceOf(id string, it *knowledge.Item) Evidence {
	m := &it.Metadata
	content := firstRunes(it.Content, MaxContent)
	path := m.SectionPath[max(0, len(m.SectionPath)-MaxSections):]
	sections := make([]string, len(path))
	for i, s := range path {
		sections[i] = firstRunes(s, MaxSection)
	}
	c := Citation{DocumentID: m.DocumentID, DocumentVersion: m.DocumentVersion, SectionPath: sections, PageNumber: m.Page, ArtifactHash: m.ArtifactHash}
	if m.SourceStart != nil {
		start, end := *m.SourceStart, *m.SourceStart+len(content)
		c.StartOffset, c.EndOffset = &start, &end
	}
	sources := make([]string, 0, 2)
	if it.Vector != nil {
		sources = append(sources, SourceDense)
	}
	if it.Keyword != nil {
		sources = append(sources, SourceFTS)
	}
	return Evidence{Content: content, Title: firstRunes(titleOf(m), MaxSection),
		Metadata: EvidenceMetadata{Citation: c, Score: it.Score, Sources: sources, SpaceID: id}}
}

// titleOf is the innermost section of a chunk, else the title of its document,
// else the document's id.
func titleOf(m *knowledge.Metadata) string {
	if n := len(m.SectionPath); n > 0 && m.SectionPath[n-1] != "" {
		return m.SectionPath[n-1]
	}
	return cmp.Or(m.Title, m.DocumentID)
}

// firstRunes is the first n code points of a text.
func firstRunes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// checkSize refuses an answer of more than MaxAnswerBytes. It is encoded only
// when its text is long enough for that.
func checkSize(list []Evidence) error {
	n := 0
	for i := range list {
		e := &list[i]
		n += len(e.Content) + len(e.Title) + len(e.Metadata.Citation.DocumentID) + 1024
		for _, s := range e.Metadata.Citation.SectionPath {
			n += len(s) + 3
		}
	}
	if n*worstJSONGrowth <= MaxAnswerBytes {
		return nil
	}
	data, err := json.Marshal(list)
	if err == nil && len(data) > MaxAnswerBytes {
		err = fmt.Errorf("%w: evidence of %d bytes, at most %d: lower top_n or the size of chunks", storage.ErrTooLarge, len(data), MaxAnswerBytes)
	}
	return err
}
