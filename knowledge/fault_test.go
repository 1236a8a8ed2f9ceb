package knowledge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// textError is how an embedding service names the text it refuses.
type textError struct{ i int }

func (e textError) Error() string  { return fmt.Sprintf("text %d refused", e.i) }
func (e textError) TextIndex() int { return e.i }

func TestEmbedderFaults(t *testing.T) {
	src := []Source{text("a.txt", "alpha\nbeta"), text("b.txt", "poison\ngamma"), text("c.txt", "delta")}
	run := func(hook func(embed.Kind, []string, *embed.Result) error) (*Store, *Report, error) {
		e := newWords("w", 16)
		e.hook = hook
		s := openMem(t, storage.NewMemFS(), Options{Embedder: e})
		mustCreate(t, s, "kb", &BaseOptions{Chunk: lines()})
		rep, err := s.Ingest(t.Context(), IngestRequest{Base: "kb", Sources: src})
		e.hook = nil
		return s, rep, err
	}
	poison := func(texts []string) int { return slices.Index(texts, "poison") }
	t.Run("a text refused", func(t *testing.T) {
		s, rep, err := run(func(_ embed.Kind, texts []string, _ *embed.Result) error {
			if i := poison(texts); i >= 0 {
				return textError{i}
			}
			return nil
		})
		if err != nil || rep.Added != 2 || len(rep.Failed) != 1 || rep.Failed[0].Source != "b.txt" {
			t.Errorf("%+v %v", rep, err)
		}
		mustCheck(t, s, "kb")
	})
	t.Run("not finite", func(t *testing.T) {
		s, rep, err := run(func(_ embed.Kind, texts []string, r *embed.Result) error {
			if i := poison(texts); i >= 0 {
				r.Vectors[i*16] = float32(math.Inf(1))
			}
			return nil
		})
		if err != nil || rep.Added != 2 || len(rep.Failed) != 1 || !errors.Is(rep.Failed[0].Err, embed.ErrContract) {
			t.Errorf("%+v %v", rep, err)
		}
		mustCheck(t, s, "kb")
	})
	t.Run("no direction", func(t *testing.T) {
		s, rep, err := run(func(_ embed.Kind, texts []string, r *embed.Result) error {
			if i := poison(texts); i >= 0 {
				clear(r.Vectors[i*16 : i*16+16])
			}
			return nil
		})
		if err != nil || rep.Added != 3 {
			t.Errorf("%+v %v", rep, err)
		}
		if res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "poison", Mode: Hybrid, TopK: 1}); res.Items[0].Content != "poison" {
			t.Errorf("%v", contents(res.Items))
		}
	})
	t.Run("too long for the model", func(t *testing.T) {
		s, _, err := run(func(_ embed.Kind, texts []string, r *embed.Result) error {
			if i := poison(texts); i >= 0 {
				r.Truncated = []int{i}
			}
			return nil
		})
		if d, derr := s.Document(t.Context(), "kb", "b.txt"); err != nil || derr != nil || len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "1 of 2 chunks") {
			t.Errorf("%+v %v %v", d, err, derr)
		}
	})
	for name, hook := range map[string]func(embed.Kind, []string, *embed.Result) error{
		"down":      func(embed.Kind, []string, *embed.Result) error { return errFake },
		"dimension": func(_ embed.Kind, _ []string, r *embed.Result) error { r.Vectors = r.Vectors[1:]; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s, rep, err := run(hook)
			if err == nil || rep.Added != 0 || name == "dimension" && !errors.Is(err, embed.ErrContract) {
				t.Errorf("%+v %v", rep, err)
			}
			mustCheck(t, s, "kb")
			if rep := mustIngest(t, s, IngestRequest{Base: "kb", Sources: src}); rep.Added != 3 {
				t.Errorf("afterwards: %+v", rep)
			}
		})
	}
}

// A canceled ingest leaves whole documents, and the next one does the rest.
func TestIngestCancel(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{Embedder: newWords("w", 16)})
	mustCreate(t, s, "kb", &BaseOptions{Chunk: lines()})
	var src []Source
	for i := range 200 {
		src = append(src, text(fmt.Sprintf("%03d.txt", i), strings.Repeat(fmt.Sprintf("line of %d\n", i), 20)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	rep, err := s.Ingest(ctx, IngestRequest{Base: "kb", Sources: src, Progress: func(p Progress) {
		if p.Done == 40 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || rep.Added < 40 || rep.Added == 200 {
		t.Fatalf("%d added, %v", rep.Added, err)
	}
	if c := mustCheck(t, s, "kb"); c.Documents != rep.Added {
		t.Errorf("%d documents, %d reported", c.Documents, rep.Added)
	}
	rest := mustIngest(t, s, IngestRequest{Base: "kb", Sources: src})
	if rest.Added+rep.Added != 200 || rest.Unchanged != rep.Added {
		t.Errorf("%+v", rest)
	}
	mustCheck(t, s, "kb")
}

// dump is the state of a base as a user sees it.
func dump(t testing.TB, s *Store, base string) string {
	t.Helper()
	v, err := s.view(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	defer v.close()
	var b strings.Builder
	for d, err := range v.snap.Documents(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		delete(d.Meta, fieldIngested)
		fmt.Fprintf(&b, "%s %v %v %v\n", d.ID, d.Text, d.Meta, d.Vectors)
	}
	return b.String()
}

// The ingest is killed at every write of the disk, the power cut, the store
// opened again and the ingest run again: every state on the way is one of whole
// documents of one version, and the end is always the same.
func TestIngestCrash(t *testing.T) {
	version := func(n int) []Source {
		var src []Source
		for i := range 6 {
			lines := 4
			if n == 2 {
				lines = 1 + i%3
			}
			src = append(src, text(fmt.Sprintf("%d.txt", i), strings.Repeat(fmt.Sprintf("version %d of %d\n", n, i), lines)+"end\n"))
		}
		return src
	}
	open := func(fs *storage.MemFS) *Store {
		s, err := Open("kb", &Options{FS: fs, Embedder: newWords("w", 8), Threads: 2, KeepVersions: -1, Now: testClock()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	base := storage.NewMemFS()
	s := open(base)
	mustCreate(t, s, "kb", &BaseOptions{Chunk: lines(), Analyzer: "standard"})
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: version(1)})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(base.Clone())
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: version(2)})
	want := dump(t, s, "kb")
	s.Close()

	rng := rand.New(rand.NewPCG(1, 2))
	step, killed := 1, 0
	if testing.Short() {
		step = 5
	}
	for at := 0; ; at += step {
		fs := base.Clone()
		s := open(fs)
		var n atomic.Int64
		var crashed *storage.MemFS
		fs.SetHook(func(op storage.Op, _ string, _ int) error {
			if op.IsWrite() && n.Add(1) > int64(at) {
				return errFake
			}
			return nil
		})
		_, err := s.Ingest(t.Context(), IngestRequest{Base: "kb", Sources: version(2)})
		fs.SetHook(nil)
		crashed = fs.CrashClone(rng)
		_ = s.Close() // of a dead machine
		if err == nil && n.Load() <= int64(at) {
			break
		}
		killed++
		s = open(crashed)
		rep := mustCheck(t, s, "kb")
		if rep.Documents != 6 {
			t.Fatalf("at %d: %d documents", at, rep.Documents)
		}
		mustIngest(t, s, IngestRequest{Base: "kb", Sources: version(2)})
		if got := dump(t, s, "kb"); got != want {
			t.Fatalf("at %d: another end:\n%s\nwant\n%s", at, got, want)
		}
		mustCheck(t, s, "kb")
		if _, err := s.Prune(t.Context(), "kb"); err != nil {
			t.Fatal(err)
		}
		mustCheck(t, s, "kb")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("killed at %d writes", killed)
	if killed < 10 {
		t.Errorf("killed %d times only", killed)
	}
}

// Searches beside an ingest see each document in one version.
func TestIngestBesideSearch(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{Embedder: newWords("w", 16)})
	mustCreate(t, s, "kb", &BaseOptions{Chunk: lines()})
	put := func(n int) {
		var src []Source
		for i := range 4 {
			src = append(src, text(fmt.Sprintf("%d.txt", i), strings.Repeat(fmt.Sprintf("common word%d\n", n), 1+(n+i)%5)))
		}
		mustIngest(t, s, IngestRequest{Base: "kb", Sources: src})
	}
	put(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 30 {
			put(n + 1)
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		res, err := s.Search(t.Context(), Request{Bases: []string{"kb"}, Query: "common", Mode: Hybrid, TopK: 50})
		if err != nil {
			t.Fatal(err)
		}
		versions := map[string]int{}
		for _, it := range res.Items {
			m := it.Metadata
			if v, ok := versions[m.DocumentID]; ok && v != m.DocumentVersion {
				t.Fatalf("%s in versions %d and %d at once", m.DocumentID, v, m.DocumentVersion)
			}
			versions[m.DocumentID] = m.DocumentVersion
		}
		if len(versions) != 4 {
			t.Fatalf("%d documents", len(versions))
		}
	}
	mustCheck(t, s, "kb")
}
