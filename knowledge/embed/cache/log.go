package cache

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"path/filepath"
	"slices"

	"github.com/quarrysearch/quarry/storage"
)

// load opens the logs that are there and indexes their records.
func (c *Cache) load() error {
	names, err := c.fs.List(c.dir)
	if err != nil {
		return err
	}
	for _, name := range names { // sorted, so oldest first
		number, ok := parseName(name)
		if !ok {
			continue
		}
		c.next = max(c.next, number+1)
		c.loadLog(number, name)
	}
	if c.writes {
		c.shrink()
	}
	return nil
}

func (c *Cache) loadLog(number uint64, name string) {
	path := filepath.Join(c.dir, name)
	f, err := c.fs.Open(path)
	if err != nil {
		c.note("%s: %v", name, err)
		return
	}
	l := &log{number: number, name: name, file: f}
	size, err := f.Size()
	if err == nil {
		err = c.scan(l, size)
	}
	if err == nil {
		c.logs = append(c.logs, l)
		return
	}
	_ = f.Close()
	c.stats.Damaged++
	if errors.Is(err, storage.ErrCorrupt) && c.writes {
		c.note("%v: dropped", err)
		if err := c.fs.Remove(path); err != nil {
			c.note("%v", err)
		}
		return
	}
	c.note("%v: left alone", err)
}

// scan indexes the records of a log up to the first bad one. An error means
// that the log is of no use.
func (c *Cache) scan(l *log, size int64) error {
	r := bufio.NewReaderSize(io.NewSectionReader(l.file, 0, size), 256<<10)
	head := make([]byte, headerSize)
	if n, err := io.ReadFull(r, head); err != nil {
		if errors.Is(err, storage.ErrIO) {
			return err
		}
		head = head[:n]
	}
	if err := checkHeader(l.name, head, l.number); err != nil {
		return err
	}
	l.size = headerSize
	var record []byte
	for l.size < size {
		record = slices.Grow(record[:0], recordHead)[:recordHead]
		_, err := io.ReadFull(r, record)
		dim, ok := 0, false
		if err == nil {
			dim, ok = recordDim(record)
		}
		if n := int64(recordSize(dim)); ok && n <= size-l.size {
			record = slices.Grow(record, int(n)-recordHead)[:n]
			_, err = io.ReadFull(r, record[recordHead:])
		} else {
			ok = false
		}
		k, _, good := checkRecord(record)
		if !ok || err != nil || !good {
			c.stats.Damaged++
			c.note("%s: bad record at byte %d of %d: the rest is dropped", l.name, l.size, size)
			return nil
		}
		c.entries[k] = entry{log: l, off: l.size, dim: int32(dim)}
		l.size += int64(len(record))
	}
	return nil
}

// append writes whole records of one dimension to the newest log, beginning a
// new one when that is full. keys are theirs, in order.
func (c *Cache) append(records []byte, keys []key, dim int) bool {
	if len(keys) == 0 || !c.writes {
		return false
	}
	if !c.active || c.logs[len(c.logs)-1].size+int64(len(records)) > c.limit {
		if !c.rotate() {
			return false
		}
	}
	l := c.logs[len(c.logs)-1]
	if _, err := l.file.Write(records); err != nil {
		c.stop("write", l, err)
		return false
	}
	for i, k := range keys {
		c.entries[k] = entry{log: l, off: l.size + int64(i*recordSize(dim)), dim: int32(dim)}
	}
	l.size += int64(len(records))
	return true
}

// stop ends writing after a failure: what was written before stays readable. A
// full disk takes back the part of the record that was written and lets a later
// call try again.
func (c *Cache) stop(what string, l *log, err error) {
	c.note("%s: %s: %v", l.name, what, err)
	if storage.IsDiskFull(err) && l.file.Truncate(l.size) == nil {
		return
	}
	c.writes = false
}

// rotate begins a new log.
func (c *Cache) rotate() bool {
	if c.active {
		l := c.logs[len(c.logs)-1]
		if err := l.file.Sync(); err != nil {
			c.stop("sync", l, err)
			return false
		}
	}
	l := &log{number: c.next, name: logName(c.next), size: headerSize}
	c.next++
	path := filepath.Join(c.dir, l.name)
	f, err := c.fs.Create(path)
	if err != nil {
		c.note("%v", err)
		c.writes = storage.IsDiskFull(err)
		return false
	}
	l.file = f
	if _, err := f.Write(appendHeader(nil, l.number)); err != nil {
		c.note("%v", err)
		c.writes = storage.IsDiskFull(err)
		_ = f.Close()
		_ = c.fs.Remove(path)
		return false
	}
	_ = c.fs.SyncDir(c.dir) // a lost name is a lost log, no more
	c.logs = append(c.logs, l)
	c.active = true
	return true
}

// shrink keeps the bounds on bytes and on the number of logs.
func (c *Cache) shrink() {
	sealed := len(c.logs)
	if c.active {
		sealed--
	}
	if c.writes && sealed > manyLogs {
		small := 0
		for i, l := range c.logs[:sealed] {
			if l.size < c.logs[small].size {
				small = i
			}
		}
		c.drop(small, c.logs[small].size, func(entry) bool { return true })
	}
	// It ends: what moves is no longer used, so it goes the next time.
	for c.writes && (len(c.logs) > 1 || !c.active && len(c.logs) == 1) && c.bytes() > c.o.MaxBytes {
		c.drop(0, c.limit/2, func(e entry) bool { return e.used })
	}
}

// drop removes a log that is not being written. Of its entries that keep
// chooses, the first, up to so many bytes, move to the newest log.
func (c *Cache) drop(i int, room int64, keep func(entry) bool) {
	l := c.logs[i]
	type place struct {
		k key
		e entry
	}
	var places []place
	for k, e := range c.entries {
		if e.log == l {
			places = append(places, place{k, e})
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.e.off, b.e.off) })
	for _, p := range places {
		delete(c.entries, p.k)
		n := int64(recordSize(int(p.e.dim)))
		if !keep(p.e) || n > room {
			c.stats.Evicted++
			continue
		}
		record, err := c.read(p.e)
		if got, _, good := checkRecord(record); err != nil || !good || got != p.k {
			c.stats.Damaged++
			continue
		}
		if !c.append(record, []key{p.k}, int(p.e.dim)) {
			c.stats.Evicted++
			continue
		}
		room -= n
	}
	c.logs = slices.Delete(c.logs, i, i+1)
	_ = l.file.Close()
	if err := c.fs.Remove(filepath.Join(c.dir, l.name)); err != nil {
		c.note("%v", err)
	}
}
