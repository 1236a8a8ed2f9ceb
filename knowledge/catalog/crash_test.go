package catalog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/storage"
)

const killEnv = "QUARRY_CATALOG_KILL"

func TestMain(m *testing.M) {
	if path := os.Getenv(killEnv); path != "" {
		killChild(path)
		return
	}
	os.Exit(m.Run())
}

// everything is all that a catalogue says, for comparison.
type everything struct {
	Workspaces []Workspace
	Accounts   []Account
	Spaces     []Space
	Workflows  []Workflow
	Snapshots  []Snapshot
	Bindings   []Binding
	Audit      []AuditEntry
}

func dump(t testing.TB, c *Catalog) (e everything) {
	t.Helper()
	var err error
	e.Workspaces, err = c.Workspaces()
	must(t, err)
	for _, w := range e.Workspaces {
		accounts, err := c.Accounts(w.ID)
		must(t, err)
		spaces, err := c.Spaces(w.ID)
		must(t, err)
		workflows, err := c.Workflows(w.ID)
		must(t, err)
		e.Accounts, e.Spaces = append(e.Accounts, accounts...), append(e.Spaces, spaces...)
		for _, f := range workflows {
			f, err = c.Workflow(f.ID)
			must(t, err)
			e.Workflows = append(e.Workflows, f)
			snapshots, err := c.Snapshots(f.ID)
			must(t, err)
			for _, s := range snapshots {
				s, err = c.Snapshot(s.ID)
				must(t, err)
				e.Snapshots = append(e.Snapshots, s)
			}
			bindings, err := c.Bindings(f.ID)
			must(t, err)
			e.Bindings = append(e.Bindings, bindings...)
		}
	}
	e.Audit, err = c.Audit(0, MaxAuditPage)
	must(t, err)
	return e
}

// A states tries file contents that a crash may leave, each of which must open
// and be exactly the old or exactly the new state.
type states struct {
	t        *testing.T
	path     string
	old, new everything
	tried    int
	isNew    int
}

func (s *states) try(what string, data []byte, mayBeNew bool) {
	s.t.Helper()
	s.tried++
	s.write(data)
	// Opening writes nothing, so every tenth is opened for writing too.
	c, err := Open(s.path, &Options{ReadOnly: s.tried%10 != 0, Timeout: -1})
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
	defer c.Close()
	if err := c.Check(bg); err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
	got := dump(s.t, c)
	switch {
	case reflect.DeepEqual(got, s.old):
	case !mayBeNew:
		s.t.Fatalf("%s: not the old state:\n%s", what, cmp.Diff(s.old, got))
	case reflect.DeepEqual(got, s.new):
		s.isNew++
	default:
		s.t.Fatalf("%s: neither the old state nor the new:\n%s", what, cmp.Diff(s.new, got))
	}
}

// write writes over the file: truncating it first would have some file systems
// sync it.
func (s *states) write(data []byte) {
	s.t.Helper()
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	must(s.t, err)
	defer f.Close()
	_, err = f.WriteAt(data, 0)
	must(s.t, err)
	must(s.t, f.Truncate(int64(len(data))))
}

// TestS3_11CrashAtEveryWrite builds what the disk may hold while bbolt commits.
// It writes the changed pages in ascending order, syncs, writes one meta page,
// syncs (Tx.Commit). Before the first sync any part of the changed pages may be
// there, in sectors of 512 bytes, with the old meta pages; after it all of them
// are, and any part of the meta page.
func TestS3_11CrashAtEveryWrite(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 5000)
	for name, write := range map[string]func(f *fixture) error{
		"publish": func(f *fixture) error {
			_, err := f.Publish("admin", "flow", 1, spaces(2, 12))
			return err
		},
		"publish large": func(f *fixture) error {
			_, err := f.Publish("admin", "large", 1, spaces(0, 3))
			return err
		},
		"publish space": func(f *fixture) error {
			_, err := f.PublishSpace("admin", "s3", 1, 7, nil)
			return err
		},
		"delete space": func(f *fixture) error { return f.DeleteSpace("admin", "s3") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			_, err := f.CreateWorkflow("admin", Workflow{ID: "large", Workspace: "w", Draft: large})
			must(t, err)
			_, err = f.Publish("admin", "flow", 1, spaces(0, 8))
			must(t, err)
			must(t, f.RevokeBinding("admin", "flow", "s4"))
			old, before := dump(t, f.Catalog), readFile(t, f.path)
			must(t, write(f))
			s := &states{t: t, path: f.path, old: old, new: dump(t, f.Catalog)}
			must(t, f.Close())
			s.run(before, readFile(t, f.path))
		})
	}
}

func (s *states) run(before, after []byte) {
	t, page := s.t, os.Getpagesize()
	grown := slices.Concat(before, make([]byte, len(after)-len(before)))
	var data []int // changed pages but the meta page
	meta := -1
	for i := 0; i < len(after); i += page {
		if !bytes.Equal(grown[i:i+page], after[i:i+page]) {
			if i >= 2*page {
				data = append(data, i)
			} else if meta >= 0 {
				t.Fatal("one commit changed both meta pages")
			} else {
				meta = i
			}
		}
	}
	if meta < 0 || len(data) < 3 {
		t.Fatalf("%d pages changed, meta page at %d: nothing to test", len(data), meta)
	}
	random := rand.New(rand.NewPCG(1, uint64(len(data))))
	put := func(to []byte, off, n int) { copy(to[off:off+n], after[off:off+n]) }
	s.try("before", before, false)
	b := slices.Clone(grown)
	for i, off := range data {
		put(b, off, page)
		s.try(fmt.Sprintf("%d of %d pages", i+1, len(data)), b, false)
	}
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	for i := range rounds {
		b := slices.Clone(grown)
		for _, off := range data {
			for sector := 0; sector < page; sector += 512 {
				if i%2 == 0 && sector > 0 { // whole pages
					break
				}
				if random.IntN(2) == 0 {
					put(b, off+sector, min(512, page)+(1-i%2)*(page-512))
				}
			}
		}
		s.try(fmt.Sprintf("random part %d", i), b, false)
	}
	// The disk says all pages are there, but one write was lost: found, since
	// the old page is whole but breaks the total.
	for _, off := range data {
		b := slices.Clone(after)
		copy(b[off:off+page], grown[off:off+page])
		s.write(b)
		if _, err := Open(s.path, &Options{ReadOnly: true}); !errors.Is(err, storage.ErrCorrupt) {
			t.Fatalf("page %d as it was before: %v", off/page, err)
		}
	}
	// All pages are there: the meta page torn at every byte of its head, where
	// all of its fields are, and at every sector, from either end.
	for cut := 0; cut <= page; cut++ {
		if cut > 96 && cut%512 != 0 {
			continue
		}
		head, tail := slices.Clone(b), slices.Clone(b)
		put(head, meta, cut)
		put(tail, meta+cut, page-cut)
		s.try(fmt.Sprintf("meta page up to byte %d", cut), head, true)
		s.try(fmt.Sprintf("meta page from byte %d", cut), tail, true)
	}
	if s.isNew == 0 || s.isNew == s.tried {
		t.Errorf("%d of %d states were the new one", s.isNew, s.tried)
	}
}

// killChild publishes again and again until it is killed, and prints the
// number of each snapshot once it is acknowledged.
func killChild(path string) {
	c, err := Open(path, nil)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	w, err := c.Workflow("flow")
	for err == nil {
		var s Snapshot
		// Draft n names space n mod 10 and the next four.
		w, err = c.UpdateWorkflow("admin", Workflow{ID: "flow", Draft: []byte(strings.Repeat("x", w.DraftRevision%7*3000))}, w.DraftRevision)
		if err == nil {
			if s, err = c.Publish("admin", "flow", w.DraftRevision, killSpaces(w.DraftRevision)); err == nil {
				fmt.Println(s.Number)
			}
		}
	}
	fmt.Println("error", err)
}

func killSpaces(n int) []string {
	var out []string
	for i := range 5 {
		out = append(out, fmt.Sprintf("s%d", (n+i)%10))
	}
	return out
}

// TestS3_11Kill kills a publishing process at random moments, 3 times or as
// often as QUARRY_KILLS says. What it acknowledged must be there, and snapshot
// and bindings must be of one publication.
func TestS3_11Kill(t *testing.T) {
	kills := 3
	if s := os.Getenv("QUARRY_KILLS"); s != "" {
		kills, _ = strconv.Atoi(s)
	} else if testing.Short() {
		kills = 1
	}
	f := newFixture(t)
	must(t, f.Close())
	random := rand.New(rand.NewPCG(1, 2))
	last := 0
	for range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killEnv+"="+f.path)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		timer := time.AfterFunc(50*time.Millisecond+time.Duration(random.IntN(150))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Fatal(lines.Text())
			}
			last = n
		}
		_ = cmd.Wait()
		timer.Stop()
		c, err := Open(f.path, &Options{Timeout: 5 * time.Second})
		must(t, err)
		must(t, c.Check(bg))
		last = checkKilled(t, c, last)
		must(t, c.Close())
	}
	t.Logf("%d publications, killed %d times", last, kills)
}

// checkKilled returns the number of the snapshot there is.
func checkKilled(t *testing.T, c *Catalog, acknowledged int) int {
	t.Helper()
	snapshots, err := c.Snapshots("flow")
	must(t, err)
	if len(snapshots) == 0 {
		if acknowledged > 0 {
			t.Fatalf("publication %d is lost", acknowledged)
		}
		return 0
	}
	s := snapshots[len(snapshots)-1]
	if s.Number != acknowledged && s.Number != acknowledged+1 {
		t.Fatalf("snapshot %d after publication %d", s.Number, acknowledged)
	}
	want := killSpaces(s.DraftRevision)
	bindings, err := c.Bindings("flow")
	must(t, err)
	active := map[string]bool{}
	for _, b := range bindings {
		if b.State == Active {
			active[b.Space] = true
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(active)); !slices.Equal(got, want) {
		t.Fatalf("snapshot %d names %v, bound are %v", s.Number, want, got)
	}
	_, err = c.Authorize(Run{Kind: Published, Workflow: "flow", Spaces: want})
	must(t, err)
	return s.Number
}

// A crash while the file is made leaves none, or a whole one.
func TestCreateLeavesNoPart(t *testing.T) {
	dir := t.TempDir()
	f := openAt(t, filepath.Join(dir, "catalog.db"))
	f.check()
	must(t, f.Close())
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 1 {
		t.Fatalf("left behind: %v", entries)
	}
	// Two at once: both get the same catalogue, one after the other.
	path := filepath.Join(dir, "second.db")
	done := make(chan error, 4)
	for i := range cap(done) {
		go func() {
			c, err := Open(path, &Options{Timeout: 20 * time.Second})
			if err == nil {
				if _, err = c.CreateWorkspace(strconv.Itoa(i), ""); err == nil {
					err = c.Close()
				}
			}
			done <- err
		}()
	}
	for range cap(done) {
		must(t, <-done)
	}
	f = openAt(t, path)
	if w, err := f.Workspaces(); err != nil || len(w) != 4 {
		t.Fatalf("%v, %v", w, err)
	}
}
