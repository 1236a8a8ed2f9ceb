package knowledge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// An IngestRequest names what to bring into a base.
type IngestRequest struct {
	Base    string
	Folders []Folder
	Files   []File
	Sources []Source
	// KeepVanished keeps documents whose files are gone from their folder.
	KeepVanished bool
	// Replace lets a source take over the id of a document that came from
	// another folder or file.
	Replace bool
	// MaxFileBytes bounds a source; default 64 MiB, at most 1 GiB. A larger one
	// has failed.
	MaxFileBytes int64
	// Progress is told of every source, one call at a time.
	Progress func(Progress)
}

const defaultMaxFile = 64 << 20

// A Status says what became of a source.
type Status string

// The statuses.
const (
	Added     Status = "added"
	Updated   Status = "updated"
	Unchanged Status = "unchanged"
	Removed   Status = "removed"
	Failed    Status = "failed"
	Skipped   Status = "skipped"
)

// Progress tells of one source.
type Progress struct {
	Source string `json:"source"`
	Status Status `json:"status"`
	Chunks int    `json:"chunks"`
	Done   int    `json:"done"`  // sources so far, skipped and removed ones not counted
	Total  int    `json:"total"` // sources of this ingest
	Err    error  `json:"-"`     // of Failed
}

// A Skip is a file that was passed over.
type Skip struct {
	Source string `json:"source"`
	Reason string `json:"reason"`
}

// A Failure is a source that could not be read, parsed, embedded or kept. What
// the base held of it before is still there.
type Failure struct {
	Source string `json:"source"`
	Reason string `json:"reason"`
	Err    error  `json:"-"`
}

// A Report sums up an ingest.
type Report struct {
	Added     int       `json:"added"`
	Updated   int       `json:"updated"`
	Unchanged int       `json:"unchanged"`
	Removed   int       `json:"removed"`
	Failed    []Failure `json:"failed"`
	Skipped   []Skip    `json:"skipped"`
	// Warnings counts what parsers and embedder warned of; the documents'
	// records have the texts.
	Warnings int     `json:"warnings"`
	Chunks   int     `json:"chunks"` // put into the base
	Bytes    int64   `json:"bytes"`  // of the sources added and updated
	Seconds  float64 `json:"seconds"`
	// EmbedSeconds is the time in which the embedder had work: near Seconds,
	// it is what bounds the ingest.
	EmbedSeconds float64 `json:"embed_seconds"`
}

// Ingest brings sources into a base: those that are new, and those whose bytes
// (by SHA-256) or whose way of being cut and embedded have changed. Documents
// of a folder whose files are gone are removed. Each document changes in one
// step, from all chunks of its old version to all of the new one.
//
// A source that cannot be read is reported and the others go on. The error is
// nil then; it is not nil when the ingest ended early: ctx is done, the embedder
// failed, the disk did, or the base is of another model (ErrModel). What was
// reported by then is in the base, whole; a second call does the rest. The
// Report is never nil.
//
// One ingest, delete or rebuild of a base runs at a time; others wait.
func (s *Store) Ingest(ctx context.Context, r IngestRequest) (*Report, error) {
	if r.MaxFileBytes < 0 || r.MaxFileBytes > maxBlob {
		return &Report{Failed: []Failure{}, Skipped: []Skip{}}, storage.Invalidf("MaxFileBytes %d: want 0 to %d", r.MaxFileBytes, maxBlob)
	}
	return s.run(ctx, "ingest", r, func(in *ingest) error { return in.all(ctx) })
}

// all does the work of Ingest.
func (in *ingest) all(ctx context.Context) (err error) {
	places, trees, err := in.collect(ctx)
	defer func() {
		for _, t := range trees {
			err = errors.Join(err, t.root.Close())
		}
	}()
	if err != nil {
		return err
	}
	if len(places) == 0 {
		// Nothing to fix a model by.
		if in.ix, in.cat, err = in.b.open(ctx); err != nil {
			return err
		}
	} else {
		if in.e, in.model, err = in.b.model(ctx); err != nil {
			return err
		}
		if in.ix, in.cat, err = in.b.freeze(ctx, in.model); err != nil {
			return err
		}
		if err := in.run(ctx, places); err != nil {
			return err
		}
	}
	if in.req.KeepVanished {
		return nil
	}
	return in.removeVanished(ctx, trees)
}

// model returns the embedder of a base and its identity; nil and nil for none.
func (b *base) model(ctx context.Context) (embed.Embedder, *embed.Identity, error) {
	b.mu.Lock()
	cat := b.cat
	b.mu.Unlock()
	e, err := b.s.embedder(&cat)
	if err != nil {
		return nil, nil, err
	}
	id, err := identity(ctx, e)
	if err != nil {
		return nil, nil, err
	}
	return e, id, nil
}

// collect lists the sources. An id that two of them claim is the first one's;
// the other has failed.
func (in *ingest) collect(ctx context.Context) (places []place, trees []*tree, err error) {
	seen := make(map[string]bool)
	add := func(p place) {
		if seen[p.id] {
			in.fail(p.name, storage.Invalidf("another source of this ingest has the name %q too", p.name))
			return
		}
		seen[p.id] = true
		places = append(places, p)
	}
	for _, f := range in.req.Folders {
		t, err := walk(ctx, f)
		if err != nil {
			return nil, trees, err
		}
		trees = append(trees, t)
		for _, p := range t.places {
			add(p)
		}
		in.report.Skipped = append(in.report.Skipped, t.skipped...)
		for _, sk := range t.skipped {
			in.tell(Progress{Source: sk.Source, Status: Skipped})
		}
	}
	for _, f := range in.req.Files {
		p, err := f.place()
		if err != nil {
			in.fail(f.Path, err)
			continue
		}
		add(p)
	}
	for _, src := range in.req.Sources {
		p, err := src.place()
		if err != nil {
			in.fail(src.Name, err)
			continue
		}
		add(p)
	}
	in.total = len(places) + len(in.report.Failed)
	return places, trees, nil
}

// removeVanished removes the documents whose files are gone from the folders.
func (in *ingest) removeVanished(ctx context.Context, trees []*tree) error {
	for _, t := range trees {
		var gone []string
		for d, err := range records(ctx, in.ix) {
			if err != nil {
				return err
			}
			if t.vanished(&d) {
				gone = append(gone, d.ID)
			}
		}
		for len(gone) > 0 {
			n := min(len(gone), 256)
			removed, err := in.b.remove(ctx, in.ix, gone[:n])
			in.report.Removed += removed
			for _, id := range gone[:n] {
				if err == nil {
					in.tell(Progress{Source: id, Status: Removed})
				}
			}
			if err != nil {
				return err
			}
			gone = gone[n:]
		}
	}
	return nil
}

func (in *ingest) tell(p Progress) {
	p.Done, p.Total = in.done, in.total
	if in.req.Progress != nil {
		in.req.Progress(p)
	}
}

func (in *ingest) fail(source string, err error) {
	in.done++
	in.report.Failed = append(in.report.Failed, Failure{Source: source, Reason: err.Error(), Err: err})
	in.tell(Progress{Source: source, Status: Failed, Err: err})
}

// Rebuild makes a base anew from the source bytes it keeps: with the embedder
// that is in use now, and with other options where o is not nil. Documents keep
// their ids, versions and times. Searches see the old index until the new one is
// complete, and then only that: the catalog file names one or the other. When a
// document fails, or ctx is done, the base stays as it was.
func (s *Store) Rebuild(ctx context.Context, baseID string, o *BaseOptions, progress func(Progress)) (*Report, error) {
	return s.run(ctx, "rebuild", IngestRequest{Base: baseID, Progress: progress}, func(in *ingest) error {
		in.rebuild = true
		return in.anew(ctx, o)
	})
}

// run does the work of an ingest or a rebuild while nothing else writes to the
// base. The Report is never nil.
func (s *Store) run(ctx context.Context, what string, r IngestRequest, work func(*ingest) error) (*Report, error) {
	report := &Report{Failed: []Failure{}, Skipped: []Skip{}}
	return report, s.exclusively(r.Base, func(b *base) error {
		start := time.Now()
		err := ctx.Err()
		if err == nil {
			err = work(&ingest{b: b, req: r, report: report})
		}
		report.Seconds = time.Since(start).Seconds()
		if err != nil {
			err = fmt.Errorf("%s of knowledge base %q: %w", what, b.id, err)
		}
		return err
	})
}

func (in *ingest) anew(ctx context.Context, o *BaseOptions) error {
	b := in.b
	old, cat, err := b.open(ctx)
	if err != nil {
		return err
	}
	next := cat
	if o != nil {
		n, err := newCatalog(b.id, o, b.s)
		if err != nil {
			return err
		}
		n.Created, n.Version, n.Collection, next = cat.Created, cat.Version, cat.Collection, *n
	}
	var number int
	if _, err := fmt.Sscanf(cat.Index, "index-%d", &number); err != nil {
		return err
	}
	next.Index, next.Frozen = indexDir(number+1), cat.Frozen
	if in.e, err = b.s.embedder(&next); err != nil {
		return err
	}
	if in.model, err = identity(ctx, in.e); err != nil {
		return err
	}
	next.Model = nil
	if next.Frozen {
		next.Model = in.model
	}
	places, err := in.kept(ctx, old)
	if err != nil {
		return err
	}
	if err := b.dropIndex(ctx, &next); err != nil { // of a rebuild that a crash has ended
		return err
	}
	ix, err := b.openIndex(ctx, &next)
	if err != nil {
		return err
	}
	in.ix, in.cat = ix, next
	err = in.run(ctx, places)
	if err == nil && len(in.report.Failed) > 0 {
		err = fmt.Errorf("%s: %w", in.report.Failed[0].Source, in.report.Failed[0].Err)
	}
	if err != nil {
		return errors.Join(err, ix.Close(), b.dropIndex(ctx, &next))
	}
	return b.swap(ctx, ix, next)
}

// kept makes the places of a base's own documents.
func (in *ingest) kept(ctx context.Context, ix collection.Reader) ([]place, error) {
	var places []place
	for d, err := range records(ctx, ix) {
		if err != nil {
			return nil, err
		}
		places = append(places, place{name: d.Source, id: d.ID, origin: d.Origin, sourceID: d.SourceID, modified: d.FileTime, size: d.Bytes, carry: &d,
			open: func() (openedSource, error) {
				data, err := in.b.s.getBlob(in.b.dir, d.ArtifactHash)
				return openedSource{bytes: data, modified: d.FileTime}, err
			}})
	}
	in.total = len(places)
	return places, nil
}

// swap puts a new index in the place of the old one.
func (b *base) swap(ctx context.Context, ix collection.Collection, next catalog) error {
	ctx = context.WithoutCancel(ctx)
	b.links.Lock() // the old index may be on its way into a generation
	defer b.links.Unlock()
	b.batch.Lock()
	defer b.batch.Unlock()
	if err := b.remark(ctx, ix); err != nil {
		return errors.Join(err, ix.Close())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// Not until its batches are safe may the catalog name it, whatever the
	// sync policy.
	if err := ix.Flush(ctx); err != nil {
		return errors.Join(err, ix.Close())
	}
	next.LastGeneration = b.cat.LastGeneration
	if err := next.write(b.s.fs, b.dir); err != nil {
		return errors.Join(err, ix.Close())
	}
	before, old := b.ix, b.cat
	b.cat, b.ix = next, nil
	err := errors.Join(ix.Close(), before.Close(), b.dropIndex(ctx, &old))
	_, _, openErr := b.openLocked(ctx)
	return errors.Join(err, openErr)
}

// remark gives a new index the marks that were set while it was made.
func (b *base) remark(ctx context.Context, ix collection.Collection) error {
	want := b.disabledIDs()
	have, err := markedIn(ctx, ix)
	if err != nil {
		return err
	}
	for _, on := range []bool{true, false} {
		ids, other := want, have
		if on {
			ids, other = have, want
		}
		var docs []Document
		for _, id := range ids {
			if _, same := slices.BinarySearch(other, id); same {
				continue
			}
			d, err := record(ctx, ix, id)
			if err != nil {
				return err
			}
			docs = append(docs, d)
		}
		if len(docs) == 0 {
			continue
		}
		if err := mark(ctx, ix, on, docs...); err != nil {
			return err
		}
	}
	return nil
}
