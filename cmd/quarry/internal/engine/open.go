package engine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quarrysearch/quarry/cluster"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/knowledge"
)

// Folders of a data directory, as package registry has them.
const (
	collections = "collections"
	bases       = "knowledge"
)

// An IndexArg names an index: a directory, or a collection of a data directory or
// of a cluster.
type IndexArg struct {
	Dir     string   `arg:"" help:"Directory of the index, or with --data or --cluster the name of a collection."`
	Data    string   `placeholder:"DIR" xor:"place" help:"Data directory of quarry serve: the index is a collection in it."`
	Cluster []string `placeholder:"URL" xor:"place" help:"Nodes of a cluster, as http://10.0.0.1:8080: the index is a collection of it."`
}

// AfterApply finds the collection.
func (a *IndexArg) AfterApply() (err error) {
	a.Dir, err = inData(a.Data, a.Dir)
	return err
}

// A FilesArg names an index by whose files a command goes.
type FilesArg struct {
	Dir     string   `arg:"" help:"Directory of the index, or with --data the name of a collection."`
	Data    string   `placeholder:"DIR" help:"Data directory of quarry serve: the index is a collection in it."`
	Cluster []string `hidden:"" placeholder:"URL" help:"Refused: a cluster keeps no files of an index."`
}

// AfterApply finds the collection.
func (a *FilesArg) AfterApply() (err error) {
	if len(a.Cluster) > 0 {
		return console.Usagef("--cluster: this command works on the files of an index, and the nodes of a cluster keep their own; quarry copy brings a collection of a cluster into a directory")
	}
	a.Dir, err = inData(a.Data, a.Dir)
	return err
}

func inData(data, name string) (string, error) {
	if data == "" {
		return name, nil
	}
	if err := registry.CheckName("collection", name); err != nil {
		return "", console.UsageError{Err: err}
	}
	return filepath.Join(data, collections, name), nil
}

// Reader opens the index, which must be there, for reading.
func (a *IndexArg) Reader(ctx context.Context) (collection.Collection, error) {
	return a.Open(ctx, &index.Options{ReadOnly: true, MustExist: true})
}

// Open opens the index. Of the options a cluster knows the schema, and nil with
// MustExist.
func (a *IndexArg) Open(ctx context.Context, o *index.Options) (collection.Collection, error) {
	if len(a.Cluster) == 0 {
		ix, err := index.Open(a.Dir, o)
		if errors.Is(err, index.ErrNotFound) && o.MustExist {
			err = NoIndex(a.Dir, err)
		}
		if err != nil {
			return nil, err
		}
		return &collection.Local{Index: ix}, nil
	}
	co, err := ClusterOptions(a.Cluster)
	if err != nil {
		return nil, err
	}
	return co.OpenNamed(ctx, a.Dir, o.Schema)
}

// AuthorityVariable is the environment variable that names a file of the
// certificates, in PEM, of those who vouch for a cluster's nodes.
const AuthorityVariable = "QUARRY_CLUSTER_CA"

// ClusterOptions are those of the nodes named, with the key and the authorities
// of the environment.
func ClusterOptions(urls []string) (cluster.Options, error) {
	o := cluster.Options{URLs: urls}
	file := os.Getenv(AuthorityVariable)
	if file == "" {
		return o, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return o, fmt.Errorf("%s: %w", AuthorityVariable, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return o, fmt.Errorf("%s: no certificate in %s", AuthorityVariable, file)
	}
	o.TLS = &tls.Config{RootCAs: pool}
	return o, nil
}

// Elsewhere keeps the indexes of knowledge bases on the cluster of these nodes;
// nil without any.
func Elsewhere(urls []string) (*knowledge.Elsewhere, error) {
	if len(urls) == 0 {
		return nil, nil
	}
	o, err := ClusterOptions(urls)
	if err != nil {
		return nil, err
	}
	return &knowledge.Elsewhere{Open: o.OpenNamed, Drop: o.DropNamed}, nil
}

// A StoreArg names a store of knowledge bases: a directory, or the one of a data
// directory.
type StoreArg struct {
	Store string `arg:"" help:"Directory of the store, or with --data the word knowledge: the store of a data directory."`
	Data  string `placeholder:"DIR" help:"Data directory of quarry serve: the store is the one in it."`

	Cluster []string `placeholder:"URL" help:"Nodes of a cluster, as http://10.0.0.1:8080, that keeps the indexes of bases; catalogs and sources stay in the store."`
}

// AfterApply finds the store.
func (a *StoreArg) AfterApply() error {
	if a.Data == "" {
		return nil
	}
	if a.Store != bases {
		return console.Usagef("%s: with --data the store is called %s", a.Store, bases)
	}
	a.Store = filepath.Join(a.Data, bases)
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
