package catalog

import (
	"fmt"
	"slices"
	"strings"
)

// spaceOf returns a space, which must be of a workspace.
func (t *tables) spaceOf(id, workspace string) (*Space, error) {
	s := t.spaces[id]
	if s == nil {
		return nil, noSpace(id)
	}
	if s.Workspace != workspace {
		return nil, refuse(ErrWorkspace, id, "space %q is not of workspace %q", id, workspace)
	}
	return s, nil
}

// CreateSpace makes a space: ID, Workspace, Name, Base and Draft of s count,
// a zero Draft being DefaultProfile. It is active and not published. Acting
// accounts need Edit on all spaces.
func (c *Catalog) CreateSpace(by string, s Space) (Space, error) {
	s = Space{ID: s.ID, Workspace: s.Workspace, Name: s.Name, Base: s.Base, Draft: s.Draft.clone(), Active: true, Revision: 1}
	s.Draft.Revision = 1
	if s.Draft.DefaultMode == "" && s.Draft.TopK == 0 {
		s.Draft = DefaultProfile()
	}
	err := c.write(by, "create_space", s.ID, func(w *writer) (string, error) {
		if w.t.workspaces[s.Workspace] == nil {
			return "", notFound("workspace", s.Workspace)
		}
		if err := w.t.allow(by, s.Workspace, AllSpaces, Edit); err != nil {
			return "", err
		}
		if w.t.spaces[s.ID] != nil {
			return "", exists("space", s.ID)
		}
		s.Created, s.Updated = w.now, w.now
		w.put(&s)
		return fmt.Sprintf("workspace %s, base %s", s.Workspace, s.Base), nil
	})
	return result(s, err)
}

// Space returns one; ErrUnavailable.
func (c *Catalog) Space(id string) (Space, error) {
	return view(c, func(t *tables) (Space, error) {
		s := t.spaces[id]
		if s == nil {
			return Space{}, noSpace(id)
		}
		return s.clone(), nil
	})
}

// Spaces lists those of a workspace by id.
func (c *Catalog) Spaces(workspace string) ([]Space, error) {
	return view(c, func(t *tables) ([]Space, error) {
		return list(t.spaces, func(s *Space) (Space, bool) { return s.clone(), s.Workspace == workspace }), nil
	})
}

// Allow tells whether an account has a permission on a space, for work on the
// space that the catalogue takes no part in: nil, ErrPermission, ErrWorkspace or
// ErrUnavailable.
func (c *Catalog) Allow(by, space string, need Permission) error {
	_, err := view(c, func(t *tables) (*Space, error) { return t.allowed(by, space, need) })
	return err
}

// allowed returns a space on which an account has a permission.
func (t *tables) allowed(by, space string, need Permission) (*Space, error) {
	s := t.spaces[space]
	if s == nil {
		return nil, noSpace(space)
	}
	return s, t.allow(by, s.Workspace, space, need)
}

func noSpace(id string) error { return refuse(ErrUnavailable, id, "there is no space %q", id) }

// changeSpace writes what f makes of a space, if it is something else: f
// changes its argument and says whether, and what.
func (c *Catalog) changeSpace(by, action, space string, need Permission, f func(w *writer, s *Space) (changed bool, detail string, err error)) (Space, error) {
	var out Space
	err := c.write(by, action, space, func(w *writer) (string, error) {
		s, err := w.t.allowed(by, space, need)
		if err != nil {
			return "", err
		}
		out = s.clone()
		changed, detail, err := f(w, &out)
		if err != nil || !changed {
			return "", err
		}
		out.Revision++
		out.Updated = w.now
		w.put(&out)
		return detail, nil
	})
	return result(out, err)
}

// SetActive switches a space on or off; needs Admin. From the return of
// SetActive(…, false) on, no Authorize that starts gives the space out.
func (c *Catalog) SetActive(by, space string, active bool) error {
	_, err := c.changeSpace(by, "set_active", space, Admin, func(_ *writer, s *Space) (bool, string, error) {
		changed := s.Active != active
		s.Active = active
		return changed, fmt.Sprint(active), nil
	})
	return err
}

// DeleteSpace removes a space with its bindings and the grants on it, so that
// a later space of that id inherits nothing; needs Admin. Its base stays.
func (c *Catalog) DeleteSpace(by, space string) error {
	return c.write(by, "delete_space", space, func(w *writer) (string, error) {
		s, err := w.t.allowed(by, space, Admin)
		if err != nil {
			return "", err
		}
		w.drop(s)
		for _, bindings := range w.t.bindings {
			if b := bindings[space]; b != nil {
				w.drop(b)
			}
		}
		for _, a := range w.t.accounts {
			if a.level[space] != 0 {
				next := a.withGrant(space, nil)
				w.put(&next)
			}
		}
		return "base " + s.Base, nil
	})
}

// UpdateDraft replaces the draft profile; needs Edit. expected is the revision
// of the draft the change was made from, Space.Draft.Revision; another one is
// ErrStale. Runs keep the published profile.
func (c *Catalog) UpdateDraft(by, space string, p Profile, expected int) (Space, error) {
	return c.changeSpace(by, "update_draft", space, Edit, func(_ *writer, s *Space) (bool, string, error) {
		if s.Draft.Revision != expected {
			return false, "", stale(space, "draft of space", space, s.Draft.Revision, expected)
		}
		if err := p.Validate(); err != nil {
			return false, "", err
		}
		s.Draft = p.clone()
		s.Draft.Revision = expected + 1
		return true, fmt.Sprintf("revision %d", s.Draft.Revision), nil
	})
}

// stale refuses a change that was made from another revision; space is empty
// when it is not about one.
func stale(space, kind, id string, have, expected int) error {
	return refuse(ErrStale, space, "%s %q has revision %d, not %d", kind, id, have, expected)
}

// FreezeEmbedding records the model of the base's vectors at its first ingest;
// needs Edit. The same model again changes nothing, another one is ErrFrozen.
func (c *Catalog) FreezeEmbedding(by, space string, e EmbeddingProfile) error {
	if err := e.Validate(); err != nil {
		return err
	}
	_, err := c.changeSpace(by, "freeze_embedding", space, Edit, func(_ *writer, s *Space) (bool, string, error) {
		if s.Embedding != nil && *s.Embedding != e {
			return false, "", frozen(space, s.Embedding, &e)
		}
		changed := s.Embedding == nil
		s.Embedding = &e
		return changed, e.String(), nil
	})
	return err
}

// ReplaceEmbedding records that the base has been rebuilt with another model
// than old; needs Edit. Runs keep the model, and the generation, of the last
// publication until the next one.
func (c *Catalog) ReplaceEmbedding(by, space string, old, e EmbeddingProfile) error {
	if err := e.Validate(); err != nil {
		return err
	}
	_, err := c.changeSpace(by, "replace_embedding", space, Edit, func(_ *writer, s *Space) (bool, string, error) {
		if s.Embedding == nil || *s.Embedding != old {
			return false, "", frozen(space, s.Embedding, &old)
		}
		s.Embedding = &e
		return old != e, fmt.Sprintf("%s to %s", old, e), nil
	})
	return err
}

// String names the model for messages.
func (e EmbeddingProfile) String() string {
	return strings.TrimSuffix(e.Name+"@"+e.Revision, "@") + fmt.Sprintf(" (%d, %s, %s)", e.Dim, e.Metric, e.Digest)
}

func frozen(space string, have, want *EmbeddingProfile) error {
	name := func(e *EmbeddingProfile) string {
		if e == nil {
			return "none"
		}
		return e.String()
	}
	return refuse(ErrFrozen, space, "space %q: the embedding model is %s, not %s", space, name(have), name(want))
}

// PublishSpace makes the draft profile and a generation of the base what runs
// use; needs Publish. expected is the revision of the draft (ErrStale). e is
// the model of that generation, nil for one without vectors: it must be the
// frozen one (ErrFrozen), which it becomes when there is none yet. Runs that
// were authorized before go on with what they got.
func (c *Catalog) PublishSpace(by, space string, expected, generation int, e *EmbeddingProfile) (Publication, error) {
	if err := checkCount("generation", generation); err != nil {
		return Publication{}, err
	}
	if e != nil {
		if err := e.Validate(); err != nil {
			return Publication{}, err
		}
	}
	s, err := c.changeSpace(by, "publish_space", space, Publish, func(w *writer, s *Space) (bool, string, error) {
		if s.Draft.Revision != expected {
			return false, "", stale(space, "draft of space", space, s.Draft.Revision, expected)
		}
		if s.Embedding != nil && (e == nil || *s.Embedding != *e) {
			return false, "", frozen(space, s.Embedding, e)
		}
		s.Embedding = cloneEmbedding(e)
		revision := 1
		if s.Published != nil {
			revision = s.Published.Revision + 1
		}
		s.Published = &Publication{Revision: revision, Generation: generation, Profile: s.Draft.clone(), Embedding: cloneEmbedding(e), At: w.now, By: by}
		return true, fmt.Sprintf("revision %d, generation %d, draft %d", revision, generation, expected), nil
	})
	if err != nil {
		return Publication{}, err
	}
	return *s.Published, nil
}

// GenerationsInUse lists, ascending, the generations of a base that something
// still names: the publications of all spaces that stand on it, and the
// current snapshots of workflows. All others below the newest published one
// may be dropped.
func (c *Catalog) GenerationsInUse(base string) ([]int, error) {
	if err := checkID("base", base); err != nil {
		return nil, err
	}
	return view(c, func(t *tables) ([]int, error) {
		var out []int
		for _, s := range t.spaces {
			if s.Base == base && s.Published != nil {
				out = append(out, s.Published.Generation)
			}
		}
		for id := range t.snapshots {
			for _, sp := range t.current(id).Spaces {
				if sp.Base == base && t.spaces[sp.Space] != nil {
					out = append(out, sp.Generation)
				}
			}
		}
		slices.Sort(out)
		return slices.Compact(out), nil
	})
}
