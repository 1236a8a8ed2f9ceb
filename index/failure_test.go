package index

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/storage"
)

func TestFsyncFailurePoisons(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	put(t, ix, Document{ID: "a"})
	fail := true
	fs.SetHook(func(op storage.Op, name string, n int) error {
		if fail && op == storage.OpSync {
			return errors.New("lost page")
		}
		return nil
	})
	b := NewBatch()
	b.Put(Document{ID: "b"})
	if err := ix.Apply(bg, b); !errors.Is(err, ErrReadOnly) {
		t.Fatalf("fsync failed: %v", err)
	}
	fail = false // never retried, even though it would work now
	if err := ix.Apply(bg, b); !errors.Is(err, ErrReadOnly) {
		t.Fatalf("after it: %v", err)
	}
	if err := ix.Flush(bg); !errors.Is(err, ErrReadOnly) {
		t.Fatalf("flush after it: %v", err)
	}
	if _, err := ix.Get("a"); err != nil {
		t.Fatalf("reads stopped: %v", err)
	}
	if st, err := ix.Stats(); err != nil || st.ReadOnly == nil {
		t.Fatalf("%+v %v", st, err)
	}
	ix.Close()
	ix = mustOpen(t, fs, nil)
	put(t, ix, Document{ID: "c"})
	if _, err := ix.Get("a"); err != nil {
		t.Fatal(err)
	}
}

// Failing background work is reported and retried; writers get its error
// instead of waiting for ever, and nothing is lost.
func TestBackgroundFailure(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, func(o *Options) {
		o.NoBackground, o.MutableBytes, o.BackgroundRetry = false, 64<<10, time.Millisecond
	})
	var broken sync.Map
	fs.SetHook(func(op storage.Op, name string, n int) error {
		if _, ok := broken.Load("on"); ok && op == storage.OpWrite && strings.HasSuffix(name, ".qry") {
			return errors.New("bad sector")
		}
		return nil
	})
	broken.Store("on", true)
	var failed error
	n := 0
	for ; n < 500 && failed == nil; n++ {
		b := NewBatch()
		b.Put(Document{ID: fmt.Sprintf("%03d", n), Text: map[string]string{"body": strings.Repeat(fmt.Sprint("w", n, " "), 2000)}})
		failed = ix.Apply(bg, b)
	}
	if failed == nil || !strings.Contains(failed.Error(), "bad sector") {
		t.Fatalf("writers were not stopped: %v", failed)
	}
	st, err := ix.Stats()
	if err != nil || st.LastError == nil || st.LastError.Stage != "flush" || st.Documents != n-1 {
		t.Fatalf("%+v %v", st, err)
	}
	broken.Delete("on")
	deadline := time.Now().Add(5 * time.Second)
	for {
		b := NewBatch()
		b.Put(Document{ID: "after"})
		if err := ix.Apply(bg, b); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if got := listIDs(t, ix); len(got) != n {
		t.Fatalf("%d documents, want %d", len(got), n)
	}
}

// Without a background a failing flush is tried again by the next Apply, which
// is refused while the mutable segment is twice over its budget.
func TestFailingFlushWithoutBackground(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, func(o *Options) { o.MutableBytes = 64 << 10 })
	broken := true
	fs.SetHook(func(op storage.Op, name string, n int) error {
		if broken && op == storage.OpWrite && strings.HasSuffix(name, ".qry") {
			return errors.New("bad sector")
		}
		return nil
	})
	n := 0
	apply := func() error {
		b := NewBatch()
		b.Put(Document{ID: fmt.Sprintf("%03d", n), Text: map[string]string{"body": strings.Repeat(fmt.Sprint("w", n, " "), 2000)}})
		err := ix.Apply(bg, b)
		if err == nil {
			n++
		}
		return err
	}
	var err error
	for range 500 {
		if err = apply(); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "bad sector") {
		t.Fatal(err)
	}
	broken = false
	if err := apply(); err != nil {
		t.Fatal(err)
	}
	if got := listIDs(t, ix); len(got) != n {
		t.Fatalf("%d of %d documents", len(got), n)
	}
}
