package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/index/keyword"
	"github.com/quarrysearch/quarry/storage"
)

// FuzzDecode feeds every decoder of what a cluster says with the same bytes.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{fakeClass, counted7, `{"classes": [` + fakeClass + `]}`, `[{"id": "x", "result": {"status": "FAILED", "errors": {"error": [{"message": "m"}]}}}]`,
		`{"results": {"failed": 1, "limit": 2, "matches": 3}}`, `{"properties": {"docid": "61", "stored": "{\"t\":{\"t\":\"x\"},\"m\":{\"n\":1}}"}, "vectors": {"v_v": [1, 2]}}`,
		`{"data": {"Get": {"r": [{"docid": "61", "list": ["=8000000000000001\u0000"], "_additional": {"id": "x", "score": "1.5", "distance": 0.5}}]}}}`,
		`{"errors": [{"message": "x"}]}`, `{"t": {}, "m": {"n": [1, 2], "q": null}}`, "YzEuNS42LmE"} {
		f.Add([]byte(s))
	}
	l, err := decodeClass([]byte(fakeClass), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = decodeClass(data, nil)
		_, _ = decodeNames(data)
		_, _ = decodeResults(data, []object{{id: "a"}})
		_ = new(deletion).decode(data)
		_, _ = decodeObject(data, l)
		_, _, _ = decodeStored(l, string(data))
		_ = words(data)
		if p, err := parsePlace(string(data)); err == nil {
			if again, err := parsePlace(p.String()); err != nil || again != p {
				t.Errorf("place %+v is read back as %+v, %v", p, again, err)
			}
		}
		if a, err := decodeAnswer(data); err == nil {
			_, _ = a.count("n")
			for _, s := range []selection{{}, {bm25: "x"}} {
				if hits, err := a.hits(&s); err == nil {
					for i := range hits {
						_, _ = l.document(hits[i].Docid, hits[i].Stored, hits[i].Additional.Vectors)
					}
				}
			}
		}
		if s := string(data); utf8.ValidString(s) {
			if back, err := unkey(key(s)); err != nil || back != s {
				t.Errorf("key of %q is read back as %q, %v", s, back, err)
			}
			if back, err := unID(idKey(s)); s != "" && (err != nil || back != s) {
				t.Errorf("id %q is read back as %q, %v", s, back, err)
			}
		}
	})
}

func TestUUID(t *testing.T) {
	a, b := uuid("a"), uuid("b")
	if len(a) != 36 || a == b || a[14] != '5' || !strings.Contains("89ab", a[19:20]) || strings.Count(a, "-") != 4 || a != "c9711e2e-a398-55ee-b493-77ca46efa3e5" {
		t.Errorf("%s, %s: want version 5, and the same for ever", a, b)
	}
}

func TestKeysKeepOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	random := func() string {
		b := make([]rune, r.IntN(4))
		for i := range b {
			b[i] = []rune{0, 1, ' ', 'A', 'a', 'b', 0x7f, 'é', '\uffff', '🙂'}[r.IntN(10)]
		}
		return string(b)
	}
	for range 20000 {
		a, b := random(), random()
		if (a < b) != (key(a) < key(b)) || (a == b) != (key(a) == key(b)) || (a < b) != (idKey(a) < idKey(b)) {
			t.Fatalf("order of %q and %q", a, b)
		}
		if strings.TrimSpace(key(a)) != key(a) {
			t.Fatalf("key %q loses white space", key(a))
		}
		if a == "" {
			continue
		}
		hi := a[:len(a)-1] + string([]byte{a[len(a)-1] + 1}) // as Prefix makes it
		end, ok := valid(hi)
		if ok && !utf8.ValidString(end) || (b < hi) != (!ok || b < end) {
			t.Fatalf("end %q of the span to %q, for %q", end, hi, b)
		}
	}
}

func TestEscape(t *testing.T) {
	names := []string{"a", "A", "_", "__", "_5f", "a b", "é", "meta.x", strings.Repeat("x", 300), strings.Repeat("x", 301), "_h", "0"}
	seen := map[string]string{}
	for _, n := range names {
		e := escape(n)
		if other, twice := seen[strings.ToLower(e)]; twice || len(e) > 200 || strings.Trim(e, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			t.Errorf("%.20q becomes %q, as does %.20q", n, e, other)
		}
		seen[e] = n
	}
}

func TestWhereIsWritten(t *testing.T) {
	w := allOf(anyOf("p", []string{"a", "b\""}), not(equal("q", "c")))
	const gql = `{operator:And,operands:[{operator:ContainsAny,path:["p"],valueText:["a","b\""]},{operator:And,operands:[` +
		`{operator:Equal,path:["states"],valueText:"=*\u0000"},{operator:Not,operands:[{operator:Equal,path:["q"],valueText:"c"}]}]}]}`
	if got := string(w.graphQL(nil)); got != gql {
		t.Errorf("GraphQL\n%s\nwant\n%s", got, gql)
	}
	const js = `{"operator":"And","operands":[{"operator":"ContainsAny","path":["p"],"valueTextArray":["a","b\""]},{"operator":"And","operands":[` +
		`{"operator":"Equal","path":["states"],"valueText":"=*\u0000"},{"operator":"Not","operands":[{"operator":"Equal","path":["q"],"valueText":"c"}]}]}]}`
	if got := string(w.json(nil)); got != js {
		t.Errorf("JSON\n%s\nwant\n%s", got, js)
	}
}

// TestWordsOfAResult puts the words that tell of success into a document that was
// refused.
func TestWordsOfAResult(t *testing.T) {
	text, _ := json.Marshal(`"result":{"status":"SUCCESS"}`) // a string
	const taken, refused = `{"status":"SUCCESS"}`, `{"errors":{"error":[{"message":"no"}]},"status":"FAILED"}`
	for result, want := range map[string]int{taken: 0, refused: 1} {
		answer := fmt.Sprintf(`[{"id":%q,"properties":{"t_t":%s},"result":%s},{"id":%q,"properties":{"t_t":%[2]s},"result":%[5]s}]`, uuid("a"), text, taken, uuid("b"), result)
		if got, err := decodeResults([]byte(answer), []object{{id: "a"}, {id: "b"}}); err != nil || len(got) != want {
			t.Errorf("%s: refused %v, %v", answer, got, err)
		}
	}
}

func TestStoredDocument(t *testing.T) {
	l, err := decodeClass([]byte(fakeClass), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, meta, err := decodeStored(l, `{"t":{"t":"x"},"m":{"n":[9223372036854775807,-1]}}`)
	if err != nil || text["t"] != "x" || !reflect.DeepEqual(meta["n"], []int64{9223372036854775807, -1}) {
		t.Errorf("%v, %v, %v", text, meta, err)
	}
	for _, s := range []string{`{"t":{},"m":{"other":1}}`} {
		if _, _, err := decodeStored(l, s); !errors.Is(err, errStale) {
			t.Errorf("%s: %v, want the schema read anew", s, err)
		}
	}
	for _, s := range []string{``, `{`, `{"m":{"n":"x"}}`, `{"m":{"n":1.5}}`, `[]`} {
		if _, _, err := decodeStored(l, s); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", s, err)
		}
	}
}

// TestRefused: what a cluster cannot do as an index does is refused by name.
func TestRefused(t *testing.T) {
	a := newFake(t, says(500, ""))
	c := connect(t, Options{}, a)
	for want, q := range map[string]index.Query{
		"phrase":              {Text: &index.TextQuery{Text: "a b", Phrase: true}},
		"prefix":              {Text: &index.TextQuery{Text: "a", Prefix: true}},
		"a phrase":            {Text: &index.TextQuery{QueryString: `"a mill"`}},
		"prefix, pattern":     {Text: &index.TextQuery{QueryString: "mil*"}},
		"errors":              {Text: &index.TextQuery{QueryString: "mill~1"}},
		"boost of its own":    {Text: &index.TextQuery{QueryString: "mill^2"}},
		"constant score":      {Text: &index.TextQuery{Clause: &keyword.Clause{Constant: &keyword.Clause{Match: "a1"}}}},
		"(best)":              {Text: &index.TextQuery{Clause: &keyword.Clause{Best: []keyword.Clause{{Match: "a1"}, {Match: "b1"}}}}},
		"filter and without":  {Text: &index.TextQuery{Clause: &keyword.Clause{Bool: &keyword.Bool{Filter: []keyword.Clause{{Match: "mill"}}}}}},
		"2 of 9 words":        {Text: &index.TextQuery{Text: "a1 a2 a3 a4 a5 a6 a7 a8 a9", MinShouldMatch: 2, Fields: map[string]float64{"t": 1}}},
		"exact":               {Vector: &index.VectorQuery{Vector: []float32{1, 0}, Exact: true}},
		"the way of its":      {Vector: &index.VectorQuery{Vector: []float32{1, 0}, Plan: "flat"}},
		"group":               {Group: &index.GroupRequest{Field: "n"}},
		"a cluster ranks":     {Text: &index.TextQuery{Text: "mill"}, Offset: 10_000},
		"cursor of a cluster": {Text: &index.TextQuery{Text: "mill"}, After: "AQ"},
	} {
		q.K = 10
		_, err := c.Search(t.Context(), q)
		if !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrTooLarge) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	k := 2.0
	s := &index.Schema{Text: []index.TextField{{Name: "t", Analyzer: "english"}, {Name: "u", K1: &k}}, Meta: map[string]filter.Type{}}
	if _, err := Open(t.Context(), Options{URLs: []string{a.URL}, Collection: "c", Schema: s}); !errors.Is(err, storage.ErrSchema) || !strings.Contains(err.Error(), `"u"`) {
		t.Errorf("two k1: %v", err)
	}
	if _, ok := integers([]float64{1, 1.5, 3}); !ok {
		t.Error("boosts 1, 1.5 and 3 are 2, 3 and 6")
	}
	if _, ok := integers([]float64{1, 1.2345}); ok {
		t.Error("boosts 1 and 1.2345 are no small whole numbers")
	}
}

// TestFieldsOfQueries fails when a query or schema gets a field that nobody has
// judged for a cluster: it must be heeded, refused or told in a note, and then be
// named here.
func TestFieldsOfQueries(t *testing.T) {
	for _, c := range []struct {
		of   any
		want string
	}{
		{index.Query{}, "Text Vector Sparse Filter K Offset After Group Fusion Depth MinScore Fields Facets Highlight Count Explain ExplainID"},
		{index.TextQuery{}, "Text QueryString Clause Fields Join TieBreaker Operator MinShouldMatch Phrase Slop Prefix Weight"},
		{index.VectorQuery{}, "Field Vector Ef TargetRecall Exact Within Plan Floor Weight"},
		{index.Fusion{}, "Method RankConstant"},
		{index.FacetRequest{}, "Field Limit"},
		{index.Schema{}, "Text Vectors Sparse Meta Strict"},
		{index.TextField{}, "Name Analyzer Boost K1 B NotStored"},
		{index.VectorField{}, "Name Dim Metric M Construct Bits"},
		{index.Document{}, "ID Text Vectors Sparse Meta"},
	} {
		var names []string
		for i := range reflect.TypeOf(c.of).NumField() {
			names = append(names, reflect.TypeOf(c.of).Field(i).Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%T has %s, judged are %s", c.of, got, c.want)
		}
	}
}
