package kb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge"
)

type searchCmd struct {
	engine.StoreArg
	Query []string `arg:"" help:"What to look for; never read as a syntax."`

	Base     []string `short:"b" placeholder:"ID" help:"Bases to search, or ID@N for generations; default all bases."`
	Mode     string   `enum:"vector,keyword,hybrid" default:"hybrid" help:"Legs to run: vector, keyword, hybrid. A base without embedder is searched by keyword."`
	Fusion   string   `enum:"rrf,weighted" default:"rrf" help:"How hybrid joins its legs: by ranks (rrf), or by scores (weighted), which is better with models that declare a floor, such as e5."`
	K        int      `name:"k" short:"k" default:"5" help:"Passages wanted, 1 to 1000."`
	Depth    int      `placeholder:"N" help:"Hits that each leg of each base gives; default 4 k, at least 50."`
	MinScore float64  `placeholder:"X" help:"Drop passages with a lower final score, 0 to 1."`
	Filter   string   `short:"f" placeholder:"EXPR" help:"Only chunks that match, such as 'language = \"de\" and format = \"pdf\"'."`
	rerankFlag
	RerankKeep bool `help:"Keep the first order, with a flag, when the reranker fails."`
	Partial    bool `help:"Answer with what works when a base or a leg fails, with a flag."`
	Context    int  `placeholder:"TOKENS" help:"Print one text for a language model instead, of at most so many tokens, with its sources."`
	Full       bool `help:"Print passages whole."`
	JSON       bool `name:"json" help:"Print the result as JSON."`
}

func (searchCmd) Help() string {
	return `Opens the store read-only: a writer may be at work beside it.

    quarry kb search store how do I get a refund --base docs,faq
    quarry kb search store "ERR_CONN_RESET" --mode keyword
    quarry kb search store reset password -k 20 --rerank late --min-score 0.5
    quarry kb search store vacation rules --filter 'language = "de" and modified >= 2024-01-01'
    quarry kb search store refund --context 2000

A filter may ask for document_id, source, title, format, language, tags, authors, created, modified, entities, freshness, node_kind, source_id, page, section, chunk_index, and for what documents say of themselves as meta.NAME. Scores are in [0,1] and do not depend on the other hits.

--json prints one object: {"items": [{"content", "score", "score_kind", "retrieval_score", "keyword", "vector", "metadata": {"source", "page", "page_end", "knowledge_base_id", "chunk_index", "chunk_id", "document_id", "document_version", "artifact_hash", "title", "section_path", "start_offset", "end_offset", "source_start", "source_end", …}}], "query", "mode", "merge", "degradation_flags", "errors", "notes", "bases", "elapsed_ns"}, and with --context "context": {"text", "sources", "parts", "truncated", "runes", "tokens"}. Offsets are bytes of the document's text.`
}

// Validate checks the flags.
func (c *searchCmd) Validate() error {
	switch {
	case c.K < 1 || c.K > knowledge.MaxTopK:
		return fmt.Errorf("-k %d: want 1 to %d", c.K, knowledge.MaxTopK)
	case c.Context < 0:
		return fmt.Errorf("--context %d: want a number of tokens", c.Context)
	case !(c.MinScore >= 0 && c.MinScore <= 1):
		return fmt.Errorf("--min-score %v: want 0 to 1", c.MinScore)
	case strings.TrimSpace(strings.Join(c.Query, " ")) == "":
		return errors.New("nothing to search for")
	}
	if c.Filter != "" {
		if _, err := filter.Parse(c.Filter); err != nil {
			return fmt.Errorf("--filter: %w", err)
		}
	}
	return c.rerankFlag.validate()
}

// answer is what --json prints.
type answer struct {
	*knowledge.Response
	Context *knowledge.Context `json:"context,omitempty"`
}

// Run searches.
func (c *searchCmd) Run(ctx context.Context, s *session) (err error) {
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	store, ids, err := c.open(ctx, open)
	if err != nil {
		return err
	}
	req := knowledge.Request{Bases: ids, Query: strings.Join(c.Query, " "), Mode: knowledge.Mode(c.Mode), Fusion: knowledge.Fusion(c.Fusion), TopK: c.K, Depth: c.Depth,
		ScoreThreshold: c.MinScore, RerankKeep: c.RerankKeep}
	if c.Filter != "" {
		if req.Filter, err = filter.Parse(c.Filter); err != nil {
			return err
		}
	}
	if c.Partial {
		req.OnError = knowledge.Partial
	}
	if req.Rerank, err = c.reranker(ctx, open); err != nil {
		return err
	}
	r, err := store.Search(ctx, req)
	if err != nil {
		return err
	}
	if r.Items == nil {
		r.Items = []knowledge.Item{}
	}
	out := answer{Response: r}
	if c.Context > 0 {
		assembled, err := knowledge.AssembleContext(r.Items, knowledge.ContextOptions{MaxTokens: c.Context})
		if err != nil {
			return err
		}
		out.Context = &assembled
	}
	if c.JSON {
		return s.JSON(out)
	}
	return c.print(s, out)
}

// open opens the store with what the search needs, and tells the bases. With
// --partial a base that is missing is the search's to tell.
func (c *searchCmd) open(ctx context.Context, open *resources) (*knowledge.Store, []string, error) {
	infos, err := bases(ctx, c.Store)
	if err != nil {
		return nil, nil, err
	}
	there := map[string]knowledge.BaseInfo{}
	ids := c.Base
	for _, b := range infos {
		there[b.ID] = b
		if len(c.Base) == 0 {
			ids = append(ids, b.ID)
		}
	}
	var wanted []knowledge.BaseInfo
	for _, id := range ids {
		b, ok := there[id]
		if !ok && strings.Contains(id, "@") {
			b, err = frozen(ctx, c.Store, id)
			ok = err == nil
		}
		switch {
		case !ok && !c.Partial:
			return nil, nil, noBase(c.Store, id)
		case ok && c.Mode != string(knowledge.Keyword):
			wanted = append(wanted, b)
		}
	}
	store, err := open.store(ctx, c.Store, false, embeddersOf(wanted)...)
	return store, ids, err
}

func (c *searchCmd) print(s *session, a answer) error {
	var b strings.Builder
	if a.Context != nil {
		b.WriteString(clean(a.Context.Text) + "\n\n")
		for _, src := range a.Context.Sources {
			fmt.Fprintf(&b, "[%d] %s%s  (%s, version %d)\n", src.Number, show.Line(src.Source, 0), pages(src.Pages...), src.KnowledgeBaseID, src.DocumentVersion)
		}
		cut := ""
		if a.Context.Truncated {
			cut = ", cut at the budget"
		}
		fmt.Fprintf(&b, "%d tokens%s; ", a.Context.Tokens, cut)
	} else {
		for i := range a.Items {
			item(&b, i+1, &a.Items[i], s.Color, c.Full)
		}
	}
	for _, f := range a.Flags {
		s.Notef("degraded: %s", show.Line(f, 0))
	}
	for _, e := range a.Errors {
		s.Notef("%s: %s", e.Base, show.Line(e.Message, 0))
	}
	for _, n := range a.Notes {
		s.Notef("note: %s", show.Line(n, 0))
	}
	fmt.Fprintf(&b, "%s of %s, %s, %s\n", console.Count(len(a.Items), "passage"), console.Count(len(a.Bases), "base"), modes(a.Response), a.Elapsed.Round(10*time.Microsecond))
	return s.Printf("%s", b.String())
}

// modes are how the bases were searched: one without a model by keyword.
func modes(r *knowledge.Response) string {
	var out []string
	for _, b := range r.Bases {
		if m := string(b.Mode); m != "" && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return cmp.Or(strings.Join(out, " and "), string(r.Mode))
}

// item prints one passage with what is needed to cite it.
func item(b *strings.Builder, rank int, it *knowledge.Item, color, full bool) {
	m := &it.Metadata
	page := []int{}
	if m.Page > 0 {
		page = append(page, m.Page)
		if m.PageEnd > m.Page {
			page = append(page, m.PageEnd)
		}
	}
	fmt.Fprintf(b, "%3d  %.4f  %s%s", rank, it.Score, show.Bold(show.Line(m.Source, 0), color), pages(page...))
	if path := section(m.Title, m.SectionPath); path != "" {
		fmt.Fprintf(b, "  %s", path)
	}
	fmt.Fprintf(b, "  %s\n", show.Faint(fmt.Sprintf("[%s #%d, bytes %d–%d%s]", m.KnowledgeBaseID, m.ChunkIndex, m.StartOffset, m.EndOffset, legs(it)), color))
	if full {
		fmt.Fprintf(b, "%s\n", indent(it.Content))
		return
	}
	fmt.Fprintf(b, "     %s\n", show.Line(it.Content, 240))
}

// section is a section path on one line, behind the title if that is not its
// first part.
func section(title string, path []string) string {
	if len(path) == 0 || title != "" && path[0] != title {
		path = append([]string{title}, path...)
	}
	return show.Line(strings.Trim(strings.Join(path, " > "), "> "), 100)
}

// pages is ", p. 3", ", p. 3–4" or nothing.
func pages(list ...int) string {
	if len(list) == 0 {
		return ""
	}
	lo, hi := math.MaxInt, 0
	for _, p := range list {
		lo, hi = min(lo, p), max(hi, p)
	}
	if lo == hi {
		return fmt.Sprintf(", p. %d", lo)
	}
	return fmt.Sprintf(", p. %d–%d", lo, hi)
}

// legs tells where each leg of a hybrid search had an item, and what a reranker
// changed.
func legs(it *knowledge.Item) string {
	out := ""
	leg := func(name string, l *index.Leg) {
		if l != nil {
			out += fmt.Sprintf(", %s #%d", name, l.Rank)
		}
	}
	if it.Keyword != nil && it.Vector != nil || it.Kind == index.ScoreRRF || it.RetrievalKind == index.ScoreRRF {
		leg("keyword", it.Keyword)
		leg("vector", it.Vector)
	}
	if it.RetrievalScore != nil {
		out += fmt.Sprintf(", %.4f before", *it.RetrievalScore)
	}
	return out
}
