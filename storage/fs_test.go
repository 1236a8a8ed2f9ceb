package storage

import (
	"bytes"
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// eachFS runs a test on both file systems; dir exists and is empty.
func eachFS(t *testing.T, test func(t *testing.T, fs FS, dir string)) {
	t.Run("os", func(t *testing.T) { test(t, OS{}, t.TempDir()) })
	t.Run("mem", func(t *testing.T) {
		fs := NewMemFS()
		must(t, fs.MkdirAll("/db"))
		test(t, fs, "/db")
		if n := fs.Handles(); n != 0 {
			t.Errorf("%d handles left open", n)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t testing.TB, fs FS, name string, data []byte) {
	t.Helper()
	f, err := fs.Create(name)
	must(t, err)
	_, err = f.Write(data)
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

func slurp(t testing.TB, fs FS, name string) []byte {
	t.Helper()
	b, err := readFile(fs, name, 1<<40)
	must(t, err)
	return b
}

func TestFSFiles(t *testing.T) {
	eachFS(t, func(t *testing.T, fs FS, dir string) {
		a := filepath.Join(dir, "a")
		f, err := fs.Create(a)
		must(t, err)
		for _, s := range []string{"hello ", "cruel ", "world"} {
			n, err := f.Write([]byte(s))
			if n != len(s) || err != nil {
				t.Fatal(n, err)
			}
		}
		must(t, f.Truncate(6))
		_, err = f.Write([]byte("you")) // at the new end, not at the old one
		must(t, err)
		if n, err := f.Size(); n != 9 || err != nil {
			t.Fatal(n, err)
		}
		b := make([]byte, 5)
		if n, err := f.ReadAt(b, 6); n != 3 || err != io.EOF || string(b[:n]) != "you" {
			t.Fatal(n, err)
		}
		must(t, f.Sync())
		must(t, f.Close())
		if _, err := f.Write(nil); !errors.Is(err, ErrClosed) && err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); !errors.Is(err, ErrClosed) || errors.Is(err, ErrIO) {
			t.Fatal(err)
		}
		_, err = fs.Create(a)
		if !errors.Is(err, iofs.ErrExist) || !errors.Is(err, ErrIO) || !strings.Contains(err.Error(), a) {
			t.Fatal(err)
		}
		r, err := fs.Open(a)
		must(t, err)
		if _, err := r.Write([]byte("x")); !errors.Is(err, ErrIO) {
			t.Fatalf("write to a file opened for reading: %v", err)
		}
		must(t, r.Close())
		must(t, fs.Link(a, a+"2"))
		must(t, fs.Rename(a, filepath.Join(dir, "b")))
		must(t, fs.MkdirAll(filepath.Join(dir, "sub", "deep")))
		must(t, fs.MkdirAll(filepath.Join(dir, "sub")))
		must(t, fs.SyncDir(dir))
		names, err := fs.List(dir)
		if want := []string{"a2", "b", "sub/"}; !slices.Equal(names, want) || err != nil {
			t.Fatal(names, err)
		}
		if n, err := fs.Stat(a + "2"); n != 9 || err != nil {
			t.Fatal(n, err)
		}
		if err := fs.Remove(filepath.Join(dir, "sub")); !errors.Is(err, ErrIO) {
			t.Fatalf("removed a directory that is not empty: %v", err)
		}
		must(t, fs.Remove(filepath.Join(dir, "sub", "deep")))
		must(t, fs.Remove(filepath.Join(dir, "sub")))
		must(t, fs.Remove(a+"2"))
		if err := fs.MkdirAll(filepath.Join(dir, "b", "c")); !errors.Is(err, ErrIO) {
			t.Fatalf("directory below a file: %v", err)
		}
	})
}

func TestFSNotFound(t *testing.T) {
	eachFS(t, func(t *testing.T, fs FS, dir string) {
		x := filepath.Join(dir, "x")
		_, e1 := fs.Open(x)
		_, e2 := fs.Map(x)
		_, e3 := fs.Stat(x)
		_, e4 := fs.List(x)
		_, e5 := fs.Create(filepath.Join(x, "y"))
		_, e6 := fs.Lock(filepath.Join(x, "LOCK"), true)
		for i, err := range []error{e1, e2, e3, e4, e5, e6, fs.Remove(x), fs.Rename(x, x+"2"), fs.Link(x, x+"2"), fs.SyncDir(x)} {
			if !errors.Is(err, ErrNotFound) || !errors.Is(err, iofs.ErrNotExist) || errors.Is(err, ErrIO) ||
				!strings.Contains(err.Error(), x) {
				t.Errorf("%d: %v", i+1, err)
			}
		}
	})
}

func TestFSMap(t *testing.T) {
	eachFS(t, func(t *testing.T, fs FS, dir string) {
		data := bytes.Repeat([]byte("0123456789"), 2000)
		for name, data := range map[string][]byte{"full": data, "empty": nil} {
			name = filepath.Join(dir, name)
			writeFile(t, fs, name, data)
			m, err := fs.Map(name)
			must(t, err)
			if !bytes.Equal(m.Bytes(), data) {
				t.Fatal("wrong bytes")
			}
			for a := AdviceNormal; a <= AdviceDontNeed; a++ {
				n := int64(len(data))
				must(t, m.Advise(0, n, a))
				must(t, m.Advise(n/2, n/4, a))
				if err := m.Advise(1, n, a); !errors.Is(err, ErrInvalid) {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(m.Bytes(), data) {
				t.Fatal("wrong bytes after advice")
			}
			must(t, m.Close())
			must(t, m.Close())
		}
		if _, err := fs.Map(dir); !errors.Is(err, ErrIO) {
			t.Fatal(err)
		}
	})
}

func TestFSLock(t *testing.T) {
	eachFS(t, func(t *testing.T, fs FS, dir string) {
		name := filepath.Join(dir, LockName)
		w, err := fs.Lock(name, true)
		must(t, err)
		for _, exclusive := range []bool{true, false} {
			_, err := fs.Lock(name, exclusive)
			if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), name) {
				t.Fatal(err)
			}
		}
		must(t, w.Close())
		r1, err := fs.Lock(name, false)
		must(t, err)
		r2, err := fs.Lock(name, false)
		must(t, err)
		if _, err := fs.Lock(name, true); !errors.Is(err, ErrLocked) {
			t.Fatal(err)
		}
		must(t, r1.Close())
		must(t, r2.Close())
		w, err = fs.Lock(name, true)
		must(t, err)
		must(t, w.Close())
		if err := w.Close(); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	})
}

// B09: the lock of a killed process is free at once, and its file means
// nothing. The test runs itself as the process to kill.
func TestB09LockDiesWithItsHolder(t *testing.T) {
	const env = "QUARRY_TEST_LOCK"
	if name := os.Getenv(env); name != "" {
		l, err := OS{}.Lock(name, true)
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("locked\n")
		for {
			time.Sleep(time.Hour)
			runtime.KeepAlive(l) // collected, it would be unlocked
		}
	}
	name := filepath.Join(t.TempDir(), LockName)
	cmd := exec.Command(os.Args[0], "-test.run=^TestB09LockDiesWithItsHolder$")
	cmd.Env = append(os.Environ(), env+"="+name)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer cmd.Process.Kill()
	if b := make([]byte, 7); true {
		if _, err := io.ReadFull(out, b); err != nil || string(b) != "locked\n" {
			t.Fatalf("%q %v", b, err)
		}
	}
	if _, err := (OS{}).Lock(name, true); !errors.Is(err, ErrLocked) {
		t.Fatal(err)
	}
	must(t, cmd.Process.Kill())
	cmd.Wait() // its error is the kill
	l, err := OS{}.Lock(name, true)
	must(t, err)
	must(t, l.Close())
}

func TestDiskFullIsIO(t *testing.T) {
	err := wrapIO("write", "f", &iofs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC})
	if !IsDiskFull(err) || !errors.Is(err, ErrIO) || !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if want := "quarry: write f: " + syscall.ENOSPC.Error(); err.Error() != want {
		t.Fatalf("%q, want %q", err, want)
	}
	if p := poisoned(err); !errors.Is(p, ErrReadOnly) || !errors.Is(p, ErrIO) {
		t.Fatal(p)
	}
}

// A mapped file is cut under its reader: the read fails with ErrIO, and the
// program lives on.
func TestGuardTruncatedMap(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows refuses to cut a mapped file")
	}
	name := filepath.Join(t.TempDir(), "seg")
	info, err := CreateSegment(OS{}, name, func(w *SegmentWriter) error {
		s, err := w.Section("x")
		if err == nil {
			_, err = s.Write(make([]byte, 1<<20))
		}
		return err
	})
	must(t, err)
	s, err := OpenSegment(OS{}, name, info)
	must(t, err)
	defer s.Release()
	x, _ := s.Section("x")
	must(t, os.Truncate(name, 8192))
	sum := 0
	for range 3 { // the setting is restored each time
		err = Guard(func() error {
			for _, c := range x {
				sum += int(c)
			}
			return nil
		})
		if !errors.Is(err, ErrIO) {
			t.Fatal(err)
		}
	}
	if off, ok := s.FaultOffset(err); !ok || off < 8192 || off >= info.Size {
		t.Fatalf("fault at %d, %v", off, ok)
	}
	err = s.Verify(t.Context())
	if _, ok := s.FaultOffset(err); !ok || !errors.Is(err, ErrIO) || !strings.Contains(err.Error(), "verify "+name) {
		t.Fatal(err)
	}
	if _, err := OpenSegment(OS{}, name, info); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

func TestGuardPassesOtherPanics(t *testing.T) {
	for _, f := range []func() error{
		func() error { panic("mine") },
		func() error { var p *int; *p = 1; return nil },
		func() error { var s []int; s[0] = 1; return nil },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("panic swallowed")
				}
			}()
			Guard(f)
		}()
	}
	want := errors.New("e")
	if err := Guard(func() error { return want }); err != want {
		t.Fatal(err)
	}
}

// TestFSModel does the same random operations on both file systems and
// compares every answer.
func TestFSModel(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "m")
		if err != nil {
			t.Fatal(err)
		}
		m := &fsModel{t: t, dir: dir, os: OS{}, mem: NewMemFS()}
		if err := m.mem.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		defer m.closeAll()
		name := rapid.Custom(func(t *rapid.T) string {
			return filepath.Join(dir, rapid.SampledFrom([]string{"a", "b", "c", "d/a", "d/b", "e/f/a"}).Draw(t, "name"))
		})
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) { m.create(name.Draw(t, "file")) },
			"write":  func(t *rapid.T) { m.write(rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "bytes")) },
			"reserve": func(t *rapid.T) {
				if size := rapid.Int64Range(0, 300).Draw(t, "size"); m.of != nil {
					m.same("reserve", m.of.Reserve(size), m.mf.Reserve(size))
				}
			},
			"sync": func(t *rapid.T) {
				if m.of != nil {
					m.same("start sync", m.of.StartSync(), m.mf.StartSync())
					m.same("sync", m.of.Sync(), m.mf.Sync())
				}
			},
			"cut":   func(t *rapid.T) { m.cut(rapid.IntRange(0, 120).Draw(t, "size")) },
			"close": func(t *rapid.T) { m.closeAll() },
			"remove": func(t *rapid.T) {
				n := name.Draw(t, "file")
				m.closeOpen()
				m.same("remove", m.os.Remove(n), m.mem.Remove(n))
			},
			"rename": func(t *rapid.T) {
				a, b := name.Draw(t, "old"), name.Draw(t, "new")
				m.closeOpen()
				m.same("rename", m.os.Rename(a, b), m.mem.Rename(a, b))
			},
			"link": func(t *rapid.T) {
				a, b := name.Draw(t, "old"), name.Draw(t, "new")
				m.same("link", m.os.Link(a, b), m.mem.Link(a, b))
			},
			"mkdir": func(t *rapid.T) {
				d := filepath.Dir(name.Draw(t, "file"))
				m.same("mkdir", m.os.MkdirAll(d), m.mem.MkdirAll(d))
			},
			"": func(*rapid.T) { m.compare(dir) },
		})
	})
}

type fsModel struct {
	t      *rapid.T
	dir    string
	os     OS
	mem    *MemFS
	of, mf File // open for writing, or nil
}

func (m *fsModel) same(what string, a, b error) {
	m.t.Helper()
	for _, class := range []error{nil, ErrNotFound, ErrIO, ErrClosed, iofs.ErrExist} {
		if errors.Is(a, class) != errors.Is(b, class) {
			m.t.Fatalf("%s: os %v, mem %v", what, a, b)
		}
	}
}

// closeOpen goes before what Windows refuses to do to an open file.
func (m *fsModel) closeOpen() {
	if runtime.GOOS == "windows" {
		m.closeAll()
	}
}

func (m *fsModel) create(name string) {
	m.closeAll()
	a, e1 := m.os.Create(name)
	b, e2 := m.mem.Create(name)
	m.same("create", e1, e2)
	if e1 == nil {
		m.of, m.mf = a, b
	}
}

func (m *fsModel) write(b []byte) {
	if m.of == nil {
		return
	}
	n1, e1 := m.of.Write(b)
	n2, e2 := m.mf.Write(b)
	m.same("write", e1, e2)
	if n1 != n2 {
		m.t.Fatal(n1, n2)
	}
}

func (m *fsModel) cut(size int) {
	if m.of == nil {
		return
	}
	n, _ := m.of.Size()
	size = min(size, int(n))
	m.same("truncate", m.of.Truncate(int64(size)), m.mf.Truncate(int64(size)))
}

func (m *fsModel) closeAll() {
	if m.of != nil {
		m.same("close", m.of.Close(), m.mf.Close())
		m.of, m.mf = nil, nil
	}
}

func (m *fsModel) compare(dir string) {
	a, e1 := m.os.List(dir)
	b, e2 := m.mem.List(dir)
	m.same("list", e1, e2)
	if !slices.Equal(a, b) {
		m.t.Fatalf("%s: os %q, mem %q", dir, a, b)
	}
	for _, name := range a {
		p := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			m.compare(p)
			continue
		}
		x, e1 := readFile(m.os, p, 1<<20)
		y, e2 := readFile(m.mem, p, 1<<20)
		m.same("read", e1, e2)
		if !bytes.Equal(x, y) {
			m.t.Fatalf("%s: os %q, mem %q", p, x, y)
		}
	}
}
