package storage

import (
	"errors"
	"io"
	iofs "io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"sync"
)

// A MemFS is a file system in memory that knows what a power loss would take:
// per file the content at its last Sync, per directory the names at its last
// SyncDir. It is for tests, and for an index that need not outlive its
// program. Paths are cleaned and taken from one root, which exists; other
// directories are made with MkdirAll.
type MemFS struct {
	mu      sync.Mutex
	dirs    map[string]*memDir
	locks   map[string]int // shared holders, or -1
	hook    func(op Op, name string, n int) error
	writes  int
	handles int
}

var _ FS = (*MemFS)(nil)

// memNode is a file's content. Bytes below len are never changed in place, so
// that synced, mappings and clones share them. Zeros that were reserved follow
// data up to length, if that is more, and synced up to syncedLength.
type memNode struct {
	data   []byte
	synced []byte

	length, syncedLength int
	// changes counts writes and cuts, durable those that synced has.
	changes, durable int
}

func (n *memNode) size() int64 { return int64(max(len(n.data), n.length)) }

// content returns the bytes of the file, which must not be changed.
func (n *memNode) content() []byte { return padded(n.data, n.length) }

// padded returns b with zeros up to length.
func padded(b []byte, length int) []byte {
	b = slices.Clip(b)
	if len(b) < length {
		b = append(b, make([]byte, length-len(b))...)
	}
	return b
}

type memDir struct {
	names   map[string]*memNode
	synced  map[string]*memNode
	pending []memDirOp // since the last SyncDir
}

// memDirOp sets name to node (nil removes it) and removes old unless "". A
// rename is one op: a crash keeps all of it or nothing.
type memDirOp struct {
	name string
	node *memNode
	old  string
}

func (op memDirOp) apply(names map[string]*memNode) {
	if op.old != "" {
		delete(names, op.old)
	}
	if op.node == nil {
		delete(names, op.name)
	} else {
		names[op.name] = op.node
	}
}

func (d *memDir) do(op memDirOp) {
	op.apply(d.names)
	d.pending = append(d.pending, op)
}

// NewMemFS returns an empty file system.
func NewMemFS() *MemFS {
	return &MemFS{dirs: map[string]*memDir{"/": newMemDir()}, locks: make(map[string]int)}
}

func newMemDir() *memDir {
	return &memDir{names: make(map[string]*memNode), synced: make(map[string]*memNode)}
}

// SetHook makes fs call hook before every operation, and fail the operation
// with the error it returns, if any. n counts the writing operations (see
// Op.IsWrite) so far, this one included, from 1: a test that fails or crashes
// at operation k compares n with k. The hook runs without locks held; it may
// call CrashClone. nil takes the hook away.
func (fs *MemFS) SetHook(hook func(op Op, name string, n int) error) {
	fs.mu.Lock()
	fs.hook = hook
	fs.mu.Unlock()
}

// Writes returns the number of writing operations so far.
func (fs *MemFS) Writes() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.writes
}

// Handles returns the number of open files, mappings and locks.
func (fs *MemFS) Handles() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.handles
}

// before counts the operation, asks the hook and, unless it objects, returns
// with mu held.
func (fs *MemFS) before(op Op, name string) error {
	fs.mu.Lock()
	if op.IsWrite() {
		fs.writes++
	}
	hook, n := fs.hook, fs.writes
	if hook == nil {
		return nil
	}
	fs.mu.Unlock()
	if err := hook(op, name, n); err != nil {
		return err
	}
	fs.mu.Lock()
	return nil
}

func memPath(name string) string { return path.Clean("/" + filepath.ToSlash(name)) }

// dirOf returns the directory of a cleaned path and the base name.
func (fs *MemFS) dirOf(p string) (*memDir, string, error) {
	dir, base := path.Split(p)
	d := fs.dirs[path.Clean(dir)]
	if d == nil {
		return nil, "", iofs.ErrNotExist
	}
	return d, base, nil
}

func (fs *MemFS) node(name string) (*memNode, error) {
	p := memPath(name)
	if fs.dirs[p] != nil {
		return nil, errors.New("is a directory")
	}
	d, base, err := fs.dirOf(p)
	if err != nil {
		return nil, err
	}
	n := d.names[base]
	if n == nil {
		return nil, iofs.ErrNotExist
	}
	return n, nil
}

// Create makes a new file.
func (fs *MemFS) Create(name string) (File, error) {
	if err := fs.before(OpCreate, name); err != nil {
		return nil, wrapIO("create", name, err)
	}
	defer fs.mu.Unlock()
	p := memPath(name)
	d, base, err := fs.dirOf(p)
	if err == nil && (d.names[base] != nil || fs.dirs[p] != nil) {
		err = iofs.ErrExist
	}
	if err != nil {
		return nil, wrapIO("create", name, err)
	}
	n := &memNode{}
	d.do(memDirOp{name: base, node: n})
	fs.handles++
	return &memFile{fs: fs, n: n, name: name, writable: true}, nil
}

// Open opens a file for reading.
func (fs *MemFS) Open(name string) (File, error) {
	if err := fs.before(OpOpen, name); err != nil {
		return nil, wrapIO("open", name, err)
	}
	defer fs.mu.Unlock()
	n, err := fs.node(name)
	if err != nil {
		return nil, wrapIO("open", name, err)
	}
	fs.handles++
	return &memFile{fs: fs, n: n, name: name}, nil
}

// Remove deletes a file or an empty directory. Open files and mappings of it
// stay good.
func (fs *MemFS) Remove(name string) error {
	if err := fs.before(OpRemove, name); err != nil {
		return wrapIO("remove", name, err)
	}
	defer fs.mu.Unlock()
	p := memPath(name)
	if d := fs.dirs[p]; d != nil {
		if p == "/" || len(d.names) > 0 || len(fs.subdirs(p)) > 0 {
			return wrapIO("remove", name, errors.New("directory not empty"))
		}
		delete(fs.dirs, p)
		return nil
	}
	d, base, err := fs.dirOf(p)
	if err == nil && d.names[base] == nil {
		err = iofs.ErrNotExist
	}
	if err == nil {
		d.do(memDirOp{name: base})
	}
	return wrapIO("remove", name, err)
}

// Rename gives a file a new name. It is atomic within a directory. Renaming
// directories is not supported.
func (fs *MemFS) Rename(oldName, newName string) error {
	what := oldName + " to " + newName
	if err := fs.before(OpRename, what); err != nil {
		return wrapIO("rename", what, err)
	}
	defer fs.mu.Unlock()
	n, err := fs.node(oldName)
	if err != nil {
		return wrapIO("rename", what, err)
	}
	from, oldBase, _ := fs.dirOf(memPath(oldName))
	p := memPath(newName)
	to, newBase, err := fs.dirOf(p)
	if err == nil && fs.dirs[p] != nil {
		err = iofs.ErrExist
	}
	switch {
	case err != nil, to.names[newBase] == n: // POSIX: two names of one file stay two
		return wrapIO("rename", what, err)
	case from == to:
		to.do(memDirOp{name: newBase, node: n, old: oldBase})
	default:
		to.do(memDirOp{name: newBase, node: n})
		from.do(memDirOp{name: oldBase})
	}
	return nil
}

// Link makes a hard link.
func (fs *MemFS) Link(oldName, newName string) error {
	what := oldName + " to " + newName
	if err := fs.before(OpLink, what); err != nil {
		return wrapIO("link", what, err)
	}
	defer fs.mu.Unlock()
	n, err := fs.node(oldName)
	if err != nil {
		return wrapIO("link", what, err)
	}
	p := memPath(newName)
	d, base, err := fs.dirOf(p)
	if err == nil && (d.names[base] != nil || fs.dirs[p] != nil) {
		err = iofs.ErrExist
	}
	if err == nil {
		d.do(memDirOp{name: base, node: n})
	}
	return wrapIO("link", what, err)
}

// subdirs returns the base names of the directories in p.
func (fs *MemFS) subdirs(p string) []string {
	var out []string
	for q := range fs.dirs {
		if q != "/" && path.Dir(q) == p {
			out = append(out, path.Base(q))
		}
	}
	return out
}

// List returns the sorted names in a directory.
func (fs *MemFS) List(dir string) ([]string, error) {
	if err := fs.before(OpList, dir); err != nil {
		return nil, wrapIO("list", dir, err)
	}
	defer fs.mu.Unlock()
	p := memPath(dir)
	d := fs.dirs[p]
	if d == nil {
		return nil, wrapIO("list", dir, iofs.ErrNotExist)
	}
	names := slices.AppendSeq(fs.subdirs(p), maps.Keys(d.names))
	slices.Sort(names)
	for i, name := range names {
		if d.names[name] == nil {
			names[i] += "/"
		}
	}
	return names, nil
}

// MkdirAll makes a directory and its parents, durably.
func (fs *MemFS) MkdirAll(dir string) error {
	if err := fs.before(OpMkdirAll, dir); err != nil {
		return wrapIO("mkdir", dir, err)
	}
	defer fs.mu.Unlock()
	var missing []string
	for p := memPath(dir); fs.dirs[p] == nil; p = path.Dir(p) {
		if d, base, err := fs.dirOf(p); err == nil && d.names[base] != nil {
			return wrapIO("mkdir", dir, iofs.ErrExist)
		}
		missing = append(missing, p)
	}
	for _, p := range missing {
		fs.dirs[p] = newMemDir()
	}
	return nil
}

// SyncDir makes the names in a directory durable.
func (fs *MemFS) SyncDir(dir string) error {
	if err := fs.before(OpSyncDir, dir); err != nil {
		return wrapIO("sync directory", dir, err)
	}
	defer fs.mu.Unlock()
	d := fs.dirs[memPath(dir)]
	if d == nil {
		return wrapIO("sync directory", dir, iofs.ErrNotExist)
	}
	d.synced, d.pending = maps.Clone(d.names), nil
	return nil
}

// Stat returns the size of a file, 0 for a directory.
func (fs *MemFS) Stat(name string) (int64, error) {
	if err := fs.before(OpStat, name); err != nil {
		return 0, wrapIO("stat", name, err)
	}
	defer fs.mu.Unlock()
	if fs.dirs[memPath(name)] != nil {
		return 0, nil
	}
	n, err := fs.node(name)
	if err != nil {
		return 0, wrapIO("stat", name, err)
	}
	return n.size(), nil
}

// Map returns the bytes of a file as they are now.
func (fs *MemFS) Map(name string) (Mapping, error) {
	if err := fs.before(OpMap, name); err != nil {
		return nil, wrapIO("map", name, err)
	}
	defer fs.mu.Unlock()
	n, err := fs.node(name)
	if err != nil {
		return nil, wrapIO("map", name, err)
	}
	b := n.content()
	if len(b) > 0 && uintptrOf(b)%SectionAlign != 0 {
		b = alignedCopy(b) // a map starts at a page
	}
	fs.handles++
	return &memMapping{fs: fs, name: name, b: b}, nil
}

// Lock takes a lock that lasts until Close, or until the file system is
// cloned: the clone has none, as after the death of the process.
func (fs *MemFS) Lock(name string, exclusive bool) (io.Closer, error) {
	if err := fs.before(OpLock, name); err != nil {
		return nil, wrapIO("lock", name, err)
	}
	defer fs.mu.Unlock()
	p := memPath(name)
	d, base, err := fs.dirOf(p)
	if err != nil {
		return nil, wrapIO("lock", name, err)
	}
	if d.names[base] == nil {
		d.do(memDirOp{name: base, node: &memNode{}})
	}
	have := fs.locks[p]
	switch {
	case have < 0, exclusive && have > 0:
		return nil, &lockedError{name}
	case exclusive:
		fs.locks[p] = -1
	default:
		fs.locks[p]++
	}
	fs.handles++
	return &memLock{fs: fs, p: p, name: name}, nil
}

type memFile struct {
	fs       *MemFS
	n        *memNode
	name     string
	writable bool
	closed   bool // under fs.mu
}

// use is before for an open file: nil means that mu is held.
func (f *memFile) use(op Op) error {
	err := f.fs.before(op, f.name)
	if err == nil && f.closed {
		f.fs.mu.Unlock()
		err = iofs.ErrClosed
	}
	if err == nil && !f.writable && (op == OpWrite || op == OpReserve || op == OpTruncate) {
		f.fs.mu.Unlock()
		err = iofs.ErrPermission
	}
	return err
}

func (f *memFile) Write(p []byte) (int, error) {
	err := f.use(OpWrite)
	if err != nil {
		var part *PartialWrite
		if !errors.As(err, &part) {
			return 0, wrapIO("write", f.name, err)
		}
		p = p[:min(max(part.Bytes, 0), len(p))]
		f.fs.mu.Lock()
	}
	f.n.data = append(f.n.data, p...)
	f.n.changes++
	f.fs.mu.Unlock()
	return len(p), wrapIO("write", f.name, err)
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.use(OpReadAt); err != nil {
		return 0, wrapIO("read", f.name, err)
	}
	data, size := f.n.data, f.n.size()
	f.fs.mu.Unlock()
	if off < 0 {
		return 0, wrapIO("read", f.name, Invalidf("offset %d", off))
	}
	p, want := p[:min(int64(len(p)), max(size-off, 0))], len(p)
	clear(p[copy(p, data[min(off, int64(len(data))):]):])
	if len(p) < want {
		return len(p), io.EOF
	}
	return len(p), nil
}

func (f *memFile) Size() (int64, error) {
	if err := f.use(OpSize); err != nil {
		return 0, wrapIO("stat", f.name, err)
	}
	defer f.fs.mu.Unlock()
	return f.n.size(), nil
}

func (f *memFile) StartSync() error {
	err := f.use(OpStartSync)
	if err == nil {
		f.fs.mu.Unlock()
	}
	return wrapIO("start sync", f.name, err)
}

// Sync makes what is there when it is called durable, not what is written
// while it runs.
func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	data, length, changes := slices.Clip(f.n.data), f.n.length, f.n.changes
	f.fs.mu.Unlock()
	if err := f.use(OpSync); err != nil {
		return wrapIO("sync", f.name, err)
	}
	defer f.fs.mu.Unlock()
	if changes >= f.n.durable {
		f.n.synced, f.n.syncedLength, f.n.durable = data, length, changes
	}
	return nil
}

func (f *memFile) Reserve(size int64) error {
	err := f.use(OpReserve)
	if err != nil {
		var part *PartialWrite
		if !errors.As(err, &part) {
			return wrapIO("reserve", f.name, err)
		}
		f.fs.mu.Lock()
		size = min(size, int64(len(f.n.data)+max(part.Bytes, 0)))
	}
	f.n.length = max(f.n.length, int(size))
	f.n.changes++
	f.fs.mu.Unlock()
	return wrapIO("reserve", f.name, err)
}

func (f *memFile) Truncate(size int64) error {
	if err := f.use(OpTruncate); err != nil {
		return wrapIO("truncate", f.name, err)
	}
	defer f.fs.mu.Unlock()
	if size < 0 || size > f.n.size() {
		return wrapIO("truncate", f.name, Invalidf("size %d of %d", size, f.n.size()))
	}
	f.n.changes++
	f.n.length = int(size)
	f.n.data = slices.Clip(f.n.data[:min(int(size), len(f.n.data))]) // what comes next must not change shared bytes
	return nil
}

func (f *memFile) Close() error {
	if err := f.use(OpClose); err != nil {
		return wrapIO("close", f.name, err)
	}
	defer f.fs.mu.Unlock()
	f.closed = true
	f.fs.handles--
	return nil
}

type memMapping struct {
	fs   *MemFS
	name string
	b    []byte
	dead bool
}

func (m *memMapping) Bytes() []byte { return m.b }

func (m *memMapping) Advise(off, n int64, _ Advice) error {
	if off < 0 || n < 0 || off+n > int64(len(m.b)) {
		return Invalidf("advise: bytes [%d,%d) of %s, which has %d", off, off+n, m.name, len(m.b))
	}
	return nil
}

func (m *memMapping) Close() error {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	if !m.dead {
		m.dead = true
		m.fs.handles--
	}
	return nil
}

type memLock struct {
	fs      *MemFS
	p, name string
	dead    bool
}

func (l *memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.dead {
		return wrapIO("unlock", l.name, iofs.ErrClosed)
	}
	l.dead = true
	l.fs.handles--
	if l.fs.locks[l.p] < 0 {
		delete(l.fs.locks, l.p)
	} else {
		l.fs.locks[l.p]--
	}
	return nil
}
