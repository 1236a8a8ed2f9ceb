package index

import (
	"errors"
	"testing"

	"github.com/quarrysearch/quarry/storage"
)

// oldFormat is the index of the first released format, and its documents.
func oldFormat(t testing.TB) (*storage.MemFS, model) {
	t.Helper()
	fs := writeAll(t, unzip(t, formatZip(1)))
	ix, err := Open("/db", &Options{FS: fs, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	docs := model{}
	for d, err := range ix.Documents("") {
		if err != nil {
			t.Fatal(err)
		}
		docs[d.ID] = d
	}
	return fs, docs
}

// An upgrade leaves no part of an older format, changes no document, and has
// nothing to do the second time.
func TestUpgrade(t *testing.T) {
	fs, docs := oldFormat(t)
	ix := mustOpen(t, fs, func(o *Options) { o.GraphMin = 8 })
	old := 0
	for _, v := range ix.cur.views[:ix.cur.files] {
		if v.Old() {
			old++
		}
	}
	if old == 0 {
		t.Fatal("no segment is of an older format")
	}
	if n, err := ix.Upgrade(bg); err != nil || n != old {
		t.Fatalf("%d segments upgraded, want %d: %v", n, old, err)
	}
	for _, v := range ix.cur.views {
		if v.Old() {
			t.Errorf("%s is still of an older format", v.name)
		}
	}
	s, err := ix.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := docs.compare(s); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := ix.Upgrade(bg); err != nil || n != 0 {
		t.Errorf("%d segments upgraded again: %v", n, err)
	}
	if err := ix.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ix.Upgrade(bg); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if rep, err := Check(bg, "/db", fs, true); err != nil {
		t.Fatalf("%+v %v", rep, err)
	}
	ro, err := Open("/db", &Options{FS: fs, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if _, err := ro.Upgrade(bg); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
}

// upgraded is a crash scenario: at every moment the index holds the same.
func upgraded(fs *storage.MemFS, _ uint64) (func() error, func() func(*storage.MemFS) error, error) {
	files, err := readZip(formatZip(1))
	if err != nil {
		return nil, nil, err
	}
	if err := fs.MkdirAll("/db"); err != nil {
		return nil, nil, err
	}
	for name, b := range files {
		if err := fs.WriteFile("/db/"+name, b); err != nil {
			return nil, nil, err
		}
	}
	l := &ledger{states: []model{{}}}
	ix, err := Open("/db", crashOptions(fs))
	if err != nil {
		return nil, nil, err
	}
	for d, err := range ix.Documents("") {
		if err != nil {
			return nil, nil, err
		}
		l.last()[d.ID] = d
	}
	act := func() error {
		n, err := ix.Upgrade(bg)
		if err == nil && n == 0 {
			err = errors.New("nothing was upgraded")
		}
		return errors.Join(err, ix.Close())
	}
	return act, func() func(*storage.MemFS) error { return l.found("/db") }, nil
}
