package catalog

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/storage"
)

// S3.2: 1 to 10 spaces; "auto" is no mode.
func TestS3_2Limits(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct {
		ids  []string
		want error
	}{
		{nil, storage.ErrInvalid},
		{spaces(0, 11), storage.ErrTooLarge},
		{[]string{"s0", "s0"}, storage.ErrInvalid},
		{[]string{" s0"}, storage.ErrInvalid},
		{[]string{""}, storage.ErrInvalid},
	} {
		_, err := f.draft("admin", c.ids...)
		want(t, err, c.want)
		want(t, f.BindDraft("admin", "flow", c.ids), c.want)
	}
	granted, err := f.draft("admin", spaces(0, 10)...)
	must(t, err)
	for i, g := range granted {
		if g.Space != fmt.Sprintf("s%d", i) || g.Base != fmt.Sprintf("b%d", i) {
			t.Errorf("space %d is %s over %s", i, g.Space, g.Base)
		}
	}
	want(t, Mode("auto").Validate(), storage.ErrInvalid)
	want(t, Mode("").Validate(), storage.ErrInvalid)
}

func TestS3_3ProfileRanges(t *testing.T) {
	rerank := RerankSetting{Enabled: true, Model: "m"}
	for name, c := range map[string]struct {
		change func(p *Profile)
		want   error // nil: valid
	}{
		"default":               {func(*Profile) {}, nil},
		"mode auto":             {func(p *Profile) { p.DefaultMode = "auto" }, storage.ErrInvalid},
		"mode unset":            {func(p *Profile) { p.DefaultMode = "" }, storage.ErrInvalid},
		"top 0":                 {func(p *Profile) { p.TopK = 0 }, storage.ErrInvalid},
		"top 1":                 {func(p *Profile) { p.TopK = 1 }, nil},
		"top 100":               {func(p *Profile) { p.TopK = 100 }, nil},
		"top 101":               {func(p *Profile) { p.TopK = 101 }, storage.ErrInvalid},
		"threshold below":       {func(p *Profile) { p.ScoreThreshold.Value = math.Nextafter(0, -1) }, storage.ErrInvalid},
		"threshold above":       {func(p *Profile) { p.ScoreThreshold.Value = math.Nextafter(1, 2) }, storage.ErrInvalid},
		"threshold no number":   {func(p *Profile) { p.ScoreThreshold.Value = math.NaN() }, storage.ErrInvalid},
		"threshold 1":           {func(p *Profile) { p.Rerank = rerank; p.ScoreThreshold = Threshold{true, StageFinal, 1} }, nil},
		"stage unset":           {func(p *Profile) { p.Rerank = rerank; p.ScoreThreshold = Threshold{true, "", 0.5} }, storage.ErrInvalid},
		"stage unknown":         {func(p *Profile) { p.ScoreThreshold.Stage = "first" }, storage.ErrInvalid},
		"final, fast":           {func(p *Profile) { p.ScoreThreshold = Threshold{true, StageFinal, 0.5} }, ErrThreshold},
		"final, deep":           {func(p *Profile) { p.DefaultMode = Deep; p.ScoreThreshold = Threshold{true, StageFinal, 0.5} }, ErrThreshold},
		"final, research":       {func(p *Profile) { p.DefaultMode = Research; p.ScoreThreshold = Threshold{true, StageFinal, 0.5} }, nil},
		"rerank, research":      {func(p *Profile) { p.DefaultMode = Research; p.ScoreThreshold = Threshold{true, StageRerank, 0.5} }, ErrThreshold},
		"final, not enabled":    {func(p *Profile) { p.ScoreThreshold = Threshold{false, StageFinal, 0.5} }, nil},
		"final, fast, reranked": {func(p *Profile) { p.Rerank = rerank; p.ScoreThreshold = Threshold{true, StageFinal, 0.5} }, nil},
		"rerank without model":  {func(p *Profile) { p.Rerank.Enabled = true }, storage.ErrInvalid},
		"model of 513 bytes":    {func(p *Profile) { p.Rerank.Model = strings.Repeat("m", 513) }, storage.ErrTooLarge},
		"degrade all":           {func(p *Profile) { p.Degrade = []string{Dense, FTS, Reranker} }, nil},
		"degrade twice":         {func(p *Profile) { p.Degrade = []string{Dense, Dense} }, storage.ErrInvalid},
		"degrade unknown":       {func(p *Profile) { p.Degrade = []string{"all"} }, storage.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			p := DefaultProfile()
			c.change(&p)
			if err := p.Validate(); c.want == nil {
				must(t, err)
			} else {
				want(t, err, c.want)
			}
		})
	}
	// A request may fix another mode than the profile's own.
	p := DefaultProfile()
	p.DefaultMode, p.ScoreThreshold = Research, Threshold{true, StageFinal, 0.5}
	want(t, p.ValidateMode(Fast), ErrThreshold)
	want(t, p.ValidateMode(Fast), storage.ErrInvalid)
	must(t, p.ValidateMode(Research))
}

func TestS3_3StaleRevisionIsRefused(t *testing.T) {
	f := newFixture(t)
	p := DefaultProfile()
	p.TopK = 20
	p.Revision = 77 // not the caller's to say
	s, err := f.UpdateDraft("admin", "s0", p, 1)
	must(t, err)
	if s.Draft.Revision != 2 || s.Draft.TopK != 20 {
		t.Fatalf("draft %+v", s.Draft)
	}
	for _, expected := range []int{1, 0, -1, 3} {
		_, err := f.UpdateDraft("admin", "s0", DefaultProfile(), expected)
		wantSpaces(t, err, ErrStale, "s0")
		_, err = f.PublishSpace("admin", "s0", expected, 1, nil)
		want(t, err, ErrStale)
	}
	p.ScoreThreshold = Threshold{true, StageFinal, 0.5}
	_, err = f.UpdateDraft("admin", "s0", p, 2)
	want(t, err, ErrThreshold)
	w, err := f.UpdateWorkflow("admin", Workflow{ID: "flow", Draft: []byte("definition 2")}, 1)
	must(t, err)
	if w.DraftRevision != 2 {
		t.Fatalf("workflow %+v", w)
	}
	_, err = f.UpdateWorkflow("admin", Workflow{ID: "flow", Draft: []byte("lost")}, 1)
	want(t, err, ErrStale)
	_, err = f.Publish("admin", "flow", 1, spaces(0, 1))
	want(t, err, ErrStale)
	if w, err = f.Workflow("flow"); err != nil || string(w.Draft) != "definition 2" {
		t.Fatalf("workflow %+v, %v", w, err)
	}
}

func TestS3_3DraftsNeverReachRuns(t *testing.T) {
	f := newFixture(t)
	before, err := f.draft("admin", "s0")
	must(t, err)
	p := DefaultProfile()
	p.TopK, p.DefaultMode = 50, Deep
	_, err = f.UpdateDraft("admin", "s0", p, 1)
	must(t, err)
	after, err := f.draft("admin", "s0")
	must(t, err)
	if d := cmp.Diff(before, after); d != "" {
		t.Fatalf("a draft changed what runs get:\n%s", d)
	}
	pub, err := f.PublishSpace("admin", "s0", 2, 9, nil)
	must(t, err)
	after, err = f.draft("admin", "s0")
	must(t, err)
	if d := cmp.Diff(pub, after[0].Publication); d != "" {
		t.Fatalf("publication:\n%s", d)
	}
	if pub.Revision != 2 || pub.Generation != 9 || pub.Profile.TopK != 50 || pub.Profile.Revision != 2 || pub.By != "admin" {
		t.Fatalf("publication %+v", pub)
	}
}

func TestS3_4EmbeddingIsFrozenAtFirstIngest(t *testing.T) {
	f := newFixture(t)
	a := EmbeddingProfile{Name: "e5", Revision: "1", Dim: 384, Metric: "cosine", Digest: "aa"}
	b := a
	b.Digest = "bb" // another prefix, say: the rest is the same
	must(t, f.FreezeEmbedding("", "s0", a))
	epoch := f.Epoch()
	must(t, f.FreezeEmbedding("", "s0", a))
	if f.Epoch() != epoch {
		t.Error("freezing the same model again wrote something")
	}
	err := f.FreezeEmbedding("", "s0", b)
	wantSpaces(t, err, ErrFrozen, "s0")
	_, err = f.PublishSpace("admin", "s0", 1, 2, &b)
	wantSpaces(t, err, ErrFrozen, "s0")
	_, err = f.PublishSpace("admin", "s0", 1, 2, nil)
	wantSpaces(t, err, ErrFrozen, "s0")
	_, err = f.PublishSpace("admin", "s0", 1, 2, &a)
	must(t, err)

	// A rebuild, then a new publication; runs keep the old model in between.
	want(t, f.ReplaceEmbedding("admin", "s0", b, a), ErrFrozen)
	must(t, f.ReplaceEmbedding("admin", "s0", a, b))
	g, err := f.draft("admin", "s0")
	must(t, err)
	if *g[0].Publication.Embedding != a {
		t.Fatalf("a rebuild changed a published model: %+v", g[0].Publication)
	}
	_, err = f.PublishSpace("admin", "s0", 1, 3, &a)
	want(t, err, ErrFrozen)
	_, err = f.PublishSpace("admin", "s0", 1, 3, &b)
	must(t, err)
	if g, err = f.draft("admin", "s0"); err != nil || *g[0].Publication.Embedding != b {
		t.Fatalf("%+v, %v", g, err)
	}
	// A publication of a space that has no model yet freezes its own.
	_, err = f.PublishSpace("admin", "s1", 1, 2, &a)
	must(t, err)
	want(t, f.FreezeEmbedding("", "s1", b), ErrFrozen)
	f.check()
	for _, bad := range []EmbeddingProfile{{}, {Name: "n", Dim: 4097, Metric: "cosine", Digest: "d"}, {Name: "n", Dim: 1, Metric: "hamming", Digest: "d"}, {Name: "n", Dim: 1, Metric: "dot"}} {
		want(t, f.FreezeEmbedding("", "s2", bad), storage.ErrInvalid)
	}
}

// S3.10: fail closed; the first configured failing space names the error.
func TestS3_10FirstConfiguredFailingSpaceNamesTheError(t *testing.T) {
	f := newFixture(t)
	_, err := f.CreateSpace("admin", Space{ID: "new", Workspace: "w", Base: "b"})
	must(t, err)
	must(t, f.SetActive("admin", "s9", false))
	fail := map[string]Code{"missing": ErrUnavailable, "x": ErrWorkspace, "s9": ErrInactive, "new": ErrUnpublished}
	for a, code := range fail {
		for b := range fail {
			if a == b {
				continue
			}
			granted, err := f.draft("admin", "s0", a, "s1", b)
			wantSpaces(t, err, code, a)
			if granted != nil {
				t.Errorf("%s: granted %v beside an error", a, granted)
			}
		}
	}
	_, err = f.draft("user", "s1", "s2", "missing")
	wantSpaces(t, err, ErrPermission, "s2")
	_, err = f.draft("nobody", "s0")
	wantSpaces(t, err, ErrPermission, "s0")
	_, err = f.draft("stranger", "s0")
	want(t, err, ErrWorkspace)
	_, err = f.draft("ghost", "s0")
	want(t, err, ErrPermission)
	want(t, fmt.Errorf("wrapped: %w", func() error { _, err := f.draft("admin", "missing"); return err }()), storage.ErrNotFound)
	_, err = f.Authorize(Run{Kind: "debug", Account: "admin", Spaces: spaces(0, 1)})
	want(t, err, storage.ErrInvalid)
	_, err = f.Authorize(Run{Kind: Draft, Workflow: "flow", Spaces: spaces(0, 1)})
	want(t, err, storage.ErrInvalid)
	_, err = f.Authorize(Run{Kind: Draft, Account: "admin", Workflow: "none", Spaces: spaces(0, 1)})
	want(t, err, storage.ErrNotFound)

	// Outside of any workflow the account's own permissions count.
	_, err = f.Authorize(Run{Kind: Draft, Account: "user", Spaces: []string{"s0", "s1"}})
	must(t, err)
	_, err = f.Authorize(Run{Kind: Draft, Account: "user", Spaces: []string{"s0", "s2"}})
	wantSpaces(t, err, ErrPermission, "s2")
	_, err = f.Authorize(Run{Kind: Draft, Account: "ghost", Spaces: []string{"s0"}})
	want(t, err, ErrPermission)
}

// S3.10: what is taken away fails the next run.
func TestS3_10LossOfPermissionActsOnTheNextRun(t *testing.T) {
	f := newFixture(t)
	_, err := f.Publish("user", "flow", 1, []string{"s0", "s1"})
	must(t, err)
	user := Run{Kind: Published, Account: "user", Workflow: "flow", Spaces: []string{"s0", "s1"}}
	_, err = f.Authorize(user)
	must(t, err)
	must(t, f.RevokeGrant("admin", "user", "s1"))
	_, err = f.Authorize(user)
	wantSpaces(t, err, ErrPermission, "s1")
	_, err = f.draft("user", "s0", "s1")
	wantSpaces(t, err, ErrPermission, "s1")
	_, err = f.published("s0", "s1") // an end user rests on the binding alone
	must(t, err)
	must(t, f.Grant("admin", "user", Grant{AllSpaces, Use}))
	_, err = f.Authorize(user)
	must(t, err)
	must(t, f.RevokeGrant("admin", "user", AllSpaces))
	_, err = f.Authorize(user)
	wantSpaces(t, err, ErrPermission, "s1")

	must(t, f.SetActive("admin", "s0", false))
	_, err = f.published("s1", "s0")
	wantSpaces(t, err, ErrInactive, "s0")
	must(t, f.SetActive("admin", "s0", true))
	_, err = f.published("s1", "s0")
	must(t, err)
	must(t, f.DeleteSpace("admin", "s0"))
	_, err = f.published("s1", "s0")
	wantSpaces(t, err, ErrUnavailable, "s0")
	// A later space of that id inherits neither binding nor grant.
	f.seed(func(w *writer) { w.put(publishedSpace("s0", "w", "b0", w.now)) })
	_, err = f.published("s1", "s0")
	wantSpaces(t, err, ErrNotBound, "s0")
	_, err = f.draft("user", "s0")
	wantSpaces(t, err, ErrPermission, "s0")
	f.check()
}

func TestS3_11DraftRunsBindIdempotently(t *testing.T) {
	f := newFixture(t)
	must(t, f.BindDraft("user", "flow", []string{"s1", "s0"}))
	if got := f.bindings(); got != "s0 active 1 draft; s1 active 1 draft; " {
		t.Fatal(got)
	}
	epoch, data := f.Epoch(), readFile(t, f.path)
	for range 3 {
		must(t, f.BindDraft("user", "flow", []string{"s0", "s1"}))
		must(t, f.BindDraft("user", "flow", []string{"s1"}))
	}
	if f.Epoch() != epoch || !slices.Equal(data, readFile(t, f.path)) {
		t.Error("binding again wrote something")
	}
	// All or nothing, and only what the account may use.
	err := f.BindDraft("user", "flow", []string{"s0", "s2"})
	wantSpaces(t, err, ErrPermission, "s2")
	err = f.BindDraft("admin", "flow", []string{"s3", "x"})
	wantSpaces(t, err, ErrWorkspace, "x")
	err = f.BindDraft("admin", "flow", []string{"s3", "missing"})
	wantSpaces(t, err, ErrUnavailable, "missing")
	want(t, f.BindDraft("", "flow", spaces(0, 1)), ErrPermission)
	want(t, f.BindDraft("stranger", "flow", spaces(0, 1)), ErrWorkspace)
	want(t, f.BindDraft("admin", "none", spaces(0, 1)), storage.ErrNotFound)
	if got := f.bindings(); got != "s0 active 1 draft; s1 active 1 draft; " {
		t.Fatal(got)
	}
	// At most ten: the oldest not asked for give way.
	must(t, f.BindDraft("admin", "flow", spaces(2, 10)))
	must(t, f.BindDraft("admin", "flow", []string{"s1", "s10", "s11"}))
	list, err := f.Bindings("flow")
	must(t, err)
	var active []string
	for _, b := range list {
		if b.State == Active {
			active = append(active, b.Space)
		}
	}
	if fmt.Sprint(active) != "[s1 s10 s11 s3 s4 s5 s6 s7 s8 s9]" {
		t.Errorf("active: %v", active)
	}
	// A revoked one is restored with the next revision.
	must(t, f.RevokeBinding("admin", "flow", "s1"))
	must(t, f.BindDraft("user", "flow", []string{"s1"}))
	if got := f.bindings(); !strings.Contains(got, "s1 active 2 draft") {
		t.Fatal(got)
	}
	f.check()
}

func TestS3_11PublicationIsExact(t *testing.T) {
	f := newFixture(t)
	must(t, f.BindDraft("admin", "flow", []string{"s0", "s5"}))
	snap, err := f.Publish("admin", "flow", 1, []string{"s2", "s0", "s1"})
	must(t, err)
	// Added; lifted from a draft run's; revoked, since not named.
	if got := f.bindings(); got != "s0 active 1 publish; s1 active 1 publish; s2 active 1 publish; s5 revoked 1 draft; " {
		t.Fatal(got)
	}
	wantSpace := func(i int, id, base string, revision, generation int) {
		t.Helper()
		if d := cmp.Diff(SnapshotSpace{id, base, revision, generation}, snap.Spaces[i]); d != "" {
			t.Error(d)
		}
	}
	wantSpace(0, "s2", "b2", 1, 1) // the order of the definition
	wantSpace(1, "s0", "b0", 1, 1)
	if snap.ID != "flow@1" || snap.Number != 1 || snap.DraftRevision != 1 || string(snap.Definition) != "definition 1" || snap.By != "admin" {
		t.Errorf("snapshot %+v", snap)
	}
	first, err := f.Bindings("flow")
	must(t, err)
	must(t, f.RevokeBinding("admin", "flow", "s1"))
	_, err = f.PublishSpace("admin", "s2", 1, 4, nil)
	must(t, err)
	_, err = f.UpdateWorkflow("admin", Workflow{ID: "flow", Draft: []byte("definition 2")}, 1)
	must(t, err)
	snap, err = f.Publish("admin", "flow", 2, []string{"s1", "s2"})
	must(t, err)
	// Revoked; restored with the next revision; untouched.
	if got := f.bindings(); got != "s0 revoked 1 publish; s1 active 2 publish; s2 active 1 publish; s5 revoked 1 draft; " {
		t.Fatal(got)
	}
	wantSpace(1, "s2", "b2", 2, 4)
	second, err := f.Bindings("flow")
	must(t, err)
	if d := cmp.Diff(first[2], second[2]); d != "" {
		t.Errorf("a binding in place was written again:\n%s", d)
	}
	got, err := f.Snapshot("flow@2")
	must(t, err)
	if d := cmp.Diff(snap, got); d != "" {
		t.Errorf("snapshot as stored:\n%s", d)
	}
	if got, err = f.Snapshot("flow@1"); err != nil || string(got.Definition) != "definition 1" {
		t.Errorf("%+v, %v", got, err)
	}
	// One transaction: one audit entry, with all that changed.
	entries, err := f.Audit(f.Epoch()-1, 10)
	must(t, err)
	if len(entries) != 1 || entries[0].Action != "publish" || entries[0].Detail != "flow@2 of draft 2; s1 active 2, s0 revoked 1" {
		t.Errorf("audit %+v", entries)
	}
	// No spaces at all is a publication too.
	snap, err = f.Publish("admin", "flow", 2, nil)
	must(t, err)
	if got := f.bindings(); strings.Contains(got, "active") || len(snap.Spaces) != 0 {
		t.Error(got)
	}
	f.check()
	f.reopen()
	f.check()
}

func TestS3_11AllSpacesAreValidatedBeforePublishing(t *testing.T) {
	f := newFixture(t)
	_, err := f.CreateSpace("admin", Space{ID: "new", Workspace: "w", Base: "b"})
	must(t, err)
	must(t, f.SetActive("admin", "s3", false))
	epoch := f.Epoch()
	_, err = f.Publish("admin", "flow", 1, []string{"s0", "new", "missing", "s1", "s3", "x"})
	wantSpaces(t, err, ErrUnpublished, "new", "missing", "s3", "x")
	if text := err.Error(); !strings.HasSuffix(text, ": new, missing, s3, x") {
		t.Errorf("graph order is lost: %s", text)
	}
	_, err = f.Publish("admin", "flow", 1, []string{"x", "new"})
	wantSpaces(t, err, ErrWorkspace, "x", "new")
	_, err = f.Publish("admin", "flow", 1, []string{"s3"})
	wantSpaces(t, err, ErrInactive, "s3")
	_, err = f.Publish("user", "flow", 1, []string{"s4", "s0", "s2"})
	wantSpaces(t, err, ErrPermission, "s4", "s2")
	_, err = f.Publish("stranger", "flow", 1, []string{"s0"})
	want(t, err, ErrWorkspace)
	_, err = f.Publish("", "flow", 1, []string{"s0"})
	want(t, err, ErrPermission)
	_, err = f.Publish("admin", "none", 1, []string{"s0"})
	want(t, err, storage.ErrNotFound)
	_, err = f.Publish("admin", "flow", 1, spaces(0, 11))
	want(t, err, storage.ErrTooLarge)
	_, err = f.Publish("admin", "flow", 1, []string{"s0", "s0"})
	want(t, err, storage.ErrInvalid)
	if f.Epoch() != epoch || f.bindings() != "" {
		t.Fatal("a refused publication left something")
	}
	if s, err := f.Snapshots("flow"); err != nil || len(s) != 0 {
		t.Fatalf("%v, %v", s, err)
	}
}

func TestS3_11PublishedRunsNeverBind(t *testing.T) {
	f := newFixture(t)
	_, err := f.published("s0")
	want(t, err, ErrUnpublished)
	must(t, f.BindDraft("admin", "flow", []string{"s0", "s1"}))
	_, err = f.published("s0")
	want(t, err, ErrUnpublished)
	_, err = f.Publish("admin", "flow", 1, []string{"s0"})
	must(t, err)
	must(t, f.BindDraft("admin", "flow", []string{"s1"}))
	epoch, before := f.Epoch(), f.bindings()
	_, err = f.published("s0")
	must(t, err)
	// A draft run's binding serves no published run, whoever runs it.
	_, err = f.published("s0", "s1")
	wantSpaces(t, err, ErrNotBound, "s1")
	_, err = f.Authorize(Run{Kind: Published, Account: "admin", Workflow: "flow", Spaces: []string{"s2"}})
	wantSpaces(t, err, ErrNotBound, "s2")
	if f.Epoch() != epoch || f.bindings() != before {
		t.Error("a published run wrote something")
	}
	_, err = f.Authorize(Run{Kind: Published, Spaces: spaces(0, 1)})
	want(t, err, storage.ErrInvalid)
	_, err = f.Authorize(Run{Kind: Published, Workflow: "none", Spaces: spaces(0, 1)})
	want(t, err, storage.ErrNotFound)
	_, err = f.Authorize(Run{Kind: Published, Workflow: "flow", Account: "stranger", Spaces: spaces(0, 1)})
	want(t, err, ErrWorkspace)
}

// A revoked space fails the next published run, and stays so whatever draft
// runs do, until the workflow is published again.
func TestS3_11RevokedSpaceFailsTheNextPublishedRun(t *testing.T) {
	f := newFixture(t)
	_, err := f.Publish("admin", "flow", 1, []string{"s0", "s1"})
	must(t, err)
	want(t, f.RevokeBinding("user", "flow", "s1"), ErrPermission)
	want(t, f.RevokeBinding("admin", "flow", "s7"), storage.ErrNotFound)
	want(t, f.RevokeBinding("admin", "none", "s1"), storage.ErrNotFound)
	want(t, f.RevokeBinding("admin", "flow", "missing"), ErrUnavailable)
	must(t, f.RevokeBinding("admin", "flow", "s1"))
	epoch := f.Epoch()
	must(t, f.RevokeBinding("admin", "flow", "s1"))
	if f.Epoch() != epoch {
		t.Error("revoking again wrote something")
	}
	_, err = f.published("s0", "s1")
	wantSpaces(t, err, ErrNotBound, "s1")
	_, err = f.published("s0")
	must(t, err)
	must(t, f.BindDraft("admin", "flow", []string{"s0", "s1"}))
	if got := f.bindings(); got != "s0 active 1 publish; s1 active 2 draft; " {
		t.Fatal(got)
	}
	_, err = f.draft("admin", "s0", "s1")
	must(t, err)
	_, err = f.published("s0", "s1")
	wantSpaces(t, err, ErrNotBound, "s1")
	_, err = f.Publish("admin", "flow", 1, []string{"s0", "s1"})
	must(t, err)
	g, err := f.published("s0", "s1")
	must(t, err)
	if g[1].Binding.Revision != 2 || g[1].Binding.Origin != ByPublish {
		t.Errorf("binding %+v", g[1].Binding)
	}
	f.reopen()
	_, err = f.published("s0", "s1")
	must(t, err)
}

// S3.12: spaces an import did not find block publishing until chosen again.
func TestS3_12UnresolvedImportBlocksPublishing(t *testing.T) {
	f := newFixture(t)
	w, err := f.CreateWorkflow("user", Workflow{ID: "imported", Workspace: "w", Name: "Imported", Draft: []byte("def"), Unresolved: []string{"lost", "gone"}})
	must(t, err)
	for _, ids := range [][]string{nil, {"s0"}} {
		_, err = f.Publish("user", "imported", w.DraftRevision, ids)
		wantSpaces(t, err, ErrUnresolved, "lost", "gone")
	}
	// Choosing one of two again is not enough.
	w, err = f.UpdateWorkflow("user", Workflow{ID: "imported", Name: "Imported", Draft: []byte("def 2"), Unresolved: []string{"gone"}}, w.DraftRevision)
	must(t, err)
	_, err = f.Publish("user", "imported", w.DraftRevision, []string{"s0"})
	wantSpaces(t, err, ErrUnresolved, "gone")
	f.reopen()
	_, err = f.Publish("user", "imported", w.DraftRevision, []string{"s0"})
	wantSpaces(t, err, ErrUnresolved, "gone")
	w, err = f.UpdateWorkflow("user", Workflow{ID: "imported", Name: "Imported", Draft: []byte("def 3")}, w.DraftRevision)
	must(t, err)
	snap, err := f.Publish("user", "imported", w.DraftRevision, []string{"s0"})
	must(t, err)
	if string(snap.Definition) != "def 3" {
		t.Errorf("snapshot %+v", snap)
	}
}
