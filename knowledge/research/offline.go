package research

import (
	"context"
	"strings"
	"unicode"

	"github.com/quarrysearch/quarry/bm25/analysis"
)

// Offline plans and judges without a model: the same answer each time, in time
// linear in the texts. The zero value is ready and safe for concurrent use.
type Offline struct{}

var (
	_ Planner = Offline{}
	_ Judge   = Offline{}
)

// Plan returns a query a clause; more than MaxQueries clauses are put together.
func (o Offline) Plan(_ context.Context, q Question, _ *Budget) ([]string, error) {
	return o.plan(q), nil
}

func (Offline) plan(q Question) []string {
	n := min(len(q.Clauses), MaxQueries)
	out := make([]string, n)
	for i := range out {
		// The first ones get one more where it does not come out even.
		lo, hi := i*len(q.Clauses)/n, (i+1)*len(q.Clauses)/n
		out[i] = strings.Join(q.Clauses[lo:hi], " ")
	}
	return out
}

const (
	// sufficientCover is the share of a clause's terms that the evidence must
	// hold.
	sufficientCover = 0.6
	// countedScore is the share of the best score below which a passage counts
	// as found by the way.
	countedScore = 0.5
)

// Sufficient holds the terms of each clause against the evidence: a clause is
// covered when three in five of its terms occur in passages that score at least
// half of the best. What a clause lacks is asked for by the words that do not
// occur.
func (o Offline) Sufficient(_ context.Context, q Question, evidence []Passage, _ *Budget) (Verdict, error) {
	return o.judge(q, evidence), nil
}

func (Offline) judge(q Question, evidence []Passage) Verdict {
	if len(evidence) == 0 {
		return Verdict{} // the same words would find nothing again
	}
	best := 0.0
	for _, p := range evidence {
		best = max(best, p.Score)
	}
	a, s := analyzerOf(q.Text), new(analysis.Scratch)
	held := map[string]bool{}
	for _, p := range evidence {
		if p.Score < countedScore*best {
			continue
		}
		for _, text := range [...]string{p.Title, p.Text} {
			a.Tokens(s, text, func(t *analysis.Token) { held[string(t.Term)] = true })
		}
	}
	v := Verdict{Sufficient: true}
	for _, clause := range q.Clauses {
		if missing := lacks(a, s, clause, held); missing != "" {
			v.Sufficient = false
			v.Missing = append(v.Missing, missing)
		}
	}
	return v
}

// lacks returns the parts of a clause whose terms are not held, "" when enough
// are.
func lacks(a *analysis.Analyzer, s *analysis.Scratch, clause string, held map[string]bool) string {
	terms, lacking := map[string]bool{}, 0
	var parts [][2]int // of the clause; terms of scripts without spaces overlap
	a.QueryTokens(s, clause, func(t *analysis.Token) {
		term := string(t.Term)
		if terms[term] {
			return
		}
		terms[term] = true
		if held[term] {
			return
		}
		lacking++
		if last := len(parts) - 1; last >= 0 && t.Start <= parts[last][1] {
			parts[last][1] = max(parts[last][1], t.End)
		} else {
			parts = append(parts, [2]int{t.Start, t.End})
		}
	})
	if float64(lacking) <= (1-sufficientCover)*float64(len(terms)) {
		return ""
	}
	missing := make([]string, len(parts))
	for i, p := range parts {
		missing[i] = clause[p[0]:p[1]]
	}
	return strings.Join(missing, " ")
}

// analyzerOf picks the analyzer of a question by its script. It need not be the
// one of the index: terms of questions are only compared with terms of passages
// that it made, too.
func analyzerOf(text string) *analysis.Analyzer {
	language := "en"
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Hiragana, unicode.Katakana):
			return analysis.ForLanguage("ja")
		case unicode.Is(unicode.Han, r):
			language = "zh"
		case unicode.Is(unicode.Cyrillic, r):
			language = "ru"
		}
	}
	return analysis.ForLanguage(language)
}
