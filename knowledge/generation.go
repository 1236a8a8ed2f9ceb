package knowledge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// A Generation is a base as it was when it was frozen. "id@n" names it wherever
// a base is read: Search, Expand, Document, Documents, Source, Base, Check.
type Generation struct {
	Base      string    `json:"base"`
	Number    int       `json:"number"` // from 1; a number is never used again
	Created   time.Time `json:"created"`
	Documents int       `json:"documents"`
	Chunks    int       `json:"chunks"`
	// Model made the vectors; nil: there are none.
	Model *embed.Identity `json:"model,omitempty"`
}

// Reference returns "id@n".
func (g *Generation) Reference() string { return reference(g.Base, g.Number) }

func reference(id string, n int) string {
	if n == 0 {
		return id
	}
	return fmt.Sprintf("%s@%d", id, n)
}

// maxGeneration bounds the number of a generation, as a reference names it.
const maxGeneration = 1<<31 - 1

// parseReference splits "id" and "id@n"; n is 0 for the live base.
func parseReference(ref string) (id string, n int, err error) {
	id, number, frozen := strings.Cut(ref, "@")
	if err := checkBaseID(id); err != nil {
		return "", 0, err
	}
	if !frozen {
		return id, 0, nil
	}
	n, err = strconv.Atoi(number)
	if err != nil || n < 1 || n > maxGeneration || strconv.Itoa(n) != number {
		return "", 0, storage.Invalidf("knowledge base %.80q: want an id, or an id, '@' and the number of a generation", ref)
	}
	return id, n, nil
}

// Freeze makes the state of a base, as it is now, a generation, which never
// changes again: not by an ingest, a rebuild or a document that is disabled.
// It is on disk when Freeze returns, and there whole or not at all after a crash.
//
// Searches go on meanwhile, and so does an ingest; a rebuild, a Prune and a
// deletion of the base wait at their end. Files are hard-linked where the file
// system can, else copied. It costs one link a document and one pass over the
// index, whose checksums are verified.
func (s *Store) Freeze(ctx context.Context, id string) (Generation, error) {
	if err := s.enter(); err != nil {
		return Generation{}, err
	}
	defer s.leave()
	b, err := s.writableBase(ctx, id)
	if err != nil {
		return Generation{}, err
	}
	b.links.Lock()
	g, err := b.makeGeneration(ctx)
	b.links.Unlock()
	if err != nil {
		return Generation{}, fmt.Errorf("freeze knowledge base %q: %w", id, err)
	}
	return g, nil
}

// makeGeneration is Freeze, with links held. The number is written down first,
// so that a generation that a crash ends, or that is dropped, never gives its
// number to another.
func (b *base) makeGeneration(ctx context.Context) (Generation, error) {
	ix, cat0, err := b.open(ctx)
	if err != nil {
		return Generation{}, err
	}
	local, ok := ix.(*collection.Local)
	if !ok {
		return Generation{}, storage.Invalidf("its index is the collection %s of a cluster, which keeps no generations", cat0.collection())
	}
	cat, err := b.takeNumber()
	if err != nil {
		return Generation{}, err
	}
	fs, to := b.s.fs, &base{s: b.s, id: b.id, generation: cat.LastGeneration}
	to.dir = b.path(generationDir(to.generation))
	err = errors.Join(removeTree(fs, to.dir), fs.MkdirAll(to.path(blobsName)))
	if err == nil {
		cat.Index, cat.Generation, cat.LastGeneration, cat.FrozenAt = indexDir(1), to.generation, 0, b.s.now()
		err = local.Index.Backup(ctx, to.path(cat.Index))
	}
	if err == nil {
		err = to.fill(ctx, b, &cat)
	}
	if err == nil {
		// Last: what is there without a catalog file is no generation.
		err = errors.Join(fs.SyncDir(to.path(blobsName)), fs.SyncDir(to.dir))
	}
	if err == nil {
		err = cat.write(fs, to.dir)
	}
	if err != nil {
		return Generation{}, errors.Join(err, removeTree(fs, to.dir))
	}
	return cat.generation(), nil
}

// takeNumber uses up the next number of a generation and returns the catalog.
func (b *base) takeNumber() (catalog, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return catalog{}, noBase(b.id)
	}
	next := b.cat
	if next.LastGeneration++; next.LastGeneration > maxGeneration {
		return catalog{}, fmt.Errorf("%w: %d generations", storage.ErrTooLarge, maxGeneration)
	}
	if err := next.write(b.s.fs, b.dir); err != nil {
		return catalog{}, err
	}
	b.cat = next
	return next, nil
}

// fill links the blobs that the documents of a generation name, and counts.
func (to *base) fill(ctx context.Context, from *base, cat *catalog) error {
	ix, err := to.openIndex(ctx, cat)
	if err != nil {
		return err
	}
	linked := make(map[string]bool)
	for d, rerr := range records(ctx, ix) {
		err = errors.Join(rerr, ctx.Err())
		for _, hash := range slices.Concat(d.history, d.texts) {
			if err == nil && !linked[hash] {
				linked[hash] = true
				err = linkFile(to.s.fs, blobPath(from.dir, hash), blobPath(to.dir, hash), to.s.o.Sync)
			}
		}
		if err != nil {
			break
		}
		cat.Documents, cat.Chunks = cat.Documents+1, cat.Chunks+d.Chunks
	}
	return errors.Join(err, ix.Close())
}

// linkFile gives a file that never changes a second name, or copies it. Where
// files are not synced when they are written, it is copied, and the copy synced.
func linkFile(fs storage.FS, from, to string, sync storage.SyncPolicy) error {
	if sync != storage.SyncNever && fs.Link(from, to) == nil {
		return nil
	}
	in, err := fs.Open(from)
	if err != nil {
		return err
	}
	size, err := in.Size()
	if err != nil {
		return errors.Join(err, in.Close())
	}
	out, err := fs.Create(to)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, io.NewSectionReader(in, 0, size))
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close(), in.Close())
}

func generationDir(n int) string { return fmt.Sprintf("gen-%d", n) }

// generationOf is the inverse of generationDir for a name that List gives.
func generationOf(name string) (int, bool) {
	var n int
	_, err := fmt.Sscanf(name, "gen-%d/", &n)
	return n, err == nil && n > 0 && name == generationDir(n)+"/"
}

func (c *catalog) generation() Generation {
	g := Generation{Base: c.ID, Number: c.Generation, Created: c.FrozenAt, Documents: c.Documents, Chunks: c.Chunks}
	g.Model = c.info().Model
	return g
}

// Generations lists the generations of a base by number; storage.ErrNotFound
// when there is no such base.
func (s *Store) Generations(ctx context.Context, id string) ([]Generation, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	if err := errors.Join(ctx.Err(), checkBaseID(id)); err != nil {
		return nil, err
	}
	if _, err := s.base(id); err != nil {
		return nil, err
	}
	names, err := s.fs.List(s.baseDir(id))
	if err != nil {
		return nil, err
	}
	out := []Generation{}
	for _, name := range names {
		n, ok := generationOf(name)
		if !ok {
			continue
		}
		cat, err := readCatalog(s.fs, filepath.Join(s.baseDir(id), generationDir(n)), id, n)
		if errors.Is(err, storage.ErrNotFound) {
			continue // on its way, or a leftover
		}
		if err != nil {
			return nil, err
		}
		out = append(out, cat.generation())
	}
	slices.SortFunc(out, func(a, b Generation) int { return a.Number - b.Number })
	return out, nil
}

// DropGeneration removes a generation, in one step; storage.ErrNotFound when
// there is none of that number. It waits for no reader: searches in flight hold
// snapshots and end as they would have.
func (s *Store) DropGeneration(ctx context.Context, id string, n int) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	live, err := s.writableBase(ctx, id)
	if err != nil {
		return err
	}
	live.links.Lock()
	defer live.links.Unlock()
	b, err := s.base(reference(id, n))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := b.unname(); err != nil {
		return fmt.Errorf("drop generation %d of knowledge base %q: %w", n, id, err)
	}
	delete(s.bases, b.reference())
	return errors.Join(b.close(), removeTree(s.fs, b.dir))
}

// unname ends the existence of a base: its catalog file gets another name.
func (b *base) unname() error {
	return errors.Join(b.s.fs.Rename(b.path(catalogName), b.path(trashName)), b.s.fs.SyncDir(b.dir))
}

// writableBase returns the live base of an id, which is to be changed.
func (s *Store) writableBase(ctx context.Context, id string) (*base, error) {
	if err := errors.Join(s.writable(), ctx.Err()); err != nil {
		return nil, err
	}
	_, n, err := parseReference(id)
	if err == nil && n > 0 {
		err = fmt.Errorf("%w: knowledge base %q is a generation, which never changes", storage.ErrReadOnly, id)
	}
	if err != nil {
		return nil, err
	}
	return s.base(id)
}
