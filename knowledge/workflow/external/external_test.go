package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/knowledge/catalog"
	"github.com/quarrysearch/quarry/knowledge/space"
	"github.com/quarrysearch/quarry/storage"
)

var bg = context.Background()

// docs are six documents that all hold the word refund.
func docs(t testing.TB) *knowledge.Store {
	t.Helper()
	s, err := knowledge.Open("store", &knowledge.Options{FS: storage.NewMemFS()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if _, err := s.Create(bg, "faq", nil); err != nil {
		t.Fatal(err)
	}
	source := func(name string, meta map[string]any, front string) knowledge.Source {
		return knowledge.Source{Name: name, Meta: meta, Data: []byte("---\ntitle: " + strings.TrimSuffix(name, ".md") + "\n" + front + "---\n\nA refund of " + name + ".\n")}
	}
	_, err = s.Ingest(bg, knowledge.IngestRequest{Base: "faq", Sources: []knowledge.Source{
		source("alpha.md", map[string]any{"team": "billing", "level": 1.0, "note": "first draft"}, "date: 2024-01-10\ntags: [money, law]\n"),
		source("beta.md", map[string]any{"team": "billing-eu", "level": 2.5, "note": ""}, "date: 2024-02-10\ntags: [money]\n"),
		source("gamma.md", map[string]any{"team": "support", "level": 3.0}, "date: 2024-03-10\n"),
		source("delta.md", map[string]any{"team": "EU-billing", "level": -4.0}, "tags: []\n"),
		source("omega.md", nil, "date: 2024-05-10\ntags: [law]\n"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve mounts a handler as a server does.
func serve(t testing.TB, r Retriever, onError func(error)) *httptest.Server {
	t.Helper()
	h, err := New(Options{Retriever: r, Timeout: 5 * time.Second,
		Authorize: func(_ context.Context, key, id string) bool { return key == "secret" && id != "private" },
		OnError: func(_ *http.Request, err error) {
			if onError != nil {
				onError(err)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/retrieval", h)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

// post sends a body and returns status and answer.
func post(t testing.TB, srv *httptest.Server, auth, body string) (int, string) {
	t.Helper()
	req, _ := http.NewRequest(http.MethodPost, srv.URL+"/retrieval", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%v, %s", err, resp.Header)
	}
	return resp.StatusCode, string(b)
}

func titles(t testing.TB, body string) string {
	t.Helper()
	var r Response
	if err := json.Unmarshal([]byte(body), &r); err != nil || r.Records == nil {
		t.Fatalf("%s: %v", body, err)
	}
	var out []string
	for _, rec := range r.Records {
		out = append(out, rec.Title)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// The shape of the documentation, over HTTP.
func TestAnswer(t *testing.T) {
	srv := serve(t, Store{Searcher: docs(t)}, nil)
	status, body := post(t, srv, "Bearer secret", `{"knowledge_id": "faq", "query": "refund", "retrieval_setting": {"top_k": 2, "score_threshold": 0.0}, "metadata_condition": null, "later": {}}`)
	var r Response
	if err := json.Unmarshal([]byte(body), &r); err != nil || status != 200 || len(r.Records) != 2 {
		t.Fatalf("%d %s", status, body)
	}
	for _, rec := range r.Records {
		if !strings.Contains(rec.Content, "refund") || !(rec.Score > 0 && rec.Score <= 1) || rec.Title == "" || rec.Metadata["document_id"] == nil || rec.Metadata["knowledge_base_id"] != "faq" {
			t.Errorf("%+v", rec)
		}
	}
	if r.Records[0].Score < r.Records[1].Score {
		t.Error("not best first")
	}
	for _, setting := range []string{`{"top_k": 5, "score_threshold": 1}`, `{"top_k": 5}`} {
		status, body = post(t, srv, "bearer secret", `{"knowledge_id": "faq", "query": "zebra", "retrieval_setting": `+setting+`}`)
		if status != 200 || body != "{\"records\":[]}\n" {
			t.Errorf("%d %s", status, body)
		}
	}
}

// All 18 operators, each against the same five documents.
func TestOperators(t *testing.T) {
	srv := serve(t, Store{Searcher: docs(t)}, nil)
	for condition, want := range map[string]string{
		`{"name": "team", "comparison_operator": "is", "value": "billing"}`:                   "alpha",
		`{"name": "team", "comparison_operator": "is not", "value": "billing"}`:               "beta delta gamma omega",
		`{"name": "team", "comparison_operator": "in", "value": ["billing", "support"]}`:      "alpha gamma",
		`{"name": "team", "comparison_operator": "in", "value": []}`:                          "",
		`{"name": "team", "comparison_operator": "not in", "value": ["billing", "support"]}`:  "beta delta omega",
		`{"name": "team", "comparison_operator": "contains", "value": "billing"}`:             "alpha beta delta",
		`{"name": "team", "comparison_operator": "not contains", "value": "billing"}`:         "gamma omega",
		`{"name": "tags", "comparison_operator": "contains", "value": "law"}`:                 "alpha omega",
		`{"name": "tags", "comparison_operator": "not contains", "value": "law"}`:             "beta delta gamma",
		`{"name": "team", "comparison_operator": "start with", "value": "billing"}`:           "alpha beta",
		`{"name": "team", "comparison_operator": "end with", "value": "billing"}`:             "alpha delta",
		`{"name": "team", "comparison_operator": "empty"}`:                                    "omega",
		`{"name": "team", "comparison_operator": "not empty"}`:                                "alpha beta delta gamma",
		`{"name": "tags", "comparison_operator": "empty"}`:                                    "delta gamma",
		`{"name": "level", "comparison_operator": "=", "value": 1}`:                           "alpha",
		`{"name": "level", "comparison_operator": "=", "value": " 2.5 "}`:                     "beta",
		`{"name": "level", "comparison_operator": "≠", "value": 1}`:                           "beta delta gamma omega",
		`{"name": "level", "comparison_operator": ">", "value": 1}`:                           "beta gamma",
		`{"name": "level", "comparison_operator": "<", "value": 1}`:                           "delta",
		`{"name": "level", "comparison_operator": "≥", "value": 2.5}`:                         "beta gamma",
		`{"name": "level", "comparison_operator": "≤", "value": "2.5"}`:                       "alpha beta delta",
		`{"name": "created", "comparison_operator": "before", "value": "2024-02-10"}`:         "alpha",
		`{"name": "upload_date", "comparison_operator": "after", "value": "2024-02-10"}`:      "gamma omega",
		`{"name": "document_name", "comparison_operator": "is", "value": "gamma"}`:            "gamma",
		`{"name": "meta.team", "comparison_operator": "is", "value": "support"}`:              "gamma",
		`{"name": ["team", "note"], "comparison_operator": "contains", "value": "r"}`:         "alpha gamma",
		`{"name": ["team", "note"], "comparison_operator": "is", "value": "first draft"}`:     "alpha",
		`{"name": "team", "comparison_operator": "contains", "value": "BILLING"}`:             "",
		`{"name": "document_id", "comparison_operator": "end with", "value": "ta.md"}`:        "beta delta",
		`{"name": "title", "comparison_operator": "not contains", "value": "a"}`:              "",
		`{"name": "document_name", "comparison_operator": "not in", "value": ["alpha", "x"]}`: "beta delta gamma omega",
	} {
		for _, join := range []string{"and", "or"} {
			// Under or a condition that never holds changes nothing, but sends
			// all of them past the index.
			all := condition
			if join == "or" {
				all += `, {"name": "title", "comparison_operator": "end with", "value": "~"}`
			}
			status, body := post(t, srv, "Bearer secret", `{"knowledge_id": "faq", "query": "refund", "retrieval_setting": {"top_k": 10, "score_threshold": 0},
				"metadata_condition": {"logical_operator": "`+join+`", "conditions": [`+all+`]}}`)
			if status != 200 {
				t.Errorf("%s %s: %d %s", join, condition, status, body)
			} else if got := titles(t, body); got != want {
				t.Errorf("%s %s: %q, want %q", join, condition, got, want)
			}
		}
	}
	for conditions, want := range map[string]string{
		`"conditions": [{"name": "level", "comparison_operator": ">", "value": 0}, {"name": "team", "comparison_operator": "end with", "value": "billing"}]`:                                                                                                    "alpha",
		`"logical_operator": "or", "conditions": [{"name": "level", "comparison_operator": ">", "value": 2}, {"name": "tags", "comparison_operator": "contains", "value": "law"}]`:                                                                              "alpha beta gamma omega",
		`"logical_operator": "or", "conditions": [{"name": "level", "comparison_operator": ">", "value": 2}, {"name": "created", "comparison_operator": "before", "value": "2024-01-11"}, {"name": "team", "comparison_operator": "end with", "value": "ing"}]`: "alpha beta delta gamma",
	} {
		_, body := post(t, srv, "Bearer secret", `{"knowledge_id": "faq", "query": "refund", "retrieval_setting": {"top_k": 10, "score_threshold": 0}, "metadata_condition": {`+conditions+`}}`)
		if got := titles(t, body); got != want {
			t.Errorf("%s: %q, want %q", conditions, got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	srv := serve(t, Store{Searcher: docs(t)}, nil)
	good := `{"knowledge_id": "faq", "query": "refund", "retrieval_setting": {"top_k": 2, "score_threshold": 0}}`
	with := func(condition string) string {
		return strings.TrimSuffix(good, "}") + `, "metadata_condition": {"conditions": [` + condition + `]}}`
	}
	for _, c := range []struct {
		auth, body   string
		status, code int
		message      string
	}{
		{"", good, 403, 1001, "Bearer <api-key>"},
		{"secret", good, 403, 1001, "Bearer"},
		{"Basic secret", good, 403, 1001, "Bearer"},
		{"Bearer ", good, 403, 1001, "Bearer"},
		{"Bearer a b", good, 403, 1001, "Bearer"},
		{"Bearer wrong", good, 403, 1002, "failed"},
		{"Bearer secret", strings.Replace(good, "faq", "private", 1), 403, 1002, "failed"},
		{"Bearer secret", strings.Replace(good, "faq", "gone", 1), 404, 2001, "does not exist"},
		{"Bearer secret", `{"query": "x"}`, 400, 4000, "knowledge_id"},
		{"Bearer secret", `{"knowledge_id": "faq", "query": " "}`, 400, 4000, "query is blank"},
		{"Bearer secret", `{"knowledge_id": "faq", "query": 5}`, 400, 4000, "query"},
		{"Bearer secret", `{"knowledge_id": "faq", "query": "` + strings.Repeat("長", MaxQuery+1) + `"}`, 400, 4000, "16001"},
		{"Bearer secret", strings.Replace(good, `: 2`, `: 0`, 1), 400, 4000, "top_k"},
		{"Bearer secret", strings.Replace(good, `: 2`, `: 101`, 1), 400, 4000, "top_k"},
		{"Bearer secret", strings.Replace(good, `: 2`, `: 2.5`, 1), 400, 4000, "top_k"},
		{"Bearer secret", strings.Replace(good, `: 0}`, `: 1.5}`, 1), 400, 4000, "score_threshold"},
		{"Bearer secret", `[`, 400, 4000, "body"},
		{"Bearer secret", ``, 400, 4000, "body"},
		{"Bearer secret", "\xff", 400, 4000, "UTF-8"},
		{"Bearer secret", good + strings.Repeat(" ", MaxBodyBytes), 413, 4000, "more than"},
		{"Bearer secret", with(``), 400, 4000, "conditions: 0"},
		{"Bearer secret", with(`{"name": "a", "comparison_operator": "like", "value": "x"}`), 400, 4000, "none of the 18"},
		{"Bearer secret", with(`{"name": [], "comparison_operator": "is", "value": "x"}`), 400, 4000, "names"},
		{"Bearer secret", with(`{"name": 5, "comparison_operator": "is", "value": "x"}`), 400, 4000, "name"},
		{"Bearer secret", with(`{"name": "a", "comparison_operator": "is"}`), 400, 4000, "conditions[0]: value"},
		{"Bearer secret", with(`{"name": "a", "comparison_operator": "contains", "value": ""}`), 400, 4000, "value"},
		{"Bearer secret", with(`{"name": "a", "comparison_operator": ">", "value": "many"}`), 400, 4000, "number"},
		{"Bearer secret", with(`{"name": "a", "comparison_operator": ">", "value": "NaN"}`), 400, 4000, "number"},
		{"Bearer secret", with(`{"name": "a", "comparison_operator": "before", "value": "yesterday"}`), 400, 4000, "time"},
		{"Bearer secret", with(`{"name": "a", "comparison_operator": "is", "value": "` + strings.Repeat("x", MaxValue+1) + `"}`), 400, 4000, "characters"},
		{"Bearer secret", with(`{"name": "nobody", "comparison_operator": "is", "value": "x"}`), 400, 4000, "nobody"},
		{"Bearer secret", with(`{"name": ["tags", "team"], "comparison_operator": "contains", "value": "x"}`), 400, 4000, "lists"},
		{"Bearer secret", strings.Replace(with(`{"name": "a", "comparison_operator": "empty"}`), `"conditions"`, `"logical_operator": "xor", "conditions"`, 1), 400, 4000, "logical_operator"},
	} {
		status, body := post(t, srv, c.auth, c.body)
		var f Failure
		if err := json.Unmarshal([]byte(body), &f); err != nil || status != c.status || f.Code != c.code || !strings.Contains(f.Message, c.message) {
			t.Errorf("%q %.90s: %d %s, want %d %d %q", c.auth, c.body, status, body, c.status, c.code, c.message)
		}
	}
	resp, err := http.Get(srv.URL + "/retrieval")
	if err != nil || resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %v, %v", resp, err)
	}
	resp.Body.Close()
	for _, o := range []Options{{}, {Retriever: Store{}}, {Retriever: Store{}, Authorize: func(context.Context, string, string) bool { return true }, Timeout: -1}} {
		if _, err := New(o); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// canned is a Retriever of fixed answers.
type canned struct {
	records []Record
	err     error
}

func (c canned) Retrieve(ctx context.Context, _ *Request) ([]Record, error) { return c.records, c.err }

// What fails inside is told to the program, not to the caller; metadata is
// never null; a Retriever that breaks its contract is not passed on.
func TestInside(t *testing.T) {
	body := `{"knowledge_id": "x", "query": "q", "retrieval_setting": {"top_k": 1, "score_threshold": 0.5}}`
	for _, c := range []struct {
		r            canned
		status, code int
	}{
		{canned{err: errors.New("secret path /a/b")}, 500, 5000},
		{canned{err: fmt.Errorf("late: %w", context.DeadlineExceeded)}, 503, 5000},
		{canned{err: &catalog.Error{Code: catalog.ErrPermission, Message: "ann"}}, 403, 1002},
		{canned{err: &catalog.Error{Code: catalog.ErrUnavailable, Message: "s"}}, 404, 2001},
		{canned{records: make([]Record, 2)}, 500, 5000},
		{canned{records: []Record{{Score: .4}}}, 500, 5000},
		{canned{records: []Record{{Score: 1.1}}}, 500, 5000},
	} {
		var told error
		status, got := post(t, serve(t, c.r, func(err error) { told = err }), "Bearer secret", body)
		var f Failure
		if json.Unmarshal([]byte(got), &f); status != c.status || f.Code != c.code || strings.Contains(got, "secret") || told == nil {
			t.Errorf("%+v: %d %s, told %v", c.r, status, got, told)
		}
	}
	status, got := post(t, serve(t, canned{records: []Record{{"text", .5, "t", nil}}}, nil), "Bearer secret", body)
	if status != 200 || got != `{"records":[{"content":"text","score":0.5,"title":"t","metadata":{}}]}`+"\n" {
		t.Errorf("%d %s", status, got)
	}
}

// spaces is a catalogue of one space.
type spaces struct{ asked space.Request }

func (s *spaces) Retrieve(_ context.Context, r space.Request) (*space.Result, error) {
	s.asked = r
	e := space.Evidence{Content: "c", Title: "t", Metadata: space.EvidenceMetadata{Score: .9, SpaceID: "s"}}
	low := e
	low.Metadata.Score = .3
	return &space.Result{Evidence: []space.Evidence{e, low}}, nil
}

func TestSpaces(t *testing.T) {
	s := &spaces{}
	srv := serve(t, Spaces{Retriever: s, Account: "dify", Mode: catalog.Fast}, nil)
	body := `{"knowledge_id": "s", "query": " q ", "retrieval_setting": {"top_k": 7, "score_threshold": 0.5}}`
	status, got := post(t, srv, "Bearer secret", body)
	if status != 200 || titles(t, got) != "t" || !strings.Contains(got, `"space_id":"s"`) {
		t.Errorf("%d %s", status, got)
	}
	if r := s.asked; r.Run.Kind != catalog.Draft || r.Run.Account != "dify" || !slices.Equal(r.Run.Spaces, []string{"s"}) || r.TopN != 7 || r.Query != "q" || r.Mode != catalog.Fast {
		t.Errorf("%+v", r)
	}
	status, got = post(t, srv, "Bearer secret", strings.TrimSuffix(body, "}")+`, "metadata_condition": {"conditions": [{"name": "tags", "comparison_operator": "empty"}]}}`)
	if status != 400 || !strings.Contains(got, "metadata_condition") {
		t.Errorf("%d %s", status, got)
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"knowledge_id": "faq", "query": "q", "retrieval_setting": {"top_k": 2, "score_threshold": 0}, "metadata_condition": {"logical_operator": "or", "conditions": [{"name": ["a", "tags"], "comparison_operator": "in", "value": ["x", 1e400]}, {"name": "created", "comparison_operator": "before", "value": "2024-01-01"}]}}`))
	f.Add([]byte(`{"knowledge_id": "faq", "query": "q", "metadata_condition": {"conditions": [{"name": "a", "comparison_operator": "not contains", "value": "x"}, {"name": "level", "comparison_operator": "≥", "value": 1}]}}`))
	m := &knowledge.Metadata{Source: "s", Title: "t", Tags: []string{"x"}, Created: time.Unix(1e9, 0), Meta: map[string]any{"a": "x", "level": 2., "list": []any{"x", 1.}}}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ParseRequest(body)
		if err != nil {
			if !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrTooLarge) {
				t.Fatal(err)
			}
			return
		}
		c, err := r.Condition.Compile()
		if err != nil {
			t.Fatal(err)
		}
		if c.Exact() && !c.Keeps(m) {
			t.Fatal("dropped by what the index answers")
		}
	})
}
