package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/segment"
	"github.com/quarrysearch/quarry/storage"
)

type inspectCmd struct {
	engine.FilesArg
	Sections bool `help:"List every section of every segment."`
	JSON     bool `name:"json" help:"Print as JSON."`
}

func (inspectCmd) Help() string {
	return `Opens the index read-only and reads counts, not data.

    quarry inspect idx
    quarry inspect idx --sections

--json prints {"dir", "schema", "model", "stats": {"generation", "documents", "deleted", "segments", "mutable_bytes", "wal_bytes", "fields"}, "open_ms", "files": [{"name", "bytes", "docs", "deleted", "text": [{"field", "docs", "terms", "tokens", "postings"}], "vectors": [{"field", "vectors", "dim", "metric", "graph", "m", "ef_construction", "bits", "levels", "hot_bytes", "curve": [{"ef", "slack", "recall", "distances"}]}], "sections": [{"name", "offset", "bytes"}]}]}.`
}

// inspection is what inspect found.
type inspection struct {
	Dir    string       `json:"dir"`
	OpenMs float64      `json:"open_ms"`
	Schema index.Schema `json:"schema"`
	// Model is what the vectors were made by, where import --embed made them.
	Model *models.Record `json:"model,omitempty"`
	Stats index.Stats    `json:"stats"`
	Files []segmentFile  `json:"files"`
}

// segmentFile is a segment, opened beside the index for its counts.
type segmentFile struct {
	Name     string         `json:"name"`
	Bytes    int64          `json:"bytes"`
	Docs     int            `json:"docs"`
	Deleted  int            `json:"deleted"`
	Text     []textCounts   `json:"text"`
	Vectors  []vectorCounts `json:"vectors"`
	Sparse   []sparseCounts `json:"sparse,omitempty"`
	Sections []section      `json:"sections"`
}

type textCounts struct {
	Field    string `json:"field"`
	Docs     int    `json:"docs"`
	Terms    uint64 `json:"terms"`
	Tokens   uint64 `json:"tokens"`
	Postings uint64 `json:"postings"`
}

type vectorCounts struct {
	Field     string `json:"field"`
	Vectors   int    `json:"vectors"`
	Dim       int    `json:"dim"`
	Metric    string `json:"metric"`
	Graph     bool   `json:"graph"`
	M         int    `json:"m"`
	Construct int    `json:"ef_construction"`
	Bits      int    `json:"bits"`             // of a component of a code
	Levels    []int  `json:"levels,omitempty"` // nodes of level 1, 2, …
	HotBytes  int    `json:"hot_bytes"`        // a vector, touched by a walk
	// Curve is what each width of the walk was measured to give at the build.
	Curve []curvePoint `json:"curve,omitempty"`
}

type sparseCounts struct {
	Field    string `json:"field"`
	Docs     int    `json:"docs"`
	Terms    uint64 `json:"terms"`
	Postings uint64 `json:"postings"`
}

type curvePoint struct {
	Ef        int     `json:"ef"`
	Slack     float64 `json:"slack"` // candidates farther than (1+slack)·the k-th's distance end the walk; -1: nothing but the width does
	Recall    float64 `json:"recall"`
	Distances float64 `json:"distances"`
}

type section struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
}

// Run inspects.
func (c *inspectCmd) Run(e *console.Console) error {
	in := inspection{Dir: c.Dir}
	start := time.Now()
	ix, err := engine.OpenReader(c.Dir)
	if err != nil {
		return err
	}
	in.OpenMs = show.Round(float64(time.Since(start))/float64(time.Millisecond), 3)
	defer ix.Close() // opened for reading: nothing to lose
	in.Schema = ix.Schema()
	if in.Model, err = recordOf(c.Dir, &in.Schema); err != nil {
		return err
	}
	if in.Stats, err = ix.Stats(); err != nil {
		return err
	}
	if in.Files, err = inspectFiles(c.Dir, &in.Schema); err != nil {
		return err
	}
	if c.JSON {
		return e.JSON(in)
	}
	var b strings.Builder
	in.print(&b, e, c.Sections)
	return e.Printf("%s", b.String())
}

// inspectFiles opens the segments that the manifest names.
func inspectFiles(dir string, public *index.Schema) ([]segmentFile, error) {
	fs := storage.OS{}
	man, err := storage.ReadManifest(fs, dir)
	if err != nil {
		return nil, err
	}
	sc, err := segmentSchema(public)
	if err != nil {
		return nil, err
	}
	out := []segmentFile{}
	for _, entry := range man.Segments {
		f, err := inspectFile(fs, dir, entry, sc)
		if errors.Is(err, index.ErrNotFound) {
			continue // a writer beside us has merged it away
		}
		if err != nil {
			return nil, err
		}
		f.Docs, f.Deleted = int(entry.Docs), int(entry.Tombstones.Count)
		out = append(out, f)
	}
	return out, nil
}

func segmentSchema(public *index.Schema) (*segment.Schema, error) {
	sc := &segment.Schema{Text: map[string]*segment.TextField{}, Vectors: map[string]*segment.VectorField{}, Sparse: map[string]bool{}, Meta: public.Meta}
	for _, t := range public.Text {
		a, err := analysis.New(t.Analyzer)
		if err != nil { // one of a program's own; only counts are read here
			if a, err = analysis.New("standard"); err != nil {
				return nil, err
			}
		}
		sc.Text[t.Name] = &segment.TextField{Name: t.Name, Analyzer: a, NotStored: t.NotStored}
	}
	for _, v := range public.Vectors {
		sc.Vectors[v.Name] = &segment.VectorField{Name: v.Name}
	}
	for _, v := range public.Sparse {
		sc.Sparse[v.Name] = true
	}
	return sc, nil
}

func inspectFile(fs storage.FS, dir string, entry storage.SegmentEntry, sc *segment.Schema) (segmentFile, error) {
	name := storage.SegmentName(entry.Number)
	out := segmentFile{Name: name, Bytes: entry.Info.Size}
	file, err := storage.OpenSegment(fs, filepath.Join(dir, name), entry.Info)
	if err != nil {
		return out, err
	}
	for _, s := range file.Sections() {
		out.Sections = append(out.Sections, section{s.Name, s.Offset, s.Size})
	}
	seg, err := segment.Open(file, sc)
	if err != nil {
		return out, err
	}
	defer seg.Release() // opened for reading: nothing to lose
	for _, field := range sortedKeys(seg.Text) {
		st := seg.Text[field].Stats()
		out.Text = append(out.Text, textCounts{field, int(st.DocsWithField), st.Terms, st.TotalLength, st.Postings})
	}
	for _, field := range sortedKeys(seg.Vectors) {
		v := seg.Vectors[field].Info()
		c := vectorCounts{Field: field, Vectors: v.Vectors, Dim: v.Dim, Metric: v.Metric.String(), Graph: v.Graph,
			M: v.M, Construct: v.EfConstruction, Bits: v.Bits, Levels: v.Levels, HotBytes: v.HotBytes}
		for _, p := range v.Curve {
			c.Curve = append(c.Curve, curvePoint{p.Ef, show.Round(float64(p.Slack), 4), show.Round(float64(p.Recall), 4), show.Round(float64(p.Distances), 1)})
		}
		out.Vectors = append(out.Vectors, c)
	}
	for _, field := range sortedKeys(seg.Sparse) {
		st := seg.Sparse[field].Stats()
		out.Sparse = append(out.Sparse, sparseCounts{field, int(st.DocsWithField), st.Terms, st.Postings})
	}
	return out, nil
}

func (in *inspection) print(b *strings.Builder, e *console.Console, sections bool) {
	st := &in.Stats
	fmt.Fprintf(b, "%s: %d documents, %d deleted, generation %d, opened in %.1f ms\n", in.Dir, st.Documents, st.Deleted, st.Generation, in.OpenMs)
	fmt.Fprintf(b, "log %s, mutable segment %s\n\n", show.Bytes(st.WALBytes), show.Bytes(st.MutableBytes))
	if m := in.Model; m != nil {
		fmt.Fprintf(b, "vectors of %s by %s\n\n", show.Line(m.Field, 60), show.Line(m.Model.Name, 100))
	}
	rows := [][]string{{"FIELD", "KIND", "TYPE", "DOCUMENTS"}}
	for _, f := range st.Fields {
		rows = append(rows, []string{show.Line(f.Name, 60), f.Kind, f.Type, strconv.Itoa(f.Documents)})
	}
	b.WriteString(show.Table(rows, []bool{false, false, false, true}))
	rows = [][]string{{"SEGMENT", "SIZE", "DOCUMENTS", "DELETED"}}
	for _, s := range st.Segments {
		rows = append(rows, []string{s.Name, show.Bytes(s.Bytes), strconv.Itoa(s.Docs), strconv.Itoa(s.Deleted)})
	}
	b.WriteString("\n" + show.Table(rows, []bool{false, true, true, true}))
	for i := range in.Files {
		in.Files[i].print(b, e, sections)
	}
}

func (f *segmentFile) print(b *strings.Builder, e *console.Console, sections bool) {
	fmt.Fprintf(b, "\n%s\n", show.Bold(f.Name, e.Color))
	for _, t := range f.Text {
		fmt.Fprintf(b, "  text %s: %d documents, %d terms, %d tokens, %d postings\n", show.Line(t.Field, 60), t.Docs, t.Terms, t.Tokens, t.Postings)
	}
	for _, v := range f.Vectors {
		fmt.Fprintf(b, "  vectors %s: %d of dimension %d, %s", show.Line(v.Field, 60), v.Vectors, v.Dim, v.Metric)
		if v.Graph {
			fmt.Fprintf(b, ", %d bits, graph m %d, ef_construction %d, upper levels %v, %d hot bytes a vector\n", v.Bits, v.M, v.Construct, v.Levels, v.HotBytes)
		} else {
			b.WriteString(", no graph: scanned\n")
		}
	}
	for _, v := range f.Sparse {
		fmt.Fprintf(b, "  sparse %s: %d documents, %d terms, %d postings\n", show.Line(v.Field, 60), v.Docs, v.Terms, v.Postings)
	}
	rows := [][]string{}
	for _, s := range f.groups(sections) {
		rows = append(rows, []string{"  " + show.Line(s.Name, 80), show.Bytes(s.Bytes)})
	}
	b.WriteString(show.Table(rows, []bool{false, true}))
}

// groups are the sections, or the sums of those with one prefix.
func (f *segmentFile) groups(each bool) []section {
	if each {
		return f.Sections
	}
	var out []section
	for _, s := range f.Sections {
		name := s.Name
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			name = name[:i+1]
		}
		if n := len(out); n > 0 && out[n-1].Name == name {
			out[n-1].Bytes += s.Bytes
			continue
		}
		out = append(out, section{name, s.Offset, s.Bytes})
	}
	return out
}
