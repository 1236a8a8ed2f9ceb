package space

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/quarrysearch/quarry/storage"
)

// Verify proves a piece of evidence: that the space keeps the version of the
// document that it cites, that the source bytes of that version have the hash
// cited, and that they hold the content from the start offset to the end offset.
//
// Evidence without offsets is of a document whose text is no copy of its source
// (PDF, DOCX and the like). Its content must stand in the text that was made of
// that version, which is kept beside the source under its own hash.
//
// The version is looked for in the published generation of the space, in the
// other generations, and in the base itself, which keeps the last versions of
// each document (knowledge.Options.KeepVersions). So evidence stays verifiable
// when its document has been replaced or deleted since, as long as one of them
// has the version; after that it is storage.ErrNotFound. Evidence that does not
// hold is ErrEvidence, stored bytes that are damaged storage.ErrCorrupt.
//
// It asks for no permission and tells nothing but whether the evidence holds.
func (s *Service) Verify(ctx context.Context, e Evidence) error {
	sp, err := s.catalog.Space(e.Metadata.SpaceID)
	if err != nil {
		return err
	}
	generations, err := s.store.Generations(ctx, sp.Base)
	if err != nil {
		return &Error{sp.ID, err}
	}
	refs := []string{sp.Base}
	for _, g := range generations { // ascending
		refs = append(refs, fmt.Sprintf("%s@%d", sp.Base, g.Number))
	}
	slices.Reverse(refs)
	if sp.Published != nil {
		refs = append([]string{fmt.Sprintf("%s@%d", sp.Base, sp.Published.Generation)}, refs...)
	}
	// A base may know another document of that name and version: the one was
	// deleted and the other came after. So the first failure is not the last
	// word.
	v := verifier{s: s}
	var failed error
	for _, ref := range refs {
		err := v.in(ctx, ref, &e)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if failed == nil || errors.Is(failed, storage.ErrNotFound) {
			failed = err
		}
	}
	return &Error{sp.ID, failed}
}

// A verifier proves evidence. It keeps the last source it has read, since
// evidence of one document often comes together.
type verifier struct {
	s      *Service
	ref    string
	id     string
	number int
	source []byte
	// textHash names the text of the source, which is kept like it.
	textHash string
}

// in proves evidence in one state of a base.
func (v *verifier) in(ctx context.Context, ref string, e *Evidence) error {
	c := &e.Metadata.Citation
	if e.Content == "" || (c.StartOffset == nil) != (c.EndOffset == nil) {
		return unverified("document %q: no content, or one offset alone", c.DocumentID)
	}
	source, err := v.read(ctx, ref, c)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(source); hex.EncodeToString(sum[:]) != c.ArtifactHash {
		return unverified("document %q, version %d: its source has another hash than %s", c.DocumentID, c.DocumentVersion, c.ArtifactHash)
	}
	if c.StartOffset != nil {
		from, to := *c.StartOffset, *c.EndOffset
		if from < 0 || to < from || to > len(source) || string(source[from:to]) != e.Content {
			return unverified("document %q, version %d: its source does not hold the content from %d to %d", c.DocumentID, c.DocumentVersion, from, to)
		}
		return nil
	}
	text, err := v.s.store.SourceBytes(ctx, ref, v.textHash)
	if err != nil {
		return err
	}
	if !bytes.Contains(text, []byte(e.Content)) {
		return unverified("document %q, version %d: its text does not hold the content", c.DocumentID, c.DocumentVersion)
	}
	return nil
}

func (v *verifier) read(ctx context.Context, ref string, c *Citation) ([]byte, error) {
	if v.source != nil && v.ref == ref && v.id == c.DocumentID && v.number == c.DocumentVersion {
		return v.source, nil
	}
	source, d, err := v.s.store.Source(ctx, ref, c.DocumentID, c.DocumentVersion)
	if err != nil {
		return nil, err
	}
	v.ref, v.id, v.number, v.source, v.textHash = ref, c.DocumentID, c.DocumentVersion, source, d.TextHash
	return source, nil
}
