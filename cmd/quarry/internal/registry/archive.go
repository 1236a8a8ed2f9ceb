package registry

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

// An archive is a tar file of one snapshot, in this order:
//
//	snapshot.json  what it is
//	embed.json     the model of its vectors, where it has one
//	index/FILE     the files of the index
const (
	archiveSnapshot = "snapshot.json"
	archiveRecord   = "embed.json"
	archiveIndex    = "index/"

	maxArchiveFiles = 100_000
	maxArchiveJSON  = 1 << 20
)

// An archiveFile is a file of an archive, and where it is.
type archiveFile struct {
	header tar.Header
	path   string
}

// WriteSnapshot writes a snapshot as an archive, in the memory of a copy's
// buffer. begin is told the archive's size before the first byte; what fails
// before that has written nothing.
func (r *Registry) WriteSnapshot(ctx context.Context, collection, name string, w io.Writer, begin func(size int64)) error {
	dir, s, err := r.snapshot(collection, name)
	if err != nil {
		return err
	}
	names, err := indexFiles(dir)
	if err != nil {
		return err
	}
	files := []archiveFile{{tar.Header{Name: archiveSnapshot}, dir + snapshotFileSuffix}}
	if _, err := os.Stat(models.RecordFile(dir)); err == nil {
		files = append(files, archiveFile{tar.Header{Name: archiveRecord}, models.RecordFile(dir)})
	}
	for _, file := range names {
		files = append(files, archiveFile{tar.Header{Name: archiveIndex + file}, filepath.Join(dir, file)})
	}
	size, err := finishHeaders(files, s.Created)
	if err != nil {
		return err
	}
	begin(size)
	t := tar.NewWriter(w)
	for i := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := files[i].write(t); err != nil {
			return err
		}
	}
	return t.Close()
}

const tarBlock = 512

// finishHeaders fills in what the files tell, and sums up the archive's size.
func finishHeaders(files []archiveFile, when time.Time) (int64, error) {
	size := int64(2 * tarBlock) // the end
	for i := range files {
		info, err := os.Stat(files[i].path)
		if err != nil {
			return 0, ioError(err)
		}
		h := &files[i].header
		h.Typeflag, h.Size, h.Mode, h.ModTime = tar.TypeReg, info.Size(), 0o644, when.Truncate(time.Second)
		var n counter
		if err := tar.NewWriter(&n).WriteHeader(h); err != nil {
			return 0, err
		}
		size += int64(n) + (h.Size+tarBlock-1)/tarBlock*tarBlock
	}
	return size, nil
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func (a *archiveFile) write(t *tar.Writer) error {
	f, err := os.Open(a.path)
	if err != nil {
		return ioError(err)
	}
	defer f.Close() // read only: nothing to lose
	if err := t.WriteHeader(&a.header); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}

// RestoreSnapshot puts a snapshot in the place of a collection, which need not
// be there; from is the collection it was made of. The copy is verified before
// anything is replaced.
func (r *Registry) RestoreSnapshot(ctx context.Context, collection, from, name string) error {
	return r.restore(ctx, collection, func(staged string) error {
		dir, _, err := r.snapshot(from, name)
		if err != nil {
			return err
		}
		record, err := models.ReadRecord(dir)
		if err != nil {
			return err
		}
		if record != nil {
			if err := record.Write(staged); err != nil {
				return err
			}
		}
		ix, err := index.Open(dir, &index.Options{ReadOnly: true, MustExist: true})
		if err != nil {
			return err
		}
		return errors.Join(ix.Backup(ctx, staged), ix.Close())
	})
}

// RestoreArchive puts the index of an archive in the place of a collection,
// which need not be there. The archive is unpacked and every byte of the index
// verified before anything is replaced. More than maxBytes is
// storage.ErrTooLarge. A model that the archive names must be one of the
// registry's or the collection's own: an archive opens no file and calls no
// address.
func (r *Registry) RestoreArchive(ctx context.Context, collection string, archive io.Reader, maxBytes int64) error {
	return r.restore(ctx, collection, func(staged string) error {
		if err := unpack(ctx, archive, staged, maxBytes); err != nil {
			return err
		}
		if err := (storage.OS{}).SyncDir(staged); err != nil {
			return err
		}
		if _, err := index.Check(ctx, staged, nil, true); err != nil {
			if errors.Is(err, storage.ErrNotFound) {
				return storage.Invalidf("archive: it holds no whole index: %v", err)
			}
			return fmt.Errorf("archive: %w", err)
		}
		return r.checkArchivedModel(collection, staged)
	})
}

func (r *Registry) checkArchivedModel(collection, staged string) error {
	record, err := models.ReadRecord(staged)
	if err != nil {
		return storage.Invalidf("archive: %s: %v", archiveRecord, err)
	}
	if record == nil {
		return nil
	}
	for _, s := range r.o.Models {
		if s == record.Source {
			return nil
		}
	}
	have, err := models.ReadRecord(filepath.Join(r.dir, collectionsName, collection))
	if err == nil && have != nil && have.Source == record.Source {
		return nil
	}
	return storage.Invalidf("archive: its vectors are of %s, and no model of this server has the source %q", record.Model.Name, record.Source.Model)
}

// restore stages an index by make and puts it in the place of a collection.
func (r *Registry) restore(ctx context.Context, collection string, make func(staged string) error) error {
	if err := r.writable(); err != nil {
		return err
	}
	dir, err := r.place("collection", collection, collectionsName)
	if err != nil {
		return err
	}
	staged, err := r.stage()
	if err != nil {
		return err
	}
	defer remove(staged, models.RecordFile(staged)) // what is left is swept at the next Open
	if err := make(staged); err != nil {
		return err
	}
	end, err := r.begin(ctx, collection)
	if err != nil {
		return err
	}
	defer end()
	there, err := hasIndex(dir)
	if err != nil {
		return err
	}
	if !there {
		if err := r.vacant(collection); err != nil {
			return err
		}
	}
	if err := r.retire(ctx, collection); err != nil {
		return err
	}
	return r.replace(collection, staged)
}

// unpack reads an archive into a directory, and its record beside it.
func unpack(ctx context.Context, archive io.Reader, dir string, maxBytes int64) error {
	t := tar.NewReader(archive)
	left := maxBytes
	for n := 0; ; n++ {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return archiveError(err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if n >= maxArchiveFiles {
			return fmt.Errorf("%w: archive of more than %d files", storage.ErrTooLarge, maxArchiveFiles)
		}
		path, err := archivePlace(h, dir)
		if err != nil {
			return err
		}
		if left -= h.Size; left < 0 || h.Size < 0 {
			return fmt.Errorf("%w: archive of more than %d bytes", storage.ErrTooLarge, maxBytes)
		}
		if path == "" {
			continue
		}
		if err := writeNew(path, t); err != nil {
			return err
		}
	}
}

// archivePlace is where a file of an archive goes, "" for nowhere. Only the
// names that WriteSnapshot writes are known.
func archivePlace(h *tar.Header, dir string) (string, error) {
	if h.Typeflag != tar.TypeReg {
		return "", storage.Invalidf("archive: %.80q is no plain file", h.Name)
	}
	if (h.Name == archiveSnapshot || h.Name == archiveRecord) && h.Size > maxArchiveJSON {
		return "", fmt.Errorf("%w: archive: %s of %d bytes, at most %d", storage.ErrTooLarge, h.Name, h.Size, maxArchiveJSON)
	}
	switch name, inIndex := strings.CutPrefix(h.Name, archiveIndex); {
	case h.Name == archiveSnapshot:
		return "", nil
	case h.Name == archiveRecord:
		return models.RecordFile(dir), nil
	case inIndex && isIndexFile(name) && filepath.Base(name) == name:
		return filepath.Join(dir, name), nil
	}
	return "", storage.Invalidf("archive: file %.80q does not belong in one", h.Name)
}

// writeNew writes a file that must not be there, durably.
func writeNew(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return storage.Invalidf("archive: file %.80q is there twice", filepath.Base(path))
	}
	if err != nil {
		return ioError(err)
	}
	_, err = io.Copy(f, r)
	if err != nil {
		return errors.Join(archiveError(err), f.Close())
	}
	return ioError(errors.Join(f.Sync(), f.Close()))
}

// archiveError classes what reading an archive can end in: the archive's own
// faults, or those of where it comes from.
func archiveError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		return storage.Invalidf("archive: %v", err)
	}
	return fmt.Errorf("archive: %w", err)
}
