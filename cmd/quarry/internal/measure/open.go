package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
)

type openCmd struct {
	engine.FilesArg
	Query  string  `placeholder:"Q.fvecs" help:"Search with these vectors, and tell what that keeps in memory."`
	Recall float64 `default:"0.95" help:"Recall wanted (target_recall)."`
	Set    string  `placeholder:"NAME" help:"Name of the set, for the report; default the index's folder."`
	JSON   bool    `name:"json" help:"Print JSON lines."`
}

func (openCmd) Help() string {
	return `    quarry bench open idx
    quarry bench open idx --query query.fvecs

--json prints {"kind": "open", "engine", "set", "open_ms", "rss_bytes"}: opening read-only with a snapshot taken, and the resident memory of the process right after it, the program's own included. With --query also {"kind": "memory", "engine", "set", "vectors", "resident_bytes", "raw_bytes", "bytes_a_vector"}, after three passes over the queries: resident_bytes is by how much the process has grown since before the opening (and at least raw_bytes: in a small index memory given back meanwhile hides the growth), raw_bytes the part of that which is full vectors as they lie in the file, and bytes_a_vector the rest, for each vector. Figures are 0 where the system does not tell.`
}

// Run measures.
func (c *openCmd) Run(ctx context.Context, e *console.Console) (err error) {
	set := c.Set
	if set == "" {
		set = filepath.Base(filepath.Clean(c.Dir))
	}
	var queries bench.Matrix[float32]
	if c.Query != "" {
		if queries, err = bench.ReadVectors(c.Query, 0); err != nil {
			return err
		}
	}
	freeMemory()
	before := resident()
	ix, snap, line, err := openMeasured(c.Dir, set)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snap.Close(), ix.Close()) }()
	report := e.Report(c.JSON)
	if err := report(line); err != nil || c.Query == "" {
		return err
	}
	for range 3 {
		for i := range queries.Rows() {
			q := index.Query{K: 10, Vector: &index.VectorQuery{Vector: queries.Row(i), TargetRecall: c.Recall}}
			if _, err := snap.Search(ctx, q); err != nil {
				return err
			}
		}
	}
	memory, err := memoryOf(c.Dir, set, snap.Len(), before)
	if err != nil {
		return err
	}
	return report(memory)
}

// openLine tells what opening took.
type openLine struct {
	Kind     string  `json:"kind"` // "open"
	Engine   string  `json:"engine"`
	Set      string  `json:"set,omitempty"`
	OpenMs   float64 `json:"open_ms"`
	RSSBytes int64   `json:"rss_bytes"`
}

func (l openLine) String() string {
	return fmt.Sprintf("%s open %.2f ms, resident %s", l.Engine, l.OpenMs, show.Bytes(l.RSSBytes))
}

// openMeasured opens an index and tells what it took. Memory that is free is
// given back before, so that what is resident is in use.
func openMeasured(dir, set string) (*index.Index, *index.Snapshot, openLine, error) {
	freeMemory()
	start := time.Now()
	ix, err := engine.OpenReader(dir)
	if err != nil {
		return nil, nil, openLine{}, err
	}
	snap, err := ix.Snapshot()
	if err != nil {
		return nil, nil, openLine{}, errors.Join(err, ix.Close())
	}
	took := time.Since(start)
	return ix, snap, openLine{"open", engineName, set, show.Round(float64(took)/float64(time.Millisecond), 2), resident()}, nil
}

// freeMemory gives back what is not in use.
func freeMemory() { debug.FreeOSMemory() }

// resident is the resident memory of this process in bytes, 0 when the system
// does not tell.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	if fields := strings.Fields(string(b)); len(fields) > 1 {
		if pages, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			return pages * int64(os.Getpagesize())
		}
	}
	return 0
}

// memoryLine tells what searching keeps resident.
type memoryLine struct {
	Kind     string  `json:"kind"` // "memory"
	Engine   string  `json:"engine"`
	Set      string  `json:"set,omitempty"`
	Vectors  int     `json:"vectors"`
	Resident int64   `json:"resident_bytes"`
	Raw      int64   `json:"raw_bytes"`
	Each     float64 `json:"bytes_a_vector"`
}

func (l memoryLine) String() string {
	return fmt.Sprintf("%s memory %s, full vectors %s of it, %.0f bytes a vector beyond them", l.Engine, show.Bytes(l.Resident), show.Bytes(l.Raw), l.Each)
}

// memoryOf tells by how much the process has grown, and of what.
func memoryOf(dir, set string, vectors int, before int64) (memoryLine, error) {
	freeMemory()
	line := memoryLine{Kind: "memory", Engine: engineName, Set: set, Vectors: vectors}
	now := resident()
	if now == 0 {
		return line, nil
	}
	raw, err := residentSections(dir, "/raw")
	if err != nil {
		return line, err
	}
	// Memory that others gave back meanwhile can hide the growth; what is mapped
	// and present is certain.
	line.Resident, line.Raw = max(raw, now-before), raw
	line.Each = show.Round(float64(line.Resident-raw)/float64(max(1, vectors)), 1)
	return line, nil
}
