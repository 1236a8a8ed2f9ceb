package cluster

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

// KeyVariable is the environment variable of the API key.
const KeyVariable = "QUARRY_CLUSTER_KEY"

// Defaults and ranges of Options.
const (
	defaultReplicas  = 3
	defaultTimeout   = 30 * time.Second
	defaultAttempt   = 5 * time.Second
	defaultWriters   = 4
	defaultDocuments = 250
	maxURLs          = 64
	maxName          = 96
)

// Options opens a collection of a cluster.
type Options struct {
	// URLs are the coordinators, as http://10.0.0.1:8080: nodes of the cluster.
	// Name several, so that one that is down is passed by; at most 64.
	URLs []string
	// Collection is its name: 1 to 96 letters, digits, '-', '_' and '.', a letter
	// or digit first.
	Collection string
	// Schema of a new collection, or additions to an old one; nil takes the
	// stored one, and a collection that is not there is ErrNotFound.
	Schema *index.Schema
	// Analyzers are analyzers with dictionaries, as index.Options.Analyzers.
	Analyzers []*analysis.Analyzer
	// Key is the API key; default the environment variable KeyVariable, and no
	// key where that is empty.
	Key string
	// TLS is for https URLs; nil is the authorities of the system.
	TLS *tls.Config
	// Replicas and Shards of a new collection: default 3 replicas, or as many as
	// there are nodes, and a shard a node. Neither can be changed afterwards.
	Replicas, Shards int
	// Timeout bounds a call whose context has no deadline, default 30 s, and 50 ms
	// more for each operation of a batch; Attempt one request to one node, default
	// 5 s, and a second more for each MB and 50 ms for each document that is sent. A
	// write to documents is not sent again when they run out: it may yet be carried
	// out.
	Timeout, Attempt time.Duration
	// Writers is how many requests of one Apply are on their way at a time,
	// default 4; Documents how many documents each holds at most, default 250.
	Writers, Documents int
	// Transport carries the requests; default one of the package's own.
	Transport http.RoundTripper
}

// normalize checks the options and fills in defaults.
func (o Options) normalize() (Options, error) {
	if o.Key == "" {
		o.Key = os.Getenv(KeyVariable)
	}
	o.Timeout, o.Attempt = or(o.Timeout, defaultTimeout), or(o.Attempt, defaultAttempt)
	o.Writers, o.Documents = or(o.Writers, defaultWriters), or(o.Documents, defaultDocuments)
	switch {
	case len(o.URLs) == 0 || len(o.URLs) > maxURLs:
		return o, storage.Invalidf("Options.URLs: %d nodes, want 1 to %d", len(o.URLs), maxURLs)
	case o.Replicas < 0 || o.Shards < 0 || o.Timeout < 0 || o.Attempt < 0 || o.Writers < 0 || o.Documents < 0:
		return o, storage.Invalidf("Options: a number is negative")
	}
	urls := make([]string, len(o.URLs))
	for i, s := range o.URLs {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
			return o, storage.Invalidf("Options.URLs: %q: want http://HOST:PORT or https://HOST:PORT", s)
		}
		urls[i] = strings.TrimRight(s, "/")
	}
	o.URLs = urls
	return o, nil
}

func or[T comparable](v, standard T) T {
	var zero T
	if v == zero {
		return standard
	}
	return v
}

// checkName checks the name of a collection.
func checkName(name string) error {
	ok := name != "" && len(name) <= maxName && name[0] != '-' && name[0] != '_' && name[0] != '.'
	for _, c := range []byte(name) {
		ok = ok && (alphanumeric(c) || c == '-' || c == '_' || c == '.')
	}
	if !ok {
		return storage.Invalidf("collection %q: want 1 to %d letters, digits, '-', '_' and '.', a letter or digit first", name, maxName)
	}
	return nil
}

// A Collection is one collection of a cluster. Its methods may be called from any
// number of goroutines.
type Collection struct {
	o      Options // defaults filled in
	client *client
	name   string
	class  string // its name in the cluster
	known  atomic.Pointer[layout]
	counts counts
	closed atomic.Bool
}

// Open opens a collection, or makes it where there is none and o.Schema is
// given. It returns when every node of o.URLs that answers knows it.
func Open(ctx context.Context, o Options) (*Collection, error) {
	o, err := o.normalize()
	if err != nil {
		return nil, err
	}
	if err := checkName(o.Collection); err != nil {
		return nil, err
	}
	c := &Collection{o: o, client: newClient(o), name: o.Collection, class: className(o.Collection)}
	ctx, cancel := c.client.bound(ctx)
	defer cancel()
	if err := c.open(ctx); err != nil {
		c.client.close()
		return nil, c.wrap("open", err)
	}
	return c, nil
}

// Drop removes a collection with all its documents; ErrNotFound when there is
// none.
func Drop(ctx context.Context, o Options) error {
	o, err := o.normalize()
	if err != nil {
		return err
	}
	if err := checkName(o.Collection); err != nil {
		return err
	}
	c := &Collection{o: o, client: newClient(o), name: o.Collection, class: className(o.Collection)}
	defer c.client.close()
	ctx, cancel := c.client.bound(ctx)
	defer cancel()
	if _, err := c.client.call(ctx, request{method: http.MethodGet, path: c.schemaPath()}); err != nil {
		return c.wrap("drop", err)
	}
	_, err = c.client.call(ctx, request{method: http.MethodDelete, path: c.schemaPath(), write: true})
	return c.wrap("drop", err)
}

// List returns the names of the collections of a cluster that this package made,
// sorted. o.Collection is not looked at.
func List(ctx context.Context, o Options) ([]string, error) {
	o, err := o.normalize()
	if err != nil {
		return nil, err
	}
	c := newClient(o)
	defer c.close()
	ctx, cancel := c.bound(ctx)
	defer cancel()
	data, err := c.call(ctx, request{method: http.MethodGet, path: "/v1/schema"})
	if err != nil {
		return nil, err
	}
	return decodeNames(data)
}

// OpenNamed opens the collection of another name, with another schema.
func (o Options) OpenNamed(ctx context.Context, name string, schema *index.Schema) (collection.Collection, error) {
	o.Collection, o.Schema = name, schema
	c, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// DropNamed removes the collection of another name.
func (o Options) DropNamed(ctx context.Context, name string) error {
	o.Collection = name
	return Drop(ctx, o)
}

// Close ends the collection's connections. Later calls are ErrClosed.
func (c *Collection) Close() error {
	if c.closed.Swap(true) {
		return storage.ErrClosed
	}
	c.client.close()
	return nil
}
