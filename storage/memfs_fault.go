package storage

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
)

// Op is a kind of file system operation, for the hook of a MemFS.
type Op uint8

// The operations. Those up to OpMkdirAll change what is stored, or make it
// durable: they are the ones the hook numbers.
const (
	OpCreate Op = iota
	OpWrite
	OpReserve
	OpStartSync
	OpSync
	OpTruncate
	OpRemove
	OpRename
	OpLink
	OpSyncDir
	OpMkdirAll
	OpOpen
	OpReadAt
	OpSize
	OpClose
	OpList
	OpStat
	OpMap
	OpLock
)

// IsWrite reports whether the operation changes what is stored or makes it
// durable.
func (op Op) IsWrite() bool { return op <= OpMkdirAll }

func (op Op) String() string {
	names := [...]string{"create", "write", "reserve", "start sync", "sync", "truncate", "remove", "rename", "link", "sync directory", "mkdir",
		"open", "read", "size", "close", "list", "stat", "map", "lock"}
	if int(op) < len(names) {
		return names[op]
	}
	return "op?"
}

// A PartialWrite is an error a hook may return for OpWrite and OpReserve: the
// first Bytes bytes are written, then the write fails with Err.
type PartialWrite struct {
	Bytes int
	Err   error
}

func (e *PartialWrite) Error() string { return e.Err.Error() }
func (e *PartialWrite) Unwrap() error { return e.Err }

// ReadFile returns a copy of a file's bytes, without the hook.
func (fs *MemFS) ReadFile(name string) ([]byte, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n, err := fs.node(name)
	if err != nil {
		return nil, wrapIO("read", name, err)
	}
	return slices.Clone(n.content()), nil
}

// WriteFile makes a file hold a copy of data, durably and without the hook:
// tests damage files with it.
func (fs *MemFS) WriteFile(name string, data []byte) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	d, base, err := fs.dirOf(memPath(name))
	if err != nil {
		return wrapIO("write", name, err)
	}
	b := slices.Clone(data)
	n := &memNode{data: b, synced: slices.Clip(b)}
	d.names[base], d.synced[base] = n, n
	return nil
}

// Clone returns a file system with all that was written, synced or not: what
// a killed process leaves. It has no locks and no hook.
func (fs *MemFS) Clone() *MemFS {
	return fs.clone(func(d *memDir) map[string]*memNode { return d.names },
		(*memNode).content)
}

// CrashClone returns what a power loss at this moment would leave: all that
// was synced, and a part of the rest that rng chooses, of bytes and of names.
// Unsynced bytes survive as a prefix or as single 512-byte sectors with zeros
// between, and reserved zeros up to any length; unsynced changes of names as a
// prefix or as any subset, renames being whole. A nil rng keeps nothing that
// was not synced. The clone has no locks and no hook, and everything in it is
// durable.
func (fs *MemFS) CrashClone(rng *rand.Rand) *MemFS {
	if rng == nil {
		return fs.clone(func(d *memDir) map[string]*memNode { return d.synced },
			func(n *memNode) []byte { return padded(n.synced, n.syncedLength) })
	}
	return fs.clone(func(d *memDir) map[string]*memNode { return crashNames(d, rng) },
		func(n *memNode) []byte { return crashBytes(n, rng) })
}

func (fs *MemFS) clone(names func(*memDir) map[string]*memNode, content func(*memNode) []byte) *MemFS {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	out := NewMemFS()
	nodes := make(map[*memNode]*memNode) // hard links stay links
	for _, p := range slices.Sorted(maps.Keys(fs.dirs)) {
		d := newMemDir()
		kept := names(fs.dirs[p])
		for _, name := range slices.Sorted(maps.Keys(kept)) {
			n := kept[name]
			if nodes[n] == nil {
				b := slices.Clip(content(n))
				nodes[n] = &memNode{data: b, synced: b}
			}
			d.names[name], d.synced[name] = nodes[n], nodes[n]
		}
		out.dirs[p] = d
	}
	return out
}

func crashNames(d *memDir, rng *rand.Rand) map[string]*memNode {
	names := maps.Clone(d.synced)
	subset := rng.IntN(2) == 0
	upTo := rng.IntN(len(d.pending) + 1)
	for i, op := range d.pending {
		if subset && rng.IntN(2) == 0 || !subset && i < upTo {
			op.apply(names)
		}
	}
	return names
}

func crashBytes(n *memNode, rng *rand.Rand) []byte {
	length := n.syncedLength
	if n.length != length { // of a reserved part that was not synced, or cut
		from, to := min(length, n.length), max(length, n.length)
		length = [...]int{length, n.length, from + rng.IntN(to-from+1)}[rng.IntN(3)]
	}
	return padded(crashWritten(n, rng), length)
}

// crashWritten is what is left of the bytes that were written; where they lie
// over reserved zeros, the zeros come back with their loss.
func crashWritten(n *memNode, rng *rand.Rand) []byte {
	base, cur := n.synced, n.data
	if !bytes.HasPrefix(cur, base) { // cut since the sync; the cut may be lost
		if rng.IntN(2) == 0 {
			return base
		}
		same := 0
		for same < min(len(base), len(cur)) && base[same] == cur[same] {
			same++
		}
		base = cur[:same]
	}
	switch rng.IntN(4) {
	case 0:
		return base
	case 1:
		return cur
	case 2:
		return cur[:len(base)+rng.IntN(len(cur)-len(base)+1)]
	}
	out := slices.Clone(cur[:len(base)+rng.IntN(len(cur)-len(base)+1)])
	for from := len(base); from < len(out); {
		end := min(from-from%walSector+walSector, len(out))
		if rng.IntN(2) == 0 {
			clear(out[from:end])
		}
		from = end
	}
	return out
}
