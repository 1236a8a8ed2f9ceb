package engine

import (
	"slices"
	"strings"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/index"
)

// Analyzer is the name of the analyzer that the flags give, "" for none.
func Analyzer(name, lang string) (string, error) {
	switch {
	case name == "auto" && lang == "":
		return "", console.Usagef("--analyzer auto needs --lang")
	case name != "" && name != "auto" && lang != "":
		return "", console.Usagef("--analyzer %s and --lang %s are given both", name, lang)
	case lang != "":
		return analysis.ForLanguage(lang).Name(), nil
	case name != "":
		return name, CheckAnalyzer("--analyzer", name)
	}
	return "", nil
}

// CheckAnalyzer tells whether there is an analyzer of the name; where is what the
// error begins with.
func CheckAnalyzer(where, name string) error {
	if !slices.Contains(analysis.Names(), name) {
		return console.Usagef("%s: no analyzer %q; there are %s", where, name, strings.Join(analysis.Names(), ", "))
	}
	return nil
}

// SetMetric sets a field's metric by its name.
func SetMetric(v *index.VectorField, where, name string) error {
	switch name {
	case "cos":
		name = "cosine"
	case "ip":
		name = "dot"
	}
	for v.Metric = 0; v.Metric.Valid(); v.Metric++ {
		if v.Metric.String() == name {
			return nil
		}
	}
	return console.Usagef("%s: metric %q is none of cosine, dot, l2", where, name)
}

// FusionMethod resolves --fusion. Ranks are what two legs always have in common;
// scores are better where they compare, which a model's floor makes them do.
func FusionMethod(flag string, v *index.VectorQuery) index.FusionMethod {
	if flag == "weighted" || flag == "auto" && v != nil && v.Floor > 0 {
		return index.Weighted
	}
	return index.RRF
}
