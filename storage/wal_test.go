package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

// readLog replays dir and returns copies of the records.
func readLog(fs FS, dir string, from uint64) ([][]byte, ReplayReport, error) {
	var out [][]byte
	r, err := Replay(fs, dir, from, func(b []byte) error {
		out = append(out, bytes.Clone(b))
		return nil
	})
	return out, r, err
}

func openWAL(t testing.TB, fs FS, dir string, policy SyncPolicy) (*WAL, [][]byte) {
	t.Helper()
	records, r, err := readLog(fs, dir, 0)
	must(t, err)
	w, err := CreateWAL(fs, dir, r, policy)
	must(t, err)
	return w, records
}

func put(t testing.TB, w *WAL, records ...[]byte) {
	t.Helper()
	for _, b := range records {
		p, err := w.Append(b)
		must(t, err)
		must(t, w.Commit(p))
	}
}

func sameRecords(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

// logRecords returns n records of all sizes around the limits of blocks.
func logRecords(seed uint64, n int) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 3))
	sizes := []int{0, 1, 20, 100, 1000, walBlock - walFrameHeader, walBlock - walFrameHeader - walHeaderSize,
		walBlock - walFrameHeader - walHeaderSize - 1, walBlock, walBlock + 1, 3*walBlock - 5, 100_000}
	out := make([][]byte, n)
	for i := range out {
		size := sizes[rng.IntN(len(sizes))]
		if rng.IntN(2) == 0 {
			size = rng.IntN(200)
		}
		out[i] = randomBytes(rng.Uint64(), size)
	}
	return out
}

func TestWALRoundTrip(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncAlways, SyncNever, SyncEvery(time.Millisecond)} {
		eachFS(t, func(t *testing.T, fs FS, dir string) {
			defer goleak.VerifyNone(t)
			var want [][]byte
			for round := range 4 {
				w, got := openWAL(t, fs, dir, policy)
				if !sameRecords(got, want) {
					t.Fatalf("round %d: %d records, want %d", round, len(got), len(want))
				}
				more := logRecords(uint64(round), 40)
				put(t, w, more...)
				if round == 2 {
					n, err := w.Rotate()
					must(t, err)
					if n != w.Number() || w.Size() != walHeaderSize {
						t.Fatal(n, w.Number(), w.Size())
					}
					put(t, w, []byte("after"))
					more = append(more, []byte("after"))
				}
				want = append(want, more...)
				must(t, w.Close())
				if err := w.Close(); !errors.Is(err, ErrClosed) {
					t.Fatal(err)
				}
				if _, err := w.Append(nil); !errors.Is(err, ErrClosed) {
					t.Fatal(err)
				}
			}
			got, r, err := readLog(fs, dir, 0)
			must(t, err)
			if !sameRecords(got, want) || r.Torn || r.First != 1 || r.Last != 5 || r.Next != 6 || r.Records != len(want) {
				t.Fatalf("%+v", r)
			}
			// From a later log on: records of that file and above only.
			got, _, err = readLog(fs, dir, 5)
			must(t, err)
			if !sameRecords(got, want[len(want)-40:]) {
				t.Fatal(len(got))
			}
			boom := errors.New("boom")
			if _, err := Replay(fs, dir, 0, func([]byte) error { return boom }); err != boom {
				t.Fatal(err)
			}
		})
	}
}

func TestWALEveryRecordSize(t *testing.T) {
	fs := NewMemFS()
	w, _ := openWAL(t, fs, "/", SyncNever)
	var want [][]byte
	for left := 0; left < 2*walFrameHeader+3; left++ { // every place near the end of a block
		pad := walBlock - int(w.Size()%walBlock) - left - walFrameHeader
		want = append(want, make([]byte, max(pad, 0)), []byte{}, randomBytes(1, left), []byte("x"))
		put(t, w, want[len(want)-4:]...)
	}
	must(t, w.Close())
	got, _, err := readLog(fs, "/", 1)
	must(t, err)
	if !sameRecords(got, want) {
		t.Fatal("records differ")
	}
}

func TestWALLargeRecord(t *testing.T) {
	eachFS(t, func(t *testing.T, fs FS, dir string) {
		w, _ := openWAL(t, fs, dir, SyncAlways)
		small, large := []byte("small"), randomBytes(1, 5<<20+3)
		_, err := w.Append(small) // waits in the buffer
		must(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		put(t, w, large)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 && fs == FS(OS{}) {
			t.Errorf("a record of 5 MiB took %d bytes of memory", used)
		}
		put(t, w, small)
		must(t, w.Close())
		got, _, err := readLog(fs, dir, 1)
		if err != nil || !sameRecords(got, [][]byte{small, large, small}) {
			t.Fatal(len(got), err)
		}
	})
}

// fiveRecords returns a log of 5 acknowledged records and their ends.
func fiveRecords(t testing.TB, policy SyncPolicy) (*MemFS, [][]byte, []int64) {
	fs := NewMemFS()
	w, _ := openWAL(t, fs, "/", policy)
	var records [][]byte
	ends := []int64{walHeaderSize}
	for i := range 5 {
		b := fmt.Appendf(nil, "record %d %s", i+1, randomBytes(uint64(i), 40))
		put(t, w, b)
		records = append(records, b)
		ends = append(ends, w.Size())
	}
	must(t, w.Close())
	return fs, records, ends
}

// B01: the log cut at every byte of the last record opens, with the four
// before and the fifth whole or not at all; and goes on.
func TestB01TornTail(t *testing.T) {
	fs, records, ends := fiveRecords(t, SyncAlways)
	name := WALName(1)
	data := slurp(t, fs, name)
	for n := ends[4]; n <= ends[5]; n++ {
		for _, zeros := range []int{0, 1, 700} {
			must(t, fs.WriteFile(name, append(bytes.Clone(data[:n]), make([]byte, zeros)...)))
			want := records[:4]
			if n == ends[5] {
				want = records
			}
			got, r, err := readLog(fs, "/", 1)
			if err != nil || !sameRecords(got, want) {
				t.Fatalf("cut at %d: %d records, %v", n, len(got), err)
			}
			end := ends[len(want)]
			if torn := n+int64(zeros) > end; r.Torn != torn || torn && (r.TornFile != filepath.Join("/", name) || r.TornOffset != end || r.TornBytes != n+int64(zeros)-end) {
				t.Fatalf("cut at %d: %+v", n, r)
			}
			// Go on, and read again: the tail stays shut out.
			after := fs.Clone()
			w, err := CreateWAL(after, "/", r, SyncAlways)
			must(t, err)
			put(t, w, []byte("next"))
			must(t, w.Close())
			got, r, err = readLog(after, "/", 1)
			if err != nil || r.Torn || !sameRecords(got, append(slices.Clone(want), []byte("next"))) {
				t.Fatal(len(got), r, err)
			}
		}
	}
}

// B01: one flipped byte in an earlier record is damage, with file and place,
// under every policy. In the last record it is where the log was closed; of a
// log that was not, nothing tells the last record from a torn one.
func TestB01Flip(t *testing.T) {
	for _, closed := range []bool{true, false} {
		for _, policy := range []SyncPolicy{SyncAlways, SyncNever} {
			fs, records, ends := fiveRecords(t, policy)
			name := WALName(1)
			data := slurp(t, fs, name)
			if !closed {
				data = data[:ends[5]]
			}
			for i := range data {
				for bit := range 8 {
					b := bytes.Clone(data)
					b[i] ^= 1 << bit
					must(t, fs.WriteFile(name, b))
					got, r, err := readLog(fs, "/", 1)
					var ce *CorruptError
					switch {
					case int64(i) < ends[0] && errors.Is(err, ErrVersion):
					case int64(i) >= ends[5] && err == nil && r.Torn && sameRecords(got, records): // the seal
					case int64(i) >= ends[4] && !closed && err == nil && sameRecords(got, records[:4]):
					case !errors.As(err, &ce) || !strings.Contains(ce.File, name):
						t.Fatalf("closed %v, policy %d, byte %d bit %d: %d records, %v", closed, policy, i, bit, len(got), err)
					case int64(i) >= ends[0] && (ce.Offset > int64(i) || ce.Offset < int64(i)-200):
						t.Fatalf("byte %d: damage reported at %d", i, ce.Offset)
					}
				}
			}
		}
	}
}

// B03: lengths and counts overwritten with absurd values.
func TestB03WALGarbage(t *testing.T) {
	for _, closed := range []bool{true, false} {
		fs, records, ends := fiveRecords(t, SyncAlways)
		data := slurp(t, fs, WALName(1))
		last := ends[4] // where damage looks like a torn write from
		if !closed {
			data = data[:ends[5]]
		} else {
			last = ends[5]
		}
		for _, garbage := range [][]byte{bytes.Repeat([]byte{0xFF}, 8), {0, 0, 0, 0, 0, 0, 0, 0xBE}} {
			for at := 0; at+8 <= len(data); at++ {
				b := bytes.Clone(data)
				copy(b[at:], garbage)
				must(t, fs.WriteFile(WALName(1), b))
				got, _, err := readLog(fs, "/", 1)
				// Damage in the last frame looks like a torn one, and damage in
				// the last two at once like two torn ones.
				torn := false
				for n := 3; n <= 5; n++ {
					torn = torn || err == nil && int64(at)+8 > last && sameRecords(got, records[:n]) && ends[n] <= int64(at)+8 && int64(at) < ends[min(n+1, 5)]+walFrameHeader
				}
				if !torn && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
					t.Fatalf("closed %v, byte %d: %d records, %v", closed, at, len(got), err)
				}
			}
		}
	}
}

// Files that are missing, cut or swapped between logs.
func TestWALChain(t *testing.T) {
	build := func() *MemFS {
		fs := NewMemFS()
		w, _ := openWAL(t, fs, "/", SyncNever)
		for i := range 3 {
			put(t, w, fmt.Append(nil, "log ", i+1, " a"), fmt.Append(nil, "log ", i+1, " b"))
			if i < 2 {
				_, err := w.Rotate()
				must(t, err)
			}
		}
		must(t, w.Close())
		return fs
	}
	data := slurp(t, build(), WALName(2))
	for name, spoil := range map[string]func(fs *MemFS) error{
		"missing first":  func(fs *MemFS) error { return fs.Remove(WALName(1)) },
		"missing middle": func(fs *MemFS) error { return fs.Remove(WALName(2)) },
		"cut middle":     func(fs *MemFS) error { return fs.WriteFile(WALName(2), data[:len(data)-1]) },
		"half middle":    func(fs *MemFS) error { return fs.WriteFile(WALName(2), data[:len(data)/2]) },
		"empty middle":   func(fs *MemFS) error { return fs.WriteFile(WALName(2), nil) },
		"empty first":    func(fs *MemFS) error { return fs.WriteFile(WALName(1), nil) },
		"another log":    func(fs *MemFS) error { return fs.WriteFile(WALName(3), data) },
	} {
		fs := build()
		must(t, spoil(fs))
		got, _, err := readLog(fs, "/", 1)
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "wal-") {
			t.Errorf("%s: %d records, %v", name, len(got), err)
		}
		if fs.Handles() != 0 {
			t.Errorf("%s: %d handles left", name, fs.Handles())
		}
	}
	// Bytes after the end the next log knows of count for nothing.
	fs := build()
	must(t, fs.WriteFile(WALName(2), append(bytes.Clone(data), data[walHeaderSize:]...)))
	if got, _, err := readLog(fs, "/", 1); err != nil || len(got) != 6 {
		t.Fatal(len(got), err)
	}
	// The newest log may be one whose creation was cut short.
	for _, n := range []int{0, 1, walHeaderSize - 1} {
		fs := build()
		must(t, fs.WriteFile(WALName(4), data[:n]))
		got, r, err := readLog(fs, "/", 1)
		if err != nil || len(got) != 6 || r.Next != 4 || r.Last != 3 {
			t.Fatal(len(got), r, err)
		}
		w, err := CreateWAL(fs, "/", r, SyncAlways)
		must(t, err)
		put(t, w, []byte("x"))
		must(t, w.RemoveBefore(3))
		must(t, w.Close())
		if got, r, err := readLog(fs, "/", 3); err != nil || len(got) != 3 || r.First != 3 {
			t.Fatal(len(got), r, err)
		}
	}
}

func TestB14WALVersion(t *testing.T) {
	fs, _, _ := fiveRecords(t, SyncAlways)
	data := slurp(t, fs, WALName(1))
	for _, v := range []uint32{0, walVersion + 1, 'a' | 'b'<<8 | 'c'<<16} {
		binary.LittleEndian.PutUint32(data[8:], v)
		must(t, fs.WriteFile(WALName(1), data))
		if _, _, err := readLog(fs, "/", 1); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), fmt.Sprint("version ", v)) {
			t.Fatal(err)
		}
	}
}

// A full disk takes the records in flight, says so to those who wait for
// them, and nothing else; the log goes on when there is space.
func TestWALDiskFull(t *testing.T) {
	for _, large := range []int{0, 3 << 20} {
		fs := NewMemFS()
		w, _ := openWAL(t, fs, "/", SyncAlways)
		put(t, w, []byte("one"))
		lost1, err := w.Append([]byte("lost 1"))
		must(t, err)
		full := atomic.Bool{}
		full.Store(true)
		fs.SetHook(func(op Op, _ string, _ int) error {
			if op == OpWrite && full.Load() {
				return &PartialWrite{Bytes: 17, Err: syscall.ENOSPC}
			}
			return nil
		})
		lost2, err := w.Append(make([]byte, large))
		if large == 0 {
			must(t, err)
			err = w.Commit(lost2)
		}
		for _, err := range []error{err, w.Commit(lost1), w.Commit(lost1)} {
			if !IsDiskFull(err) || !errors.Is(err, ErrIO) || errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), WALName(1)) {
				t.Fatal(err)
			}
		}
		if _, err := w.Rotate(); err == nil || w.Err() != nil || w.Number() != 1 {
			t.Fatal(err, w.Err())
		}
		full.Store(false)
		put(t, w, []byte("two"))
		if err := w.Commit(lost1); !IsDiskFull(err) {
			t.Fatal("a lost record was taken for another of the same place", err)
		}
		n, err := w.Rotate()
		if n != 2 {
			t.Fatal(n, err)
		}
		put(t, w, []byte("three"))
		must(t, w.Close())
		got, r, err := readLog(fs, "/", 1)
		if err != nil || r.Torn || !sameRecords(got, [][]byte{[]byte("one"), []byte("two"), []byte("three")}) {
			t.Fatalf("%q %+v %v", got, r, err)
		}
	}
}

// A failed fsync, or a failed write, ends all writing: no call succeeds later,
// although the disk works again.
func TestWALPoison(t *testing.T) {
	for _, bad := range []Op{OpSync, OpStartSync, OpWrite} {
		fs := NewMemFS()
		w, _ := openWAL(t, fs, "/", SyncAlways)
		put(t, w, []byte("good"))
		good := Position{Log: 1, Offset: w.Size()}
		fs.SetHook(func(op Op, _ string, _ int) error {
			if op == bad {
				return syscall.EIO
			}
			return nil
		})
		_, err := w.Append([]byte("unknown"))
		must(t, err)
		p, err := w.Append([]byte("unknown too"))
		must(t, err)
		check := func(err error) {
			t.Helper()
			if !errors.Is(err, ErrReadOnly) || !errors.Is(err, ErrIO) || !errors.Is(err, syscall.EIO) {
				t.Fatal(err)
			}
		}
		check(w.Commit(p))
		fs.SetHook(nil)
		check(w.Commit(p))
		_, err = w.Append([]byte("x"))
		check(err)
		_, err = w.Rotate()
		check(err)
		check(w.Sync())
		check(w.Err())
		must(t, w.Commit(good)) // was durable before
		check(w.Close())
		got, _, err := readLog(fs, "/", 1)
		if err != nil || len(got) < 1 || string(got[0]) != "good" {
			t.Fatal(got, err)
		}
	}
}

// Waiting commits share one fsync.
func TestWALGroupCommit(t *testing.T) {
	const writers = 16
	synctest.Test(t, func(t *testing.T) {
		fs := NewMemFS()
		w, _ := openWAL(t, fs, "/", SyncAlways)
		syncs := atomic.Int64{}
		fs.SetHook(func(op Op, _ string, _ int) error {
			if op == OpSync {
				syncs.Add(1)
				time.Sleep(time.Millisecond)
			}
			return nil
		})
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				for j := range 10 {
					put(t, w, fmt.Append(nil, i, " ", j))
				}
			})
		}
		wg.Wait()
		// Each round of 16 commits takes two syncs: one for the first to
		// come, one for the rest.
		if n := syncs.Load(); n > 25 {
			t.Errorf("%d syncs for %d commits", n, writers*10)
		}
		must(t, w.Close())
		got, _, err := readLog(fs, "/", 1)
		if err != nil || len(got) != writers*10 {
			t.Fatal(len(got), err)
		}
	})
}

// SyncEvery syncs in the background, and only when there is something new.
func TestWALSyncEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := NewMemFS()
		w, _ := openWAL(t, fs, "/", SyncEvery(time.Second))
		before := fs.Writes()
		put(t, w, []byte("a"), []byte("b"))
		if got, _, err := readLog(fs.CrashClone(nil), "/", 1); err != nil || len(got) != 0 {
			t.Fatal(len(got), err)
		}
		if got, _, err := readLog(fs.Clone(), "/", 1); err != nil || len(got) != 2 {
			t.Fatal(len(got), err)
		}
		time.Sleep(1500 * time.Millisecond)
		if got, _, err := readLog(fs.CrashClone(nil), "/", 1); err != nil || len(got) != 2 {
			t.Fatal(len(got), err)
		}
		time.Sleep(time.Hour)
		if n := fs.Writes() - before; n != 3 {
			t.Fatalf("%d operations, want 2 writes and a sync", n)
		}
		fs.SetHook(func(op Op, _ string, _ int) error {
			if op == OpSync {
				return syscall.EIO
			}
			return nil
		})
		put(t, w, []byte("c"))
		time.Sleep(2 * time.Second)
		if _, err := w.Append(nil); !errors.Is(err, ErrReadOnly) {
			t.Fatal(err)
		}
		w.Close()
	})
}

func TestWALPositions(t *testing.T) {
	fs := NewMemFS()
	w, _ := openWAL(t, fs, "/", SyncAlways)
	p, err := w.Append([]byte("a"))
	must(t, err)
	for _, bad := range []Position{{Log: 1, Offset: p.Offset + 1}, {Log: 2, Offset: 1}} {
		if err := w.Commit(bad); !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
	}
	_, err = w.Rotate()
	must(t, err)
	must(t, w.Commit(p))
	must(t, w.RemoveBefore(99))
	names, _ := fs.List("/")
	if !slices.Equal(names, []string{WALName(2)}) {
		t.Fatal(names)
	}
	must(t, w.Close())
}

func BenchmarkWAL(b *testing.B) {
	record := randomBytes(1, 1024)
	for _, policy := range []SyncPolicy{SyncAlways, SyncEvery(10 * time.Millisecond), SyncNever} {
		name := map[SyncPolicy]string{SyncAlways: "always", SyncNever: "never"}[policy]
		if name == "" {
			name = "every10ms"
		}
		for _, writers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/writers=%d", name, writers), func(b *testing.B) {
				w, _ := openWAL(b, OS{}, b.TempDir(), policy)
				b.SetBytes(int64(len(record)))
				b.ReportAllocs()
				var wg sync.WaitGroup
				var left atomic.Int64
				left.Store(int64(b.N))
				for range writers {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							p, err := w.Append(record)
							if err == nil {
								err = w.Commit(p)
							}
							if err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				must(b, w.Close())
			})
		}
	}
}

func BenchmarkSegmentOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "seg")
	info, err := CreateSegment(OS{}, path, func(w *SegmentWriter) error {
		for i := range 50 {
			s, err := w.Section(fmt.Sprint("section/", i))
			if err == nil {
				_, err = s.Write(make([]byte, 2<<20))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	must(b, err)
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			s, err := OpenSegment(OS{}, path, info)
			must(b, err)
			must(b, s.Release())
		}
	})
	b.Run("verify", func(b *testing.B) {
		s, err := OpenSegment(OS{}, path, info)
		must(b, err)
		defer s.Release()
		b.SetBytes(info.Size)
		for b.Loop() {
			must(b, s.Verify(b.Context()))
		}
	})
}
