package manage

import (
	"cmp"

	"github.com/quarrysearch/quarry/knowledge/catalog"
)

// NewSpace is the input of CreateSpace.
type NewSpace struct {
	By
	Body struct {
		ID        string `json:"id" shape:"required,minlen=1,maxlen=512"`
		Workspace string `json:"workspace" shape:"required,minlen=1,maxlen=512" doc:"id of the workspace"`
		Name      string `json:"name,omitempty" shape:"maxlen=512" doc:"shown to people; default the id"`
		Base      string `json:"base,omitempty" shape:"maxlen=512" doc:"knowledge base behind it; default the space's id"`
	} `body:"json"`
}

// Space is an answer with a space.
type Space struct {
	Space catalog.Space `json:"space"`
}

// CreateSpace makes a space on a knowledge base that is there. Runs see it once
// it is published.
func CreateSpace(c *Call, in *NewSpace) (*Space, error) {
	b := &in.Body
	store, err := c.Registry.Knowledge(c.Context)
	if err != nil {
		return nil, err
	}
	base := cmp.Or(b.Base, b.ID)
	if _, err := store.Base(c.Context, base); err != nil {
		return nil, err
	}
	sp, err := c.Spaces.Catalog.CreateSpace(c.By, catalog.Space{ID: b.ID, Workspace: b.Workspace, Name: cmp.Or(b.Name, b.ID), Base: base})
	return &Space{sp}, err
}

// OfSpace is an input that names a space.
type OfSpace struct {
	By
	Space string `path:"space" doc:"id of the space"`
}

// DeleteSpace removes a space; its base stays.
func DeleteSpace(c *Call, in *OfSpace) (*Done, error) {
	return done(c.Spaces.Catalog.DeleteSpace(c.By, in.Space))
}

// Activation is the input of Activate.
type Activation struct {
	By
	Space string `path:"space" doc:"id of the space"`
	Body  struct {
		Active bool `json:"active" shape:"required" doc:"whether runs may use it; those under way end on what they began with"`
	} `body:"json"`
}

// Activate switches a space on or off.
func Activate(c *Call, in *Activation) (*Space, error) {
	if err := c.Spaces.Catalog.SetActive(c.By, in.Space, in.Body.Active); err != nil {
		return nil, err
	}
	sp, err := c.Spaces.Catalog.Space(in.Space)
	return &Space{sp}, err
}

// profile is catalog.Profile, with rules.
type profile struct {
	Revision  int    `json:"revision" shape:"required,min=1,max=2147483647" doc:"of the draft that was looked at; another one is refused"`
	Mode      string `json:"defaultMode" shape:"required,enum=fast|deep|research"`
	TopK      int    `json:"topK" shape:"required,min=1,max=100" doc:"evidence that the space gives"`
	Threshold *struct {
		Enabled bool    `json:"enabled" shape:"required"`
		Stage   string  `json:"stage,omitempty" shape:"enum=|rerank|final" doc:"where it acts"`
		Value   float64 `json:"value,omitempty" shape:"min=0,max=1"`
	} `json:"scoreThreshold,omitempty" doc:"default none"`
	Rerank *struct {
		Enabled bool   `json:"enabled" shape:"required"`
		Model   string `json:"model,omitempty" shape:"maxlen=512"`
	} `json:"rerank,omitempty" doc:"default none"`
	Degrade []string `json:"degrade,omitempty" shape:"maxitems=3" doc:"parts that may fail with a flag: dense, fts, rerank; default none"`
}

func (p *profile) catalog() catalog.Profile {
	out := catalog.Profile{DefaultMode: catalog.Mode(p.Mode), TopK: p.TopK, Degrade: p.Degrade}
	if t := p.Threshold; t != nil {
		out.ScoreThreshold = catalog.Threshold{Enabled: t.Enabled, Stage: catalog.Stage(t.Stage), Value: t.Value}
	}
	if r := p.Rerank; r != nil {
		out.Rerank = catalog.RerankSetting{Enabled: r.Enabled, Model: r.Model}
	}
	return out
}

// NewProfile is the input of SetProfile.
type NewProfile struct {
	By
	Space string  `path:"space" doc:"id of the space"`
	Body  profile `body:"json"`
}

// Profile is the answer of SetProfile.
type Profile struct {
	Draft catalog.Profile `json:"draft"`
}

// SetProfile replaces the draft of a Retrieval Profile; runs see it with the
// next publication of the space.
func SetProfile(c *Call, in *NewProfile) (*Profile, error) {
	sp, err := c.Spaces.Catalog.UpdateDraft(c.By, in.Space, in.Body.catalog(), in.Body.Revision)
	return &Profile{sp.Draft}, err
}
