package main

import (
	"fmt"
	"io"
	"math"
)

// table writes tables in Markdown, one for each kind of measurement there is.
func table(w io.Writer, lines []line) error {
	if len(sets(lines, "curve")) > 0 {
		if err := curveTable(w, lines); err != nil {
			return err
		}
	}
	for _, t := range others {
		head := false
		for _, l := range lines {
			if l.Kind != t.kind {
				continue
			}
			if !head {
				head = true
				if _, err := fmt.Fprintf(w, "\n%s\n", t.head); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintln(w, t.row(l)); err != nil {
				return err
			}
		}
	}
	return nil
}

// others are the tables with a row for each line.
var others = []struct {
	kind, head string
	row        func(line) string
}{
	{"parallel", "| set | engine | threads | queries/s | to one |\n|---|---|--:|--:|--:|", func(l line) string {
		return fmt.Sprintf("| %s | %s | %d | %.0f | %.2f × |", l.Set, l.Engine, l.Threads, round3(l.QPS), l.Ratio)
	}},
	{"memory", "| set | engine | bytes a vector, beyond the full ones |\n|---|---|--:|", func(l line) string {
		return fmt.Sprintf("| %s | %s | %.0f |", l.Set, l.Engine, l.Each)
	}},
	{"cold", "| set | engine | opened, ms | first query, ms | first 100, p50 µs |\n|---|---|--:|--:|--:|", func(l line) string {
		return fmt.Sprintf("| %s | %s | %.1f | %.1f | %.1f |", l.Set, l.Engine, l.OpenMs, l.FirstMs, l.P50Us)
	}},
	{"churn", "| set | engine | state | replaced | recall | avg µs | MB on disk |\n|---|---|---|--:|--:|--:|--:|", func(l line) string {
		return fmt.Sprintf("| %s | %s | %s | %d × | %.4f | %.1f | %.0f |", l.Set, l.Engine, l.State, l.Round, l.Recall, l.AvgUs, float64(l.Bytes)/1e6)
	}},
	{"filtered", "| set | engine | share | lies | recall | avg µs | best single way, µs | times it | times the exact scan |\n|---|---|--:|---|--:|--:|--:|--:|--:|", func(l line) string {
		return fmt.Sprintf("| %s | %s | %g %% | %s | %.4f | %.1f | %s, %.1f | %.2f | %.2f |", l.Set, l.Engine, l.Share, l.Correlation, l.Recall, l.AvgUs, l.Best, l.BestUs,
			part(l.AvgUs, l.BestUs), part(l.AvgUs, l.ExactUs))
	}},
	{"text index", "| set | engine | indexed, s | MB on disk |\n|---|---|--:|--:|", func(l line) string {
		return fmt.Sprintf("| %s | %s | %.1f | %.0f |", l.Set, l.Engine, l.IndexS, float64(l.Bytes)/1e6)
	}},
	{"text", "| set | engine | mode | filter | k | avg µs | p50 | p99 |\n|---|---|---|---|--:|--:|--:|--:|", func(l line) string {
		mode, filter := l.Mode, ""
		if l.Share > 0 {
			filter = fmt.Sprintf("%g %%", l.Share)
		}
		if l.K == 0 {
			mode = "count of " + mode
		}
		return fmt.Sprintf("| %s | %s | %s | %s | %d | %.1f | %.1f | %.1f |", l.Set, l.Engine, mode, filter, l.K, l.AvgUs, l.P50Us, l.P99Us)
	}},
	{"hybrid", "| set | engine | mode | filter | depth | threads | avg µs | p50 | p99 |\n|---|---|---|---|--:|--:|--:|--:|--:|", func(l line) string {
		return fmt.Sprintf("| %s | %s | %s | %s | %d | %d | %.1f | %.1f | %.1f |", l.Set, l.Engine, l.Mode, l.Filter, l.Depth, l.Threads, l.AvgUs, l.P50Us, l.P99Us)
	}},
}

// curveTable has a row for each engine on each set: speed at two recalls, and the
// build.
func curveTable(w io.Writer, lines []line) error {
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

// part is a as a multiple of b, 0 where there is no b.
func part(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}
