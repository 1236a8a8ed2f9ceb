package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/knowledge/embed/service"
	"github.com/quarrysearch/quarry/knowledge/space"
	"github.com/quarrysearch/quarry/storage"
)

// Limits of a request.
const (
	MaxBodyBytes  = 1 << 20
	MaxTopK       = 100
	DefaultTopK   = 5
	MaxQuery      = space.MaxQuery // code points
	MaxConditions = 50
	MaxValues     = space.MaxFilterValues // of a condition
	MaxValue      = space.MaxFilterValue  // code points of one
	maxNames      = 20
	maxName       = 200 // bytes of one
)

// A Request is the body of a retrieval.
type Request struct {
	KnowledgeID string  `json:"knowledge_id"`
	Query       string  `json:"query"`
	Setting     Setting `json:"retrieval_setting"`
	// Condition is nil where none is given.
	Condition *Conditions `json:"metadata_condition,omitempty"`
}

// A Setting says how much is wanted.
type Setting struct {
	TopK           int     `json:"top_k"`           // 1 to MaxTopK; default DefaultTopK
	ScoreThreshold float64 `json:"score_threshold"` // 0 to 1, inclusive; 0 keeps all
}

// Conditions are joined by and, the default, or by or.
type Conditions struct {
	LogicalOperator string      `json:"logical_operator"`
	Conditions      []Condition `json:"conditions"`
}

// A Condition compares a field with a value.
type Condition struct {
	Name     Names  `json:"name"`
	Operator string `json:"comparison_operator"`
	// Value is a string, a float64, or a []any of both; nil where the operator
	// needs none.
	Value any `json:"value,omitempty"`
}

// Names of fields: one as text, or a list of which any may meet the condition.
type Names []string

// UnmarshalJSON reads a text or a list of texts.
func (n *Names) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*n = Names{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("name: want text or a list of texts")
	}
	*n = list
	return nil
}

// A Response is the body of an answer.
type Response struct {
	Records []Record `json:"records"`
}

// A Record is one piece of text that was found.
type Record struct {
	Content  string         `json:"content"`
	Score    float64        `json:"score"` // in [0,1]
	Title    string         `json:"title"`
	Metadata map[string]any `json:"metadata"` // never null
}

// A Failure is the body of an error.
type Failure struct {
	Code    int    `json:"error_code"`
	Message string `json:"error_msg"`
}

// Codes of failures: the first three are Dify's, the others ours.
const (
	CodeNoBearer = 1001
	CodeDenied   = 1002
	CodeNotFound = 2001
	CodeInvalid  = 4000
	CodeInternal = 5000
)

// ParseRequest reads and checks a body. Keys that it does not know are left
// alone: later releases may send more. Errors match storage.ErrInvalid or
// storage.ErrTooLarge and name the key.
func ParseRequest(body []byte) (*Request, error) {
	if len(body) > MaxBodyBytes {
		return nil, fmt.Errorf("%w: body of %d bytes, at most %d", storage.ErrTooLarge, len(body), MaxBodyBytes)
	}
	if !utf8.Valid(body) {
		return nil, storage.Invalidf("body: it is no UTF-8")
	}
	r := Request{Setting: Setting{TopK: DefaultTopK}}
	if err := json.Unmarshal(body, &r); err != nil {
		var t *json.UnmarshalTypeError
		if errors.As(err, &t) {
			return nil, storage.Invalidf("%s: %s does not fit", t.Field, t.Value)
		}
		return nil, storage.Invalidf("body: %v", err)
	}
	r.KnowledgeID, r.Query = strings.TrimSpace(r.KnowledgeID), strings.TrimSpace(r.Query)
	switch n := utf8.RuneCountInString(r.Query); {
	case r.KnowledgeID == "" || len(r.KnowledgeID) > 1000:
		return nil, storage.Invalidf("knowledge_id: want 1 to 1000 bytes")
	case service.IsBlank(r.Query):
		return nil, storage.Invalidf("query is blank")
	case n > MaxQuery:
		return nil, storage.Invalidf("query of %d characters, at most %d", n, MaxQuery)
	case r.Setting.TopK < 1 || r.Setting.TopK > MaxTopK:
		return nil, storage.Invalidf("retrieval_setting.top_k is %d, want 1 to %d", r.Setting.TopK, MaxTopK)
	case !(r.Setting.ScoreThreshold >= 0 && r.Setting.ScoreThreshold <= 1) || math.IsNaN(r.Setting.ScoreThreshold):
		return nil, storage.Invalidf("retrieval_setting.score_threshold is %v, want 0 to 1", r.Setting.ScoreThreshold)
	}
	if _, err := r.Condition.Compile(); err != nil {
		return nil, err
	}
	return &r, nil
}
