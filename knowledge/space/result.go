package space

import (
	"math"
	"time"

	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/research"
)

// A Result is the evidence of a retrieval, best first, and how it was found. Its
// JSON is the output of a knowledge-retrieval-v2 node.
type Result struct {
	// Evidence is never nil: finding nothing is a success.
	Evidence    []Evidence  `json:"result"`
	Metrics     Metrics     `json:"metrics"`
	ProcessData ProcessData `json:"process_data"`
}

// Metrics are what a workflow may rely on.
type Metrics struct {
	// Mode is that of all spaces, or ModeMixed.
	Mode             string   `json:"mode"`
	TotalMS          float64  `json:"total_ms"` // 3 decimals
	DegradationFlags []string `json:"degradation_flags"`
	// ModelCalls counts the calls of planner and judge: none in fast and deep,
	// and with those that work offline; in research one for a direct question
	// and two for a complex one, at most, for all spaces together.
	ModelCalls int `json:"model_calls"`
}

// ModeMixed is the mode of a retrieval whose spaces differ in theirs;
// RequestedDefault the requested mode when none was.
const (
	ModeMixed        = "mixed"
	RequestedDefault = "space-default"
)

// ProcessData is for the details of a run, not for the nodes behind it.
type ProcessData struct {
	KnowledgeFS Trace `json:"knowledge_fs"`
}

// A Trace tells how each space was searched.
type Trace struct {
	RequestedMode  string         `json:"requested_mode"`
	EffectiveModes []catalog.Mode `json:"effective_modes"` // each once, in space order
	// ProfilesDiffer tells that the scores of the spaces are only weakly
	// comparable: their modes, models, rerankers or top K differ.
	ProfilesDiffer  bool           `json:"profiles_differ"`
	CandidateCounts map[string]int `json:"candidate_counts"` // by space
	PerSpace        []SpaceTrace   `json:"per_space"`
	// Research is there when a space was searched so.
	Research *ResearchTrace `json:"research,omitempty"`
}

// A SpaceTrace tells how one space was searched.
type SpaceTrace struct {
	Space            string       `json:"control_space_id"`
	Mode             catalog.Mode `json:"mode"`
	Publication      int          `json:"publication_revision"`
	Generation       int          `json:"generation"`
	CandidateCount   int          `json:"candidate_count"` // looked at, before the cut
	TotalMS          float64      `json:"total_ms"`        // 3 decimals
	TraceID          string       `json:"trace_id"`
	DegradationFlags []string     `json:"degradation_flags"`
}

// A ResearchTrace tells what the research of a retrieval did: one plan and one
// judgement for all its spaces.
type ResearchTrace struct {
	Complex    bool     `json:"complex"`
	Queries    []string `json:"queries"` // that were searched for, the question first
	Rounds     int      `json:"rounds"`
	Sufficient bool     `json:"sufficient"` // as judged after the first round

	Calls research.Calls `json:"model_calls"`
}

// millis is a duration in milliseconds, with 3 decimals.
func millis(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }
