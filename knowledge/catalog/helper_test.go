package catalog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

var bg = context.Background()

// A fixture is an open catalogue with the workspaces "w" and "other", the
// accounts "admin" (all of w), "user" (Use on s0 and s1), "nobody" (of w,
// nothing) and "stranger" (all of other), the published spaces s0 to s11 of w
// over the bases b0 to b11, "x" of other, and the workflow "flow" of w.
type fixture struct {
	*Catalog
	t    testing.TB
	path string
}

// clock returns times a second apart, so that order shows.
func clock() func() time.Time {
	var n atomic.Int64
	return func() time.Time { return time.Unix(1_700_000_000+n.Add(1), 123456789) }
}

func testOptions() *Options { return &Options{Now: clock(), Timeout: -1} }

func openAt(t testing.TB, path string) *fixture {
	t.Helper()
	c, err := Open(path, testOptions())
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &fixture{Catalog: c, t: t, path: path}
}

func newCatalog(t testing.TB) *fixture {
	return openAt(t, filepath.Join(t.TempDir(), "catalog.db"))
}

// newFixture writes all of it in one transaction: each costs two fsyncs.
func newFixture(t testing.TB) *fixture {
	f := newCatalog(t)
	f.seed(func(w *writer) {
		for _, id := range []string{"w", "other"} {
			w.put(&Workspace{ID: id, Name: "Workspace " + id, Created: w.now})
		}
		account := func(id, workspace string, grants ...Grant) {
			w.put(&Account{ID: id, Workspace: workspace, Grants: grants, Created: w.now})
		}
		account("admin", "w", Grant{AllSpaces, Admin})
		account("user", "w", Grant{"s0", Use}, Grant{"s1", Use})
		account("nobody", "w")
		account("stranger", "other", Grant{AllSpaces, Admin})
		for i := range 12 {
			w.put(publishedSpace(fmt.Sprintf("s%d", i), "w", fmt.Sprintf("b%d", i), w.now))
		}
		w.put(publishedSpace("x", "other", "bx", w.now))
		w.put(&Workflow{ID: "flow", Workspace: "w", DraftRevision: 1, Created: w.now, Updated: w.now})
		w.putRaw(bucketDrafts, "flow", []byte("definition 1"))
	})
	return f
}

func publishedSpace(id, workspace, base string, at time.Time) *Space {
	p := DefaultProfile()
	return &Space{ID: id, Workspace: workspace, Base: base, Active: true, Draft: p, Revision: 2, Created: at, Updated: at,
		Published: &Publication{Revision: 1, Generation: 1, Profile: p, At: at, By: "admin"}}
}

// seed writes many records at once, past the checks of the calls.
func (f *fixture) seed(put func(w *writer)) {
	f.t.Helper()
	must(f.t, f.write("", "seed", "test", func(w *writer) (string, error) { put(w); return "", nil }))
}

// spaces returns the ids s<from> to s<to-1>.
func spaces(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("s%d", i))
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want fails unless err matches target and its text holds every word.
func want(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("got %v, want %v", err, target)
	}
}

// wantSpaces wants a refusal with a code that names spaces.
func wantSpaces(t testing.TB, err error, code Code, ids ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != code || fmt.Sprint(e.Spaces) != fmt.Sprint(ids) || e.Space != ids[0] {
		t.Fatalf("got %v (%+v), want %s of %v", err, e, code, ids)
	}
}

func (f *fixture) check() {
	f.t.Helper()
	must(f.t, f.Check(bg))
}

// published asks for spaces as an end user of flow.
func (f *fixture) published(ids ...string) ([]Granted, error) {
	return f.Authorize(Run{Kind: Published, Workflow: "flow", Spaces: ids})
}

// draft asks for spaces in a draft run of flow.
func (f *fixture) draft(account string, ids ...string) ([]Granted, error) {
	return f.Authorize(Run{Kind: Draft, Account: account, Workflow: "flow", Spaces: ids})
}

// bindings lists those of flow as text: space, state, revision and origin.
func (f *fixture) bindings() string {
	f.t.Helper()
	list, err := f.Bindings("flow")
	must(f.t, err)
	var out string
	for _, b := range list {
		out += fmt.Sprintf("%s %s %d %s; ", b.Space, b.State, b.Revision, b.Origin)
	}
	return out
}

// reopen closes and opens again.
func (f *fixture) reopen() {
	f.t.Helper()
	must(f.t, f.Close())
	c, err := Open(f.path, testOptions())
	must(f.t, err)
	f.t.Cleanup(func() { _ = c.Close() })
	f.Catalog = c
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return b
}

func writeFile(t testing.TB, path string, b []byte) {
	t.Helper()
	must(t, os.WriteFile(path, b, 0o600))
}
