package storage

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"
)

type lostBytes struct {
	file   string
	off, n int64
}

func salvageLogs(t testing.TB, fs FS) (records [][]byte, lost []lostBytes) {
	t.Helper()
	err := SalvageLogs(fs, "/", 0, func(b []byte) error {
		records = append(records, bytes.Clone(b))
		return nil
	}, func(file string, off, n int64) { lost = append(lost, lostBytes{file, off, n}) })
	must(t, err)
	return records, lost
}

// The seal of a closed log is no tail, in whatever place of a block it stands;
// another writer goes on behind it; and a log without a record has none.
func TestWALSeal(t *testing.T) {
	for size := walBlock - walHeaderSize - 3*walFrameHeader - 4; size < walBlock-walHeaderSize; size++ {
		fs := NewMemFS()
		w, _ := openWAL(t, fs, "/", SyncAlways)
		put(t, w, make([]byte, size))
		end := w.Size()
		must(t, w.Close())
		for n := range 3 {
			got, r, err := readLog(fs, "/", 1)
			if err != nil || r.Torn || len(got) != 1+n || n == 0 && r.End != end {
				t.Fatalf("record of %d bytes, opened %d times: %d records, %+v, %v", size, n, len(got), r, err)
			}
			if got, lost := salvageLogs(t, fs); len(got) != 1+n || len(lost) != 0 {
				t.Fatalf("record of %d bytes: salvaged %d, lost %v", size, len(got), lost)
			}
			w, err := CreateWAL(fs, "/", r, SyncAlways)
			must(t, err)
			put(t, w, []byte("more"))
			must(t, w.Close())
		}
	}
	full, records, _ := fiveRecords(t, SyncAlways)
	w, _ := openWAL(t, full, "/", SyncAlways)
	put(t, w, []byte("last"))
	full.SetHook(func(op Op, _ string, _ int) error {
		if op == OpWrite {
			return &PartialWrite{Bytes: 9, Err: syscall.ENOSPC}
		}
		return nil
	})
	must(t, w.Close())
	if got, r, err := readLog(full, "/", 1); err != nil || r.Torn || !sameRecords(got, append(records, []byte("last"))) {
		t.Errorf("without space for the seal: %d records, %+v, %v", len(got), r, err)
	}
	fs := NewMemFS()
	w, _ = openWAL(t, fs, "/", SyncAlways)
	must(t, w.Close())
	if n := len(slurp(t, fs, WALName(1))); n != walHeaderSize {
		t.Errorf("a log without a record has %d bytes", n)
	}
}

// Of a log with any byte flipped, every other record is saved, none is
// invented, and the lost bytes are told: they hold the flipped one.
func TestSalvageLogs(t *testing.T) {
	fs, records, ends := fiveRecords(t, SyncAlways)
	name := WALName(1)
	data := slurp(t, fs, name)
	if got, lost := salvageLogs(t, fs); !sameRecords(got, records) || len(lost) != 0 {
		t.Fatalf("whole log: %d records, lost %v", len(got), lost)
	}
	for i := range data {
		b := bytes.Clone(data)
		b[i] ^= 0x41
		must(t, fs.WriteFile(name, b))
		got, lost := salvageLogs(t, fs)
		want := records
		if int64(i) >= ends[0] && int64(i) < ends[len(ends)-1] { // behind the last record is the seal
			hit := 0
			for ends[hit+1] <= int64(i) {
				hit++
			}
			want = append(append([][]byte{}, records[:hit]...), records[hit+1:]...)
		}
		if int64(i) >= 8 && int64(i) < 16 && len(got) == 0 && len(lost) == 1 {
			continue // a version or a feature nobody knows
		}
		if !sameRecords(got, want) {
			t.Fatalf("byte %d flipped: %d records, want %d", i, len(got), len(want))
		}
		if len(lost) != 1 || lost[0].off > int64(i) || lost[0].off+lost[0].n <= int64(i) {
			t.Fatalf("byte %d flipped: told lost %v", i, lost)
		}
	}
}

// Records over many blocks and several logs: damage in one block takes the
// records that lie in it and no other; a log that is gone is not missed.
func TestSalvageLongLogs(t *testing.T) {
	fs := NewMemFS()
	w, _ := openWAL(t, fs, "/", SyncAlways)
	var records [][]byte
	for i := range 30 {
		b := fmt.Appendf(nil, "record %d %s", i, randomBytes(uint64(i), 9000*(i%7)))
		put(t, w, b)
		records = append(records, b)
		if i%10 == 9 {
			if _, err := w.Rotate(); err != nil {
				t.Fatal(err)
			}
		}
	}
	must(t, w.Close())
	for n := uint64(1); n <= 3; n++ {
		name := WALName(n)
		data := slurp(t, fs, name)
		for at := 100; at < len(data); at += 5 * walBlock / 4 {
			b := bytes.Clone(data)
			clear(b[at:min(at+2000, len(b))])
			if bytes.Equal(b, data) {
				continue // zeros laid ahead
			}
			must(t, fs.WriteFile(name, b))
			got, lost := salvageLogs(t, fs)
			if len(lost) == 0 || len(got) < len(records)-4 || len(got) == len(records) {
				t.Errorf("log %d, bytes at %d cleared: %d of %d records, lost %v", n, at, len(got), len(records), lost)
			}
			for _, g := range got {
				i := 0
				if _, err := fmt.Sscanf(string(g[:min(len(g), 12)]), "record %d", &i); err != nil || !bytes.Equal(g, records[i]) {
					t.Fatalf("log %d, bytes at %d cleared: a record nobody wrote", n, at)
				}
			}
		}
		must(t, fs.WriteFile(name, data))
	}
	must(t, fs.Remove(WALName(2)))
	if got, _ := salvageLogs(t, fs); !sameRecords(got, append(append([][]byte{}, records[:10]...), records[20:]...)) {
		t.Errorf("without log 2: %d records", len(got))
	}
}

// Of a segment whose header or footer is damaged the TOC is found by its
// checksum, and Damage tells which sections are whole.
func TestSalvageSegment(t *testing.T) {
	data, info := smallSegment(t)
	fs := NewMemFS()
	lost := 0
	for i := range data {
		b := bytes.Clone(data)
		b[i] ^= 0xff
		must(t, fs.WriteFile("seg", b))
		s, err := SalvageSegment(fs, "seg", info)
		if err != nil {
			if lost++; !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d: %v", i, err)
			}
			continue
		}
		damage, err := s.Damage(t.Context())
		must(t, err)
		whole, _ := ParseSegment("whole", data)
		for _, sec := range s.Sections() {
			got, _ := s.Section(sec.Name)
			want, _ := whole.Section(sec.Name)
			if damage.Touches(sec.Name, 0, sec.Size) == bytes.Equal(got, want) && sec.Size > 0 {
				t.Fatalf("byte %d: section %q is whole: %v, damage %v", i, sec.Name, bytes.Equal(got, want), damage)
			}
		}
		must(t, s.Release())
	}
	toc := len(data) - segmentFooterSize
	if lost == 0 || lost > toc {
		t.Errorf("%d of %d flips lost the TOC", lost, len(data))
	}
	must(t, fs.WriteFile("seg", data[:len(data)-segmentFooterSize]))
	s, err := SalvageSegment(fs, "seg", info)
	must(t, err)
	must(t, s.Release())
	other, _ := buildSegment(t, testSection{"other", []byte("bytes")})
	must(t, fs.WriteFile("seg", other))
	if _, err := SalvageSegment(fs, "seg", info); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another file: %v", err)
	}
	if n := fs.Handles(); n != 0 {
		t.Errorf("%d handles left open", n)
	}
}

// A directory's next names are above all that were ever used.
func TestListNextNames(t *testing.T) {
	fs := NewMemFS()
	for _, name := range []string{SegmentName(7), TombstoneName(9, 12), ManifestName(5), ManifestName(40) + tmpSuffix, WALName(3), "seg-x"} {
		must(t, fs.WriteFile(name, nil))
	}
	got, err := ListNextNames(fs, "/")
	if want := (NextNames{Generation: 41, Segment: 10, Log: 4}); err != nil || got != want {
		t.Errorf("%+v %v, want %+v", got, err, want)
	}
}

func FuzzSalvage(f *testing.F) {
	fs, _, _ := fiveRecords(f, SyncAlways)
	log := slurp(f, fs, WALName(1))
	data, info := smallSegment(f)
	f.Add(log, data)
	b := bytes.Clone(data)
	b[9] = 2
	f.Add(log[:len(log)/2], b)
	f.Add(log[20:], data[:len(data)-segmentFooterSize])
	f.Fuzz(func(t *testing.T, log, seg []byte) {
		fs := NewMemFS()
		must(t, errors.Join(fs.WriteFile(WALName(1), log), fs.WriteFile("seg", seg)))
		total := int64(0)
		err := SalvageLogs(fs, "/", 0, func(b []byte) error { total += int64(len(b)); return nil },
			func(_ string, off, n int64) {
				if total += n; off < 0 || n < 0 {
					t.Fatal(off, n)
				}
			})
		if must(t, err); total > int64(len(log)) {
			t.Fatal("more bytes than the file holds")
		}
		s, err := SalvageSegment(fs, "seg", info)
		if err != nil {
			checkError(t, err)
			return
		}
		if _, err := s.Damage(t.Context()); err != nil {
			t.Fatal(err)
		}
		must(t, s.Release())
	})
}
