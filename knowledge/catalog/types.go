package catalog

import (
	"slices"
	"time"
)

// A Workspace holds accounts, spaces and workflows. Nothing crosses from one
// workspace to another.
type Workspace struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
}

// An Account acts in one workspace, as far as its grants go.
type Account struct {
	ID        string    `json:"id"`
	Workspace string    `json:"workspace"`
	Name      string    `json:"name"`
	Grants    []Grant   `json:"grants,omitempty"` // by space id, at most MaxGrants
	Created   time.Time `json:"created"`
}

// A Grant gives a permission on one space, or with Space AllSpaces on every
// space of the account's workspace, those made later included. Of two grants
// that cover a space the greater permission counts.
type Grant struct {
	Space      string     `json:"space"`
	Permission Permission `json:"permission"`
}

// AllSpaces is Grant.Space for all spaces of the workspace.
const AllSpaces = "*"

// A Permission includes those before it.
type Permission string

// The permissions, ascending.
const (
	Use     Permission = "use"     // retrieve from the space, bind it to workflows
	Edit    Permission = "edit"    // change the draft profile, ingest
	Publish Permission = "publish" // publish the space
	Admin   Permission = "admin"   // activate, delete, grant, revoke bindings
)

// A Space is a knowledge base with the rules by which it may be retrieved from.
type Space struct {
	ID        string `json:"id"`
	Workspace string `json:"workspace"`
	Name      string `json:"name"`
	// Base is the id of the knowledge base behind the space. Several spaces
	// may stand on one base.
	Base string `json:"base"`
	// Active is false while the space is switched off: no run gets it.
	Active bool `json:"active"`
	// Draft is the profile being edited; it reaches runs by publication only.
	Draft Profile `json:"draft"`
	// Published is what runs use; nil: never published.
	Published *Publication `json:"published,omitempty"`
	// Embedding is the model the base is embedded with; nil until the first
	// ingest (FreezeEmbedding), and for a base without vectors.
	Embedding *EmbeddingProfile `json:"embedding,omitempty"`
	// Revision counts the changes of the space, from 1.
	Revision int       `json:"revision"`
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
}

// A Publication is a state of a space that runs may use.
type Publication struct {
	Revision   int               `json:"revision"`   // counts the space's publications, from 1
	Generation int               `json:"generation"` // of the base, from 1
	Profile    Profile           `json:"profile"`
	Embedding  *EmbeddingProfile `json:"embedding,omitempty"` // nil: keyword search only
	At         time.Time         `json:"at"`
	By         string            `json:"by"`
}

// An EmbeddingProfile names the model of a base's vectors.
type EmbeddingProfile struct {
	Name     string `json:"name"`
	Revision string `json:"revision,omitempty"`
	Dim      int    `json:"dim"`    // 1 to 4096
	Metric   string `json:"metric"` // cosine, dot or l2
	// Digest is a hash of the whole identity of the model, prefixes and
	// tokenizer included: equal digests, comparable vectors.
	Digest string `json:"digest"`
}

// A Workflow is a definition that the catalogue stores but does not read.
type Workflow struct {
	ID        string `json:"id"`
	Workspace string `json:"workspace"`
	Name      string `json:"name"`
	// Draft is the definition being edited, at most MaxDefinition bytes. Lists
	// (Workflows) leave it out.
	Draft         []byte `json:"draft,omitempty"`
	DraftRevision int    `json:"draft_revision"` // counts its changes, from 1
	// Unresolved are the spaces an import did not find: while there are any,
	// the workflow cannot be published.
	Unresolved []string `json:"unresolved,omitempty"`
	// Published is the id of the current snapshot; empty: never published.
	Published string    `json:"published,omitempty"`
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
}

// A Snapshot is a published state of a workflow. It never changes. The newest
// MaxSnapshots of a workflow are kept.
type Snapshot struct {
	ID            string          `json:"id"` // workflow@number
	Workflow      string          `json:"workflow"`
	Number        int             `json:"number"` // counts the workflow's publications, from 1
	DraftRevision int             `json:"draft_revision"`
	Definition    []byte          `json:"definition,omitempty"` // lists (Snapshots) leave it out
	Spaces        []SnapshotSpace `json:"spaces"`               // in the order of the definition
	At            time.Time       `json:"at"`
	By            string          `json:"by"`
}

// A SnapshotSpace is a space of a snapshot, and what of it was published then.
type SnapshotSpace struct {
	Space      string `json:"space"`
	Base       string `json:"base"`
	Revision   int    `json:"revision"`
	Generation int    `json:"generation"`
}

// A Binding lets runs of a workflow use a space.
type Binding struct {
	Workflow string `json:"workflow"`
	Space    string `json:"space"`
	// Revision is 1 when the binding is added, and one more each time it is
	// restored after a revocation.
	Revision int       `json:"revision"`
	State    State     `json:"state"`
	Origin   Origin    `json:"origin"`
	At       time.Time `json:"at"`
	By       string    `json:"by"`
}

// A State of a binding.
type State string

// The states.
const (
	Active  State = "active"
	Revoked State = "revoked"
)

// An Origin says what made a binding. Only a publication lets published runs
// use a space; a binding by a draft run is a record of use.
type Origin string

// The origins.
const (
	ByDraft   Origin = "draft"
	ByPublish Origin = "publish"
)

// A Run asks for the spaces of one retrieval.
type Run struct {
	Kind RunKind
	// Account runs it. A draft run needs one. A published run may leave it
	// empty (end users); if it names one, that account needs permission too.
	Account string
	// Workflow that runs. A draft run may leave it empty: a retrieval outside
	// of any workflow, by the account's own permissions.
	Workflow string
	// Spaces are 1 to MaxSpaces different ids, in the order of the definition.
	Spaces []string
}

// A RunKind is draft or published.
type RunKind string

// The kinds.
const (
	Draft     RunKind = "draft"
	Published RunKind = "published"
)

// A Granted space may be used by the run that Authorize was asked about.
type Granted struct {
	Space       string
	Base        string
	Publication Publication
	// Binding is the one the run rests on; the zero value for a draft run
	// that has none.
	Binding Binding
}

// An AuditEntry records one write.
type AuditEntry struct {
	Seq     uint64    `json:"seq"` // from 1, without gaps
	At      time.Time `json:"at"`
	Account string    `json:"account,omitempty"` // empty: the program itself
	Action  string    `json:"action"`
	Object  string    `json:"object"`
	Detail  string    `json:"detail,omitempty"`
}

func (s Space) clone() Space {
	s.Draft = s.Draft.clone()
	s.Embedding = cloneEmbedding(s.Embedding)
	if s.Published != nil {
		p := s.Published.clone()
		s.Published = &p
	}
	return s
}

func (p Publication) clone() Publication {
	p.Profile = p.Profile.clone()
	p.Embedding = cloneEmbedding(p.Embedding)
	return p
}

func cloneEmbedding(e *EmbeddingProfile) *EmbeddingProfile {
	if e == nil {
		return nil
	}
	c := *e
	return &c
}

func (p Profile) clone() Profile {
	p.Degrade = slices.Clone(p.Degrade)
	return p
}

func (a Account) clone() Account {
	a.Grants = slices.Clone(a.Grants)
	return a
}

func (w Workflow) clone() Workflow {
	w.Draft = slices.Clone(w.Draft)
	w.Unresolved = slices.Clone(w.Unresolved)
	return w
}

func (s Snapshot) clone() Snapshot {
	s.Definition = slices.Clone(s.Definition)
	s.Spaces = slices.Clone(s.Spaces)
	return s
}
