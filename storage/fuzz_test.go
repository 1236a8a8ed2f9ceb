package storage

import (
	"bytes"
	"errors"
	"testing"
)

// checkError demands that a decoder's error is one a damaged file may give.
func checkError(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
		t.Fatal(err)
	}
}

func FuzzSegment(f *testing.F) {
	data, _ := smallSegment(f)
	f.Add(data)
	big, _ := buildSegment(f, testSection{"big", make([]byte, 2*hashChunk+1)})
	f.Add(big[:4096])
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseSegment("fuzz", b)
		if err != nil {
			checkError(t, err)
			return
		}
		total := 0
		for _, info := range s.Sections() {
			section, ok := s.Section(info.Name)
			if !ok || int64(len(section)) != info.Size {
				t.Fatal(info)
			}
			total += len(section)
		}
		if total > len(b) {
			t.Fatal("sections overlap")
		}
		checkError(t, s.Verify(t.Context()))
	})
}

func FuzzDocs(f *testing.F) {
	for _, mode := range []DocMode{DocZstd, DocRaw} {
		docs := testDocs(5, 30, 300)
		s := writeDocs(f, docs, mode)
		f.Add(s["index"].Bytes(), s["data"].Bytes(), uint8(30))
	}
	f.Fuzz(func(t *testing.T, index, data []byte, docs uint8) {
		d, err := OpenDocs(func(name string) ([]byte, bool) {
			if name == docsIndexSection {
				return index, true
			}
			return data, name == docsDataSection
		}, int(docs))
		if err != nil {
			checkError(t, err)
			return
		}
		c := d.Cursor()
		for doc := range uint32(docs) {
			a, e1 := d.Get(doc, nil)
			b, e2 := c.Get(doc)
			checkError(t, e1)
			checkError(t, e2)
			if (e1 == nil) != (e2 == nil) || !bytes.Equal(a, b) || len(a) > docMaxRatio*len(data) {
				t.Fatalf("doc %d: %v, %v", doc, e1, e2)
			}
		}
	})
}

func FuzzWAL(f *testing.F) {
	fs, _, _ := fiveRecords(f, SyncAlways)
	log := slurp(f, fs, WALName(1))
	f.Add(log, []byte{})
	f.Add(log[:len(log)-3], log)
	next, _ := openWAL(f, fs, "/", SyncAlways)
	if err := next.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(log, slurp(f, fs, WALName(2)))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		fs := NewMemFS()
		if err := errors.Join(fs.WriteFile(WALName(1), one), fs.WriteFile(WALName(2), two)); err != nil {
			t.Fatal(err)
		}
		total := 0
		r, err := Replay(fs, "/", 0, func(b []byte) error { total += len(b); return nil })
		if total > len(one)+len(two) {
			t.Fatal("more bytes than the files hold")
		}
		if err != nil {
			checkError(t, err)
			return
		}
		// What opens can be gone on with, and gives the same again and more.
		w, err := CreateWAL(fs, "/", r, SyncNever)
		if err != nil {
			t.Fatal(err)
		}
		put(t, w, []byte("next"))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := Replay(fs, "/", r.First, func([]byte) error { return nil })
		if err != nil || again.Torn || again.Records != r.Records+1 {
			t.Fatalf("%+v, then %+v: %v", r, again, err)
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add(testManifest(3).encode(), true)
	f.Add(manifestEnvelope.seal(testManifest(3).encode()), false)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal { // reach past the checksum
			b = manifestEnvelope.seal(b)
		}
		m, err := decodeManifest("fuzz", b)
		if err != nil {
			checkError(t, err)
			return
		}
		if len(m.Segments)*minSegmentEntry+len(m.Schema)+len(m.Extra) > len(b) {
			t.Fatal("more than the file holds")
		}
		again, err := decodeManifest("again", manifestEnvelope.seal(m.encode()))
		if err != nil || !bytes.Equal(again.encode(), m.encode()) {
			t.Fatal(err)
		}
	})
}

func FuzzTombstones(f *testing.F) {
	f.Add(tombstoneEnvelope.seal([]byte("payload")))
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := NewMemFS()
		if err := fs.WriteFile(TombstoneName(1, 1), b); err != nil {
			t.Fatal(err)
		}
		e := TombstoneEntry{Generation: 1, Size: int64(len(b))}
		if len(b) >= envelopeSize {
			e.Hash = NewDecoder("", 0, b[24:]).U64()
		}
		payload, err := ReadTombstones(fs, "/", 1, e)
		if err != nil {
			checkError(t, err)
			return
		}
		if !bytes.Equal(tombstoneEnvelope.seal(payload), b) {
			t.Fatal("accepted other bytes than are written")
		}
	})
}

func FuzzFileName(f *testing.F) {
	for _, name := range []string{LockName, WALName(1), SegmentName(2), TombstoneName(3, 4), ManifestName(5) + tmpSuffix, "x"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p := ParseFileName(name)
		want := map[FileKind]string{
			FileLock: LockName, FileWAL: WALName(p.Number), FileSegment: SegmentName(p.Number),
			FileTombstone: TombstoneName(p.Number, p.Generation), FileManifest: ManifestName(p.Generation),
		}
		if w, ok := want[p.Kind]; ok && w != name {
			t.Fatalf("%q parsed as %q", name, w)
		}
	})
}
