package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/embed/service/call"
	"github.com/quarrysearch/quarry/storage"
)

// What each provider is sent, and what it answers.
func TestProviders(t *testing.T) {
	t.Setenv("QUARRY_TEST_KEY", "k")
	const rows = `[[3,0,0,4],[0,0,2,0]]`
	const data = `{"object":"list","data":[{"index":1,"embedding":[0,0,2,0]},{"index":0,"embedding":[3,0,0,4]}],"usage":{"total_tokens":2}}`
	for _, c := range []struct {
		p                 Provider
		o                 Options
		kind              embed.Kind
		path, body, reply string
	}{
		{OpenAI, Options{}, embed.Query, "/embeddings", `{"model":"m","encoding_format":"base64","input":["a","b"]}`, data},
		{OpenAI, Options{PlainVectors: true, Dim: 4, Shorten: true, QueryPrefix: "query: "}, embed.Query, "/embeddings",
			`{"model":"m","encoding_format":"float","dimensions":4,"input":["query: a","query: b"]}`, data},
		{Ollama, Options{PassagePrefix: "p: "}, embed.Passage, "/api/embed", `{"model":"m","truncate":false,"input":["p: a","p: b"]}`,
			`{"model":"m","embeddings":` + rows + `,"total_duration":1}`},
		{Ollama, Options{Dim: 4, Shorten: true}, embed.Query, "/api/embed", `{"model":"m","truncate":false,"dimensions":4,"input":["a","b"]}`,
			`{"embeddings":` + rows + `}`},
		{Cohere, Options{}, embed.Query, "/v2/embed",
			`{"model":"m","truncate":"NONE","embedding_types":["float"],"input_type":"search_query","texts":["a","b"]}`,
			`{"id":"x","embeddings":{"float":` + rows + `},"texts":["a","b"],"meta":{}}`},
		{Cohere, Options{Dim: 4, Shorten: true}, embed.Passage, "/v2/embed",
			`{"model":"m","truncate":"NONE","embedding_types":["float"],"input_type":"search_document","output_dimension":4,"texts":["a","b"]}`,
			`{"embeddings":{"float":` + rows + `}}`},
		{Jina, Options{}, embed.Query, "/embeddings", `{"model":"m","truncate":false,"embedding_type":"base64","task":"retrieval.query","input":["a","b"]}`, data},
		{Jina, Options{PlainVectors: true}, embed.Passage, "/embeddings",
			`{"model":"m","truncate":false,"embedding_type":"float","task":"retrieval.passage","input":["a","b"]}`, data},
		{Voyage, Options{Dim: 4, Shorten: true}, embed.Query, "/embeddings",
			`{"model":"m","truncation":false,"encoding_format":"base64","input_type":"query","output_dimension":4,"input":["a","b"]}`, data},
		{Voyage, Options{PlainVectors: true}, embed.Passage, "/embeddings", `{"model":"m","truncation":false,"input_type":"document","input":["a","b"]}`, data},
		{TEI, Options{}, embed.Passage, "/embed", `{"truncate":false,"normalize":true,"inputs":["a","b"]}`, rows},
	} {
		t.Run(fmt.Sprint(c.p, " ", c.kind), func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				var got, want any
				if json.Unmarshal(body, &got) != nil || json.Unmarshal([]byte(c.body), &want) != nil {
					t.Errorf("no JSON: %s", body)
				}
				if d := cmp.Diff(want, got); d != "" || r.URL.Path != c.path || r.Header.Get("Authorization") != "Bearer k" {
					t.Errorf("%s: %s", r.URL.Path, d)
				}
				io.WriteString(w, c.reply)
			}))
			defer srv.Close()
			c.o.Model = "m"
			c.o.Call = call.Options{BaseURL: srv.URL, KeyEnv: "QUARRY_TEST_KEY"}
			sv, err := New(c.p, c.o)
			if err != nil {
				t.Fatal(err)
			}
			defer sv.Close()
			r, err := sv.Embed(context.Background(), c.kind, []string{"a", "b"})
			if err != nil || !slices.Equal(r.Vectors, []float32{.6, 0, 0, .8, 0, 0, 1, 0}) || r.Truncated != nil {
				t.Errorf("got %v, %v", r, err)
			}
			id := sv.Identity()
			if id.Name != c.p.String()+"/m" || id.Dim != 4 || id.Metric != "cosine" || id.QueryPrefix != c.o.QueryPrefix {
				t.Errorf("identity %+v", id)
			}
		})
	}
}

// Every way in which a reply can be wrong is an error that says so, and names
// text and component where there is one.
func TestBadReplies(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		p     Provider
		reply string
		want  string
		text  int // of a TextError, or -1
	}{
		{OpenAI, `{}`, `no "data"`, -1},
		{OpenAI, `null`, `no "data"`, -1},
		{OpenAI, `{"error":{"message":"model not found"}}`, "model not found", -1},
		{OpenAI, `[]`, "JSON array", -1},
		{OpenAI, ``, "no JSON", -1},
		{OpenAI, `<html>502 Bad Gateway`, "<html>502", -1},
		{OpenAI, `{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1]}]}`, "1 components, want 2", 1},
		{OpenAI, `{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`, "0 components", 0},
		{OpenAI, `{"data":[{"index":0,"embedding":null},{"index":1,"embedding":[1]}]}`, "neither an array nor base64", 0},
		{OpenAI, `{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1,null]}]}`, "component 1 is not finite", 1},
		{OpenAI, `{"data":[{"index":1,"embedding":[1,NaN]},{"index":0,"embedding":[1,2]}]}`, "component 1 is not finite", 1},
		{OpenAI, `{"data":[{"index":0,"embedding":[-Infinity,1]},{"index":1,"embedding":[1,2]}]}`, "component 0 is not finite", 0},
		{OpenAI, `{"data":[{"index":0,"embedding":[1e39,1]},{"index":1,"embedding":[1,2]}]}`, "component 0 is not finite", 0},
		{OpenAI, `{"data":[{"index":0,"embedding":[[1,2]]},{"index":1,"embedding":[1,2]}]}`, "component 0 is not a number", 0},
		{OpenAI, `{"data":[{"index":0,"embedding":["1"]},{"index":1,"embedding":[1,2]}]}`, "component 0 is not a number", 0},
		{OpenAI, `{"data":[{"index":0,"embedding":"AAAA"},{"index":1,"embedding":"AAAA"}]}`, "3 bytes", 0},
		{OpenAI, `{"data":[{"index":0,"embedding":"?"},{"index":1,"embedding":"?"}]}`, "no base64", 0},
		{OpenAI, `{"data":[{"index":0,"embedding":"` + base64Of([]float32{1, 2, nan}) + `"},{"index":1,"embedding":"AACAPw=="}]}`, "component 2 is NaN", 0},
		{OpenAI, `{"data":[{"index":"0","embedding":[1]},{"index":"1","embedding":[1]}]}`, "index", -1},
		{Ollama, `{"error":"model \"m\" not found"}`, "not found", -1},
		{Ollama, `{"embeddings":[[1,2]]}`, "1 embeddings for 2 texts", -1},
		{Ollama, `{"embedding":[1,2]}`, `no "embeddings"`, -1},
		{Ollama, `{"embeddings":[[1,2],[1,null]]}`, "component 1 is not finite", 1},
		{Cohere, `{"embeddings":[[1],[2]]}`, "field embeddings holds a JSON array", -1},
		{Cohere, `{"message":"invalid api token"}`, "invalid api token", -1},
		{Cohere, `{"embeddings":{"int8":[[1],[2]]}}`, `no "embeddings.float"`, -1},
		{TEI, `null`, "0 embeddings for 2 texts", -1},
		{TEI, `{"error":"Model is overloaded"}`, "JSON object", -1},
		{TEI, `[[1,2],{}]`, "neither", 1},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, c.reply) }))
		sv, err := New(c.p, Options{Model: "m", Call: call.Options{BaseURL: srv.URL}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := sv.Embed(context.Background(), embed.Passage, []string{"a", "b"})
		text := -1
		var te *TextError
		if errors.As(err, &te) {
			text = te.Index
		}
		if !errors.Is(err, call.ErrReply) || !strings.Contains(err.Error(), c.want) || text != c.text || r.Vectors != nil {
			t.Errorf("%v %s: got %v, want %q of text %d", c.p, c.reply, err, c.want, c.text)
		}
		if n := sv.Stats().Requests; n != 1 {
			t.Errorf("%s: %d requests: nonsense is not asked for twice", c.reply, n)
		}
		sv.Close()
		srv.Close()
	}
}

func TestDimension(t *testing.T) {
	s := newServer(t)
	sv, _ := open(t, s, Options{Dim: dim + 1})
	if _, err := sv.Embed(context.Background(), embed.Query, texts(1)); !errors.Is(err, call.ErrReply) || !strings.Contains(err.Error(), "8 components, want 9") {
		t.Errorf("got %v", err)
	}
	sv, _ = open(t, s, Options{})
	if id := sv.Identity(); id.Dim != 0 {
		t.Errorf("dimension %d before the first reply", id.Dim)
	}
	for range 2 {
		if id, err := sv.Probe(context.Background()); err != nil || id.Dim != dim {
			t.Errorf("probe: %+v, %v", id, err)
		}
	}
	if s.requests != 2 {
		t.Errorf("%d requests, want 2", s.requests)
	}
	// A server that changes its mind between two batches.
	s.reply = func(texts []string) any {
		return map[string]any{"data": []dataItem{{Embedding: make([]float32, len(texts[0]))}}}
	}
	sv, _ = open(t, s, Options{MaxTexts: 1, Call: call.Options{Concurrent: 1}})
	if _, err := sv.Embed(context.Background(), embed.Passage, []string{"aa", "bbb"}); err == nil || !strings.Contains(err.Error(), "text 1: ") {
		t.Errorf("got %v", err)
	}
}

func TestEmbedNothing(t *testing.T) {
	s := newServer(t)
	sv, _ := open(t, s, Options{})
	r, err := sv.Embed(context.Background(), embed.Query, nil)
	if err != nil || r.Vectors != nil || s.requests != 0 {
		t.Errorf("%v, %v, %d requests", r, err, s.requests)
	}
}

func TestUnitLength(t *testing.T) {
	for _, v := range [][]float32{{0, 0}, {1e-40, 0}, {3e38, 3e38}, {-1, 1e-30}} {
		got := make([]float32, len(v))
		normalize(got, v)
		sum := 0.0
		for _, x := range got {
			sum += float64(x) * float64(x)
		}
		want := 1.0
		if v[0] == 0 {
			want = 0
		}
		if math.Abs(sum-want) > 1e-6 {
			t.Errorf("%v has length² %v", v, sum)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "Model"}, {Options{Model: "m", Dim: -1}, "Dim"}, {Options{Model: "m", Shorten: true}, "Shorten"},
		{Options{Model: "m", MaxTexts: -1}, "negative"}, {Options{Model: "m", Floor: 1}, "Floor"}, {Options{Model: "m", Floor: math.NaN()}, "Floor"},
		{Options{Model: "m"}, "OPENAI_API_KEY holds no API key"},
		{Options{Model: "m", Call: call.Options{BaseURL: "nonsense"}}, "base URL"},
	} {
		if _, err := New(OpenAI, c.o); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.o, err, c.want)
		}
	}
	if _, err := New(99, Options{Model: "m"}); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
	for p := range Provider(len(shapes)) {
		if got, err := ParseProvider(p.String()); got != p || err != nil {
			t.Errorf("%v: %v, %v", p, got, err)
		}
	}
	if _, err := ParseProvider("x"); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
}

// The provider's own variable is not sent to another server.
func TestKeyStaysHome(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-home")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the key of api.openai.com was sent to another server")
		}
		io.WriteString(w, `{"data":[{"embedding":[1]}]}`)
	}))
	defer srv.Close()
	sv, err := New(OpenAI, Options{Model: "m", Call: call.Options{BaseURL: srv.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer sv.Close()
	if _, err := sv.Embed(context.Background(), embed.Query, []string{"a"}); err != nil {
		t.Error(err)
	}
}

// The length is known before a request is written, for any bytes.
func TestQuote(t *testing.T) {
	for _, s := range []string{"", "a\"\\\n\x00\x7f", "日本🙂\u2028", "\xff\xc3", "<&>"} {
		r := &run{s: &Service{shape: &shapes[OpenAI]}, prefix: "p\"", texts: []string{s, s}, head: []byte(`{"input":[`)}
		body := r.body(batch{0, 2})
		if want := len(r.head) + 2*(encodedLen("p\"")+encodedLen(s)+2) + 1 + 2; len(body) != want {
			t.Errorf("%q: %d bytes, want %d", s, len(body), want)
		}
		var got struct{ Input []string }
		if err := json.Unmarshal(body, &got); err != nil || got.Input[1] != "p\""+strings.ToValidUTF8(s, "\ufffd\ufffd") && utf8.ValidString(s) {
			t.Errorf("%q: %q, %v", s, got.Input, err)
		}
	}
}

func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"data":[{"index":1,"embedding":[1,2]},{"index":0,"embedding":"AACAPwAAgD8="}]}`), 2)
	f.Add([]byte(`{"embeddings":[[1,NaN],[-Infinity,null]]}`), 2)
	f.Add([]byte(`{"embeddings":{"float":[[1e39]]}}`), 1)
	f.Add([]byte(`[[0.1,-2e-3],[]]`), 2)
	f.Add([]byte(`{"data":[{"embedding":"\"NaN"}]}`), 1)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		if n < 1 || n > 8 {
			return
		}
		for p := range shapes {
			vectors, err := parseReply(&shapes[p], data, n, 3)
			if err != nil {
				if !errors.Is(err, call.ErrReply) || vectors != nil {
					t.Fatalf("%v", err)
				}
				continue
			}
			if len(vectors) != n {
				t.Fatalf("%d vectors for %d texts", len(vectors), n)
			}
			total := 0
			for _, v := range vectors {
				total += len(v)
				for _, x := range v {
					if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
						t.Fatalf("%v in %v", f, v)
					}
				}
			}
			if total > len(data) {
				t.Fatalf("%d components from %d bytes", total, len(data))
			}
		}
	})
}

func FuzzQuote(f *testing.F) {
	f.Add("a\"\\\n\xff日")
	f.Fuzz(func(t *testing.T, s string) {
		r := &run{texts: []string{s}, head: []byte("{")}
		if body := r.body(batch{0, 1}); len(body) != encodedLen(s)+5 || !utf8.Valid(body) {
			t.Fatalf("%q: %d bytes, encodedLen says %d", body, len(body), encodedLen(s))
		}
	})
}

func BenchmarkParseReply(b *testing.B) {
	const n, d = 64, 384
	v := make([]float32, d)
	for i := range v {
		v[i] = float32(math.Sin(float64(i)))
	}
	for name, one := range map[string]any{"base64": base64Of(v), "array": v} {
		items := make([]dataItem, n)
		for i := range items {
			items[i].Embedding = one
		}
		data, _ := json.Marshal(map[string]any{"data": items})
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := parseReply(&shapes[OpenAI], data, n, 0); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/vector")
		})
	}
}
