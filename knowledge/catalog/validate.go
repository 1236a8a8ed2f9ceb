package catalog

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/storage"
)

// Limits. Ids and names are UTF-8 without control characters and without white
// space at either end; sizes are bytes. What is larger is storage.ErrTooLarge.
const (
	MaxID         = 512     // an id, at least 1
	MaxName       = 512     // a name of anything, may be empty
	MaxSpaces     = 10      // spaces of a run; bindings of a workflow, for each origin
	MaxGrants     = 1000    // grants of an account
	MaxUnresolved = 100     // unresolved spaces of a workflow
	MaxDefinition = 1 << 20 // a definition
	MaxSnapshots  = 10      // snapshots kept of a workflow
	MaxTopK       = 100     // Profile.TopK
	MaxDim        = 4096    // EmbeddingProfile.Dim
	MaxAudit      = 100_000 // audit entries kept
	MaxAuditPage  = 1000    // audit entries a call
	maxDetail     = 1024    // AuditEntry.Detail, cut
	maxCount      = 1 << 40 // revisions, generations and numbers read from a file
)

// checkText checks an id or a name.
func checkText(what, s string, least, most int) error {
	switch {
	case len(s) < least:
		return storage.Invalidf("%s is empty", what)
	case len(s) > most:
		return tooLarge(what, len(s), most, "bytes")
	case !utf8.ValidString(s):
		return storage.Invalidf("%s %q is not UTF-8", what, s)
	case strings.TrimSpace(s) != s:
		return storage.Invalidf("%s %q has white space at an end", what, s)
	case strings.IndexFunc(s, unicode.IsControl) >= 0:
		return storage.Invalidf("%s %q has control characters", what, s)
	}
	return nil
}

func tooLarge(what string, have, most int, unit string) error {
	return fmt.Errorf("%w: %s: %d %s, at most %d", storage.ErrTooLarge, what, have, unit, most)
}

func checkID(what, s string) error { return checkText(what, s, 1, MaxID) }

// checkIDs checks a list of different ids.
func checkIDs(what string, ids []string, least, most int) error {
	if len(ids) > most {
		return tooLarge(what, len(ids), most, "ids")
	}
	if len(ids) < least {
		return storage.Invalidf("%s: %d ids, at least %d", what, len(ids), least)
	}
	for i, id := range ids {
		if err := checkID(what, id); err != nil {
			return err
		}
		if slices.Contains(ids[:i], id) {
			return storage.Invalidf("%s: %q twice", what, id)
		}
	}
	return nil
}

// checkCount checks a counter that starts at 1.
func checkCount(what string, n int) error {
	if n < 1 || int64(n) > maxCount {
		return storage.Invalidf("%s %d: want 1 or more", what, n)
	}
	return nil
}

func checkTime(what string, t time.Time) error {
	if y := t.Year(); y < 1 || y > 9999 {
		return storage.Invalidf("%s: year %d", what, y)
	}
	return nil
}

// first returns the first error that is not nil. Its arguments are cheap
// checks, so that doing all of them does no harm.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *Workspace) check() error {
	return first(checkID("workspace id", w.ID), checkText("workspace name", w.Name, 0, MaxName), checkTime("workspace created", w.Created))
}

func (a *Account) check() error {
	if len(a.Grants) > MaxGrants {
		return tooLarge("account grants", len(a.Grants), MaxGrants, "grants")
	}
	for i, g := range a.Grants {
		if err := g.check(); err != nil {
			return err
		}
		if i > 0 && a.Grants[i-1].Space >= g.Space {
			return storage.Invalidf("account grants: space %q twice or out of order", g.Space)
		}
	}
	return first(checkID("account id", a.ID), checkID("account workspace", a.Workspace),
		checkText("account name", a.Name, 0, MaxName), checkTime("account created", a.Created))
}

func (g Grant) check() error {
	if g.Permission.level() == 0 {
		return storage.Invalidf("permission %q: want use, edit, publish or admin", g.Permission)
	}
	return checkID("grant space", g.Space)
}

func (s *Space) check() error {
	err := first(checkID("space id", s.ID), checkID("space workspace", s.Workspace), checkText("space name", s.Name, 0, MaxName),
		checkID("space base", s.Base), checkCount("space revision", s.Revision), checkTime("space created", s.Created),
		checkTime("space updated", s.Updated), s.Draft.Validate(), checkCount("draft revision", s.Draft.Revision))
	if s.ID == AllSpaces {
		return storage.Invalidf("space id %q stands for all spaces", s.ID)
	}
	if err == nil && s.Embedding != nil {
		err = s.Embedding.Validate()
	}
	if p := s.Published; err == nil && p != nil {
		err = first(checkCount("publication revision", p.Revision), checkCount("publication generation", p.Generation),
			p.Profile.Validate(), checkCount("publication profile revision", p.Profile.Revision), checkTime("publication at", p.At))
		if err == nil && p.Embedding != nil {
			err = p.Embedding.Validate()
		}
	}
	return err
}

// Validate checks every field.
func (e EmbeddingProfile) Validate() error {
	if e.Dim < 1 || e.Dim > MaxDim {
		return storage.Invalidf("embedding dim %d: want 1 to %d", e.Dim, MaxDim)
	}
	switch e.Metric {
	case "cosine", "dot", "l2":
	default:
		return storage.Invalidf("embedding metric %q: want cosine, dot or l2", e.Metric)
	}
	return first(checkText("embedding name", e.Name, 1, MaxName), checkText("embedding revision", e.Revision, 0, MaxName),
		checkText("embedding digest", e.Digest, 1, MaxName))
}

func (w *Workflow) check() error {
	if len(w.Draft) > MaxDefinition {
		return tooLarge("workflow draft", len(w.Draft), MaxDefinition, "bytes")
	}
	return first(checkID("workflow id", w.ID), checkID("workflow workspace", w.Workspace), checkText("workflow name", w.Name, 0, MaxName),
		checkCount("workflow draft revision", w.DraftRevision), checkIDs("workflow unresolved", w.Unresolved, 0, MaxUnresolved),
		checkTime("workflow created", w.Created), checkTime("workflow updated", w.Updated))
}

func (s *Snapshot) check() error {
	if s.ID != snapshotID(s.Workflow, s.Number) {
		return storage.Invalidf("snapshot id %q: want %q", s.ID, snapshotID(s.Workflow, s.Number))
	}
	ids := make([]string, len(s.Spaces))
	for i, sp := range s.Spaces {
		ids[i] = sp.Space
		if err := first(checkID("snapshot base", sp.Base), checkCount("snapshot space revision", sp.Revision), checkCount("snapshot generation", sp.Generation)); err != nil {
			return err
		}
	}
	return first(checkID("snapshot workflow", s.Workflow), checkCount("snapshot number", s.Number), checkIDs("snapshot spaces", ids, 0, MaxSpaces),
		checkCount("snapshot draft revision", s.DraftRevision), checkTime("snapshot at", s.At))
}

func (b *Binding) check() error {
	if b.State != Active && b.State != Revoked {
		return storage.Invalidf("binding state %q: want active or revoked", b.State)
	}
	if b.Origin != ByDraft && b.Origin != ByPublish {
		return storage.Invalidf("binding origin %q: want draft or publish", b.Origin)
	}
	return first(checkID("binding workflow", b.Workflow), checkID("binding space", b.Space),
		checkCount("binding revision", b.Revision), checkTime("binding at", b.At))
}

func (a *AuditEntry) check() error {
	if a.Seq == 0 {
		return storage.Invalidf("audit seq 0: want 1 or more")
	}
	if len(a.Detail) > maxDetail {
		return tooLarge("audit detail", len(a.Detail), maxDetail, "bytes")
	}
	return first(checkText("audit action", a.Action, 1, MaxName), checkTime("audit at", a.At))
}
