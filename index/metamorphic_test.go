package index

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// An operation list is text, one operation a line, so that a failing one can
// be cut down, read and run again:
//
//	batch SEED N   applies N operations drawn from SEED
//	flush          merge N         reopen
//	hold           takes a snapshot; compare compares it and lets it go
//	check          backup          (a new one, or brings the last up to date)
//	query SEED     asks in every way
func randomOps(r *rand.Rand, n int) []string {
	ops := make([]string, 0, n)
	for range n {
		switch r.IntN(20) {
		case 0:
			ops = append(ops, "flush")
		case 1:
			ops = append(ops, fmt.Sprint("merge ", 1+r.IntN(3)))
		case 2:
			ops = append(ops, "reopen")
		case 3:
			ops = append(ops, "hold")
		case 4:
			ops = append(ops, "compare")
		case 5:
			ops = append(ops, "check")
		case 6:
			ops = append(ops, "backup")
		case 7, 8, 9:
			ops = append(ops, fmt.Sprint("query ", r.IntN(1000)))
		default:
			ops = append(ops, fmt.Sprint("batch ", r.Uint32(), " ", 1+r.IntN(25)))
		}
	}
	return ops
}

// A variant is one way to run a list. None may change an answer.
type variant struct {
	name    string
	o       Options
	disk    bool // mapped files of the host; else memory
	read    bool // files of the host that are read, not mapped
	procs   int  // GOMAXPROCS, 0 as it is
	reopens int  // reopen after every so many operations, 0 never
}

func variants() []variant {
	return []variant{
		{name: "plain", o: Options{NoBackground: true}},
		{name: "small", o: Options{NoBackground: true, MutableBytes: 64 << 10, MaxSegments: 2, GraphMin: 2}},
		{name: "background", o: Options{MutableBytes: 64 << 10, MaxSegments: 3, Sync: storage.SyncEvery(time.Millisecond), GraphMin: 20}, procs: 4},
		{name: "reopened", o: Options{NoBackground: true, MutableBytes: 200 << 10, Sync: storage.SyncNever, Verify: true}, reopens: 3, procs: 1},
		{name: "read", o: Options{NoBackground: true, MutableBytes: 64 << 10, Sync: storage.SyncNever}, disk: true, read: true, reopens: 9},
		{name: "on disk", o: Options{NoBackground: true, MutableBytes: 64 << 10, Sync: storage.SyncNever, Threads: 1}, disk: true},
	}
}

// A readFS reads files where others map them.
type readFS struct{ storage.OS }

type readBytes []byte

func (b readBytes) Bytes() []byte                             { return b }
func (readBytes) Advise(off, n int64, _ storage.Advice) error { return nil }
func (readBytes) Close() error                                { return nil }

func (readFS) Map(name string) (storage.Mapping, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	b := make([]byte, len(data)+storage.SectionAlign)
	for skip := range b {
		if reflect.ValueOf(b[skip:]).Pointer()%storage.SectionAlign == 0 { // as a page is
			b = b[skip:][:len(data)]
			break
		}
	}
	copy(b, data)
	return readBytes(b), nil
}

// An opRun is a list on its way through one variant.
type opRun struct {
	variant
	fs    storage.FS
	dir   string
	ix    *Index
	m     model
	held  *Snapshot
	heldM model
	out   []string // what was answered
}

// runOps runs a list and returns its answers; an error is a broken promise.
func runOps(t testing.TB, ops []string, v variant) (out []string, err error) {
	if v.procs > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(v.procs))
	}
	r := &opRun{variant: v, m: model{}, dir: "/db", fs: storage.NewMemFS()}
	if v.disk {
		r.fs, r.dir = storage.OS{}, filepath.Join(t.TempDir(), "db")
	}
	if v.read {
		r.fs = readFS{}
	}
	r.o.FS, r.o.Schema = r.fs, testSchema()
	if r.ix, err = Open(r.dir, &r.o); err != nil {
		return nil, err
	}
	defer func() {
		if r.held != nil {
			r.held.Close()
		}
		err = errors.Join(err, ignoreClosed(r.ix.Close()))
		if fs, ok := r.fs.(*storage.MemFS); ok && err == nil && fs.Handles() != 0 {
			err = fmt.Errorf("%d handles left open", fs.Handles())
		}
	}()
	for i, op := range ops {
		if err = r.do(op); err == nil && v.reopens > 0 && i%v.reopens == 0 {
			err = r.do("reopen")
		}
		if err != nil {
			return r.out, fmt.Errorf("operation %d, %s: %w", i+1, op, err)
		}
	}
	// Once no deleted document counts any more, scores are the same everywhere.
	if err := r.ix.Merge(bg, 1); err != nil {
		return r.out, err
	}
	return r.out, errors.Join(r.query(7, true), r.compare(r.m, nil))
}

func (r *opRun) do(op string) error {
	var seed uint64
	n := 0
	name, _, _ := strings.Cut(op, " ")
	switch name {
	case "batch":
		if _, err := fmt.Sscanf(op, "batch %d %d", &seed, &n); err != nil {
			return err
		}
		b, after := batchOf(rand.New(rand.NewPCG(seed, 0)), r.m, n)
		if err := r.ix.Apply(bg, b); err != nil {
			return err
		}
		r.m = after
		return nil
	case "flush":
		return r.ix.Flush(bg)
	case "merge":
		if _, err := fmt.Sscanf(op, "merge %d", &n); err != nil {
			return err
		}
		return r.ix.Merge(bg, n)
	case "reopen":
		err := r.ix.Close()
		if err == nil {
			r.ix, err = Open(r.dir, &r.o)
		}
		return errors.Join(err, r.compare(r.m, nil))
	case "hold":
		if r.held != nil {
			return nil
		}
		var err error
		r.held, err = r.ix.Snapshot()
		r.heldM = maps.Clone(r.m)
		return err
	case "compare":
		if r.held == nil {
			return r.compare(r.m, nil)
		}
		err := errors.Join(r.compare(r.heldM, r.held), r.held.Close())
		r.held = nil
		return err
	case "check":
		rep, err := Check(bg, r.dir, r.fs, true)
		if err == nil && rep.Documents != len(r.m) {
			err = fmt.Errorf("check counts %d documents, want %d", rep.Documents, len(r.m))
		}
		return err
	case "backup":
		return r.backup()
	case "query":
		if _, err := fmt.Sscanf(op, "query %d", &seed); err != nil {
			return err
		}
		return r.query(seed, false)
	}
	return fmt.Errorf("no such operation")
}

func (r *opRun) compare(m model, s *Snapshot) error {
	if s == nil {
		var err error
		if s, err = r.ix.Snapshot(); err != nil {
			return err
		}
		defer s.Close()
	}
	return m.compare(s)
}

func (r *opRun) backup() error {
	dir := r.dir + "-backup"
	rep, err := r.ix.UpdateBackup(bg, dir)
	if err != nil {
		return err
	}
	if rep.Documents != len(r.m) {
		return fmt.Errorf("backup of %d documents, want %d", rep.Documents, len(r.m))
	}
	ix, err := Open(dir, &Options{FS: r.fs, ReadOnly: true, Verify: true})
	if err != nil {
		return err
	}
	s, err := ix.Snapshot()
	if err == nil {
		err = errors.Join(r.m.compare(s), s.Close())
	}
	return errors.Join(err, ix.Close())
}

// query asks in ways whose answers no variant may change. Text scores count
// deleted documents until a merge, so without one only the documents found are
// compared; vectors are compared exactly.
func (r *opRun) query(seed uint64, scores bool) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	word := func() string { return modelWords[rng.IntN(len(modelWords))] }
	v := []float32{rng.Float32() * 100, rng.Float32() * 100, 3, 4}
	f := filter.Gte("n", rng.IntN(6))
	all := len(modelIDs) + 1
	for i, q := range []Query{
		{Text: &TextQuery{Text: word() + " " + word()}, K: all},
		{Text: &TextQuery{Text: word() + " " + word(), Operator: And}, Filter: f, K: all},
		{Text: &TextQuery{Text: word() + " " + word(), Phrase: true, Slop: 2}, K: all},
		{Vector: &VectorQuery{Field: "v", Vector: v, Exact: true}, K: 20},
		{Vector: &VectorQuery{Field: "v", Vector: v, Exact: true}, Filter: filter.Not(f), K: all},
		{Filter: f, K: all},
		{Text: &TextQuery{Text: word()}, Vector: &VectorQuery{Field: "v", Vector: v, Exact: true}, K: all},
	} {
		res, err := r.ix.Search(bg, q)
		if err != nil {
			return fmt.Errorf("query %d: %w", i, err)
		}
		line := fmt.Sprint("query ", seed, ".", i, ":")
		ids := make([]string, 0, len(res.Hits))
		for _, h := range res.Hits {
			if m := r.m[h.ID]; m.ID == "" {
				return fmt.Errorf("query %d finds %q, which is not there", i, h.ID)
			}
			ids = append(ids, h.ID)
			if q.Text == nil || scores {
				ids[len(ids)-1] += fmt.Sprintf(" %x", math.Float64bits(h.Score))
			}
		}
		if q.Text != nil && !scores {
			slices.Sort(ids)
		}
		r.out = append(r.out, line+strings.Join(ids, ","))
	}
	return nil
}

// failing runs a list in every variant and returns why it fails, nil when it
// does not.
func failing(t testing.TB, ops []string) error {
	var want []string
	for i, v := range variants() {
		got, err := runOps(t, ops, v)
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		if i == 0 {
			want = got
		}
		for j := range max(len(got), len(want)) {
			if j >= len(got) || j >= len(want) || got[j] != want[j] {
				return fmt.Errorf("%s: answer %d is %.300q, %s gave %.300q", v.name, j, got[min(j, len(got)-1)], variants()[0].name, want[min(j, len(want)-1)])
			}
		}
	}
	return nil
}

// shrink returns a shorter list for which fails still holds: operations are
// left out, by halves and less, and batches made smaller.
func shrink(ops []string, tries int, fails func([]string) bool) []string {
	for size := len(ops) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(ops) && tries > 0; {
			tries--
			if shorter := slices.Delete(slices.Clone(ops), at, at+size); fails(shorter) {
				ops = shorter
			} else {
				at += size
			}
		}
	}
	for i := range ops {
		var seed uint64
		n := 0
		for tries > 0 {
			if c, _ := fmt.Sscanf(ops[i], "batch %d %d", &seed, &n); c != 2 || n < 2 {
				break
			}
			tries--
			less := slices.Clone(ops)
			if less[i] = fmt.Sprint("batch ", seed, " ", n/2); !fails(less) {
				break
			}
			ops = less
		}
	}
	return ops
}

// TestMetamorphic runs random lists of operations against a map, each in
// several variants that must all answer alike. QUARRY_OPS names a file with a
// list to run instead; a list that fails is cut down and printed.
func TestMetamorphic(t *testing.T) {
	lists, length := 4, 80
	if long() {
		lists, length = 50, 150
	} else if testing.Short() {
		lists = 1
	}
	if name := os.Getenv("QUARRY_OPS"); name != "" {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := failing(t, strings.Split(strings.TrimSpace(string(b)), "\n")); err != nil {
			t.Fatal(err)
		}
		return
	}
	seed := testSeed(t)
	for i := range lists {
		ops := randomOps(rand.New(rand.NewPCG(seed, uint64(i))), length)
		err := failing(t, ops)
		if err == nil {
			continue
		}
		ops = shrink(ops, 200, func(ops []string) bool {
			less := failing(t, ops)
			if less != nil {
				err = less
			}
			return less != nil
		})
		t.Fatalf("%v\nrun it again: put these %d lines into a file and set QUARRY_OPS to its name\n%s", err, len(ops), strings.Join(ops, "\n"))
	}
}

// The answers to fixed lists are the same on every processor, with and without
// assembly kernels: this file was written by one of them.
func TestMetamorphicGolden(t *testing.T) {
	var out strings.Builder
	for seed := range uint64(3) {
		answers, err := runOps(t, randomOps(rand.New(rand.NewPCG(seed, 99)), 60), variants()[0])
		if err != nil {
			t.Fatal(err)
		}
		h := fnv.New64a()
		for _, a := range answers {
			fmt.Fprintln(h, a)
		}
		fmt.Fprintf(&out, "list %d: %d answers, %016x\n", seed, len(answers), h.Sum64())
	}
	golden(t, "metamorphic.txt", []byte(out.String()))
}

// The shrinker finds the two operations that fail together.
func TestShrink(t *testing.T) {
	ops := randomOps(rand.New(rand.NewPCG(1, 1)), 100)
	ops[17], ops[70] = "hold", "batch 5 24"
	fails := func(ops []string) bool {
		i := slices.Index(ops, "hold")
		return i >= 0 && slices.ContainsFunc(ops[i:], func(op string) bool {
			var n int
			_, err := fmt.Sscanf(op, "batch 5 %d", &n)
			return err == nil && n >= 3
		})
	}
	if got := shrink(ops, 1000, fails); len(got) != 2 || got[0] != "hold" || got[1] != "batch 5 3" {
		t.Errorf("cut down to %q", got)
	}
}
