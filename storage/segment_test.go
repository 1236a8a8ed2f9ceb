package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

type testSection struct {
	name string
	data []byte
}

func buildSegment(t testing.TB, sections ...testSection) ([]byte, SegmentInfo) {
	t.Helper()
	var b bytes.Buffer
	w := NewSegmentWriter(&b)
	for _, s := range sections {
		out, err := w.Section(s.name)
		must(t, err)
		for rest := s.data; len(rest) > 0; { // uneven pieces
			n := min(len(rest), 1+len(rest)*2/3)
			_, err = out.Write(rest[:n])
			must(t, err)
			rest = rest[n:]
		}
	}
	info, err := w.Finish()
	must(t, err)
	if info.Size != int64(b.Len()) || info.Size%SectionAlign != 0 {
		t.Fatalf("size %d, wrote %d", info.Size, b.Len())
	}
	return b.Bytes(), info
}

func smallSegment(t testing.TB) ([]byte, SegmentInfo) {
	return buildSegment(t,
		testSection{"ids", []byte("alpha\x00beta\x00gamma\x00")},
		testSection{"empty", nil},
		testSection{"text/title/dict", bytes.Repeat([]byte{1, 2, 3, 4, 5}, 20)})
}

func randomBytes(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func TestSegmentRoundTrip(t *testing.T) {
	eachFS(t, func(t *testing.T, fs FS, dir string) {
		rng := rand.New(rand.NewPCG(1, 2))
		var want []testSection
		for i, n := range []int{0, 1, 63, 64, 65, 0, hashChunk - 1, hashChunk, hashChunk + 1, 2*hashChunk + 77, 3 * hashChunk} {
			want = append(want, testSection{fmt.Sprintf("s/%d", i), randomBytes(rng.Uint64(), n)})
		}
		data, info := buildSegment(t, want...)
		path := filepath.Join(dir, SegmentName(7))
		got, err := CreateSegment(fs, path, func(w *SegmentWriter) error {
			for _, s := range want {
				out, err := w.Section(s.name)
				if err == nil {
					_, err = out.Write(s.data)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		must(t, err)
		if got != info || !bytes.Equal(slurp(t, fs, path), data) {
			t.Fatal("the file differs from the same segment in memory")
		}
		s, err := OpenSegment(fs, path, info)
		must(t, err)
		if s.Info() != info || s.Name() != path || len(s.Sections()) != len(want) {
			t.Fatal(s.Info(), s.Name())
		}
		for i, w := range want {
			b, ok := s.Section(w.name)
			if !ok || !bytes.Equal(b, w.data) || cap(b) != len(b) {
				t.Fatalf("section %q", w.name)
			}
			if uintptrOf(b)%SectionAlign != 0 {
				t.Fatalf("section %q is not aligned", w.name)
			}
			if e := s.Sections()[i]; e.Hash != xxhash.Sum64(w.data) || e.Size != int64(len(b)) || e.Name != w.name {
				t.Fatal(e)
			}
			must(t, s.Advise(w.name, AdviceWillNeed))
		}
		must(t, s.Advise("", AdviceSequential))
		if err := s.Advise("none", AdviceRandom); !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		if _, ok := s.Section("none"); ok {
			t.Fatal("found a section that is not there")
		}
		must(t, s.Verify(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Verify(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		s.Retain()
		must(t, s.Release())
		if _, ok := s.Section("s/1"); !ok {
			t.Fatal("released too early")
		}
		must(t, s.Release())
		_, ok := s.Section("s/1")
		err = s.Release()
		if ok || s.TryRetain() || !errors.Is(err, ErrClosed) || !errors.Is(s.Verify(t.Context()), ErrClosed) {
			t.Fatal("alive after the last release", err)
		}
	})
}

func TestSegmentInMemory(t *testing.T) {
	data, info := smallSegment(t)
	for shift := range SectionAlign { // any address
		b := make([]byte, shift+len(data))
		copy(b[shift:], data)
		s, err := ParseSegment("mem", b[shift:])
		must(t, err)
		ids, ok := s.Section("ids")
		if !ok || string(ids) != "alpha\x00beta\x00gamma\x00" || uintptrOf(ids)%SectionAlign != 0 || s.Info() != info {
			t.Fatal(ids, s.Info())
		}
		must(t, s.Verify(t.Context()))
		must(t, s.Advise("ids", AdviceRandom))
		must(t, s.Release())
	}
}

// TestMemorySegment writes the same sections to a file and to memory.
func TestMemorySegment(t *testing.T) {
	w := NewMemorySegmentWriter(100)
	var want []testSection
	for i, n := range []int{0, 1, 64, 65, 3000, hashChunk + 1} {
		want = append(want, testSection{fmt.Sprintf("s/%d", i), randomBytes(uint64(i), n)})
		out, err := w.Section(want[i].name)
		must(t, err)
		_, err = out.Write(want[i].data)
		must(t, err)
	}
	if _, err := w.Section("s/1"); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	if _, err := w.Memory("m"); !errors.Is(err, ErrInvalid) {
		t.Fatal("the error does not stick:", err)
	}
	w = NewMemorySegmentWriter(0)
	for _, x := range want {
		out, err := w.Section(x.name)
		must(t, err)
		_, err = out.Write(x.data)
		must(t, err)
	}
	s, err := w.Memory("m")
	must(t, err)
	data, _ := buildSegment(t, want...)
	file, err := ParseSegment("file", data)
	must(t, err)
	for i, x := range file.Sections() {
		got, ok := s.Section(x.Name)
		if !ok || !bytes.Equal(got, want[i].data) || uintptrOf(got)%SectionAlign != 0 || s.Sections()[i].Offset != x.Offset {
			t.Fatalf("section %q", x.Name)
		}
	}
	must(t, s.Verify(t.Context()))
	must(t, s.Release())
	if _, err := w.Section("late"); err == nil {
		t.Fatal("a section after the end")
	}
	if _, err := NewMemorySegmentWriter(0).Finish(); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	if _, err := NewSegmentWriter(new(bytes.Buffer)).Memory("m"); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
}

func TestSegmentWriterMisuse(t *testing.T) {
	w := NewSegmentWriter(io.Discard)
	a, err := w.Section("a")
	must(t, err)
	_, err = w.Section("b")
	must(t, err)
	if _, err := a.Write([]byte{1}); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "", strings.Repeat("x", maxSectionName+1)} {
		w := NewSegmentWriter(io.Discard)
		_, err := w.Section("a")
		must(t, err)
		if _, err := w.Section(name); !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
		if _, err := w.Finish(); !errors.Is(err, ErrInvalid) {
			t.Fatal("error did not stick")
		}
	}
	_, err = w.Finish()
	must(t, err)
	if _, err := w.Section("c"); err == nil {
		t.Fatal("section after Finish")
	}
}

// Every flip of a bit either leaves the sections as they were, or is found by
// open or by Verify, with the file's name.
func TestSegmentFlips(t *testing.T) {
	data, info := smallSegment(t)
	for i := range data {
		for bit := range 8 {
			b := bytes.Clone(data)
			b[i] ^= 1 << bit
			s, err := parseSegment("flip", b, info)
			if err == nil {
				err = s.Verify(t.Context())
			}
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "flip") {
				t.Fatalf("byte %d bit %d: %v", i, bit, err)
			}
		}
	}
}

// B04: files of any other length, or of other content.
func TestB04SegmentCut(t *testing.T) {
	fs := NewMemFS()
	data, info := smallSegment(t)
	for n := range len(data) {
		must(t, fs.WriteFile("seg", data[:n]))
		for _, want := range []SegmentInfo{info, {}} {
			_, err := OpenSegment(fs, "seg", want)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "seg") ||
				want == info && !strings.Contains(err.Error(), fmt.Sprintf("want %d bytes, have %d", len(data), n)) {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
	}
	other, _ := buildSegment(t, testSection{"ids", []byte("alpha\x00beta\x00gammb\x00")}, testSection{"empty", nil},
		testSection{"text/title/dict", bytes.Repeat([]byte{1, 2, 3, 4, 5}, 20)})
	for _, b := range [][]byte{append(bytes.Clone(data), 0), make([]byte, len(data)), other} {
		must(t, fs.WriteFile("seg", b))
		if _, err := OpenSegment(fs, "seg", info); !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	}
	if n := fs.Handles(); n != 0 {
		t.Fatalf("%d handles left", n)
	}
}

// B14: other versions and features give one clear error with both numbers.
func TestB14SegmentVersion(t *testing.T) {
	data, _ := smallSegment(t)
	reseal := func(b []byte) []byte {
		foot := b[len(b)-segmentFooterSize:]
		binary.LittleEndian.PutUint64(foot[48:], xxhash.Sum64(foot[:48]))
		return b
	}
	for _, v := range []uint32{0, segmentVersion + 1, binary.LittleEndian.Uint32([]byte("abc\x00"))} {
		for _, at := range []int{8, len(data) - segmentFooterSize + 32} {
			b := bytes.Clone(data)
			binary.LittleEndian.PutUint32(b[at:], v)
			_, err := ParseSegment("seg", reseal(b))
			if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), fmt.Sprintf("version %d, this build reads 1", v)) {
				t.Fatal(err)
			}
		}
	}
	b := bytes.Clone(data)
	b[len(data)-segmentFooterSize+24] = 4
	if _, err := ParseSegment("seg", reseal(b)); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "0x4") {
		t.Fatal(err)
	}
}

// Verify finds the MiB; open does not look.
func TestSegmentVerifyNamesThePlace(t *testing.T) {
	data, info := buildSegment(t, testSection{"small", randomBytes(1, 100)}, testSection{"big", randomBytes(2, 3*hashChunk+5)})
	b := bytes.Clone(data)
	at := segmentHeaderSize + 128 + 2*hashChunk + 99
	b[at] ^= 1
	s, err := parseSegment("seg", b, info)
	must(t, err)
	var ce *CorruptError
	err = s.Verify(t.Context())
	if !errors.As(err, &ce) || ce.File != "seg" || ce.Offset != segmentHeaderSize+128+2*hashChunk || !strings.Contains(ce.What, `"big"`) {
		t.Fatal(err)
	}
}

func TestSegmentRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(rt, "sections")
		var want []testSection
		for i := range n {
			want = append(want, testSection{fmt.Sprint("n", i), rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(rt, "data")})
		}
		data, info := buildSegment(t, want...)
		s, err := parseSegment("m", data, info)
		if err != nil {
			rt.Fatal(err)
		}
		for _, w := range want {
			if b, ok := s.Section(w.name); !ok || !bytes.Equal(b, w.data) {
				rt.Fatalf("section %q", w.name)
			}
		}
	})
}

// CreateSegment with every operation failing in turn: it says so and leaves
// no file, unless the removal is what failed.
func TestCreateSegmentErrors(t *testing.T) {
	for k := 1; ; k++ {
		fs := NewMemFS()
		boom := errors.New("boom")
		hit := OpLock
		fs.SetHook(func(op Op, _ string, n int) error {
			if n == k && op.IsWrite() {
				hit = op
				return boom
			}
			return nil
		})
		_, err := CreateSegment(fs, "seg", func(w *SegmentWriter) error {
			s, err := w.Section("a")
			if err == nil {
				_, err = s.Write(make([]byte, 2*segmentBuffer))
			}
			return err
		})
		if hit == OpLock {
			must(t, err)
			return
		}
		if !errors.Is(err, boom) || !errors.Is(err, ErrIO) || errors.Is(err, ErrReadOnly) != (hit == OpSync) {
			t.Fatalf("op %d (%v): %v", k, hit, err)
		}
		if names, _ := fs.List("/"); len(names) != 0 || fs.Handles() != 0 {
			t.Fatalf("op %d (%v): left %q, %d handles", k, hit, names, fs.Handles())
		}
	}
}

// TestSegmentGolden keeps the bytes of the format readable: a change of the
// format shows as a change of testdata/segment.hex.
func TestSegmentGolden(t *testing.T) {
	data, info := smallSegment(t)
	s, err := parseSegment("golden", data, info)
	must(t, err)
	got := hexDump(data, segmentMarks(s))
	path := filepath.Join("testdata", "segment.hex")
	if *update {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if got != string(want) {
		t.Fatalf("segment bytes changed; go test -run Golden -update rewrites %s\n%s", path, got)
	}
}

// segmentMarks names the parts of a segment by their offset.
func segmentMarks(s *Segment) map[int]string {
	foot := int(s.info.Size) - segmentFooterSize
	toc := int(binary.LittleEndian.Uint64(s.data[foot:]))
	m := map[int]string{
		0: "header: magic", 8: "version", 12: "zero",
		toc:  fmt.Sprintf("TOC: %d sections", len(s.toc)),
		foot: "footer: offset of TOC", foot + 8: "length of TOC", foot + 16: "xxhash64 of TOC", foot + 24: "features",
		foot + 32: "version", foot + 36: "zero", foot + 40: "file size", foot + 48: "xxhash64 of the footer so far", foot + 56: "magic",
	}
	at := toc + 1
	for _, e := range s.toc {
		if e.Size > 0 {
			m[int(e.Offset)] = fmt.Sprintf("section %q, %d bytes", e.Name, e.Size)
			m[int(e.Offset+e.Size)] = "padding"
		}
		m[at] = fmt.Sprintf("name %q, offset %d, size %d, xxhash64", e.Name, e.Offset, e.Size)
		at += len(AppendUvarint(AppendUvarint(AppendBytes(nil, e.Name), uint64(e.Offset)), uint64(e.Size))) + 8
	}
	m[at] = "padding"
	return m
}

// hexDump writes data as lines of up to 16 bytes; a mark starts a new line.
func hexDump(data []byte, marks map[int]string) string {
	var b strings.Builder
	for i := 0; i < len(data); {
		if m, ok := marks[i]; ok {
			fmt.Fprintf(&b, "# %s\n", m)
		}
		n := 1
		for n < 16 && i+n < len(data) && marks[i+n] == "" {
			n++
		}
		fmt.Fprintf(&b, "%04x  % x", i, data[i:i+n])
		fmt.Fprintf(&b, "%*s  ", 3*(16-n), "")
		for _, c := range data[i : i+n] {
			if c < ' ' || c > '~' {
				c = '.'
			}
			b.WriteByte(c)
		}
		b.WriteByte('\n')
		i += n
	}
	return b.String()
}

// A big-endian machine refuses a segment by name, and reads nothing wrong of
// the other files. To try it:
//
//	GOARCH=s390x go test -exec qemu-s390x -run 'BigEndian|B01|Manifest|Seal' ./storage
func TestBigEndianIsRefused(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		t.Skip("this machine is little-endian")
	}
	data, err := hex.DecodeString(goldenHex(t))
	must(t, err)
	if _, err := parseSegment("golden", data, SegmentInfo{}); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "little-endian") {
		t.Fatal(err)
	}
}

// goldenHex is the bytes of testdata/segment.hex.
func goldenHex(t *testing.T) string {
	dump, err := os.ReadFile(filepath.Join("testdata", "segment.hex"))
	must(t, err)
	var b strings.Builder
	for line := range strings.Lines(string(dump)) {
		if !strings.HasPrefix(line, "#") {
			b.WriteString(strings.ReplaceAll(line[6:min(6+47, len(line))], " ", ""))
		}
	}
	return b.String()
}
