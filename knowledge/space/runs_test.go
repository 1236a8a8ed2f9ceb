package space

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/storage"
)

// S3.11: a draft run binds the spaces its account may use, each once.
func TestS3_11_DraftBinds(t *testing.T) {
	w := newWorld(t, nil, nil)
	for _, id := range []string{"a", "b"} {
		w.add(id, nil, source("a.txt", "alpha"))
	}
	r := draft("alpha", "a", "b")
	r.Run.Workflow = "flow"
	w.retrieve(r)
	epoch := w.cat.Epoch()
	w.retrieve(r)
	if w.cat.Epoch() != epoch {
		t.Error("the second draft run writes")
	}
	list := value[[]catalog.Binding](t)(w.cat.Bindings("flow"))
	if len(list) != 2 || list[0].Origin != catalog.ByDraft || list[0].State != catalog.Active {
		t.Errorf("bindings %+v", list)
	}
	// Such a binding opens nothing to published runs.
	w.refused(published("alpha", "a"), catalog.ErrUnpublished, "flow")

	value[catalog.Account](t)(w.cat.CreateAccount("", catalog.Account{ID: "bob", Workspace: "w", Name: "Bob", Grants: []catalog.Grant{{Space: "a", Permission: catalog.Use}}}))
	r.Run.Account = "bob"
	w.refused(r, catalog.ErrPermission, "b")
	r.Run.Spaces = []string{"a"}
	wantContents(t, w.retrieve(r), "alpha")
	r.Run.Account = ""
	w.refused(r, catalog.ErrPermission, "account")
}

// S3.11: published runs never bind; revocation, deactivation, the loss of a
// permission and unpublished spaces fail the next run.
func TestS3_11_PublishedRuns(t *testing.T) {
	w := newWorld(t, nil, nil)
	for _, id := range []string{"a", "b", "c"} {
		w.add(id, nil, source("a.txt", "alpha"))
	}
	w.refused(published("alpha", "a"), catalog.ErrUnpublished, "flow")
	must(t, errOf(w.cat.Publish("ann", "flow", 1, []string{"a", "b"})))
	epoch := w.cat.Epoch()
	if n := len(w.retrieve(published("alpha", "a", "b")).Evidence); n != 2 {
		t.Errorf("%d pieces of evidence", n)
	}
	w.refused(published("alpha", "a", "c"), catalog.ErrNotBound, "c")
	if w.cat.Epoch() != epoch {
		t.Error("a published run writes to the catalogue")
	}

	must(t, w.cat.RevokeBinding("ann", "flow", "b"))
	w.refused(published("alpha", "a", "b"), catalog.ErrNotBound, "b")
	w.retrieve(published("alpha", "a"))
	must(t, errOf(w.cat.Publish("ann", "flow", 1, []string{"a", "b"})))
	w.retrieve(published("alpha", "a", "b"))

	must(t, w.cat.SetActive("ann", "a", false))
	w.refused(published("alpha", "a", "b"), catalog.ErrInactive, "a")
	must(t, w.cat.SetActive("ann", "a", true))
	w.retrieve(published("alpha", "a", "b"))

	value[catalog.Account](t)(w.cat.CreateAccount("", catalog.Account{ID: "bob", Workspace: "w", Name: "Bob", Grants: []catalog.Grant{{Space: "a", Permission: catalog.Use}}}))
	r := published("alpha", "a")
	r.Run.Account = "bob"
	w.retrieve(r)
	must(t, w.cat.RevokeGrant("ann", "bob", "a"))
	w.refused(r, catalog.ErrPermission, "a")

	value[catalog.Workspace](t)(w.cat.CreateWorkspace("v", "V"))
	value[catalog.Account](t)(w.cat.CreateAccount("", catalog.Account{ID: "eve", Workspace: "v", Name: "Eve", Grants: []catalog.Grant{{Space: catalog.AllSpaces, Permission: catalog.Admin}}}))
	r = draft("alpha", "a")
	r.Run.Account = "eve"
	w.refused(r, catalog.ErrWorkspace, "a")
	must(t, w.cat.Close())
	w.refused(draft("alpha", "a"), storage.ErrClosed)
}

// A run that is under way when its space is revoked gives no evidence of it: it
// asks again before it returns.
func TestRevokedUnderWay(t *testing.T) {
	o := &Options{}
	w := newWorld(t, o, nil)
	w.add("a", func(p *catalog.Profile) { p.DefaultMode = catalog.Research }, source("a.txt", "alpha"))
	must(t, errOf(w.cat.Publish("ann", "flow", 1, []string{"a"})))
	w.o.Judge = judgeFunc(func() { must(t, w.cat.RevokeBinding("ann", "flow", "a")) })
	w.refused(published("alpha", "a"), catalog.ErrNotBound, "a")
	must(t, errOf(w.cat.Publish("ann", "flow", 1, []string{"a"})))
	// A publication under way changes nothing for the run: it reads the
	// generation it has begun with.
	w.ingest("a", source("a.txt", "alpha new"))
	w.o.Judge = judgeFunc(func() { w.publish("a") })
	wantContents(t, w.retrieve(published("alpha", "a")), "alpha")
	wantContents(t, w.retrieve(published("alpha", "a")), "alpha new")
}

// Runs at the same time as publications and revocations: a run that starts after
// a revocation has returned has nothing of that space, one that starts after a
// publication has the new generation; evidence is of one generation, and never a
// part of the answer. 1,000 runs at the same time, a tenth of that with -short.
func TestRunsWhilePublishing(t *testing.T) {
	runs := 1000
	if testing.Short() {
		runs = 100
	}
	w := newWorld(t, nil, nil)
	ids := []string{"a", "b", "c"}
	// Every document of a space says which ingest it is of.
	text := func(n int) (out []knowledge.Source) {
		for doc := range 2 {
			out = append(out, source(fmt.Sprint(doc), fmt.Sprintf("alpha gen%d first of %d", n, doc), fmt.Sprintf("alpha gen%d second of %d", n, doc)))
		}
		return out
	}
	for _, id := range ids {
		w.add(id, nil, text(1)...)
	}
	must(t, errOf(w.cat.Publish("ann", "flow", 1, ids)))

	var current [3]atomic.Int64 // the last ingest that was published
	for i := range current {
		current[i].Store(1)
	}
	var revoked atomic.Int64 // odd from after a revocation of c until before it is bound again
	var refused, answered, inside atomic.Int64
	// Runs that are refused at once would be over before anything else happens:
	// those count that were answered.
	over := func() bool { return answered.Load() >= int64(runs) || t.Failed() }
	tell := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	wait := func(n *atomic.Int64) {
		for until := n.Load() + int64(runs)/10; n.Load() < until && !over(); {
			runtime.Gosched()
		}
	}
	stop := make(chan struct{})
	var writers, readers sync.WaitGroup
	for i, id := range ids[:2] {
		writers.Go(func() {
			for n := 2; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				_, err := w.Ingest(t.Context(), "ann", id, knowledge.IngestRequest{Sources: text(n)})
				tell(err)
				_, err = w.Publish(t.Context(), "ann", id, 1)
				tell(err)
				current[i].Store(int64(n))
			}
		})
	}
	writers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			tell(w.cat.RevokeBinding("ann", "flow", "c"))
			revoked.Add(1)
			wait(&inside)
			revoked.Add(1)
			tell(errOf(w.cat.Publish("ann", "flow", 1, ids)))
			wait(&answered)
		}
	})
	for worker := range runs {
		rng := rand.New(rand.NewPCG(uint64(worker), 5))
		readers.Go(func() {
			for !over() {
				r := published("alpha", ids...)
				r.TopN, r.Mode = 100, allModes[rng.IntN(3)]
				least := [3]int64{current[0].Load(), current[1].Load(), 1}
				before := revoked.Load()
				res, err := w.Retrieve(t.Context(), r)
				if before%2 == 1 && revoked.Load() == before {
					inside.Add(1)
					if err == nil {
						t.Error("evidence while the space was revoked all the time")
					}
				}
				if err != nil {
					if !errors.Is(err, catalog.ErrNotBound) || res != nil {
						t.Errorf("%v, %v", res, err)
					}
					refused.Add(1)
					continue
				}
				answered.Add(1)
				checkRun(t, ids, least, res)
			}
		})
	}
	readers.Wait()
	close(stop)
	writers.Wait()
	t.Logf("%d runs answered, %d refused, %d of them after a revocation; published %d and %d times",
		answered.Load(), refused.Load(), inside.Load(), current[0].Load(), current[1].Load())
	if answered.Load() == 0 || inside.Load() == 0 || current[0].Load() < 3 || current[1].Load() < 3 {
		t.Error("the test has not met what it is about")
	}
	for _, id := range ids {
		must(t, w.Sweep(t.Context(), id))
		if g := w.generations(id); len(g) > 2 || !slices.Contains(g, w.published(id)) {
			t.Errorf("%s: generations %v are left", id, g)
		}
	}
	must(t, w.cat.Check(t.Context()))
}

// checkRun holds a result against the ingests that were published when its run
// started.
func checkRun(t *testing.T, ids []string, least [3]int64, res *Result) {
	if len(res.Evidence) != 12 {
		t.Errorf("%d pieces of evidence, want the 4 of each space: %q", len(res.Evidence), contents(res))
	}
	gen := make(map[string]int64)
	for _, e := range res.Evidence {
		var n int64
		if _, err := fmt.Sscanf(strings.TrimPrefix(e.Content, "alpha gen"), "%d", &n); err != nil {
			t.Errorf("content %q", e.Content)
		}
		id := e.Metadata.SpaceID
		if had, ok := gen[id]; ok && had != n {
			t.Errorf("%s: evidence of ingests %d and %d in one answer", id, had, n)
		}
		gen[id] = n
		if n < least[slices.Index(ids, id)] {
			t.Errorf("%s: evidence of ingest %d, but %d was published before the run started", id, n, least[slices.Index(ids, id)])
		}
	}
}
