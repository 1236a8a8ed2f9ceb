package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/index"
)

// Folders of a data directory, as package registry has them.
const (
	collections = "collections"
	knowledge   = "knowledge"
)

// An IndexArg names an index: a directory, or a collection of a data directory.
type IndexArg struct {
	Dir  string `arg:"" help:"Directory of the index, or with --data the name of a collection."`
	Data string `placeholder:"DIR" help:"Data directory of quarry serve: the index is a collection in it."`
}

// AfterApply finds the collection.
func (a *IndexArg) AfterApply() error {
	if a.Data == "" {
		return nil
	}
	if err := registry.CheckName("collection", a.Dir); err != nil {
		return console.UsageError{Err: err}
	}
	a.Dir = filepath.Join(a.Data, collections, a.Dir)
	return nil
}

// A StoreArg names a store of knowledge bases: a directory, or the one of a data
// directory.
type StoreArg struct {
	Store string `arg:"" help:"Directory of the store, or with --data the word knowledge: the store of a data directory."`
	Data  string `placeholder:"DIR" help:"Data directory of quarry serve: the store is the one in it."`
}

// AfterApply finds the store.
func (a *StoreArg) AfterApply() error {
	if a.Data == "" {
		return nil
	}
	if a.Store != knowledge {
		return console.Usagef("%s: with --data the store is called %s", a.Store, knowledge)
	}
	a.Store = filepath.Join(a.Data, knowledge)
	return nil
}

// OpenReader opens an index that must be there for reading, beside a writer that
// may be at work.
func OpenReader(dir string) (*index.Index, error) {
	return OpenExisting(dir, &index.Options{ReadOnly: true})
}

// OpenExisting opens an index that must be there.
func OpenExisting(dir string, o *index.Options) (*index.Index, error) {
	o.MustExist = true
	ix, err := index.Open(dir, o)
	if errors.Is(err, index.ErrNotFound) {
		return nil, NoIndex(dir, err)
	}
	return ix, err
}

// NoIndex says plainly what a missing index is to the engine.
func NoIndex(dir string, err error) error {
	if info, serr := os.Stat(dir); serr == nil && info.IsDir() {
		return fmt.Errorf("no index in %s (quarry import makes one)", dir)
	}
	return fmt.Errorf("no index: %w", err)
}
