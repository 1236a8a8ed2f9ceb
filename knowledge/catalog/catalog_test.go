package catalog

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/storage"
)

func TestLimits(t *testing.T) {
	f := newFixture(t)
	id := func(n int) string { return strings.Repeat("i", n) }
	create := func(id, name string) error { _, err := f.CreateWorkspace(id, name); return err }
	must(t, create(id(512), id(512)))
	want(t, create(id(513), ""), storage.ErrTooLarge)
	want(t, create("a", id(513)), storage.ErrTooLarge)
	for _, bad := range []string{"", " a", "a ", "a\nb", "a\x00b", "\xff", "\u2003a"} {
		want(t, create(bad, ""), storage.ErrInvalid)
	}
	must(t, create("工作区 α/β@1", "")) // anything else goes
	want(t, create("w", ""), ErrExists)

	long := Workflow{ID: id(512), Workspace: "w", Draft: make([]byte, MaxDefinition)}
	_, err := f.CreateWorkflow("admin", long)
	must(t, err)
	s, err := f.Publish("admin", long.ID, 1, spaces(0, 10)) // ten bindings
	must(t, err)
	if s, err = f.Snapshot(s.ID); err != nil || len(s.Definition) != MaxDefinition {
		t.Fatalf("%d bytes, %v", len(s.Definition), err)
	}
	_, err = f.CreateWorkflow("admin", Workflow{ID: "big", Workspace: "w", Draft: make([]byte, MaxDefinition+1)})
	want(t, err, storage.ErrTooLarge)
	_, err = f.UpdateWorkflow("admin", Workflow{ID: "flow", Draft: make([]byte, MaxDefinition+1)}, 1)
	want(t, err, storage.ErrTooLarge)
	unresolved := make([]string, 101)
	for i := range unresolved {
		unresolved[i] = fmt.Sprint(i)
	}
	_, err = f.UpdateWorkflow("admin", Workflow{ID: "flow", Unresolved: unresolved[:100]}, 1)
	must(t, err)
	_, err = f.UpdateWorkflow("admin", Workflow{ID: "flow", Unresolved: unresolved}, 2)
	want(t, err, storage.ErrTooLarge)

	_, err = f.CreateSpace("admin", Space{ID: AllSpaces, Workspace: "w", Base: "b"})
	want(t, err, storage.ErrInvalid)
	_, err = f.CreateSpace("admin", Space{ID: "b", Workspace: "w", Base: ""})
	want(t, err, storage.ErrInvalid)
	_, err = f.PublishSpace("admin", "s0", 1, 0, nil)
	want(t, err, storage.ErrInvalid)

	// A thousand grants.
	f.seed(func(w *writer) {
		for i := range 1001 {
			w.put(publishedSpace(fmt.Sprintf("g%04d", i), "w", "b", w.now))
		}
	})
	var grants []Grant
	for i := range 1001 {
		grants = append(grants, Grant{fmt.Sprintf("g%04d", i), Use})
	}
	_, err = f.CreateAccount("admin", Account{ID: "most", Workspace: "w", Grants: grants[:1000]})
	must(t, err)
	_, err = f.CreateAccount("admin", Account{ID: "more", Workspace: "w", Grants: grants})
	want(t, err, storage.ErrTooLarge)
	want(t, f.Grant("admin", "most", grants[1000]), storage.ErrTooLarge)
	must(t, f.Grant("admin", "most", Grant{"g0000", Edit}))
	_, err = f.CreateAccount("admin", Account{ID: "twice", Workspace: "w", Grants: []Grant{{"s0", Use}, {"s0", Edit}}})
	want(t, err, storage.ErrInvalid)
	want(t, f.Grant("admin", "user", Grant{"s0", "own"}), storage.ErrInvalid)
	f.check()
	f.reopen()
	f.check()
}

// Each call needs the permission its comment says, on the space it is about.
func TestPermissions(t *testing.T) {
	f := newFixture(t)
	f.seed(func(w *writer) {
		for _, p := range []Permission{Use, Edit, Publish, Admin} {
			w.put(&Account{ID: "on-" + string(p), Workspace: "w", Grants: []Grant{{"s0", p}}, Created: w.now})
			w.put(&Account{ID: "all-" + string(p), Workspace: "w", Grants: []Grant{{AllSpaces, p}}, Created: w.now})
		}
	})
	e := EmbeddingProfile{Name: "m", Dim: 1, Metric: "dot", Digest: "d"}
	for name, c := range map[string]struct {
		need Permission
		all  bool // on all spaces
		call func(by string) error
	}{
		"CreateAccount": {Admin, true, func(by string) error { _, err := f.CreateAccount(by, Account{ID: "user", Workspace: "w"}); return err }},
		"Grant":         {Admin, false, func(by string) error { return f.Grant(by, "user", Grant{"s0", Use}) }},
		"Grant all":     {Admin, true, func(by string) error { return f.Grant(by, "admin", Grant{AllSpaces, Admin}) }},
		"RevokeGrant":   {Admin, false, func(by string) error { return f.RevokeGrant(by, "nobody", "s0") }},
		"CreateSpace": {Edit, true, func(by string) error {
			_, err := f.CreateSpace(by, Space{ID: "s0", Workspace: "w", Base: "b"})
			return err
		}},
		"SetActive":        {Admin, false, func(by string) error { return f.SetActive(by, "s0", true) }},
		"UpdateDraft":      {Edit, false, func(by string) error { _, err := f.UpdateDraft(by, "s0", DefaultProfile(), 9); return err }},
		"FreezeEmbedding":  {Edit, false, func(by string) error { return f.FreezeEmbedding(by, "s0", e) }},
		"ReplaceEmbedding": {Edit, false, func(by string) error { return f.ReplaceEmbedding(by, "s0", e, e) }},
		"PublishSpace":     {Publish, false, func(by string) error { _, err := f.PublishSpace(by, "s0", 9, 1, &e); return err }},
		"DeleteSpace":      {Admin, false, nil},
		"RevokeBinding":    {Admin, false, func(by string) error { return f.RevokeBinding(by, "flow", "s0") }},
		"BindDraft":        {Use, false, func(by string) error { return f.BindDraft(by, "flow", spaces(0, 1)) }},
		"Publish":          {Use, false, func(by string) error { _, err := f.Publish(by, "flow", 1, spaces(0, 1)); return err }},
		"Allow":            {Edit, false, func(by string) error { return f.Allow(by, "s0", Edit) }},
		"Authorize":        {Use, false, func(by string) error { _, err := f.draft(by, "s0"); return err }},
	} {
		if c.call == nil {
			c.call = func(by string) error { // on a space of its own
				f.seed(func(w *writer) {
					w.put(publishedSpace("s0", "w", "b0", w.now))
					for _, p := range []Permission{Use, Edit, Publish, Admin} {
						w.put(&Account{ID: "on-" + string(p), Workspace: "w", Grants: []Grant{{"s0", p}}, Created: w.now})
					}
				})
				return f.DeleteSpace(by, "s0")
			}
		}
		t.Run(name, func(t *testing.T) {
			for _, p := range []Permission{Use, Edit, Publish, Admin} {
				denied := func(err error) bool { return errors.Is(err, ErrPermission) }
				if err := c.call("all-" + string(p)); denied(err) == (p.level() >= c.need.level()) {
					t.Errorf("%s on all spaces: %v", p, err)
				}
				if err := c.call("on-" + string(p)); denied(err) == (p.level() >= c.need.level() && !c.all) {
					t.Errorf("%s on the space: %v", p, err)
				}
			}
			if err := c.call("nobody"); !errors.Is(err, ErrPermission) {
				t.Errorf("nobody: %v", err)
			}
			if err := c.call("ghost"); !errors.Is(err, ErrPermission) {
				t.Errorf("an account that is not there: %v", err)
			}
			if err := c.call("stranger"); !errors.Is(err, ErrWorkspace) {
				t.Errorf("an account of another workspace: %v", err)
			}
		})
	}
	f.check()
	// Workflows belong to everybody of the workspace, and to nobody else.
	w, err := f.CreateWorkflow("nobody", Workflow{ID: "theirs", Workspace: "w"})
	must(t, err)
	_, err = f.UpdateWorkflow("user", w, 1)
	must(t, err)
	_, err = f.UpdateWorkflow("stranger", w, 2)
	want(t, err, ErrWorkspace)
	want(t, f.DeleteWorkflow("stranger", "theirs"), ErrWorkspace)
	_, err = f.CreateWorkflow("stranger", Workflow{ID: "foreign", Workspace: "w"})
	want(t, err, ErrWorkspace)
	_, err = f.CreateWorkflow("ghost", Workflow{ID: "ghostly", Workspace: "w"})
	want(t, err, ErrPermission)
	want(t, f.Grant("admin", "user", Grant{"x", Use}), ErrWorkspace)
	want(t, f.Grant("admin", "user", Grant{"none", Use}), ErrUnavailable)
	want(t, f.Grant("admin", "none", Grant{"s0", Use}), storage.ErrNotFound)
}

func TestNothingThere(t *testing.T) {
	f := newFixture(t)
	for name, err := range map[string]error{
		"Workspace":       second(f.Workspace("none")),
		"Account":         second(f.Account("none")),
		"Space":           second(f.Space("none")),
		"Workflow":        second(f.Workflow("none")),
		"Snapshot":        second(f.Snapshot("flow@1")),
		"Snapshot, no id": second(f.Snapshot("flow")),
		"Snapshots":       second(f.Snapshots("none")),
		"Bindings":        second(f.Bindings("none")),
		"DeleteSpace":     f.DeleteSpace("", "none"),
		"DeleteWorkflow":  f.DeleteWorkflow("", "none"),
		"SetActive":       f.SetActive("", "none", true),
		"Allow":           f.Allow("", "none", Use),
		"CreateAccount":   second(f.CreateAccount("", Account{ID: "a", Workspace: "none"})),
		"CreateSpace":     second(f.CreateSpace("", Space{ID: "a", Workspace: "none", Base: "b"})),
		"CreateWorkflow":  second(f.CreateWorkflow("", Workflow{ID: "a", Workspace: "none"})),
		"UpdateWorkflow":  second(f.UpdateWorkflow("", Workflow{ID: "none"}, 1)),
	} {
		if !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, id := range []string{"flow@01", "flow@+1", "flow@2", "flow@x", "@1"} {
		must(t, second(f.Publish("admin", "flow", 1, nil)))
		if _, err := f.Snapshot(id); !errors.Is(err, storage.ErrNotFound) && id != "flow@2" {
			t.Errorf("%s: %v", id, err)
		}
	}
	if s, err := f.Spaces("none"); err != nil || s != nil {
		t.Errorf("%v, %v", s, err)
	}
}

func second[T any](_ T, err error) error { return err }

// What is given out is the caller's own, and what is given in stays so.
func TestResultsAreCopies(t *testing.T) {
	f := newFixture(t)
	p := DefaultProfile()
	p.Degrade = []string{Dense}
	draft := []byte("mine")
	must(t, second(f.UpdateDraft("", "s0", p, 1)))
	must(t, second(f.PublishSpace("", "s0", 2, 1, &EmbeddingProfile{Name: "m", Dim: 1, Metric: "dot", Digest: "d"})))
	must(t, second(f.UpdateWorkflow("", Workflow{ID: "flow", Draft: draft, Unresolved: []string{"u"}}, 1)))
	before := dump(t, f.Catalog)
	p.Degrade[0], draft[0] = "x", 'x'
	s, err := f.Space("s0")
	must(t, err)
	s.Draft.Degrade[0], s.Published.Profile.Degrade[0], s.Published.Generation, s.Embedding.Name = "x", "x", 99, "x"
	g, err := f.draft("admin", "s0")
	must(t, err)
	g[0].Publication.Profile.Degrade[0], g[0].Publication.Embedding.Name = "x", "x"
	a, err := f.Account("user")
	must(t, err)
	a.Grants[0].Permission = Admin
	w, err := f.Workflow("flow")
	must(t, err)
	w.Draft[0], w.Unresolved[0] = 'x', "x"
	if d := cmp.Diff(before, dump(t, f.Catalog)); d != "" {
		t.Error(d)
	}
	f.check()
}

func TestGenerationsInUse(t *testing.T) {
	f := newFixture(t)
	inUse := func(base string, want ...int) {
		t.Helper()
		got, err := f.GenerationsInUse(base)
		must(t, err)
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	inUse("none")
	inUse("b0", 1)
	must(t, second(f.Publish("admin", "flow", 1, []string{"s0", "s1"})))
	must(t, second(f.PublishSpace("admin", "s0", 1, 3, nil)))
	inUse("b0", 1, 3) // 1 by the snapshot
	must(t, second(f.CreateSpace("admin", Space{ID: "twin", Workspace: "w", Base: "b0"})))
	must(t, second(f.PublishSpace("admin", "twin", 1, 2, nil)))
	inUse("b0", 1, 2, 3) // 2 by another space on that base
	must(t, second(f.Publish("admin", "flow", 1, []string{"s0", "s1"})))
	inUse("b0", 2, 3)
	must(t, second(f.PublishSpace("admin", "s0", 1, 4, nil)))
	inUse("b0", 2, 3, 4)
	inUse("b1", 1)
	must(t, f.DeleteSpace("admin", "s1")) // the snapshot still names it, in vain
	inUse("b1")
	must(t, f.DeleteWorkflow("admin", "flow"))
	inUse("b0", 2, 4)
	must(t, f.DeleteSpace("admin", "twin"))
	inUse("b0", 4)
	must(t, f.DeleteSpace("admin", "s0"))
	inUse("b0")
}

func TestSnapshotsAreKeptUpToTen(t *testing.T) {
	f := newFixture(t)
	for i := 1; i <= 12; i++ {
		must(t, second(f.UpdateWorkflow("", Workflow{ID: "flow", Draft: []byte(fmt.Sprint("definition ", i+1))}, i)))
		must(t, second(f.Publish("admin", "flow", i+1, spaces(0, 1))))
	}
	list, err := f.Snapshots("flow")
	must(t, err)
	if len(list) != MaxSnapshots || list[0].ID != "flow@3" || list[9].ID != "flow@12" || list[9].Definition != nil {
		t.Fatalf("%+v", list)
	}
	s, err := f.Snapshot("flow@3")
	must(t, err)
	if string(s.Definition) != "definition 4" {
		t.Errorf("%s", s.Definition)
	}
	want(t, second(f.Snapshot("flow@2")), storage.ErrNotFound)
	f.check()
	f.reopen()
	f.check()
}

// Every write leaves one entry; the oldest go; pages fit together.
func TestAudit(t *testing.T) {
	f := newFixture(t)
	f.audit = 8
	for i := range 10 {
		must(t, f.SetActive("admin", "s0", i%2 == 1))
		must(t, f.SetActive("admin", "s0", i%2 == 1)) // changes nothing
	}
	if f.Epoch() != 11 {
		t.Errorf("epoch %d", f.Epoch())
	}
	var all []AuditEntry
	for after := uint64(0); ; {
		page, err := f.Audit(after, 3)
		must(t, err)
		if len(page) == 0 {
			break
		}
		all = append(all, page...)
		after = page[len(page)-1].Seq
	}
	if len(all) != 8 {
		t.Fatalf("%d entries", len(all))
	}
	for i, e := range all {
		if e.Seq != uint64(i+4) || e.Account != "admin" || e.Action != "set_active" || e.Object != "s0" || e.At.IsZero() {
			t.Errorf("entry %+v", e)
		}
	}
	f.check()
	f.reopen()
	if f.Epoch() != 11 {
		t.Errorf("epoch %d after reopening", f.Epoch())
	}
	for _, limit := range []int{0, -1, MaxAuditPage + 1} {
		want(t, second(f.Audit(0, limit)), storage.ErrInvalid)
	}
	for _, after := range []uint64{11, 1 << 63, 1<<64 - 1} {
		if page, err := f.Audit(after, MaxAuditPage); err != nil || len(page) != 0 {
			t.Errorf("%v, %v", page, err)
		}
	}
	if got := cut(strings.Repeat("é", 600), maxDetail); len(got) > maxDetail || !strings.HasSuffix(got, "é…") {
		t.Errorf("cut: %d bytes", len(got))
	}
	f.audit = MaxAudit
	// Details are cut, however long.
	must(t, second(f.Publish("admin", "flow", 1, nil)))
	f.seed(func(w *writer) {
		for i := range 5 {
			w.put(publishedSpace(strings.Repeat("long", 120)+fmt.Sprint(i), "w", "b", w.now))
		}
	})
	must(t, f.Close())
}

func TestLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	now := &Options{Timeout: -1}
	reader := &Options{Timeout: -1, ReadOnly: true}
	c, err := Open(path, now)
	must(t, err)
	for _, o := range []*Options{now, reader, {Timeout: 60 * time.Millisecond}} {
		_, err := Open(path, o)
		want(t, err, storage.ErrLocked)
		if !strings.Contains(err.Error(), path) {
			t.Error(err)
		}
	}
	must(t, second(c.CreateWorkspace("w", "")))
	must(t, c.Close())
	want(t, c.Close(), storage.ErrClosed)
	want(t, second(c.Workspaces()), storage.ErrClosed)
	want(t, second(c.Audit(0, 1)), storage.ErrClosed)
	want(t, second(c.CreateWorkspace("v", "")), storage.ErrClosed)
	want(t, c.Check(bg), storage.ErrClosed)

	a, err := Open(path, reader)
	must(t, err)
	b, err := Open(path, reader)
	must(t, err)
	want(t, second(Open(path, now)), storage.ErrLocked)
	want(t, second(a.CreateWorkspace("v", "")), storage.ErrReadOnly)
	if w, err := b.Workspaces(); err != nil || len(w) != 1 {
		t.Errorf("%v, %v", w, err)
	}
	must(t, a.Check(bg))
	must(t, a.Close())
	must(t, b.Close())

	// A writer that waits gets its turn.
	c, err = Open(path, now)
	must(t, err)
	time.AfterFunc(100*time.Millisecond, func() { _ = c.Close() })
	c2, err := Open(path, &Options{Timeout: 20 * time.Second})
	must(t, err)
	must(t, c2.Close())
}
