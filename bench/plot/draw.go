package main

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	width  = 16 * vg.Centimeter
	height = 9 * vg.Centimeter
)

// colors tell engines apart, for eyes that see no red or no green, too.
var colors = []color.RGBA{
	{0x00, 0x50, 0x9e, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0x80, 0x66, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x55, 0x55, 0x55, 0xff}, {0xe6, 0x9f, 0x00, 0xff},
}

var shapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}}

// leastRecall is where the curves begin.
const leastRecall = 0.8

// curves draws speed over recall on one set.
func curves(lines []line, set string) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = set
	p.X.Label.Text, p.Y.Label.Text = "recall@10", "queries a second, one thread"
	p.X.Min, p.X.Max = leastRecall, 1
	p.X.Tick.Marker = ticks{0.8, 0.85, 0.9, 0.95, 0.99, 1}
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
	p.Add(plotter.NewGrid())
	lowest := math.Inf(1)
	for i, engine := range engines(lines, "curve", set) {
		var xys plotter.XYs
		for _, pt := range frontier(lines, engine, set) {
			if pt.recall >= leastRecall {
				xys = append(xys, plotter.XY{X: pt.recall, Y: pt.qps})
				lowest = min(lowest, pt.qps)
			}
		}
		if len(xys) == 0 {
			continue
		}
		curve, points, err := plotter.NewLinePoints(xys)
		if err != nil {
			return nil, fmt.Errorf("%s on %s: %w", engine, set, err)
		}
		curve.Color, points.Color = colors[i%len(colors)], colors[i%len(colors)]
		curve.Width, points.Shape = vg.Points(1.2), shapes[i%len(shapes)]
		if engine == ours {
			curve.Width = vg.Points(2.4)
		}
		p.Add(curve, points)
		p.Legend.Add(engine, curve, points)
	}
	p.Legend.Top, p.Legend.XOffs = true, vg.Points(-4)
	if !math.IsInf(lowest, 1) {
		p.Y.Min = math.Pow10(int(math.Floor(math.Log10(lowest))))
	}
	return p, nil
}

// builds draws the build times on one set.
func builds(lines []line, set string) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = set
	p.Y.Label.Text = "build, seconds"
	p.Y.Min = 0
	var names []string
	for i, engine := range engines(lines, "build", set) {
		b, ok := fastest(lines, engine, set)
		if !ok {
			continue
		}
		bar, err := plotter.NewBarChart(plotter.Values{b.BuildS}, vg.Points(24))
		if err != nil {
			return nil, fmt.Errorf("%s on %s: %w", engine, set, err)
		}
		bar.XMin, bar.Color, bar.LineStyle.Width = float64(len(names)), colors[i%len(colors)], 0
		p.Add(bar)
		name := engine
		if b.M > 0 {
			name = fmt.Sprintf("%s M %d", engine, b.M)
		}
		names = append(names, name)
	}
	p.NominalX(names...)
	return p, nil
}

// cells is the filtered grid of an engine on a set, as a heat map has it: times
// as multiples of the best single way.
type cells struct {
	shares       []float64
	correlations []string
	ratio        map[[2]int]line
}

func (c cells) Dims() (int, int)   { return len(c.shares), len(c.correlations) }
func (c cells) X(i int) float64    { return float64(i) }
func (c cells) Y(i int) float64    { return float64(i) }
func (c cells) Z(i, j int) float64 { return c.of(i, j) }

func (c cells) of(i, j int) float64 {
	l, ok := c.ratio[[2]int{i, j}]
	if !ok || l.BestUs == 0 {
		return math.NaN()
	}
	return min(2, l.AvgUs/l.BestUs)
}

// filtered draws the grid: colors tell the time as a multiple of the best single
// way, the writing tells µs and recall.
func filtered(lines []line, set string) (*plot.Plot, error) {
	c := cells{correlations: []string{"-", "0", "+"}, ratio: map[[2]int]line{}}
	var own []line
	for _, l := range lines {
		if l.Kind == "filtered" && l.Set == set && l.Engine == ours {
			own = append(own, l)
			if !slices.Contains(c.shares, l.Share) {
				c.shares = append(c.shares, l.Share)
			}
		}
	}
	if len(own) == 0 {
		return nil, nil
	}
	slices.SortFunc(c.shares, func(a, b float64) int { return int(math.Copysign(1, b-a)) })
	labels := plotter.XYLabels{}
	for _, l := range own {
		i, j := slices.Index(c.shares, l.Share), slices.Index(c.correlations, l.Correlation)
		if j < 0 {
			return nil, fmt.Errorf("%s: correlation %q is none of +, 0, -", set, l.Correlation)
		}
		c.ratio[[2]int{i, j}] = l
		labels.XYs = append(labels.XYs, plotter.XY{X: float64(i), Y: float64(j)})
		labels.Labels = append(labels.Labels, fmt.Sprintf("%.0f µs\n%.3f", l.AvgUs, l.Recall))
	}
	p := plot.New()
	p.Title.Text = set + ": µs and recall; dark where the best single way is faster"
	p.X.Label.Text, p.Y.Label.Text = "documents that pass, %", "correlation with the query"
	heat := plotter.NewHeatMap(c, shades{})
	heat.Min, heat.Max = 0, 2
	p.Add(heat)
	written, err := plotter.NewLabels(labels)
	if err != nil {
		return nil, err
	}
	for i := range written.TextStyle {
		written.TextStyle[i].XAlign, written.TextStyle[i].YAlign = text.XCenter, text.YCenter
		written.TextStyle[i].Font.Size = vg.Points(9)
	}
	p.Add(written)
	var x, y names
	for i, s := range c.shares {
		x = append(x, plot.Tick{Value: float64(i), Label: fmt.Sprintf("%g", s)})
	}
	for i, s := range c.correlations {
		y = append(y, plot.Tick{Value: float64(i), Label: s})
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = x, y
	return p, nil
}

// shades go from white, where nothing is lost, to a warm color.
type shades struct{}

func (shades) Colors() []color.Color {
	var out []color.Color
	for i := range 17 {
		t := math.Max(0, float64(i)/16*2-1) // up to the best single way it stays white
		out = append(out, color.RGBA{0xff, uint8(0xff - 90*t), uint8(0xff - 200*t), 0xff})
	}
	return out
}

var _ palette.Palette = shades{}

type names []plot.Tick

func (n names) Ticks(_, _ float64) []plot.Tick { return n }

type ticks []float64

func (t ticks) Ticks(lo, hi float64) (out []plot.Tick) {
	for _, v := range t {
		if v >= lo && v <= hi {
			out = append(out, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
		}
	}
	return out
}

// logTicks are 1, 2 and 5 of each power of ten.
type logTicks struct{}

func (logTicks) Ticks(lo, hi float64) (out []plot.Tick) {
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for _, f := range []float64{1, 2, 5} {
			if v := f * math.Pow(10, e); v >= lo && v <= hi {
				out = append(out, plot.Tick{Value: v, Label: fmt.Sprintf("%.0f", v)})
			}
		}
	}
	return out
}
