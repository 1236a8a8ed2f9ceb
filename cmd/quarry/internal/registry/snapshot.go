package registry

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

// A Snapshot is a collection as it was, kept beside it. It is an index of its
// own, for every quarry command, and stays when the collection is deleted.
type Snapshot struct {
	Collection string    `json:"collection"`
	Name       string    `json:"name"`
	Created    time.Time `json:"created"`
	Documents  int       `json:"documents"`
	// Bytes are those of its files. Files that the collection has too, hard
	// links, take no space of their own.
	Bytes int64 `json:"bytes"`
}

const snapshotFileSuffix = ".snapshot.json"

// CreateSnapshot keeps a collection as it is now. The name "" is made of the
// time. It blocks nobody, and is verified and on disk when it returns.
func (r *Registry) CreateSnapshot(ctx context.Context, collection, name string) (Snapshot, error) {
	s := Snapshot{Collection: collection, Name: name, Created: time.Now().UTC().Truncate(time.Millisecond)}
	if err := r.writable(); err != nil {
		return s, err
	}
	if name == "" {
		s.Name = strings.ReplaceAll(s.Created.Format("20060102T150405.000Z"), ".", "-")
	}
	c, err := r.Get(ctx, collection)
	if err != nil {
		return s, err
	}
	defer c.Release()
	dir, end, err := r.reserveSnapshot(ctx, collection, s.Name)
	if err != nil {
		return s, err
	}
	defer end()
	if _, err := os.Lstat(dir); err == nil {
		return s, fmt.Errorf("%w: snapshot %q of %q", ErrExists, s.Name, collection)
	}
	staged, err := r.stage()
	if err != nil {
		return s, err
	}
	ix, err := c.Local("take snapshots of the server")
	if err == nil {
		err = ix.Backup(ctx, staged)
	}
	if err != nil {
		return s, errors.Join(err, remove(staged))
	}
	if err := r.keep(&s, c.e.record, staged, dir); err != nil {
		return s, errors.Join(err, remove(staged, models.RecordFile(dir), dir+snapshotFileSuffix))
	}
	return s, nil
}

// keep moves a backup to its place, behind what is told beside it.
func (r *Registry) keep(s *Snapshot, record *models.Record, staged, dir string) error {
	var err error
	if s.Documents, s.Bytes, err = measure(staged); err != nil {
		return err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	fs := storage.OS{}
	if err := fs.MkdirAll(filepath.Dir(dir)); err != nil {
		return err
	}
	if record != nil {
		if err := record.Write(dir); err != nil {
			return err
		}
	}
	if err := storage.WriteFileAtomic(fs, filepath.Dir(dir), filepath.Base(dir)+snapshotFileSuffix, append(b, '\n')); err != nil {
		return err
	}
	return move(staged, dir)
}

// measure counts the documents of an index and the bytes of its files.
func measure(dir string) (documents int, size int64, err error) {
	ix, err := index.Open(dir, &index.Options{ReadOnly: true, MustExist: true})
	if err != nil {
		return 0, 0, err
	}
	stats, err := ix.Stats()
	if err = errors.Join(err, ix.Close()); err != nil {
		return 0, 0, err
	}
	names, err := indexFiles(dir)
	for _, name := range names {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return 0, 0, ioError(err)
		}
		size += info.Size()
	}
	return stats.Documents, size, err
}

// indexFiles lists the files of an index, its lock left out.
func indexFiles(dir string) ([]string, error) {
	names, err := storage.OS{}.List(dir)
	return slices.DeleteFunc(names, func(name string) bool { return !isIndexFile(name) }), err
}

func isIndexFile(name string) bool {
	switch storage.ParseFileName(name).Kind {
	case storage.FileWAL, storage.FileSegment, storage.FileTombstone, storage.FileManifest:
		return true
	}
	return false
}

// stage makes an empty directory for something that is being made.
func (r *Registry) stage() (string, error) {
	dir := filepath.Join(r.dir, tmpName, rand.Text())
	return dir, ioError(os.Mkdir(dir, 0o755))
}

// reserveSnapshot checks the names and reserves the place of a snapshot.
func (r *Registry) reserveSnapshot(ctx context.Context, collection, name string) (dir string, end func(), err error) {
	if _, err = r.place("collection", collection, snapshotsName); err != nil {
		return "", nil, err
	}
	if dir, err = r.place("snapshot", name, snapshotsName, collection); err != nil {
		return "", nil, err
	}
	end, err = r.begin(ctx, collection+"/"+name) // no collection has such a name
	return dir, end, err
}

// Snapshots lists the snapshots of a collection, be it there or not, by name.
func (r *Registry) Snapshots(collection string) ([]Snapshot, error) {
	dir, err := r.place("collection", collection, snapshotsName)
	if err != nil {
		return nil, err
	}
	names, err := directories(dir)
	if err != nil {
		return nil, err
	}
	out := make([]Snapshot, 0, len(names))
	for _, name := range names {
		s, err := readSnapshot(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func readSnapshot(dir string) (Snapshot, error) {
	var s Snapshot
	b, err := os.ReadFile(dir + snapshotFileSuffix)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, storage.Corruptf(dir+snapshotFileSuffix, 0, "snapshot: %v", err)
	}
	return s, nil
}

// snapshot finds a snapshot that is there.
func (r *Registry) snapshot(collection, name string) (string, Snapshot, error) {
	if _, err := r.place("collection", collection, snapshotsName); err != nil {
		return "", Snapshot{}, err
	}
	dir, err := r.place("snapshot", name, snapshotsName, collection)
	if err != nil {
		return "", Snapshot{}, err
	}
	if _, err := os.Lstat(dir); os.IsNotExist(err) {
		return "", Snapshot{}, fmt.Errorf("%w: snapshot %q of %q", storage.ErrNotFound, name, collection)
	}
	s, err := readSnapshot(dir)
	return dir, s, err
}

// DeleteSnapshot removes a snapshot.
func (r *Registry) DeleteSnapshot(ctx context.Context, collection, name string) error {
	if err := r.writable(); err != nil {
		return err
	}
	dir, end, err := r.reserveSnapshot(ctx, collection, name)
	if err != nil {
		return err
	}
	defer end()
	if _, _, err := r.snapshot(collection, name); errors.Is(err, storage.ErrNotFound) {
		return err
	}
	staged, err := r.stage()
	if err != nil {
		return err
	}
	if err := move(dir, filepath.Join(staged, name)); err != nil {
		return errors.Join(err, remove(staged))
	}
	// What is left is swept at the next Open: Windows keeps a file that a link of it has mapped.
	defer remove(staged)
	return remove(models.RecordFile(dir), dir+snapshotFileSuffix)
}
