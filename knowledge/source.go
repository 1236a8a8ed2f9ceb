package knowledge

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/storage"
)

// A Source is a document given as bytes.
type Source struct {
	// Name is shown in citations and, by its extension, hints at the format.
	// It is also the document's id: the same name again is a new version.
	Name string
	Data []byte
	// Title overrides what the document says of itself.
	Title string
	// Meta is kept with the document and each of its chunks, under MetaPrefix,
	// for filters. Values are those of index.Document.Meta. What is named
	// entities, freshness, expires, node_kind or source_id also decides on the
	// fields of those names (see the package comment).
	Meta map[string]any
	// Modified may tell the age of the bytes.
	Modified time.Time
}

// A File is a document in a file of the host.
type File struct {
	Path string
	// Name is as in Source; default the path where it is relative and stays
	// below the working directory, else its last element.
	Name string
}

// A Folder is a tree of files of the host. Each is a document whose name is its
// path in the folder, with '/' on every system.
type Folder struct {
	Path string
	// Name is put before the documents' names, with a '/'; default none. Two
	// folders whose files have equal names need names.
	Name string
}

// A place is one source on its way into the pipeline.
type place struct {
	name, id string
	origin   string // absolute path of the folder or file
	sourceID string // unless the document declares one; "" is its name
	title    string
	meta     map[string]any
	modified time.Time
	size     int64  // as far as it is known
	data     []byte // when open is nil
	open     func() (openedSource, error)
	carry    *Document // a rebuild keeps what it says
}

// An openedSource is a file, or bytes.
type openedSource struct {
	file     *os.File
	size     int64
	bytes    []byte
	modified time.Time
}

// read returns the bytes of a source and their time.
func (p *place) read(limit int64) ([]byte, time.Time, error) {
	if p.open == nil {
		if int64(len(p.data)) > limit {
			return nil, time.Time{}, tooLarge(int64(len(p.data)), limit)
		}
		return p.data, p.modified, nil
	}
	o, err := p.open()
	if err != nil {
		return nil, time.Time{}, err
	}
	if o.file == nil {
		return o.bytes, o.modified, nil
	}
	defer o.file.Close() // read only: nothing to lose
	if o.size > limit {
		return nil, time.Time{}, tooLarge(o.size, limit)
	}
	// A file may grow, or never end, whatever its size says.
	data, err := io.ReadAll(io.LimitReader(o.file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%w: more than %d bytes", storage.ErrTooLarge, limit)
	}
	return data, o.modified, err
}

func tooLarge(size, limit int64) error {
	return fmt.Errorf("%w: %d bytes, at most %d", storage.ErrTooLarge, size, limit)
}

func regular(f *os.File, err error) (openedSource, error) {
	if err != nil {
		return openedSource{}, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = storage.Invalidf("not a regular file")
	}
	if err != nil {
		return openedSource{}, errors.Join(err, f.Close())
	}
	return openedSource{file: f, size: info.Size(), modified: info.ModTime()}, nil
}

// A tree is a folder that was walked.
type tree struct {
	root    *os.Root
	origin  string
	places  []place
	skipped []Skip
	// unread are the names of what could not be walked: what was known below
	// is not taken for vanished. "." stands for all.
	unread []string
	seen   map[string]bool // ids of every file met, read or not
}

// known are the extensions of files that package parse reads. Others are
// skipped unless the ingest asks for them: a folder holds images, archives and
// what else.
var known = []string{".md", ".markdown", ".mdown", ".mkd", ".mdx", ".html", ".htm", ".xhtml", ".xht", ".txt", ".text", ".rst", ".adoc",
	".org", ".pdf", ".docx", ".docm", ".dotx", ".xlsx", ".xlsm", ".xltx", ".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json"}

// walk lists the files of a folder. Hidden files, files of unknown kinds and
// links that lead out of the folder are skipped and reported; links to files
// inside are read; links to directories are not followed, so a walk ends.
func walk(ctx context.Context, f Folder) (*tree, error) {
	origin, err := filepath.Abs(f.Path)
	if err != nil {
		return nil, err
	}
	if f.Name != "" && (!iofs.ValidPath(f.Name) || f.Name == "." || strings.Contains(f.Name, `\`)) {
		return nil, storage.Invalidf("folder name %q: want a relative path without '..'", f.Name)
	}
	// os.Root refuses every way out: "..", links, and what changes meanwhile.
	root, err := os.OpenRoot(f.Path)
	if err != nil {
		return nil, err
	}
	t := &tree{root: root, origin: filepath.ToSlash(origin), seen: make(map[string]bool)}
	err = iofs.WalkDir(root.FS(), ".", func(name string, d iofs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return t.visit(f, name, d, err)
	})
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return t, nil
}

func (t *tree) visit(f Folder, name string, d iofs.DirEntry, err error) error {
	full := path.Join(f.Name, name)
	skip := func(format string, args ...any) error {
		t.skipped = append(t.skipped, Skip{Source: full, Reason: fmt.Sprintf(format, args...)})
		if d != nil && d.IsDir() {
			return iofs.SkipDir
		}
		return nil
	}
	if err != nil {
		if name == "." {
			return err
		}
		t.unread = append(t.unread, full)
		return skip("cannot be read: %v", err)
	}
	if name == "." {
		return nil
	}
	if strings.HasPrefix(path.Base(name), ".") {
		return skip("hidden")
	}
	if d.IsDir() {
		return nil
	}
	if !utf8.ValidString(name) {
		return skip("its name is not UTF-8")
	}
	if d.Type()&iofs.ModeSymlink != 0 {
		info, err := t.root.Stat(filepath.FromSlash(name))
		switch {
		case err != nil:
			return skip("a link out of the folder, or to nothing")
		case info.IsDir():
			return skip("a link to a directory")
		}
	} else if !d.Type().IsRegular() {
		return skip("not a regular file")
	}
	if !slices.Contains(known, strings.ToLower(path.Ext(name))) {
		return skip("of an unknown kind")
	}
	id := documentID(full)
	t.seen[id] = true
	var size int64
	if info, err := d.Info(); err == nil {
		size = info.Size()
	}
	t.places = append(t.places, place{name: full, id: id, origin: t.origin, sourceID: f.Name, size: size,
		open: func() (openedSource, error) {
			return regular(t.root.Open(filepath.FromSlash(name)))
		}})
	return nil
}

// vanished tells whether a document that came from this folder is gone from it.
func (t *tree) vanished(d *Document) bool {
	if d.Origin != t.origin || t.seen[d.ID] {
		return false
	}
	for _, dir := range t.unread {
		if d.Source == dir || strings.HasPrefix(d.Source, dir+"/") {
			return false
		}
	}
	return true
}

// place makes the place of a file.
func (f File) place() (place, error) {
	abs, err := filepath.Abs(f.Path)
	if err != nil {
		return place{}, err
	}
	name := f.Name
	if name == "" {
		name = filepath.ToSlash(filepath.Clean(f.Path))
		if !filepath.IsLocal(f.Path) {
			name = filepath.Base(abs)
		}
	}
	if err := checkName(name); err != nil {
		return place{}, err
	}
	var size int64
	if info, err := os.Stat(f.Path); err == nil {
		size = info.Size() // an error shows when it is read
	}
	return place{name: name, id: documentID(name), origin: filepath.ToSlash(abs), size: size,
		open: func() (openedSource, error) { return openRegular(f.Path) }}, nil
}

// openRegular opens a file that is regular: a pipe would wait for ever.
func openRegular(name string) (openedSource, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = storage.Invalidf("not a regular file")
	}
	if err != nil {
		return openedSource{}, err
	}
	return regular(os.Open(name))
}

func (s Source) place() (place, error) {
	if err := checkName(s.Name); err != nil {
		return place{}, err
	}
	for k := range s.Meta {
		if k == "" || len(k) > maxMetaName || !utf8.ValidString(k) {
			return place{}, storage.Invalidf("source %q: metadata name %q: want 1 to %d bytes of UTF-8", s.Name, k, maxMetaName)
		}
	}
	return place{name: s.Name, id: documentID(s.Name), title: s.Title, meta: s.Meta, modified: s.Modified, size: int64(len(s.Data)), data: s.Data}, nil
}

// checkName refuses names that lead out of where they belong, were they taken
// for a path by whoever shows them.
func checkName(name string) error {
	switch {
	case name == "" || !utf8.ValidString(name) || len(name) > maxSourceName:
		return storage.Invalidf("source name %.80q: want 1 to %d bytes of UTF-8", name, maxSourceName)
	case slices.Contains(strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' }), ".."):
		return storage.Invalidf("source name %.80q: it has '..' in it", name)
	}
	return nil
}

const (
	maxSourceName = 4096
	maxMetaName   = 100
)
