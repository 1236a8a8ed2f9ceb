package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// walWork opens the log, appends groups of records, rotates now and then, and
// stops at the first error. appended counts records handed over, acked those
// whose commit returned nil; both are indexes into the sequence of records.
func walWork(fs FS, rng *rand.Rand, policy SyncPolicy, from int) (appended, acked int, err error) {
	appended, acked = from, from
	report, err := Replay(fs, "db", 0, func([]byte) error { return nil })
	if err != nil {
		return appended, acked, err
	}
	w, err := CreateWAL(fs, "db", report, policy)
	if err != nil {
		return appended, acked, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for range 6 {
		var last Position
		for range 1 + rng.IntN(4) {
			if last, err = w.Append(crashRecord(appended)); err != nil {
				return appended, acked, err
			}
			appended++
		}
		if err := w.Commit(last); err != nil {
			return appended, acked, err
		}
		acked = appended
		if rng.IntN(4) == 0 {
			if _, err := w.Rotate(); err != nil {
				return appended, acked, err
			}
		}
	}
	return appended, acked, nil
}

// crashRecord is the i-th record: its number, and a size from nothing to some
// blocks.
func crashRecord(i int) []byte {
	sizes := [...]int{0, 30, 400, 511, 3000, 90, 1500, 35_000, 70, 20, 600}
	b := fmt.Appendf(nil, "%06d ", i)
	return append(b, bytes.Repeat([]byte{byte(i) | 1}, sizes[i*7%len(sizes)])...)
}

// checkRecovered demands that the log opens and holds the first n records for
// some n from acked to appended, and returns n.
func checkRecovered(t *testing.T, fs FS, acked, appended int) int {
	t.Helper()
	n := 0
	_, err := Replay(fs, "db", 0, func(b []byte) error {
		if !bytes.Equal(b, crashRecord(n)) {
			return fmt.Errorf("record %d differs: %.20q", n, b)
		}
		n++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < acked || n > appended {
		t.Fatalf("%d records, want %d to %d", n, acked, appended)
	}
	return n
}

// A power loss at every write operation, then, after recovery, another one:
// the log always opens, no acknowledged record is lost, none is half there,
// and none comes back that was given up.
func TestWALCrash(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncAlways, SyncNever} {
		for k := 1; ; k++ {
			touched := false
			for seed := range uint64(3) {
				rng := rand.New(rand.NewPCG(seed, uint64(k)))
				fs := NewMemFS()
				must(t, fs.MkdirAll("db"))
				n := 0
				for round := range 3 {
					start := fs.Writes()
					fs.SetHook(crashAt(start+k/(round+1), rng))
					appended, acked, err := walWork(fs, rng, policy, n)
					if err != nil {
						touched = true
						if !errors.Is(err, errCrash) {
							t.Fatal(err)
						}
					}
					if policy != SyncAlways {
						acked = 0
						// The process dies, the machine lives: nothing written is lost.
						if round == 0 && err == nil {
							checkRecovered(t, fs.Clone(), appended, appended)
						}
					}
					fs = fs.CrashClone(rng)
					n = checkRecovered(t, fs, acked, appended)
					n = checkRecovered(t, fs.CrashClone(nil), n, n) // reading changes nothing
				}
			}
			if !touched {
				break
			}
		}
	}
}

// The same with the program living on after one failed operation: what was
// acknowledged before and after is there on reopening.
func TestWALErrors(t *testing.T) {
	for k := 1; ; k++ {
		rng := rand.New(rand.NewPCG(1, 1))
		fs := NewMemFS()
		must(t, fs.MkdirAll("db"))
		n, hit := 0, false
		fs.SetHook(func(op Op, _ string, _ int) error {
			n++
			if n == k {
				hit = true
				return errCrash
			}
			return nil
		})
		appended, acked, err := walWork(fs, rng, SyncAlways, 0)
		fs.SetHook(nil)
		if hit && err == nil {
			t.Fatalf("operation %d failed unnoticed", k)
		}
		if err != nil && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		checkRecovered(t, fs, acked, appended)
		checkRecovered(t, fs.CrashClone(nil), acked, appended)
		if !hit {
			return
		}
	}
}

// A power loss may write later pages and lose earlier ones. Whole frames
// after a hole are then no damage, and damage without a hole is none of that.
func TestWALHole(t *testing.T) {
	fs := NewMemFS()
	w, _ := openWAL(t, fs, "/", SyncAlways)
	put(t, w, []byte("kept"))
	kept := w.Size()
	var last Position
	for i := range 40 {
		var err error
		last, err = w.Append(bytes.Repeat([]byte{byte(i + 1)}, 150))
		must(t, err)
	}
	must(t, w.Commit(last))
	data := slurp(t, fs, WALName(1)) // as it is before the seal
	must(t, w.Close())

	hole := bytes.Clone(data)
	clear(hole[1024:1536])
	must(t, fs.WriteFile(WALName(1), hole))
	got, r, err := readLog(fs, "/", 1)
	if err != nil || !r.Torn || len(got) == 0 || string(got[0]) != "kept" || r.TornOffset > 1024 || r.TornOffset < 1024-200 {
		t.Fatal(len(got), r, err)
	}
	flip := bytes.Clone(data)
	flip[1200] ^= 4
	must(t, fs.WriteFile(WALName(1), flip))
	if _, _, err := readLog(fs, "/", 1); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "a good one follows") {
		t.Fatal(err)
	}
	// A hole in what later frames say was synced is damage all the same, and
	// so is one before the end that the next log's header names.
	must(t, fs.WriteFile(WALName(1), data))
	w, _ = openWAL(t, fs, "/", SyncNever)
	must(t, w.Close())
	hole = bytes.Clone(data)
	clear(hole[kept : kept+1024])
	must(t, fs.WriteFile(WALName(1), hole))
	if _, _, err := readLog(fs, "/", 1); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "log 2 has records up to") {
		t.Fatal(err)
	}
	fs = NewMemFS()
	w, _ = openWAL(t, fs, "/", SyncAlways)
	put(t, w, make([]byte, 2000), make([]byte, 2000), make([]byte, 2000))
	must(t, w.Close())
	data = slurp(t, fs, WALName(1))
	clear(data[1024:1536]) // zeros already
	must(t, fs.WriteFile(WALName(1), data))
	if got, _, err := readLog(fs, "/", 1); len(got) != 3 || err != nil {
		t.Fatal(len(got), err)
	}
	clear(data[2000:3000]) // the head of record 2
	must(t, fs.WriteFile(WALName(1), data))
	if _, _, err := readLog(fs, "/", 1); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "were synced") {
		t.Fatal(err)
	}
}

// CrashClone keeps what was synced and nothing that was never written.
func TestCrashClone(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 0))
		fs := NewMemFS()
		must(t, fs.MkdirAll("d"))
		writeFile(t, fs, "d/synced", []byte("abc"))
		must(t, fs.SyncDir("d"))
		f, err := fs.Create("d/new")
		must(t, err)
		f.Write(bytes.Repeat([]byte{1}, 2000))
		f.Sync()
		f.Write(bytes.Repeat([]byte{2}, 2000))
		must(t, f.Close())
		must(t, fs.Rename("d/new", "d/renamed"))
		must(t, fs.Remove("d/synced"))
		if names, _ := fs.CrashClone(nil).List("d"); len(names) != 1 || names[0] != "synced" {
			t.Fatal(names)
		}
		c := fs.CrashClone(rng)
		names, err := c.List("d")
		must(t, err)
		seen[fmt.Sprint(names)]++
		for _, name := range names {
			b := slurp(t, c, filepath.Join("d", name))
			if name == "synced" {
				if string(b) != "abc" {
					t.Fatalf("%q", b)
				}
				continue
			}
			if len(b) < 2000 || !bytes.Equal(b[:2000], bytes.Repeat([]byte{1}, 2000)) {
				t.Fatal("synced bytes lost")
			}
			for _, x := range b[2000:] {
				seen[fmt.Sprint("byte ", x)]++
			}
			seen[fmt.Sprint("whole ", len(b) == 4000)]++
		}
		if got := fmt.Sprint(names); strings.Contains(got, "new") && strings.Contains(got, "renamed") {
			t.Fatal("half a rename")
		}
		if l, err := c.Lock("d/LOCK", true); err != nil || l.Close() != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"[synced]", "[renamed]", "[new]", "[renamed synced]", "[]", "byte 0", "byte 2", "whole true", "whole false"} {
		if seen[want] == 0 {
			t.Errorf("never saw %s: %v", want, seen)
		}
	}
}

// TestWALFailedRotation: the header of a new log reaches the disk whole, and
// then the disk is full. The old log goes on; were the new file to come back
// after a power loss, its header would say that the old one ended there, and
// acknowledged records would be taken for a torn tail.
func TestWALFailedRotation(t *testing.T) {
	for seed := range uint64(200) {
		fs := NewMemFS()
		must(t, fs.MkdirAll("/d"))
		w, _ := openWAL(t, fs, "/d", SyncAlways)
		records := logRecords(seed, 6)
		put(t, w, records[:3]...)
		fs.SetHook(func(op Op, name string, n int) error {
			if op == OpWrite && name != filepath.Join("/d", WALName(w.number)) {
				return &PartialWrite{Bytes: walHeaderSize, Err: syscall.ENOSPC}
			}
			return nil
		})
		if _, err := w.Rotate(); !IsDiskFull(err) {
			t.Fatalf("rotation on a full disk: %v", err)
		}
		fs.SetHook(nil)
		put(t, w, records[3:]...)
		crashed := fs.CrashClone(rand.New(rand.NewPCG(seed, 9)))
		must(t, w.Close())
		got, _, err := readLog(crashed, "/d", 0)
		if err != nil || !sameRecords(got, records) {
			t.Fatalf("seed %d: %d of %d acknowledged records after the crash, %v", seed, len(got), len(records), err)
		}
	}
}
