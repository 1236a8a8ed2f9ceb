package kb

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/chat"
)

// articles are a support team's, made up, in the formats that such folders hold.
var articles = map[string]string{
	"billing/invoices.md": "---\ntitle: Invoices\ntags: [billing]\n---\n# Where to find invoices\n\nEvery invoice is under Settings > Billing > Invoices. The owner of the workspace sees them all.\n\n" +
		"# Changing the address on an invoice\n\nWrite the new address before the first of the month. Invoices that were sent are not changed.\n",
	"billing/refunds.md": "---\ntitle: Refunds\n---\n# Refunds\n\nAnnual plans are refunded in full within 30 days of the purchase. Monthly plans are not refunded.\n\n" +
		"## How long it takes\n\nThe bank needs five working days to show the refund.\n",
	"account/password.html": "<html><head><title>Password</title></head><body><h1>Reset your password</h1><p>Choose Forgot password on the sign-in page. " +
		"The link in the mail works for one hour.</p><h2>No mail arrives</h2><p>Look into the spam folder, then ask the owner of the workspace to send it again.</p></body></html>",
	"account/two-factor.md": "# Two-factor codes\n\nScan the square with the authenticator app. Keep the ten recovery codes in a safe place: each works once.\n",
	"limits.csv":            "plan,projects,members\nStarter,3,5\nTeam,50,25\n",
	"errors.jsonl":          `{"code": "SYNC-409", "help": "Two devices changed one file. Keep both copies and delete the older one."}` + "\n" + `{"code": "SYNC-507", "help": "The quota is used up."}` + "\n",
	"sla.txt":               "Support answers within four hours on working days.\fOutages are announced on the status page within fifteen minutes.\n",
}

// An agentServer is an OpenAI-compatible endpoint that answers with what it was
// given: the question and the sources of its context.
type agentServer struct {
	*httptest.Server
	asked chat.Message // the last message of the last request
}

func newAgentServer(t *testing.T) *agentServer {
	a := &agentServer{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Messages []chat.Message `json:"messages"`
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &req) != nil || len(req.Messages) < 2 {
			t.Errorf("%s: %s, %v", r.URL, body, err)
			return
		}
		a.asked = req.Messages[len(req.Messages)-1]
		_, _ = io.WriteString(w, `{"choices": [{"message": {"role": "assistant", "content": "As [1] says."}, "finish_reason": "stop"}]}`)
	}))
	t.Cleanup(a.Close)
	t.Setenv(chatURL, a.URL+"/v1")
	t.Setenv(chatModel, "")
	t.Setenv(chatKey, "")
	return a
}

// runSupport runs the seed's workflow and returns the sources of what reached
// the agent, best first, each once, after checking them against the store.
func runSupport(t *testing.T, store, flow, question string, a *agentServer) (sources []string) {
	t.Helper()
	r := command(t, fake, "run", flow, "--store", store, "--var", "user_message="+question)
	if r.code != 0 {
		t.Fatalf("%s: %s", question, r.err)
	}
	out := decode[struct {
		Outputs struct {
			Answer  string           `json:"agent_response"`
			Results []knowledge.Item `json:"reranked_results"`
		} `json:"outputs"`
	}](t, r.out).Outputs
	if out.Answer != "As [1] says." || len(out.Results) == 0 || len(out.Results) > 3 || !strings.Contains(a.asked.Content, question) {
		t.Errorf("%s: %s", question, r.out)
	}
	for _, it := range out.Results {
		// What the agent read is in the stored source that the item cites.
		m := it.Metadata
		if !strings.Contains(a.asked.Content, strings.TrimSpace(it.Content)) {
			t.Errorf("%s: %q did not reach the agent", question, it.Content)
		}
		source := ok(t, "kb", "get", store, m.KnowledgeBaseID, m.DocumentID, "--bytes")
		if m.SourceStart != nil && source[*m.SourceStart:*m.SourceEnd] != it.Content {
			t.Errorf("%s: %s is not what bytes %d to %d of %s hold", question, it.Content, *m.SourceStart, *m.SourceEnd, m.Source)
		}
		if !slices.Contains(sources, m.Source) {
			sources = append(sources, m.Source)
		}
	}
	return sources
}

// S1.9 over a folder of articles: files in, cited answer out.
func TestS1_9_SupportArticles(t *testing.T) {
	store := filepath.Join(t.TempDir(), "s")
	flow := write2(t, "support.json", strings.Replace(supportFlow, `"score_threshold": 0.6`, `"score_threshold": 0`, 1))
	ok(t, "kb", "create", store, "kb_product_docs")
	ok(t, "kb", "create", store, "kb_faq")
	dir := folder(t, articles)
	ok(t, "kb", "add", store, "kb_product_docs", dir)
	ok(t, "kb", "add", store, "kb_faq", folder(t, map[string]string{"faq.md": "# Questions\n\n## Can I pay by transfer?\n\nYes, for annual plans.\n\n## Is there a student price?\n\nHalf of the Team plan.\n"}))
	a := newAgentServer(t)
	for question, want := range map[string]string{
		"Where do I find an invoice of my workspace?":           "billing/invoices.md",
		"How long does the bank need to show the refund?":       "billing/refunds.md",
		"The link to reset my password, how long does it work?": "account/password.html",
		"Where do I keep the recovery codes?":                   "account/two-factor.md",
		"What does SYNC-409 mean?":                              "errors.jsonl",
		"How many members has the Starter plan?":                "limits.csv",
		"When are outages announced?":                           "sla.txt",
		"Is there a student price?":                             "faq.md",
	} {
		if got := runSupport(t, store, flow, question, a); got[0] != want {
			t.Errorf("%s: %v, want %s first", question, got, want)
		}
	}
	// An article that changes is answered from its new version; one that is
	// disabled, or goes, from none.
	write(t, filepath.Join(dir, "sla.txt"), "Outages are announced by mail.\n")
	ok(t, "kb", "add", store, "kb_product_docs", dir)
	runSupport(t, store, flow, "When are outages announced?", a)
	if strings.Contains(a.asked.Content, "status page") || !strings.Contains(a.asked.Content, "by mail") {
		t.Errorf("the old version: %s", a.asked.Content)
	}
	ok(t, "kb", "disable", store, "kb_product_docs", "sla.txt")
	if got := runSupport(t, store, flow, "When are outages announced?", a); slices.Contains(got, "sla.txt") {
		t.Errorf("disabled, but cited: %v", got)
	}
}

// The same with the pages of a real manual beside the articles, and known-item
// queries for questions. The embedder hashes words into 64 numbers, so this is
// about the way through; package knowledge measures quality with a real one.
func TestSupportOverRealPages(t *testing.T) {
	dir := os.Getenv("QUARRY_DATA")
	if dir == "" {
		t.Skip("QUARRY_DATA is not set")
	}
	pages, relevant := map[string]string{}, map[string][]string{}
	readLines(t, filepath.Join(dir, "dify-docs", "docs.jsonl.gz"), func(line []byte) {
		d := decode[struct{ ID, Title, Text string }](t, string(line))
		if strings.HasPrefix(d.ID, "en/") {
			pages[d.ID+".md"] = "# " + d.Title + "\n\n" + d.Text
		}
	})
	readLines(t, filepath.Join(dir, "dify-docs", "qrels.tsv.gz"), func(line []byte) {
		f := strings.Split(string(line), "\t")
		relevant[f[0]] = append(relevant[f[0]], f[1]+".md")
	})
	store := filepath.Join(t.TempDir(), "s")
	// 0.6 of a fused score asks both legs to know the passage, and the hashed one
	// knows little.
	flow := write2(t, "support.json", strings.Replace(supportFlow, `"score_threshold": 0.6`, `"score_threshold": 0.3`, 1))
	ok(t, "kb", "create", store, "kb_product_docs")
	ok(t, "kb", "create", store, "kb_faq")
	ok(t, "kb", "add", store, "kb_product_docs", folder(t, pages))
	ok(t, "kb", "add", store, "kb_faq", folder(t, articles))
	a := newAgentServer(t)
	asked, found := 0, 0
	readLines(t, filepath.Join(dir, "dify-docs", "queries.jsonl.gz"), func(line []byte) {
		q := decode[struct{ ID, Text string }](t, string(line))
		if !strings.HasPrefix(q.ID, "en:") || asked == 25 {
			return
		}
		asked++
		got := runSupport(t, store, flow, q.Text, a)
		if slices.ContainsFunc(got, func(s string) bool { return slices.Contains(relevant[q.ID], s) }) {
			found++
		}
	})
	t.Logf("%d pages; for %d of %d questions the page reached the agent", len(pages), found, asked)
	if asked != 25 || found < 8 {
		t.Errorf("%d of %d", found, asked)
	}
}

func readLines(t *testing.T, file string, line func([]byte)) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		line(sc.Bytes())
	}
	if sc.Err() != nil {
		t.Fatal(sc.Err())
	}
}
