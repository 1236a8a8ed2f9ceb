package bench

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"
)

// A Ranked is one document of a ranking.
type Ranked struct {
	ID    string
	Score float64
}

// A RunWriter writes rankings as a TREC run file, a line a document:
//
//	query Q0 document rank score tag
//
// trec_eval orders by score, read as float32, and breaks ties by document name,
// not by rank. So the scores written fall strictly in float32: one that does not
// is lowered to the next float32 under the one before it, and the file keeps the
// engine's order. Not safe for concurrent use.
type RunWriter struct {
	w   *bufio.Writer
	tag string
}

// NewRunWriter writes to w under a tag (the run's name; "quarry" when empty).
func NewRunWriter(w io.Writer, tag string) *RunWriter {
	if tag == "" {
		tag = "quarry"
	}
	return &RunWriter{w: bufio.NewWriter(w), tag: tag}
}

// Query writes one query's ranking, best first. Ids and tag with white space,
// which would shift the columns, and NaN or infinite scores are errors.
func (r *RunWriter) Query(id string, ranking []Ranked) error {
	for _, word := range []string{id, r.tag} {
		if err := checkWord(word); err != nil {
			return err
		}
	}
	last := float32(math.Inf(1))
	for i, d := range ranking {
		if err := checkWord(d.ID); err != nil {
			return err
		}
		if d.Score-d.Score != 0 {
			return fmt.Errorf("bench: score %v of %q for query %q is not finite", d.Score, d.ID, id)
		}
		score := float32(min(max(d.Score, -1e38), 1e38)) // leaves room to fall below
		if score >= last {
			score = math.Nextafter32(last, float32(math.Inf(-1)))
		}
		last = score
		if _, err := fmt.Fprintf(r.w, "%s Q0 %s %d %.9g %s\n", id, d.ID, i+1, score, r.tag); err != nil {
			return fmt.Errorf("bench: run file: %w", err)
		}
	}
	return nil
}

// Flush writes out what is held back; call it once at the end.
func (r *RunWriter) Flush() error {
	if err := r.w.Flush(); err != nil {
		return fmt.Errorf("bench: run file: %w", err)
	}
	return nil
}

func checkWord(s string) error {
	if s == "" || len(strings.Fields(s)) != 1 || strings.TrimSpace(s) != s {
		return fmt.Errorf("bench: %q cannot stand in a run file: it is empty or has white space", s)
	}
	return nil
}
