package catalog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/quarrysearch/quarry/knowledge/catalog/internal/pages"
	"github.com/quarrysearch/quarry/storage"
)

// fullFile is a catalogue with something in every bucket, some of it in pages
// of its own and some free pages, and what it says.
func fullFile(t testing.TB) ([]byte, everything) {
	f := newFixture(t)
	_, err := f.CreateWorkflow("admin", Workflow{ID: "large", Workspace: "w", Draft: bytes.Repeat([]byte("large "), 3000)})
	must(t, err)
	_, err = f.Publish("admin", "large", 1, spaces(0, 10))
	must(t, err)
	must(t, f.BindDraft("user", "flow", spaces(0, 2)))
	must(t, f.FreezeEmbedding("", "s0", EmbeddingProfile{Name: "e5", Dim: 384, Metric: "cosine", Digest: "d"}))
	e := dump(t, f.Catalog)
	must(t, f.Close())
	return readFile(t, f.path), e
}

// tryOpen opens damaged bytes. An error must be ErrCorrupt and name the file;
// if there is none, everything is tried, which must not panic.
func tryOpen(t testing.TB, path string, data []byte) (e everything, ok bool) {
	t.Helper()
	writeFile(t, path, data)
	before := bytes.Clone(data)
	c, err := Open(path, &Options{Timeout: -1})
	if err != nil {
		if !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrVersion) {
			t.Fatalf("not ErrCorrupt: %v", err)
		}
		if !strings.Contains(err.Error(), path) {
			t.Fatalf("does not name the file: %v", err)
		}
		if !bytes.Equal(readFile(t, path), before) {
			t.Fatal("a damaged file was changed")
		}
		return e, false
	}
	defer func() { must(t, c.Close()) }()
	must(t, c.Check(bg))
	e = dump(t, c)
	_, err = c.CreateWorkspace("after damage", "")
	must(t, err)
	must(t, c.Check(bg))
	return e, true
}

// A flipped bit is an error, or lies where nothing is, or in the newer meta
// page, which then looks torn: the state before opens.
func TestFlipsAreFound(t *testing.T) {
	data, want := fullFile(t)
	path := filepath.Join(t.TempDir(), "damaged.db")
	random := rand.New(rand.NewPCG(3, 4))
	page := os.Getpagesize()
	high := int(binary.NativeEndian.Uint64(data[16+40:])) * page
	orig, txid, err := load(bg, bytes.NewReader(data), int64(len(data)), path, true)
	must(t, err)
	stride, tried, found, opened := 60, 0, 0, 0
	if testing.Short() {
		stride = 200
	}
	for at := 0; at < high; at += 1 + random.IntN(stride) {
		b := bytes.Clone(data)
		b[at] ^= 1 << random.IntN(8)
		tried++
		got, newest, err := load(bg, bytes.NewReader(b), int64(len(b)), path, true)
		switch {
		case err != nil:
			found++
			if !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), path) {
				t.Fatalf("byte %d: %v", at, err)
			}
		case newest != txid && at < 2*page: // the meta page before
			if got.auditLast != orig.auditLast-1 {
				t.Fatalf("byte %d: state %d opens instead of %d", at, got.auditLast, orig.auditLast)
			}
		case !reflect.DeepEqual(got, orig):
			t.Fatalf("byte %d changed an answer", at)
		}
		// What we do not see must not harm bbolt, and the other way round.
		if random.IntN(50) == 0 {
			e, ok := tryOpen(t, path, b)
			if ok != (err == nil) || ok && at >= 2*page && !reflect.DeepEqual(e, want) {
				t.Fatalf("byte %d: opened is %v, loaded %v", at, ok, err)
			}
			opened++
		}
	}
	t.Logf("%d of %d flips are errors, the others lie where nothing is; %d opened", found, tried, opened)
	if found < tried/10 {
		t.Error("too few")
	}
}

// A bucket kept in its parent's page has no page number: bbolt would free the
// page it names, wherever that is.
func TestInlinePageWithNumber(t *testing.T) {
	data, _ := fullFile(t)
	var inline []int64
	walk(t, data, func(bucket string, key, _ []byte, off int64) error {
		if head := off + int64(len(bucket)); key == nil && binary.NativeEndian.Uint64(data[head:]) == 0 {
			inline = append(inline, head+16) // after root and sequence
		}
		return nil
	})
	if len(inline) == 0 {
		t.Fatal("no bucket is inline")
	}
	for _, off := range inline {
		b := bytes.Clone(data)
		b[off] = 9
		if _, ok := tryOpen(t, filepath.Join(t.TempDir(), "damaged.db"), b); ok {
			t.Error("opened")
		}
	}
}

// A file cut anywhere is an error, as is one with a page of zeros or of noise.
func TestCutsAndHolesAreFound(t *testing.T) {
	data, want := fullFile(t)
	path := filepath.Join(t.TempDir(), "damaged.db")
	page := os.Getpagesize()
	high := int(binary.NativeEndian.Uint64(data[16+40:])) * page
	for n := 0; n < high; n += page/2 + 1 {
		if _, ok := tryOpen(t, path, data[:n]); ok {
			t.Fatalf("opened with %d of %d bytes", n, high)
		}
	}
	random := rand.New(rand.NewPCG(5, 6))
	for at := 0; at < high; at += page {
		for _, noise := range []bool{false, true} {
			b := bytes.Clone(data)
			for i := range page {
				b[at+i] = 0
				if noise {
					b[at+i] = byte(random.Uint32())
				}
			}
			if e, ok := tryOpen(t, path, b); ok && at >= 2*page && !reflect.DeepEqual(e, want) {
				t.Fatalf("page %d changed an answer", at/page)
			}
		}
	}
}

// Files of others, and none.
func TestOpenRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.db")
	for name, data := range map[string][]byte{
		"empty": {}, "text": []byte("hello"), "long text": bytes.Repeat([]byte("hello "), 20_000), "zeros": make([]byte, 64<<10),
	} {
		if _, ok := tryOpen(t, path, data); ok {
			t.Errorf("%s: opened", name)
		}
	}
	_, err := Open(filepath.Join(dir, "none.db"), &Options{ReadOnly: true})
	want(t, err, storage.ErrNotFound)
	_, err = Open(filepath.Join(dir, "none", "f.db"), nil)
	want(t, err, storage.ErrIO)
	_, err = Open(dir, nil)
	want(t, err, storage.ErrInvalid)
	// A bbolt file of another program.
	must(t, os.Remove(path))
	db, err := bbolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("theirs")); return err }))
	must(t, db.Close())
	_, err = Open(path, nil)
	want(t, err, storage.ErrCorrupt)
}

// rewrite changes a file with bbolt itself.
func rewrite(t *testing.T, path string, f func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	must(t, err)
	must(t, db.Update(f))
	must(t, db.Close())
}

func TestNewerVersionIsRefused(t *testing.T) {
	f := newFixture(t)
	must(t, f.Close())
	rewrite(t, f.path, func(tx *bbolt.Tx) error {
		// A newer build has buckets and keys of its own.
		if _, err := tx.CreateBucket([]byte("aaa")); err != nil {
			return err
		}
		if err := tx.Bucket([]byte(bucketSpaces)).Put([]byte("s0"), seal(bucketSpaces, "s0", []byte(`{"id":"s0","color":"red"}`))); err != nil {
			return err
		}
		payload := []byte(`{"format":"quarry-catalog","version":2,"total":{"pairs":1,"sum":"2","more":3},"more":4}`)
		return tx.Bucket([]byte(bucketFormat)).Put([]byte(bucketFormat), seal(bucketFormat, bucketFormat, payload))
	})
	_, err := Open(f.path, nil)
	var v *storage.VersionError
	if !errors.As(err, &v) || v.File != f.path || v.Have != formatVersion+1 || v.Max != formatVersion {
		t.Fatal(err)
	}
}

// Records that are whole but contradict each other, or say what none may.
func TestContradictionsAreFound(t *testing.T) {
	put := func(tx *bbolt.Tx, r record) error {
		bucket, key := r.place()
		payload, err := encode(r)
		if err != nil {
			return err
		}
		return tx.Bucket([]byte(bucket)).Put([]byte(key), seal(bucket, key, payload))
	}
	now := time.Unix(1_700_000_000, 0).UTC()
	for text, change := range map[string]func(tx *bbolt.Tx) error{
		`there is no workspace "gone"`: func(tx *bbolt.Tx) error { return put(tx, publishedSpace("s9", "gone", "b", now)) },
		"which its workspace lacks": func(tx *bbolt.Tx) error {
			return put(tx, &Account{ID: "user", Workspace: "w", Grants: []Grant{{"x", Use}}, Created: now})
		},
		"binding to space": func(tx *bbolt.Tx) error {
			return put(tx, &Binding{Workflow: "flow", Space: "x", Revision: 1, State: Active, Origin: ByDraft, At: now})
		},
		"by a publication that does not name it": func(tx *bbolt.Tx) error {
			return put(tx, &Binding{Workflow: "flow", Space: "s9", Revision: 1, State: Active, Origin: ByPublish, At: now})
		},
		`bindings of workflow "none"`: func(tx *bbolt.Tx) error {
			return put(tx, &Binding{Workflow: "none", Space: "s9", Revision: 1, State: Active, Origin: ByDraft, At: now})
		},
		"has no draft":          func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucketDrafts)).Delete([]byte("flow")) },
		"has no definition":     func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(bucketDefinitions)) },
		"its newest snapshot":   func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(bucketSnapshots)) },
		"not a catalogue":       func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(bucketFormat)) },
		`"audit" is missing`:    func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(bucketAudit)) },
		"audit entry 3 follows": func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucketAudit)).Delete([]byte(auditKey(2))) },
		"checksum mismatch": func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(bucketSpaces))
			return b.Put([]byte("s1"), bytes.Clone(b.Get([]byte("s2")))) // a whole value under another key
		},
		"belongs at": func(tx *bbolt.Tx) error {
			payload, _ := encode(publishedSpace("s2", "w", "b", now))
			return tx.Bucket([]byte(bucketSpaces)).Put([]byte("s1"), seal(bucketSpaces, "s1", payload))
		},
		"unknown field": func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(bucketWorkspaces)).Put([]byte("w"), seal(bucketWorkspaces, "w", []byte(`{"id":"w","colour":1}`)))
		},
		"unknown bucket": func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("zzz")); return err },
		"has type": func(tx *bbolt.Tx) error { // a bucket in a bucket
			_, err := tx.Bucket([]byte(bucketDrafts)).CreateBucket([]byte("inner"))
			return err
		},
	} {
		t.Run(text, func(t *testing.T) {
			f := newFixture(t)
			_, err := f.Publish("admin", "flow", 1, spaces(0, 2))
			must(t, err)
			must(t, f.SetActive("admin", "s11", false))
			must(t, f.Close())
			rewrite(t, f.path, change)
			_, err = Open(f.path, nil)
			want(t, err, storage.ErrCorrupt)
			if !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), f.path) {
				t.Fatalf("got %v, want %q", err, text)
			}
		})
	}
}

// A file that is cut or overwritten while it is open is an error; memory still
// answers, and Close returns.
func TestDamageWhileOpen(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"cut":       func(path string) error { return os.Truncate(path, 0) },
		"cut pages": func(path string) error { return os.Truncate(path, int64(3*os.Getpagesize())) },
		"zeros": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(make([]byte, info.Size()), 0)
			return errors.Join(err, f.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.HasPrefix(name, "cut") {
				t.Skip("Windows refuses to cut a mapped file")
			}
			f := newFixture(t)
			_, err := f.Publish("admin", "flow", 1, spaces(0, 2))
			must(t, err)
			must(t, damage(f.path))
			want(t, f.Check(bg), storage.ErrCorrupt)
			_, err = f.CreateWorkspace("new", "")
			want(t, err, storage.ErrCorrupt)
			if !strings.Contains(err.Error(), f.path) {
				t.Errorf("does not name the file: %v", err)
			}
			for range 2 {
				_, err = f.Workflow("flow")
				want(t, err, storage.ErrCorrupt)
				_, err = f.Snapshot("flow@1")
				want(t, err, storage.ErrCorrupt)
				_, err = f.Audit(0, 10)
				want(t, err, storage.ErrCorrupt)
			}
			_, err = f.CreateWorkspace("new", "")
			want(t, err, storage.ErrCorrupt)
			if _, err := f.Workspace("new"); err == nil {
				t.Error("a write that failed shows")
			}
			_, err = f.published("s0", "s1")
			must(t, err)
			done := make(chan error, 1)
			go func() { done <- f.Close() }()
			select {
			case err := <-done:
				must(t, err)
			case <-time.After(20 * time.Second):
				t.Fatal("Close hangs")
			}
			_, err = f.published("s0", "s1")
			want(t, err, storage.ErrClosed)
		})
	}
}

// A write that the disk fails leaves the catalogue read-only until reopened.
func TestFailedWritePoisons(t *testing.T) {
	f := newFixture(t)
	epoch := f.Epoch()
	must(t, f.file.Close()) // every write and sync fails from now on
	_, err := f.CreateWorkspace("new", "")
	want(t, err, storage.ErrReadOnly)
	want(t, err, storage.ErrIO)
	want(t, f.SetActive("admin", "s0", false), storage.ErrReadOnly)
	_, err = f.draft("admin", "s0")
	must(t, err)
	if _, err := f.Workspace("new"); !errors.Is(err, storage.ErrNotFound) || f.Epoch() != epoch {
		t.Errorf("a write that failed shows: %v", err)
	}
	if err := f.Close(); err == nil {
		t.Error("Close of a file closed before: no error")
	}
	c, err := Open(f.path, nil)
	must(t, err)
	must(t, c.Check(bg))
	must(t, c.Close())
}

func TestCheckIsCanceled(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(bg)
	cancel()
	want(t, f.Check(ctx), context.Canceled)
	f.check()
}

// walk walks a sound file.
func walk(t testing.TB, data []byte, emit func(bucket string, key, value []byte, off int64) error) {
	t.Helper()
	_, err := pages.Walk(bytes.NewReader(data), int64(len(data)), "sound", emit)
	must(t, err)
}

// repair makes the meta pages whole again, so that a fuzzer gets past them.
func repair(data []byte) {
	for _, off := range []int{0, os.Getpagesize()} {
		m := data[off+16:]
		binary.NativeEndian.PutUint32(m, 0xED0CDAED)
		binary.NativeEndian.PutUint32(m[4:], 2)
		h := fnv.New64a()
		h.Write(m[:56])
		binary.NativeEndian.PutUint64(m[56:], h.Sum64())
	}
}

// FuzzOpen writes bytes into a sound file, at any number of places: each edit
// is an offset of 3 bytes and a value of 1.
func FuzzOpen(f *testing.F) {
	data, _ := fullFile(f)
	page := os.Getpagesize()
	data = data[:int(binary.NativeEndian.Uint64(data[16+40:]))*page]
	f.Add([]byte{}, false)
	f.Add([]byte{16 + 16, 0, 0, 9}, true)                    // root
	f.Add([]byte{16 + 32, 0, 0, 3}, true)                    // free list
	f.Add([]byte{16 + 40, 0, 0, 255}, true)                  // pages
	f.Add([]byte{16 + 45, 0, 0, 1, 16 + 45, 16, 0, 1}, true) // 2^40 pages
	f.Add([]byte{8, 48, 0, 1, 10, 48, 0, 9}, true)           // type and count of a page
	f.Fuzz(func(t *testing.T, edits []byte, whole bool) {
		b := bytes.Clone(data)
		for ; len(edits) >= 4; edits = edits[4:] {
			at := int(edits[0]) | int(edits[1])<<8 | int(edits[2])<<16
			b[at%len(b)] = edits[3]
		}
		if whole {
			repair(b)
		}
		tryOpen(t, filepath.Join(t.TempDir(), "fuzz.db"), b)
	})
}

// FuzzDecode wants a record that is taken to be written and read again as it
// is: its bytes are the measure, since an absent list and an empty one are one
// thing in them and two in memory.
func FuzzDecode(f *testing.F) {
	data, _ := fullFile(f)
	walk(f, data, func(bucket string, key, value []byte, _ int64) error {
		if key != nil && newRecord(bucket) != nil {
			f.Add(bucket, string(key), value[8:])
		}
		return nil
	})
	f.Add(bucketAccounts, "stranger", []byte(`{"id":"stranger","grants":[]}`))
	f.Fuzz(func(t *testing.T, bucket, key string, payload []byte) {
		r, err := decode(bucket, key, payload)
		if err != nil {
			return
		}
		b, err := encode(r)
		must(t, err)
		again, err := decode(bucket, key, b)
		must(t, err)
		c, err := encode(again)
		must(t, err)
		if !bytes.Equal(b, c) {
			t.Fatalf("%s became %s", b, c)
		}
		newTables().set(r)
	})
}
