package catalog

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Once a call that takes something away has returned, no Authorize that starts
// later may succeed. Readers note before each call whether the thing was away,
// and for how long it stays so; the writer says when it is coming back before
// it calls.
func TestS3_11NothingIsGivenOutAfterItWasTakenAway(t *testing.T) {
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	for name, c := range map[string]struct {
		run        Run
		take, give func(f *fixture) error
		code       Code
	}{
		"RevokeBinding": {
			Run{Kind: Published, Workflow: "flow", Spaces: []string{"s0", "s1"}},
			func(f *fixture) error { return f.RevokeBinding("admin", "flow", "s1") },
			func(f *fixture) error { return second(f.Publish("admin", "flow", 1, []string{"s0", "s1"})) }, ErrNotBound,
		},
		"SetActive": {
			Run{Kind: Published, Workflow: "flow", Spaces: []string{"s0", "s1"}},
			func(f *fixture) error { return f.SetActive("admin", "s1", false) },
			func(f *fixture) error { return f.SetActive("admin", "s1", true) }, ErrInactive,
		},
		"RevokeGrant": {
			Run{Kind: Draft, Account: "user", Workflow: "flow", Spaces: []string{"s0", "s1"}},
			func(f *fixture) error { return f.RevokeGrant("admin", "user", "s1") },
			func(f *fixture) error { return f.Grant("admin", "user", Grant{"s1", Use}) }, ErrPermission,
		},
		"publication without it": {
			Run{Kind: Published, Workflow: "flow", Spaces: []string{"s0", "s1"}},
			func(f *fixture) error { return second(f.Publish("admin", "flow", 1, []string{"s0"})) },
			func(f *fixture) error { return second(f.Publish("admin", "flow", 1, []string{"s0", "s1"})) }, ErrNotBound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			must(t, second(f.Publish("admin", "flow", 1, []string{"s0", "s1"})))
			var away atomic.Uint64 // odd: taken away, since the number was stored
			var granted, refused, inside atomic.Int64
			stop := make(chan struct{})
			var readers sync.WaitGroup
			for range 8 {
				readers.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						before := away.Load()
						_, err := f.Authorize(c.run)
						after := away.Load()
						switch {
						case err == nil && before%2 == 1 && before == after:
							t.Errorf("given out after it was taken away")
							return
						case err == nil:
							granted.Add(1)
						case errors.Is(err, c.code):
							refused.Add(1)
						default:
							t.Error(err)
							return
						}
						if before%2 == 1 {
							inside.Add(1)
						}
					}
				})
			}
			for range rounds {
				must(t, c.take(f))
				away.Add(1)
				for n := inside.Load(); inside.Load() < n+20 && !t.Failed(); {
					_, err := f.Authorize(c.run)
					want(t, err, c.code)
				}
				away.Add(1)
				must(t, c.give(f))
				must(t, second(f.Authorize(c.run)))
			}
			close(stop)
			readers.Wait()
			if granted.Load() == 0 || refused.Load() == 0 {
				t.Errorf("%d granted, %d refused", granted.Load(), refused.Load())
			}
			f.check()
		})
	}
}

// Many goroutines publish, bind, revoke, switch and read. Whatever a run is
// given must be of one state: all of its spaces, each published; a publication
// is seen whole.
func TestConcurrentUse(t *testing.T) {
	f := newFixture(t)
	must(t, second(f.Publish("admin", "flow", 1, spaces(0, 10))))
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				g, err := f.published(spaces(0, 10)...)
				if err == nil && len(g) != 10 || err != nil && g != nil {
					t.Errorf("%d spaces, %v", len(g), err)
				}
				// Both spaces are always published together, in this order.
				if g, err := f.draft("admin", "s11", "s10"); err != nil {
					t.Error(err)
				} else if a, b := g[0].Publication.Generation, g[1].Publication.Generation; a > b {
					t.Errorf("generations %d and %d of one state", b, a)
				}
				_, err = f.Workflow("flow")
				if err == nil {
					_, err = f.Audit(f.Epoch()-1, 5)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, write := range []func(i int) error{
		func(i int) error { return second(f.Publish("admin", "flow", 1, spaces(0, 5+i%6))) },
		func(i int) error { return f.RevokeBinding("admin", "flow", fmt.Sprintf("s%d", i%5)) },
		func(i int) error { return f.SetActive("admin", "s3", i%2 == 0) },
		func(i int) error {
			for _, id := range []string{"s10", "s11"} {
				if err := second(f.PublishSpace("admin", id, 1, i+2, nil)); err != nil {
					return err
				}
			}
			return nil
		},
		func(i int) error { return f.BindDraft("admin", "flow", []string{"s10", fmt.Sprintf("s%d", i%3)}) },
	} {
		writers.Go(func() {
			for i := range rounds {
				if err := write(i); err != nil && !errors.Is(err, ErrInactive) {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	f.check()
	before := dump(t, f.Catalog)
	f.reopen()
	f.check()
	if d := cmp.Diff(before, dump(t, f.Catalog)); d != "" {
		t.Error(d)
	}
}
