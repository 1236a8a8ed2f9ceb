package main

import (
	"fmt"
	"io"
	"math"
)

// table writes a table in Markdown: a row for each engine on each set.
func table(w io.Writer, lines []line) error {
	if _, err := fmt.Fprint(w, "| set | engine | queries/s at recall 0.95 | at 0.99 | build, s | MB on disk |\n|---|---|--:|--:|--:|--:|\n"); err != nil {
		return err
	}
	for _, set := range sets(lines, "curve") {
		reference := [2]float64{}
		for _, engine := range engines(lines, "curve", set) {
			f := frontier(lines, engine, set)
			row := fmt.Sprintf("| %s | %s |", set, engine)
			for i, recall := range []float64{0.95, 0.99} {
				qps := at(f, recall)
				if engine == ours {
					reference[i] = qps
				}
				switch {
				case qps == 0:
					row += " never |"
				case engine != ours && reference[i] > 0:
					row += fmt.Sprintf(" %.0f (%.2f ×) |", round3(qps), reference[i]/qps)
				default:
					row += fmt.Sprintf(" %.0f |", round3(qps))
				}
			}
			if b, ok := fastest(lines, engine, set); ok {
				row += fmt.Sprintf(" %.1f |", b.BuildS)
				if b.Bytes > 0 {
					row += fmt.Sprintf(" %.0f |", float64(b.Bytes)/1e6)
				} else {
					row += " |"
				}
			} else {
				row += " | |"
			}
			if _, err := fmt.Fprintln(w, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// round3 keeps three digits that say something.
func round3(x float64) float64 {
	if x <= 0 {
		return 0
	}
	p := math.Pow10(2 - int(math.Floor(math.Log10(x))))
	return math.Round(x*p) / p
}
