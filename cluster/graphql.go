package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/quarrysearch/quarry/storage"
)

// A selection asks for documents.
type selection struct {
	where *where
	limit int
	props []string // of the class

	byID    bool     // in the order of ids
	after   *string  // in the order of UUIDs, behind this one
	vectors []string // of the documents, by their names in the cluster

	near  string // the vector to search, and for what
	query []float32
	bm25  string // terms to search, and where
	in    []string
}

// A hit is a document as the cluster returns it.
type hit struct {
	Docid      string   `json:"docid"`
	Stored     string   `json:"stored"`
	List       []string `json:"list"` // the property that was asked for under this name
	Additional struct {
		UUID     string               `json:"id"`
		Score    string               `json:"score"`
		Distance float64              `json:"distance"`
		Vectors  map[string][]float32 `json:"vectors"`
	} `json:"_additional"`
	score float64 // Additional.Score, of a selection by bm25
}

// graphQL appends the selection, under the name r.
func (s *selection) graphQL(b []byte, class string) []byte {
	b = append(append(append(b, "Get{r:"...), class...), "(limit:"...)
	b = strconv.AppendInt(b, int64(s.limit), 10)
	if s.where != nil {
		b = s.where.graphQL(append(b, ",where:"...))
	}
	if s.after != nil {
		b = appendString(append(b, ",after:"...), *s.after)
	}
	if s.byID {
		b = append(b, `,sort:[{path:["docid"],order:asc}]`...)
	}
	if s.near != "" {
		b = appendVector(append(b, ",nearVector:{vector:"...), s.query)
		b = append(append(append(b, `,targetVectors:["`...), s.near...), `"]}`...)
	}
	if s.bm25 != "" {
		b = appendString(append(b, ",bm25:{query:"...), s.bm25)
		b = append(appendStrings(append(b, ",properties:"...), s.in), '}')
	}
	b = append(b, "){"...)
	for _, p := range s.props {
		b = append(append(b, p...), ' ')
	}
	b = append(b, "_additional{"...)
	switch {
	case s.near != "":
		b = append(b, "distance"...)
	case s.bm25 != "":
		b = append(b, "score"...)
	default:
		b = append(b, "id"...)
	}
	if len(s.vectors) > 0 {
		b = append(append(append(b, " vectors{"...), strings.Join(s.vectors, " ")...), '}')
	}
	return append(b, "}}}"...)
}

// get asks for documents.
func (c *Collection) get(ctx context.Context, s *selection) ([]hit, error) {
	a, err := c.ask(ctx, s.graphQL(nil, c.class))
	if err != nil {
		return nil, err
	}
	return a.hits(s)
}

// An answer is what the cluster says to a question in GraphQL.
type answer struct {
	Data struct {
		Get struct {
			R []hit `json:"r"`
		} `json:"Get"`
		Aggregate map[string][]group `json:"Aggregate"`
	} `json:"data"`
	Errors []struct {
		Message string `json:"message"`
	} `json:"errors"`
}

// A group counts documents, of one value where it was asked so.
type group struct {
	Meta struct {
		Count int `json:"count"`
	} `json:"meta"`
	GroupedBy struct {
		Value string `json:"value"`
	} `json:"groupedBy"`
}

// ask sends a question, the part between the outer braces.
func (c *Collection) ask(ctx context.Context, q []byte) (*answer, error) {
	body := appendString([]byte(`{"query":`), "{"+string(q)+"}")
	var a *answer
	_, err := c.client.call(ctx, request{method: http.MethodPost, path: "/v1/graphql", body: append(body, '}'), check: func(data []byte) (err error) {
		a, err = decodeAnswer(data)
		return err
	}})
	return a, err
}

// decodeAnswer reads an answer. Errors of the execution are failures, those of
// the question are not.
func decodeAnswer(data []byte) (*answer, error) {
	var a answer
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, &failure{fmt.Errorf("%w: answer of the cluster: %w", storage.ErrCorrupt, err), true}
	}
	if len(a.Errors) > 0 {
		text := words([]byte(a.Errors[0].Message))
		for _, s := range []string{"Syntax Error", "Cannot query field", "Unknown argument", "Unknown type", "Argument \"", "expected type"} {
			if strings.Contains(text, s) && !isPassing(text) {
				return nil, storage.Invalidf("the cluster does not take the question: %s", text)
			}
		}
		return nil, transientf("%s", text)
	}
	return &a, nil
}

// hits are the documents of an answer.
func (a *answer) hits(s *selection) ([]hit, error) {
	hits := a.Data.Get.R
	for i := range hits {
		if h := &hits[i]; s.bm25 != "" {
			var err error
			if h.score, err = strconv.ParseFloat(h.Additional.Score, 64); err != nil {
				return nil, fmt.Errorf("%w: score of the cluster: %q", storage.ErrCorrupt, h.Additional.Score)
			}
		}
	}
	return hits, nil
}

// aggregate appends a count of documents under a name, by the values of a
// property where one is given.
func (c *Collection) aggregate(b []byte, name string, w *where, by string, limit int) []byte {
	b = append(append(append(append(b, name...), ':'), c.class...), "(where:"...)
	b = w.graphQL(b)
	if by != "" {
		b = append(append(append(b, `,groupBy:["`...), by...), `"],limit:`...)
		b = strconv.AppendInt(b, int64(limit), 10)
	}
	b = append(b, "){meta{count}"...)
	if by != "" {
		b = append(b, "groupedBy{value}"...)
	}
	return append(b, '}')
}

// count returns the number of documents under a name of an answer.
func (a *answer) count(name string) (int, error) {
	g := a.Data.Aggregate[name]
	if len(g) != 1 || g[0].Meta.Count < 0 {
		return 0, fmt.Errorf("%w: the cluster counts %d times under %q", storage.ErrCorrupt, len(g), name)
	}
	return g[0].Meta.Count, nil
}
