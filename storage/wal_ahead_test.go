package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// Zeros lie ahead of small synced writes, and of no others; closing cuts them
// off, and neither they nor their loss looks like a tail that was torn.
func TestWALAhead(t *testing.T) {
	eachFS(t, func(t *testing.T, fs FS, dir string) {
		for _, policy := range []SyncPolicy{SyncAlways, SyncNever} {
			w, _ := openWAL(t, fs, dir, policy)
			path := filepath.Join(dir, WALName(w.Number()))
			for i := range 600 {
				size := 10 + i%7*200
				if i == 300 {
					size = walSmall
				}
				put(t, w, randomBytes(uint64(i), size))
				have, err := fs.Stat(path)
				must(t, err)
				switch {
				case policy != SyncAlways && have != w.Size():
					t.Fatalf("record %d: %d bytes in the file, %d in the log", i, have, w.Size())
				case policy == SyncAlways && i != 300 && (have < w.Size() || have%walBlock != 0 || have > 2*w.Size()+walBlock || have > w.Size()+walAhead+walBlock):
					t.Fatalf("record %d: %d bytes in the file, %d in the log", i, have, w.Size())
				}
			}
			got, r, err := readLog(fs, dir, w.Number())
			if err != nil || r.Torn || len(got) != 600 || r.End != w.Size() {
				t.Fatalf("%d records, %+v, %v", len(got), r, err)
			}
			end := w.Size()
			must(t, w.Close())
			if have, err := fs.Stat(path); err != nil || have < end+walFrameHeader || have > end+2*walFrameHeader {
				t.Fatalf("closed: %d bytes for %d and a seal, %v", have, end, err)
			}
			if _, r, err := readLog(fs, dir, w.Number()); err != nil || r.Torn || r.End != end {
				t.Fatal(r, err)
			}
		}
	})
}

// aheadLog returns the bytes of a log of 8 synced records whose writer was
// killed, zeros and all, and where the records end.
func aheadLog(t testing.TB) (fs *MemFS, data []byte, records [][]byte, ends []int64) {
	fs = NewMemFS()
	w, _ := openWAL(t, fs, "/", SyncAlways)
	ends = []int64{walHeaderSize}
	for i := range 8 {
		records = append(records, append(fmt.Appendf(nil, "record %d ", i), randomBytes(uint64(i), 600)...))
		put(t, w, records[i])
		ends = append(ends, w.Size())
	}
	fs = fs.CrashClone(nil)
	must(t, w.Close())
	data = slurp(t, fs, WALName(1))
	if len(data) != walBlock {
		t.Fatalf("%d bytes", len(data))
	}
	return fs, data, records, ends
}

// Of a killed writer's log every record but the last is known to have been
// synced: that one may be lost without an error, which says nothing else than
// if no zeros were there; any other damage is found.
func TestWALAheadDamage(t *testing.T) {
	fs, data, records, ends := aheadLog(t)
	n := len(records)
	last := ends[n-1] // nothing says that what follows was synced
	try := func(what string, b []byte, from int64) {
		t.Helper()
		must(t, fs.WriteFile(WALName(1), b))
		got, r, err := readLog(fs, "/", 1)
		switch {
		case errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion):
			if from >= last {
				t.Errorf("%s: %v", what, err)
			}
		case err != nil:
			t.Errorf("%s: %v", what, err)
		case from < last:
			t.Errorf("%s: %d records and no error", what, len(got))
		case from >= ends[n] && !sameRecords(got, records), from < ends[n] && !sameRecords(got, records[:n-1]):
			t.Errorf("%s: %d records", what, len(got))
		case r.Torn != (firstNonZero(b[min(int(r.End), len(b)):]) >= 0 || len(b)%walBlock != 0 && len(b) > int(r.End)):
			t.Errorf("%s: %+v", what, r)
		}
		saved, lost := salvageLogs(t, fs)
		if len(saved) < len(got) || len(lost) == 0 && len(saved) < n && from < last {
			t.Errorf("%s: salvaged %d, lost %v", what, len(saved), lost)
		}
	}
	for i := 0; i < len(data); i += 1 + i/int(ends[n])*500 { // each of the records, some of the zeros
		b := bytes.Clone(data)
		b[i] ^= 1 << (i % 8)
		try(fmt.Sprintf("byte %d flipped", i), b, int64(i))
	}
	for at := walSector; at < int(ends[n]); at += 100 {
		b := bytes.Clone(data)
		clear(b[at : at+walSector])
		if at < int(last) && at+walSector > int(last) {
			continue // nothing is left that tells of them
		}
		try(fmt.Sprintf("sector at %d cleared", at), b, int64(at))
	}
	// Cut, or cleared to the end: the same records, as in a log without zeros.
	for cut := walHeaderSize; cut < len(data); cut += 7 + cut/int(ends[n])*100 {
		cleared := bytes.Clone(data)
		clear(cleared[cut:])
		plain := data[:min(cut, int(ends[n]))]
		var have [3]int
		for i, b := range [][]byte{plain, data[:cut], cleared} {
			must(t, fs.WriteFile(WALName(1), b))
			got, _, err := readLog(fs, "/", 1)
			if have[i] = len(got); err != nil || !sameRecords(got, records[:len(got)]) {
				t.Fatalf("cut at %d: %v", cut, err)
			}
		}
		if have[0] != have[1] || have[0] != have[2] {
			t.Fatalf("cut at %d: %v records", cut, have)
		}
	}
}

// A seal with zeros behind it, which a crash within Close leaves, ends the log:
// then the last record is known to have been synced, too.
func TestWALAheadSeal(t *testing.T) {
	fs := NewMemFS()
	w, _ := openWAL(t, fs, "/", SyncAlways)
	put(t, w, []byte("one"), []byte("two"))
	end := w.Size()
	fs.SetHook(func(op Op, _ string, _ int) error {
		if op == OpTruncate {
			return syscall.EIO
		}
		return nil
	})
	if err := w.Close(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	fs.SetHook(nil)
	data := slurp(t, fs, WALName(1))
	if got, r, err := readLog(fs, "/", 1); err != nil || len(got) != 2 || r.Torn || len(data) != walBlock {
		t.Fatal(len(got), r, err)
	}
	if got, lost := salvageLogs(t, fs); len(got) != 2 || len(lost) != 0 {
		t.Fatal(len(got), lost)
	}
	b := bytes.Clone(data)
	clear(b[end-walFrameHeader : end])
	must(t, fs.WriteFile(WALName(1), b))
	if _, _, err := readLog(fs, "/", 1); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	// Followed by another log, zeros are no excuse either.
	must(t, fs.WriteFile(WALName(1), data))
	w, _ = openWAL(t, fs, "/", SyncAlways)
	must(t, w.Close())
	clear(data[end-walFrameHeader:])
	must(t, fs.WriteFile(WALName(1), data))
	if _, _, err := readLog(fs, "/", 1); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if got, lost := salvageLogs(t, fs); len(got) != 1 || len(lost) != 1 {
		t.Fatal(len(got), lost)
	}
}

// No space for zeros is no failed commit, and not tried again at once; any
// other failure poisons the log.
func TestWALAheadFails(t *testing.T) {
	for _, fault := range []error{syscall.ENOSPC, &PartialWrite{Bytes: 700, Err: syscall.ENOSPC}} {
		fs := NewMemFS()
		w, _ := openWAL(t, fs, "/", SyncAlways)
		tries := 0
		fs.SetHook(func(op Op, _ string, _ int) error {
			if op == OpReserve {
				tries++
				return fault
			}
			return nil
		})
		var want [][]byte
		for i := range 100 {
			want = append(want, randomBytes(uint64(i), 1000))
			put(t, w, want[i])
			got, _, err := readLog(fs.CrashClone(nil), "/", 1)
			if err != nil || !sameRecords(got, want) {
				t.Fatalf("record %d: %d records, %v", i, len(got), err)
			}
		}
		must(t, w.Close())
		if got, r, err := readLog(fs, "/", 1); err != nil || r.Torn || !sameRecords(got, want) || tries == 0 || tries > 5 {
			t.Fatalf("%d records, %d tries, %+v, %v", len(got), tries, r, err)
		}
	}
	fs := NewMemFS()
	w, _ := openWAL(t, fs, "/", SyncAlways)
	fs.SetHook(func(op Op, _ string, _ int) error {
		if op == OpReserve {
			return syscall.EIO
		}
		return nil
	})
	p, err := w.Append([]byte("x"))
	must(t, err)
	for _, err := range []error{w.Commit(p), w.Err(), w.Close()} {
		if !errors.Is(err, ErrReadOnly) || !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
	}
}

// A reader that reads zeros, and later bytes only after the writer beside it
// has filled both, reads again; one whose file is cut meanwhile finds no damage.
func TestWALAheadReader(t *testing.T) {
	for _, closes := range []bool{false, true} {
		for at := 1; ; at++ { // the writer goes on before read number at
			fs := NewMemFS()
			w, _ := openWAL(t, fs, "/", SyncAlways)
			var want [][]byte
			write := func(n int) {
				for range n {
					want = append(want, randomBytes(uint64(len(want)), 3000))
					put(t, w, want[len(want)-1])
				}
			}
			write(12)
			acked, reads := len(want), 0
			fs.SetHook(func(op Op, _ string, _ int) error {
				if op == OpReadAt {
					if reads++; reads == at {
						write(30)
						if closes {
							must(t, w.Close())
						}
					}
				}
				return nil
			})
			got, _, err := readLog(fs, "/", 1)
			fs.SetHook(nil)
			if err != nil || len(got) < acked || !sameRecords(got, want[:len(got)]) {
				t.Fatalf("write before read %d: %d records, %v", at, len(got), err)
			}
			if reads < at {
				if at < 3 {
					t.Fatalf("%d reads", reads)
				}
				break
			}
		}
	}
}

// The same with readers and a writer of the host's files at once.
func TestWALAheadReaders(t *testing.T) {
	dir := t.TempDir()
	logs := 30
	if testing.Short() {
		logs = 5
	}
	var acked atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for last := int64(0); ; {
				select {
				case <-stop:
					return
				default:
				}
				least, n := acked.Load(), int64(0)
				_, err := Replay(OS{}, dir, 0, func(b []byte) error {
					if want := crashRecord(int(n)); !bytes.Equal(b, want) {
						return fmt.Errorf("record %d differs", n)
					}
					n++
					return nil
				})
				if err != nil || n < least || n < last {
					t.Errorf("%d records after %d, %d were there: %v", n, last, least, err)
					return
				}
				last = n
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	report := ReplayReport{}
	n := 0
	for range logs {
		w, err := CreateWAL(OS{}, dir, report, SyncAlways)
		must(t, err)
		for range 40 {
			var p Position
			for range 1 + rng.IntN(5) {
				p, err = w.Append(crashRecord(n))
				must(t, err)
				n++
			}
			must(t, w.Commit(p))
			acked.Store(int64(n))
		}
		report.Last, report.End = w.Number(), w.Size()
		report.Next = w.Number() + 1
		must(t, w.Close())
	}
	close(stop)
	wg.Wait()
}
