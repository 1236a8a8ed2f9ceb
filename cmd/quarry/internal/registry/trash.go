package registry

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/storage"
)

// Suffixes of what lies in the trash. Names of collections have no dots.
const (
	deletedSuffix = ".deleted" // to be removed
	oldSuffix     = ".old"     // replaced, or about to be
)

// recover puts right what a crash left: half-made things go, half-replaced
// collections come back.
func (r *Registry) recover() error {
	if err := empty(filepath.Join(r.dir, tmpName)); err != nil {
		return err
	}
	trash := filepath.Join(r.dir, trashName)
	entries, err := os.ReadDir(trash)
	if err != nil {
		return ioError(err)
	}
	seen := map[string]bool{}
	for _, e := range entries {
		name, rest, _ := strings.Cut(e.Name(), ".")
		if "."+rest != oldSuffix && !strings.HasPrefix("."+rest, oldSuffix+".") || CheckName("collection", name) != nil || seen[name] {
			continue
		}
		seen[name] = true
		if err := r.bringBack(name); err != nil {
			return err
		}
	}
	return empty(trash)
}

// bringBack undoes a replacement that had not come to its end: while the place
// has no index, or the old one never left it.
func (r *Registry) bringBack(name string) error {
	dir, old := filepath.Join(r.dir, collectionsName, name), filepath.Join(r.dir, trashName, name+oldSuffix)
	there, err := hasIndex(dir)
	if err != nil {
		return err
	}
	was, err := hasIndex(old)
	if err != nil {
		return err
	}
	if there && was {
		return nil // it had: both the record and the index are the new ones
	}
	record := models.RecordFile(dir)
	if was { // the new record may be in place, the new index is not
		if err := remove(record, dir); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(models.RecordFile(old)); err == nil {
		if err := move(models.RecordFile(old), record); err != nil {
			return err
		}
	}
	if !was {
		return nil
	}
	return move(old, dir)
}

// replace puts the index of a directory in tmp, and its record if it has one,
// in the place of a reserved and retired name.
func (r *Registry) replace(name, staged string) error {
	dir, old := filepath.Join(r.dir, collectionsName, name), filepath.Join(r.dir, trashName, name+oldSuffix)
	if err := remove(old, models.RecordFile(old)); err != nil {
		return err
	}
	there, err := hasIndex(dir)
	if err != nil {
		return err
	}
	if !there {
		err = removeCollection(dir)
	} else {
		err = r.replaceOld(dir, old)
	}
	if err != nil {
		return err
	}
	if err := moveIfThere(models.RecordFile(staged), models.RecordFile(dir)); err != nil {
		return err
	}
	if err := move(staged, dir); err != nil {
		return err
	}
	// The record goes first: with the index still there it means nothing.
	return errors.Join(remove(models.RecordFile(old)), remove(old))
}

func (r *Registry) replaceOld(dir, old string) error {
	if err := moveIfThere(models.RecordFile(dir), models.RecordFile(old)); err != nil {
		return err
	}
	return move(dir, old)
}

func moveIfThere(from, to string) error {
	err := move(from, to)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

// remove removes files and directories.
func remove(paths ...string) error {
	var errs []error
	for _, path := range paths {
		errs = append(errs, ioError(os.RemoveAll(path)))
	}
	return errors.Join(errs...)
}

// empty removes all that is in a directory.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	errs := []error{ioError(err)}
	for _, e := range entries {
		errs = append(errs, remove(filepath.Join(dir, e.Name())))
	}
	return errors.Join(errs...)
}
