package registry

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

func TestSnapshots(t *testing.T) {
	l := newLetters(t)
	r := openDir(t, t.TempDir(), &Options{Models: l.models()})
	o := texts()
	o.Embed = "letters"
	create(t, r, "a", o, doc("1", "aa"), doc("2", "bb"))
	s, err := r.CreateSnapshot(t.Context(), "a", "first")
	if err != nil || s.Documents != 2 || s.Bytes == 0 || s.Name != "first" || s.Created.IsZero() {
		t.Fatalf("%+v, %v", s, err)
	}
	_, err = r.CreateSnapshot(t.Context(), "a", "first")
	want(t, "taken", err, ErrExists)
	named, err := r.CreateSnapshot(t.Context(), "a", "")
	if err != nil || CheckName("snapshot", named.Name) != nil {
		t.Fatal(named, err)
	}
	list, err := r.Snapshots("a")
	if err != nil || len(list) != 2 || list[1] != s {
		t.Errorf("%+v, %v", list, err)
	}
	var archive bytes.Buffer
	var size int64
	if err := r.WriteSnapshot(t.Context(), "a", "first", &archive, func(n int64) { size = n }); err != nil {
		t.Fatal(err)
	}

	if size != int64(archive.Len()) {
		t.Errorf("an archive of %d bytes was said to have %d", archive.Len(), size)
	}
	c, err := r.Get(t.Context(), "a")
	if err == nil {
		err = c.Apply(t.Context(), []index.Document{doc("3", "cc")})
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Release()
	if err := r.RestoreSnapshot(t.Context(), "a", "a", "first"); err != nil {
		t.Fatal(err)
	}
	check := func(name string) {
		t.Helper()
		if got := ids(t, r, name); !slices.Equal(got, []string{"1", "2"}) {
			t.Error(name, got)
		}
		c, err := r.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		if _, err := c.Embed(t.Context(), "a"); err != nil {
			t.Error("the model is lost:", err)
		}
		if err := c.Apply(t.Context(), []index.Document{doc("2", "dd")}); err != nil {
			t.Error(err)
		}
	}
	check("a")
	if err := r.RestoreArchive(t.Context(), "b", bytes.NewReader(archive.Bytes()), 1<<20); err != nil {
		t.Fatal(err)
	}
	check("b")
	if err := r.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := r.RestoreSnapshot(t.Context(), "a", "a", named.Name); err != nil { // of a collection that is gone
		t.Fatal(err)
	}
	check("a")
	if err := r.DeleteSnapshot(t.Context(), "a", "first"); err != nil {
		t.Error(err)
	}
	want(t, "delete again", r.DeleteSnapshot(t.Context(), "a", "first"), storage.ErrNotFound)
	want(t, "download", r.WriteSnapshot(t.Context(), "a", "first", io.Discard, nil), storage.ErrNotFound)
	want(t, "restore", r.RestoreSnapshot(t.Context(), "a", "a", "first"), storage.ErrNotFound)
	if left := tree(t, filepath.Join(r.Dir(), "tmp")) + tree(t, filepath.Join(r.Dir(), "trash")); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// An archived file, to be written again.
type archived struct {
	header tar.Header
	data   []byte
}

func readArchive(t *testing.T, data []byte) []archived {
	t.Helper()
	var out []archived
	tr := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, archived{*h, b})
	}
}

func writeArchive(t *testing.T, files []archived) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		f.header.Size = int64(len(f.data))
		if err := w.WriteHeader(&f.header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRestoreVerifiesBeforeItReplaces(t *testing.T) {
	l := newLetters(t)
	r := openDir(t, t.TempDir(), &Options{Models: l.models()})
	o := texts()
	o.Embed = "letters"
	create(t, r, "a", o, doc("1", "aa"))
	if _, err := r.CreateSnapshot(t.Context(), "a", "s"); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.WriteSnapshot(t.Context(), "a", "s", &b, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	whole := readArchive(t, b.Bytes())
	create(t, r, "b", texts(), doc("old", "x"))
	change := func(f func(files []archived) []archived) []byte {
		files := slices.Clone(whole)
		for i := range files {
			files[i].data = bytes.Clone(files[i].data)
		}
		return writeArchive(t, f(files))
	}
	named := func(name string) func([]archived) []archived {
		return func(f []archived) []archived {
			return append(f, archived{tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg}, []byte("x")})
		}
	}
	segment := slices.IndexFunc(whole, func(f archived) bool { return strings.HasSuffix(f.header.Name, ".qry") })
	if segment < 0 {
		t.Fatal("no segment in the archive")
	}
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"flipped byte": {change(func(f []archived) []archived { f[segment].data[100] ^= 1; return f }), storage.ErrCorrupt},
		"cut":          {b.Bytes()[:b.Len()/2], storage.ErrInvalid},
		"no segment":   {change(func(f []archived) []archived { return slices.Delete(f, segment, segment+1) }), storage.ErrInvalid},
		"no index":     {change(func(f []archived) []archived { return f[:1] }), storage.ErrInvalid},
		"empty":        {nil, storage.ErrInvalid},
		"no tar":       {bytes.Repeat([]byte("no tar "), 1000), storage.ErrInvalid},
		"parent":       {change(named("../x")), storage.ErrInvalid},
		"absolute":     {change(named("/etc/x")), storage.ErrInvalid},
		"below":        {change(named("index/../../x")), storage.ErrInvalid},
		"unknown":      {change(named("index/LOCK")), storage.ErrInvalid},
		"twice":        {change(named("index/" + storage.ManifestName(1))), storage.ErrInvalid},
		"link": {change(func(f []archived) []archived {
			return append(f, archived{tar.Header{Name: "index/wal-0000000000000009.log", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}, nil})
		}), storage.ErrInvalid},
		"model of the sender's choice": {change(func(f []archived) []archived {
			i := slices.IndexFunc(f, func(f archived) bool { return f.header.Name == archiveRecord })
			f[i].data = bytes.ReplaceAll(f[i].data, []byte(l.url), []byte("http://192.0.2.1"))
			return f
		}), storage.ErrInvalid},
		"record of something else": {change(func(f []archived) []archived {
			return slices.Insert(f[1:], 0, archived{tar.Header{Name: archiveRecord, Typeflag: tar.TypeReg}, []byte("[]")})
		}), storage.ErrInvalid},
	} {
		if err := r.RestoreArchive(t.Context(), "b", bytes.NewReader(c.data), 1<<20); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	want(t, "too large", r.RestoreArchive(t.Context(), "b", bytes.NewReader(b.Bytes()), 1000), storage.ErrTooLarge)
	if got := ids(t, r, "b"); !slices.Equal(got, []string{"old"}) {
		t.Error("a restore that failed changed the collection:", got)
	}
	if left := tree(t, filepath.Join(r.Dir(), "tmp")); left != "" {
		t.Errorf("left behind: %s", left)
	}
	if err := r.RestoreArchive(t.Context(), "b", &b, 1<<20); err != nil {
		t.Error(err)
	}
	if got := ids(t, r, "b"); !slices.Equal(got, []string{"1"}) {
		t.Error(got)
	}
}

// TestReplaceSurvivesACrash stops a replacement before each of its renames and
// opens the directory again: the old collection or the new one, never a mix.
func TestReplaceSurvivesACrash(t *testing.T) {
	l := newLetters(t)
	for _, before := range []string{"nothing", "old record", "old index", "new record", "new index", "old record removed"} {
		dir := t.TempDir()
		r := openDir(t, dir, &Options{Models: l.models()})
		o := texts()
		o.Embed = "letters"
		create(t, r, "a", o, doc("old", "aa"))
		create(t, r, "b", texts(), doc("new", "bb")) // the one that comes has no model
		closeDir(t, r)

		collections, trash := filepath.Join(dir, "collections"), filepath.Join(dir, "trash")
		a, b, old := filepath.Join(collections, "a"), filepath.Join(collections, "b"), filepath.Join(trash, "a.old")
		steps := []struct {
			name string
			do   func() error
		}{
			{"old record", func() error { return move(models.RecordFile(a), models.RecordFile(old)) }},
			{"old index", func() error { return move(a, old) }},
			{"new record", func() error { return moveIfThere(models.RecordFile(b), models.RecordFile(a)) }},
			{"new index", func() error { return move(b, a) }},
			{"old record removed", func() error { return os.Remove(models.RecordFile(old)) }},
		}
		for _, s := range steps {
			if before == "nothing" {
				break
			}
			if err := s.do(); err != nil {
				t.Fatal(err)
			}
			if s.name == before {
				break
			}
		}
		r = openDir(t, dir, &Options{Models: l.models()})
		c, err := r.Get(t.Context(), "a")
		if err != nil {
			t.Fatalf("after %s: %v", before, err)
		}
		_, model := c.Embedding()
		c.Release()
		got := ids(t, r, "a")
		if isOld, isNew := slices.Equal(got, []string{"old"}) && model, slices.Equal(got, []string{"new"}) && !model; !isOld && !isNew {
			t.Errorf("after %s: %v, with a model: %v", before, got, model)
		}
		if left := tree(t, trash); left != "" {
			t.Errorf("after %s: left behind: %s", before, left)
		}
	}
}
