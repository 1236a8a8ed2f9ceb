package knowledge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// A blob is a file of a base that is named by the SHA-256 of its content: the
// source of a document, or its text where that is no copy of the source. It is
// durable before the version that names it, and there whole or not at all: the
// file is synced before it gets its name, and the directory of names before the
// batch is applied.

const (
	blobSuffix = ".zst"
	// blobWrites is how many blobs are written at a time: most of it is waiting
	// for the disk, which takes many syncs at once as one.
	blobWrites = 16
)

func blobPath(dir, hash string) string { return filepath.Join(dir, blobsName, hash+blobSuffix) }

func hashOf(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// coders are stateless and shared by all bases of a store, as their package
// advises.
type coders struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCoders() (coders, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return coders{}, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBlob))
	return coders{enc, dec}, err
}

func (c coders) close() error {
	c.dec.Close()
	return c.enc.Close()
}

// maxBlob bounds what a blob may inflate to; maxBlobFile its file.
const (
	maxBlob     = 1 << 30
	maxBlobFile = maxBlob + 1<<20
)

// putBlob keeps data under its hash. Its name is durable after the next SyncDir
// of the blobs' directory.
func (s *Store) putBlob(dir, hash string, data []byte) error {
	file := blobPath(dir, hash)
	if _, err := s.fs.Stat(file); err == nil {
		return nil
	}
	// Two documents of one content may be written at the same time, and a crash
	// may have left a file of that name.
	var f storage.File
	var tmp string
	for err := iofs.ErrExist; err != nil; {
		if !errors.Is(err, iofs.ErrExist) {
			return err
		}
		tmp = fmt.Sprintf("%s.%d.tmp", file, s.blobNumber.Add(1))
		f, err = s.fs.Create(tmp)
	}
	_, err := f.Write(s.coders.enc.EncodeAll(data, make([]byte, 0, len(data)/3+64)))
	if err == nil && s.o.Sync != storage.SyncNever {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.fs.Rename(tmp, file)
	}
	if err != nil {
		return errors.Join(err, s.fs.Remove(tmp))
	}
	return nil
}

// getBlob returns the content of a hash, checked against it.
func (s *Store) getBlob(dir, hash string) ([]byte, error) {
	if !isHash(hash) {
		return nil, storage.Invalidf("hash %q: want 64 hexadecimal digits", hash)
	}
	file := blobPath(dir, hash)
	packed, err := readFile(s.fs, file, maxBlobFile)
	if err != nil {
		return nil, err
	}
	data, err := s.coders.dec.DecodeAll(packed, nil)
	if err != nil {
		return nil, storage.Corruptf(file, 0, "%v", err)
	}
	if hashOf(data) != hash {
		return nil, storage.Corruptf(file, 0, "the content has another hash than its name")
	}
	return data, nil
}

func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && strings.ToLower(s) == s
}

// dropBlobs removes the blobs that no document names any more. While a
// generation is being made of them they stay until the next call.
func (b *base) dropBlobs(ctx context.Context, ix collection.Reader, hashes []string) error {
	b.later = append(b.later, hashes...)
	if !b.links.TryLock() {
		return nil
	}
	defer b.links.Unlock()
	hashes, b.later = b.later, nil
	for _, h := range hashes {
		n, err := ix.Count(ctx, filter.Or(filter.Eq(fieldHistory, h), filter.Eq(fieldTexts, h)))
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		if err := b.s.fs.Remove(blobPath(b.dir, h)); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	return nil
}

// Prune removes the source bytes that no document of a base names, current
// version or kept one: leftovers of crashes. It waits for an ingest in flight
// and returns how many files it removed.
func (s *Store) Prune(ctx context.Context, baseID string) (removed int, err error) {
	err = s.exclusively(baseID, func(b *base) (err error) {
		removed, err = b.prune(ctx)
		return err
	})
	return removed, err
}

func (b *base) prune(ctx context.Context) (removed int, err error) {
	b.links.Lock()
	defer b.links.Unlock()
	ix, _, err := b.open(ctx)
	if err != nil {
		return 0, err
	}
	fs := b.s.fs
	names, err := fs.List(b.path(blobsName))
	if errors.Is(err, storage.ErrNotFound) {
		return 0, nil
	}
	for _, name := range names {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return removed, err
		}
		hash, ok := strings.CutSuffix(name, blobSuffix)
		if ok && isHash(hash) {
			n, err := ix.Count(ctx, filter.Or(filter.Eq(fieldHistory, hash), filter.Eq(fieldTexts, hash)))
			if err != nil {
				return removed, err
			}
			if n > 0 {
				continue
			}
		}
		if err = fs.Remove(filepath.Join(b.path(blobsName), name)); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, err
}
