package kb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/engine"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/models"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/show"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/knowledge/space"
	"github.com/quarrysearch/quarry/storage"
)

// catalogName is the catalogue's file in a store's directory.
const catalogName = "catalog.db"

// Workspace and account of somebody who works alone.
const (
	aloneWorkspace = "default"
	aloneAccount   = "owner"
)

// spaceCommands are those of quarry space.
type spaceCommands struct {
	Create     spaceCreateCmd  `cmd:"" help:"Make a space on a knowledge base."`
	List       spaceListCmd    `cmd:"" help:"List spaces."`
	Show       spaceShowCmd    `cmd:"" help:"Describe a space: draft, publication, model."`
	Publish    spacePublishCmd `cmd:"" help:"Publish the base as it is now with the draft profile."`
	Activate   activateCmd     `cmd:"" help:"Let runs use a space again."`
	Deactivate deactivateCmd   `cmd:"" help:"Let no run use a space."`
	Rm         spaceRmCmd      `cmd:"" help:"Remove a space; its base stays."`
	Grant      grantCmd        `cmd:"" help:"Give an account a permission on a space, or take it away."`
	Search     evidenceCmd     `cmd:"" help:"Retrieve evidence from published spaces."`
	Verify     verifyCmd       `cmd:"" help:"Prove evidence against the stored sources; exit code 1 when a piece does not hold."`
	Audit      auditCmd        `cmd:"" help:"List what was changed, by whom."`
}

// accountFlag says who acts.
type accountFlag struct {
	Account string `default:"owner" placeholder:"ID" help:"Account that acts; owner may do everything in its workspace."`
}

// openCatalog opens the catalogue of a store, for writing or beside other readers.
func (r *resources) openCatalog(dir string, write bool) (*catalog.Catalog, error) {
	c, err := catalog.Open(filepath.Join(dir, catalogName), &catalog.Options{ReadOnly: !write})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, fmt.Errorf("no spaces in %s (quarry space create makes one)", dir)
	}
	if err == nil {
		r.closers = append(r.closers, c.Close)
	}
	return c, err
}

// spaces opens the catalogue and the bases behind its spaces.
func (r *resources) spaces(ctx context.Context, dir string, write bool, o *space.Options) (*catalog.Catalog, *space.Service, error) {
	infos, err := bases(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	c, err := r.openCatalog(dir, write)
	if err != nil {
		return nil, nil, err
	}
	r.cache = models.CacheDir(dir)
	store, err := r.store(ctx, dir, write, embeddersOf(infos)...)
	if err != nil {
		return nil, nil, err
	}
	s, err := space.New(c, store, o)
	return c, s, err
}

type spaceCreateCmd struct {
	engine.StoreArg
	ID string `arg:"" name:"id" help:"Id of the space."`

	Base      string `placeholder:"ID" help:"Knowledge base behind it; default the space's id."`
	Name      string `placeholder:"TEXT" help:"Name shown to people; default the id."`
	Workspace string `default:"default" placeholder:"ID" help:"Workspace, made when it does not exist, with the account owner."`
	accountFlag
	JSON bool `name:"json" help:"Print the space as JSON."`
}

func (spaceCreateCmd) Help() string {
	return `A space is a knowledge base with a Retrieval Profile, seen by others only as it was published: what is added to the base later, and every change of the profile, shows with the next quarry space publish.

    quarry space create store docs
    quarry space create store handbook --base docs
    quarry profile set store docs --mode deep --top-k 20
    quarry space publish store docs
    quarry space search store how do I get a refund --space docs

The catalogue of spaces, profiles, accounts and workflows is the file catalog.db in the store.`
}

// Run makes a space.
func (c *spaceCreateCmd) Run(ctx context.Context, s *session) (err error) {
	if _, err := pick(ctx, c.Store, cmp.Or(c.Base, c.ID)); err != nil {
		return err
	}
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	cat, err := open.openCatalog(c.Store, true)
	if err != nil {
		return err
	}
	if err := ensureAlone(cat, c.Workspace); err != nil {
		return err
	}
	sp, err := cat.CreateSpace(c.Account, catalog.Space{ID: c.ID, Workspace: c.Workspace, Name: cmp.Or(c.Name, c.ID), Base: cmp.Or(c.Base, c.ID)})
	if err != nil {
		return err
	}
	if c.JSON {
		return s.JSON(sp)
	}
	return s.Printf("%s: made on the base %s, not yet published\n", sp.ID, sp.Base)
}

// ensureAlone makes a workspace that is not there, and in the default one an
// account that may do everything.
func ensureAlone(c *catalog.Catalog, workspace string) error {
	if _, err := c.Workspace(workspace); errors.Is(err, storage.ErrNotFound) {
		if _, err := c.CreateWorkspace(workspace, workspace); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if workspace != aloneWorkspace {
		return nil
	}
	_, err := c.Account(aloneAccount)
	if errors.Is(err, storage.ErrNotFound) {
		_, err = c.CreateAccount("", catalog.Account{ID: aloneAccount, Workspace: workspace, Name: aloneAccount,
			Grants: []catalog.Grant{{Space: catalog.AllSpaces, Permission: catalog.Admin}}})
	}
	return err
}

type spaceListCmd struct {
	engine.StoreArg
	Workspace string `placeholder:"ID" help:"Only spaces of this workspace; default all."`
	JSON      bool   `name:"json" help:"Print a space a line, as JSON."`
}

func (spaceListCmd) Help() string {
	return `    quarry space list store
    quarry space list store --json`
}

// Run lists spaces.
func (c *spaceListCmd) Run(_ context.Context, s *session) (err error) {
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	cat, err := open.openCatalog(c.Store, false)
	if err != nil {
		return err
	}
	workspaces, err := cat.Workspaces()
	if err != nil {
		return err
	}
	rows := [][]string{{"ID", "WORKSPACE", "BASE", "STATE", "PUBLISHED", "GENERATION", "MODE", "TOP K", "NAME"}}
	for _, w := range workspaces {
		if c.Workspace != "" && w.ID != c.Workspace {
			continue
		}
		spaces, err := cat.Spaces(w.ID)
		if err != nil {
			return err
		}
		for _, sp := range spaces {
			if c.JSON {
				if err := s.JSON(sp); err != nil {
					return err
				}
				continue
			}
			rows = append(rows, spaceRow(&sp))
		}
	}
	if c.JSON {
		return nil
	}
	return s.Printf("%s", show.Table(rows, []bool{false, false, false, false, true, true, false, true}))
}

func spaceRow(sp *catalog.Space) []string {
	state := "active"
	if !sp.Active {
		state = "inactive"
	}
	row := []string{sp.ID, sp.Workspace, sp.Base, state, "never", "", "", "", show.Line(sp.Name, 60)}
	if p := sp.Published; p != nil {
		row[4], row[5] = strconv.Itoa(p.Revision), strconv.Itoa(p.Generation)
		row[6], row[7] = string(p.Profile.DefaultMode), strconv.Itoa(p.Profile.TopK)
	}
	return row
}

type spaceShowCmd struct {
	engine.StoreArg
	ID string `arg:"" name:"id" help:"Space."`
	jsonAlways
}

func (spaceShowCmd) Help() string {
	return `Prints one JSON object.

    quarry space show store docs`
}

// Run shows a space.
func (c *spaceShowCmd) Run(_ context.Context, s *session) error {
	return s.withCatalog(c.Store, false, func(cat *catalog.Catalog) error {
		sp, err := cat.Space(c.ID)
		if err != nil {
			return err
		}
		return s.JSON(sp)
	})
}

// withCatalog runs f on the open catalogue of a store.
func (s *session) withCatalog(store string, write bool, f func(*catalog.Catalog) error) (err error) {
	open := s.resources()
	defer open.close(&err)
	cat, err := open.openCatalog(store, write)
	if err != nil {
		return err
	}
	return f(cat)
}

type spacePublishCmd struct {
	engine.StoreArg
	ID       string `arg:"" name:"id" help:"Space."`
	Revision int    `placeholder:"N" help:"Revision of the draft profile that you saw: another one now is an error. Default the one that is there."`
	accountFlag
	JSON bool `name:"json" help:"Print the publication as JSON."`
}

func (spacePublishCmd) Help() string {
	return `Freezes the base as it is (hard links, no copy) and names it with the draft profile in one step: runs see the old publication or the new one. Runs under way end on what they began with.

    quarry space publish store docs`
}

// Run publishes.
func (c *spacePublishCmd) Run(ctx context.Context, s *session) (err error) {
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	cat, service, err := open.spaces(ctx, c.Store, true, nil)
	if err != nil {
		return err
	}
	if c.Revision == 0 {
		sp, err := cat.Space(c.ID)
		if err != nil {
			return err
		}
		c.Revision = sp.Draft.Revision
	}
	p, err := service.Publish(ctx, c.Account, c.ID, c.Revision)
	if err != nil {
		return err
	}
	if c.JSON {
		return s.JSON(p)
	}
	return s.Printf("%s: publication %d, generation %d of its base, profile revision %d\n", c.ID, p.Revision, p.Generation, p.Profile.Revision)
}

// activation switches a space on or off.
type activation struct {
	engine.StoreArg
	ID string `arg:"" name:"id" help:"Space."`
	accountFlag
	jsonChange
}

func (a *activation) run(s *session, active bool) error {
	err := s.withCatalog(a.Store, true, func(cat *catalog.Catalog) error { return cat.SetActive(a.Account, a.ID, active) })
	return a.told(s, err, "space", a.ID, map[bool]string{true: "active", false: "inactive"}[active])
}

type activateCmd struct{ activation }

func (activateCmd) Help() string {
	return `    quarry space activate store docs`
}

// Run switches on.
func (c *activateCmd) Run(s *session) error { return c.run(s, true) }

type deactivateCmd struct{ activation }

func (deactivateCmd) Help() string {
	return `Runs under way end on what they began with; the next ones fail.

    quarry space deactivate store docs`
}

// Run switches off.
func (c *deactivateCmd) Run(s *session) error { return c.run(s, false) }

type spaceRmCmd struct {
	engine.StoreArg
	ID string `arg:"" name:"id" help:"Space."`
	accountFlag
	jsonChange
}

func (spaceRmCmd) Help() string {
	return `    quarry space rm store docs`
}

// Run removes a space.
func (c *spaceRmCmd) Run(s *session) error {
	err := s.withCatalog(c.Store, true, func(cat *catalog.Catalog) error { return cat.DeleteSpace(c.Account, c.ID) })
	return c.told(s, err, "space", c.ID, "removed")
}

type grantCmd struct {
	engine.StoreArg
	ID         string `arg:"" name:"id" help:"Space, or * for all of the account's workspace."`
	To         string `arg:"" help:"Account, made when it does not exist."`
	Permission string `arg:"" enum:"use,edit,publish,admin,none" help:"use, edit, publish, admin (each includes those before), or none."`
	Workspace  string `default:"default" placeholder:"ID" help:"Workspace of an account that is made."`
	accountFlag
	jsonChange
}

func (grantCmd) Help() string {
	return `What is taken away holds for the next run, also of published workflows that name the account.

    quarry space grant store docs ann use
    quarry space grant store docs ann none`
}

// Run grants.
func (c *grantCmd) Run(s *session) error {
	err := s.withCatalog(c.Store, true, func(cat *catalog.Catalog) error {
		if c.Permission == "none" {
			return cat.RevokeGrant(c.Account, c.To, c.ID)
		}
		if _, err := cat.Account(c.To); errors.Is(err, storage.ErrNotFound) {
			if _, err := cat.CreateAccount(c.Account, catalog.Account{ID: c.To, Workspace: c.Workspace, Name: c.To}); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
		return cat.Grant(c.Account, c.To, catalog.Grant{Space: c.ID, Permission: catalog.Permission(c.Permission)})
	})
	return c.told(s, err, "space", c.ID, c.To+": "+c.Permission)
}

type evidenceCmd struct {
	engine.StoreArg
	Query []string `arg:"" help:"The question."`

	Space    []string `short:"s" required:"" placeholder:"ID" help:"Published spaces, 1 to 10, in the order that decides ties."`
	Mode     string   `enum:"default,fast,deep,research" default:"default" help:"fast, deep, research, or each space's own default."`
	TopN     int      `default:"10" placeholder:"N" help:"Evidence wanted of all spaces together, 1 to 100."`
	Filters  string   `placeholder:"JSON" help:"Filters: created_after, created_before, document_types, entities, freshness, languages, node_kinds, source_ids, tags."`
	Workflow string   `placeholder:"ID" help:"Run as this published workflow, by its bindings; default a run by the account's own permissions."`
	Rerank   string   `default:"late" placeholder:"NAME" help:"What profiles get that name the model cross-encoder: late, none, or a service as in kb search --rerank."`
	NoVerify bool     `help:"Do not check each piece against its source."`
	accountFlag
	jsonAlways
}

func (evidenceCmd) Help() string {
	return `Prints one JSON object: {"result": [{"content", "title", "metadata": {"citation": {"document_id", "document_version", "section_path", "page_number", "start_offset", "end_offset", "artifact_hash"}, "score", "sources", "space_id"}}], "metrics": {"mode", "total_ms", "degradation_flags", "model_calls"}, "process_data": {"knowledge_fs": …}}. A space that may not be used, or fails, fails the whole: there is no evidence then, and exit code 1.

    quarry space search store "how do I get a refund" --space docs --mode deep
    quarry space search store vacation --space docs --filters '{"languages": ["de"], "created_after": "2024-01-01"}'
    quarry space search store refund --space docs | quarry space verify store`
}

// Validate checks the flags.
func (c *evidenceCmd) Validate() error {
	if c.Filters != "" {
		if _, err := space.ParseFilters([]byte(c.Filters)); err != nil {
			return fmt.Errorf("--filters: %w", err)
		}
	}
	return (&rerankFlag{c.Rerank}).validate()
}

// Run retrieves.
func (c *evidenceCmd) Run(ctx context.Context, s *session) (err error) {
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	o := &space.Options{Rerankers: map[string]rerank.Reranker{}}
	rr, err := (&rerankFlag{c.Rerank}).reranker(ctx, open)
	if err != nil {
		return err
	}
	if rr != nil {
		o.Rerankers[crossEncoder] = rr
	}
	_, service, err := open.spaces(ctx, c.Store, false, o)
	if err != nil {
		return err
	}
	req := space.Request{Query: strings.Join(c.Query, " "), TopN: c.TopN, Verify: !c.NoVerify,
		Run: catalog.Run{Kind: catalog.Draft, Account: c.Account, Spaces: c.Space}}
	if c.Mode != "default" {
		req.Mode = catalog.Mode(c.Mode)
	}
	if c.Workflow != "" {
		req.Run.Kind, req.Run.Workflow = catalog.Published, c.Workflow
	}
	if c.Filters != "" {
		if req.Filters, err = space.ParseFilters([]byte(c.Filters)); err != nil {
			return err
		}
	}
	r, err := service.Retrieve(ctx, req)
	if err != nil {
		return err
	}
	return s.JSON(r)
}

// crossEncoder is the reranker that profiles name when they have no other.
const crossEncoder = "cross-encoder"

type verifyCmd struct {
	engine.StoreArg
	File string `arg:"" optional:"" default:"-" help:"JSON as space search or a run prints it; - is standard input."`
	JSON bool   `name:"json" help:"Print the counts as JSON."`
}

func (verifyCmd) Help() string {
	return `For each piece: the version of the document that it cites is kept, the source bytes have the hash cited, and hold the content at the offsets cited.

    quarry space search store refund --space docs | quarry space verify store
    quarry space verify store evidence.json`
}

// Run verifies.
func (c *verifyCmd) Run(ctx context.Context, s *session) (err error) {
	in := io.Reader(os.Stdin)
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		in = f
	}
	var answer struct {
		Result []space.Evidence `json:"result"`
	}
	if err := json.NewDecoder(io.LimitReader(in, 64<<20)).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	open := s.resources(c.Cluster...)
	defer open.close(&err)
	_, service, err := open.spaces(ctx, c.Store, false, nil)
	if err != nil {
		return err
	}
	out := struct {
		Checked  int      `json:"checked"`
		Problems []string `json:"problems"`
	}{len(answer.Result), []string{}}
	for i, e := range answer.Result {
		err := service.Verify(ctx, e)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			out.Problems = append(out.Problems, fmt.Sprintf("result[%d]: %s", i, reason(err.Error())))
		}
	}
	if c.JSON {
		err = s.JSON(out)
	} else {
		for _, p := range out.Problems {
			s.Notef("%s", p)
		}
		err = s.Printf("%s of %d hold\n", console.Count(out.Checked-len(out.Problems), "piece"), out.Checked)
	}
	if err == nil && len(out.Problems) > 0 {
		err = fmt.Errorf("evidence that does not hold: %d of %d", len(out.Problems), out.Checked)
	}
	return err
}

type auditCmd struct {
	engine.StoreArg
	After uint64 `placeholder:"N" help:"Only entries with a greater number."`
	jsonAlways
}

func (auditCmd) Help() string {
	return `Prints a change a line, as JSON, oldest first.

    quarry space audit store --after 100`
}

// Run lists the audit trail.
func (c *auditCmd) Run(ctx context.Context, s *session) error {
	return s.withCatalog(c.Store, false, func(cat *catalog.Catalog) error {
		for after := c.After; ctx.Err() == nil; {
			entries, err := cat.Audit(after, 1000)
			if err != nil || len(entries) == 0 {
				return err
			}
			for _, e := range entries {
				if err := s.JSON(e); err != nil {
					return err
				}
				after = e.Seq
			}
		}
		return ctx.Err()
	})
}
