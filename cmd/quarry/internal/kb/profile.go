package kb

import (
	"fmt"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/knowledge/catalog"
)

// profileCommands are those of quarry profile.
type profileCommands struct {
	Show profileShowCmd `cmd:"" help:"Print the draft and the published Retrieval Profile of a space."`
	Set  profileSetCmd  `cmd:"" help:"Change the draft of a space's Retrieval Profile."`
}

type profileShowCmd struct {
	engine.StoreArg
	Space string `arg:"" help:"Space."`
	jsonAlways
}

func (profileShowCmd) Help() string {
	return `Prints one JSON object: {"space", "draft", "published"}, each profile {"revision", "defaultMode", "topK", "scoreThreshold": {"enabled", "stage", "value"}, "rerank": {"enabled", "model"}, "degrade"}.

    quarry profile show store docs`
}

// Run shows.
func (c *profileShowCmd) Run(s *session) error {
	return s.withCatalog(c.Store, false, func(cat *catalog.Catalog) error {
		sp, err := cat.Space(c.Space)
		if err != nil {
			return err
		}
		out := struct {
			Space     string           `json:"space"`
			Draft     catalog.Profile  `json:"draft"`
			Published *catalog.Profile `json:"published"`
		}{Space: sp.ID, Draft: sp.Draft}
		if sp.Published != nil {
			out.Published = &sp.Published.Profile
		}
		return s.JSON(out)
	})
}

type profileSetCmd struct {
	engine.StoreArg
	Space string `arg:"" help:"Space."`

	Mode      string    `enum:",fast,deep,research" default:"" placeholder:"MODE" help:"Default mode: fast, deep, research."`
	TopK      int       `placeholder:"N" help:"Evidence the space gives, 1 to 100."`
	Threshold *float64  `placeholder:"X" help:"Least score, 0 to 1; negative switches it off."`
	Stage     string    `enum:",rerank,final" default:"" placeholder:"STAGE" help:"Where the threshold acts: on the reranker's score or the final one. Default rerank."`
	Rerank    string    `placeholder:"MODEL" help:"Reranker, such as cross-encoder; none switches it off."`
	Degrade   *[]string `placeholder:"PART" help:"What may fail with a flag: dense, fts, rerank; none: nothing may."`
	Revision  int       `placeholder:"N" help:"Revision of the draft that you saw: another one now is an error. Default the one that is there."`
	accountFlag
	jsonAlways
}

func (profileSetCmd) Help() string {
	return `Only what is given changes. Runs see it with the next quarry space publish. A threshold needs the reranker, except the final one in mode research. Prints the new draft as JSON.

    quarry profile set store docs --mode deep --top-k 20 --rerank cross-encoder --threshold 0.4
    quarry profile set store docs --degrade dense,rerank`
}

// Run changes the draft.
func (c *profileSetCmd) Run(s *session) error {
	return s.withCatalog(c.Store, true, func(cat *catalog.Catalog) error {
		sp, err := cat.Space(c.Space)
		if err != nil {
			return err
		}
		if c.Revision == 0 {
			c.Revision = sp.Draft.Revision
		}
		p := sp.Draft
		if err := c.change(&p); err != nil {
			return err
		}
		if sp, err = cat.UpdateDraft(c.Account, c.Space, p, c.Revision); err != nil {
			return err
		}
		return s.JSON(sp.Draft)
	})
}

func (c *profileSetCmd) change(p *catalog.Profile) error {
	if c.Mode != "" {
		p.DefaultMode = catalog.Mode(c.Mode)
	}
	if c.TopK != 0 {
		p.TopK = c.TopK
	}
	switch {
	case c.Threshold != nil && *c.Threshold < 0:
		p.ScoreThreshold = catalog.Threshold{}
	case c.Threshold != nil:
		p.ScoreThreshold.Enabled, p.ScoreThreshold.Value = true, *c.Threshold
		if p.ScoreThreshold.Stage == "" {
			p.ScoreThreshold.Stage = catalog.StageRerank
		}
	}
	if c.Stage != "" {
		if !p.ScoreThreshold.Enabled {
			return fmt.Errorf("--stage %s without a threshold", c.Stage)
		}
		p.ScoreThreshold.Stage = catalog.Stage(c.Stage)
	}
	switch c.Rerank {
	case "":
	case "none":
		p.Rerank = catalog.RerankSetting{}
	default:
		p.Rerank = catalog.RerankSetting{Enabled: true, Model: c.Rerank}
	}
	if c.Degrade != nil {
		p.Degrade = nil
		for _, d := range *c.Degrade {
			if d != "none" {
				p.Degrade = append(p.Degrade, d)
			}
		}
	}
	return nil
}
