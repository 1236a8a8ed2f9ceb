package space

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/storage"
)

// A Request asks published spaces for evidence.
type Request struct {
	// Run says who asks, and which spaces: 1 to 10, trimmed, repeated ones
	// dropped, in the order that decides ties and which failure is named.
	Run catalog.Run
	// Query is text, never a syntax: trimmed, not blank, at most MaxQuery code
	// points.
	Query string
	// Mode is fast, deep or research; "" is the default mode of each space's
	// published profile.
	Mode catalog.Mode
	// TopN is how much evidence there is at most, of all spaces together: 1 to
	// 100; default 10.
	TopN    int
	Filters Filters
	// Verify checks each piece of evidence against the stored source before
	// it is returned, as Service.Verify does: one that does not hold fails the
	// retrieval. It costs one read of each source named.
	Verify bool
}

// Limits of a Request.
const (
	MaxQuery    = 16000 // code points
	MaxTopN     = 100
	DefaultTopN = 10
	maxSpaceID  = 1000 // code points
)

// normalize checks a request, fills in defaults and compiles the filters.
func (r *Request) normalize() (filter.Filter, error) {
	none := filter.Filter{}
	r.Query = strings.TrimSpace(strings.ToValidUTF8(r.Query, "\uFFFD"))
	if r.TopN == 0 {
		r.TopN = DefaultTopN
	}
	n := utf8.RuneCountInString(r.Query)
	switch {
	case n == 0:
		return none, storage.Invalidf("query is blank")
	case n > MaxQuery:
		return none, storage.Invalidf("query of %d characters, at most %d", n, MaxQuery)
	case r.TopN < 1 || r.TopN > MaxTopN:
		return none, storage.Invalidf("top_n %d: want 1 to %d", r.TopN, MaxTopN)
	}
	if r.Mode != "" {
		if err := r.Mode.Validate(); err != nil {
			return none, err
		}
	}
	var ids []string
	for _, id := range r.Run.Spaces {
		id = strings.TrimSpace(id)
		if id == "" || utf8.RuneCountInString(id) > maxSpaceID {
			return none, storage.Invalidf("spaces: %.80q: want the id of a space", id)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 || len(ids) > catalog.MaxSpaces {
		return none, storage.Invalidf("spaces: %d, want 1 to %d", len(ids), catalog.MaxSpaces)
	}
	r.Run.Spaces = ids
	return r.Filters.compile()
}
