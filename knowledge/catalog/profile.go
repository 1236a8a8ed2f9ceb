package catalog

import (
	"slices"

	"github.com/quarrysearch/quarry/storage"
)

// A Mode is how thoroughly a space is searched (semantics S3.7).
type Mode string

// The modes.
const (
	Fast     Mode = "fast"
	Deep     Mode = "deep"
	Research Mode = "research"
)

// Validate refuses what is not one of the three modes; "auto" is none.
func (m Mode) Validate() error {
	switch m {
	case Fast, Deep, Research:
		return nil
	}
	return storage.Invalidf("mode %q: want fast, deep or research", m)
}

// A Profile is how a space is retrieved from. Its JSON is that of semantics
// S3.3.
type Profile struct {
	// Revision counts the changes of the draft, from 1. It is set by the
	// catalogue; UpdateDraft ignores it.
	Revision       int           `json:"revision"`
	DefaultMode    Mode          `json:"defaultMode"` // of runs that name none
	TopK           int           `json:"topK"`        // 1 to 100
	ScoreThreshold Threshold     `json:"scoreThreshold"`
	Rerank         RerankSetting `json:"rerank"`
	// Degrade names the parts that may fail without failing the space: Dense,
	// FTS, Reranker. Empty: fail closed.
	Degrade []string `json:"degrade,omitempty"`
}

// A Threshold drops evidence below Value.
type Threshold struct {
	Enabled bool    `json:"enabled"`
	Stage   Stage   `json:"stage,omitempty"` // needed when enabled
	Value   float64 `json:"value"`           // 0 to 1, inclusive
}

// A Stage is where a threshold applies.
type Stage string

// The stages.
const (
	StageRerank Stage = "rerank" // on the reranker's score
	StageFinal  Stage = "final"  // on the score of the mode's last step
)

// A RerankSetting names the reranker of a space.
type RerankSetting struct {
	Enabled bool   `json:"enabled"`
	Model   string `json:"model,omitempty"` // needed when enabled
}

// Values of Profile.Degrade.
const (
	Dense    = "dense"  // the vector leg
	FTS      = "fts"    // the keyword leg
	Reranker = "rerank" // the reranker
)

// DefaultProfile is the draft of a new space: fast, the best 10, no threshold,
// no reranker, failing closed.
func DefaultProfile() Profile {
	return Profile{Revision: 1, DefaultMode: Fast, TopK: 10}
}

// Validate checks every field and that the default mode can be served.
func (p Profile) Validate() error {
	if p.TopK < 1 || p.TopK > MaxTopK {
		return storage.Invalidf("topK %d: want 1 to %d", p.TopK, MaxTopK)
	}
	t := p.ScoreThreshold
	if !(t.Value >= 0 && t.Value <= 1) { // NaN too
		return storage.Invalidf("scoreThreshold.value %v: want 0 to 1", t.Value)
	}
	if t.Stage != StageRerank && t.Stage != StageFinal && (t.Stage != "" || t.Enabled) {
		return storage.Invalidf("scoreThreshold.stage %q: want rerank or final", t.Stage)
	}
	if p.Rerank.Enabled || p.Rerank.Model != "" {
		if err := checkText("rerank.model", p.Rerank.Model, 1, MaxName); err != nil {
			return err
		}
	}
	for i, d := range p.Degrade {
		if d != Dense && d != FTS && d != Reranker {
			return storage.Invalidf("degrade %q: want dense, fts or rerank", d)
		}
		if slices.Contains(p.Degrade[:i], d) {
			return storage.Invalidf("degrade: %q twice", d)
		}
	}
	return p.ValidateMode(p.DefaultMode)
}

// ValidateMode tells whether the profile can serve a mode: a threshold on the
// reranker's score needs the reranker in any mode, one on the final score in
// fast and deep, where the final score would otherwise be a fused one, which
// means nothing absolute (semantics S3.3). The error matches ErrThreshold.
func (p Profile) ValidateMode(m Mode) error {
	if err := m.Validate(); err != nil {
		return err
	}
	t := p.ScoreThreshold
	if t.Enabled && !p.Rerank.Enabled && (t.Stage == StageRerank || m != Research) {
		return refuse(ErrThreshold, "", "scoreThreshold of stage %q in mode %s needs rerank.enabled", t.Stage, m)
	}
	return nil
}
