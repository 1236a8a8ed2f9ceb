package workflow

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/quarrysearch/quarry/knowledge"
	"github.com/quarrysearch/quarry/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newVars(t testing.TB, values map[string]any) *Vars {
	t.Helper()
	v, err := NewVars(values)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestS1_2_Templates(t *testing.T) {
	vars := newVars(t, map[string]any{
		"user_message": "hard stone", "trap": "{{secret}} \\{{user_message}}", "secret": "s3cret", "blank": " \u200b\n", "empty": "",
		"n": 3.0, "yes": true, "nothing": nil, "täg": "ü", "a-b": "dash", "0": "zero",
		"o":    map[string]any{"to": map[string]any{"value": "deep"}, "list": []any{"x", map[string]any{"k": "v"}}, "0": "key"},
		"tags": []string{"one", "two"},
	})
	if err := vars.Set("found", &Results{Query: "q", Items: []knowledge.Item{{Content: "slate", Score: .5,
		Metadata: knowledge.Metadata{Source: "a.md", Page: 3, SectionPath: []string{"Top", "Sub"}}}}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ source, want, reason string }{
		{"{{user_message}}", "hard stone", ""},
		{"{{ user_message }}!", "hard stone!", ""},
		{"{{\nuser_message\t}}", "hard stone", ""},
		{"a {{o.to.value}} b {{o.list.0}}{{o.list.1.k}}{{o.0}}", "a deep b xvkey", ""},
		{"{{tags.1}} {{täg}} {{a-b}} {{0}}", "two ü dash zero", ""},
		{"{{found.0.content}} {{found.0.metadata.source}} {{found.0.metadata.section_path.1}}", "slate a.md Sub", ""},
		{"{{trap}}", "{{secret}} \\{{user_message}}", ""},
		{`\{{user_message}}`, "{{user_message}}", ""},
		{`\\{{user_message}}`, `\{{user_message}}`, ""},
		{`\{{{{user_message}}}}`, "{{hard stone}}", ""},
		{`} }} { {x} \ \n`, `} }} { {x} \ \n`, ""},
		{"Q: {{blank}}", "Q:  \u200b\n", ""},
		{"{{blank}}", "", "expression {{blank}} at line 1, column 1: the result is blank"},
		{"\n {{empty}}{{blank}}", "", "expression {{empty}} at line 2, column 2: the result is blank"},
		{" \u3000\n", "", "at line 1, column 1: it is blank"},
		{"", "", "it is blank"},
		{"x\nü {{missing}}", "", "expression {{missing}} at line 2, column 3: unknown variable missing"},
		{"{{n}}", "", "{{n}} at line 1, column 1: its value is a number, want text"},
		{"{{yes}}", "", "its value is a boolean"},
		{"{{nothing}}", "", "its value is null"},
		{"{{o}}", "", "its value is an object"},
		{"{{found}}", "", "its value is an array of 1 results"},
		{"{{found.0.metadata.page}}", "", "a number, want text"},
		{"{{found.0.score}}", "", "a number, want text"},
		{"{{found.1.content}}", "", `found is an array of 1 results and has no "1"`},
		{"{{found.00.content}}", "", `has no "00"`},
		{"{{found.-1.content}}", "", `has no "-1"`},
		{"{{o.to.nope.x}}", "", `o.to is an object and has no "nope"`},
		{"{{user_message.0}}", "", `user_message is text and has no "0"`},
		{"{{}}", "", "it is empty"},
		{"{{ . }}", "", "a segment is empty"},
		{"{{a..b}}", "", "a segment is empty"},
		{"{{a b}}", "", `' ' is not allowed`},
		{"{{a", "", "want }} behind the path"},
		{"{{a}", "", "want }} behind the path"},
		{"{{a} }", "", "want }} behind the path"},
		{"{{a{{b}}}}", "", "want }} behind the path"},
		{"{{{user_message}}}", "", "want }} behind the path"},
		{"{{" + strings.Repeat("a.", 40) + "a}}", "", "more than 32 segments"},
		{"\xff", "", "no UTF-8"},
	} {
		got, err := render(c.source, vars)
		if c.reason == "" {
			if err != nil || got != c.want {
				t.Errorf("%q: %q, %v, want %q", c.source, got, err, c.want)
			}
			continue
		}
		var te *TemplateError
		if !errors.As(err, &te) || !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%q: %q, %v, want ... %s", c.source, got, err, c.reason)
		}
	}
	_, err := render("ab{{missing}}", vars)
	var te *TemplateError
	if !errors.As(err, &te) || te.Expression != "missing" || te.Offset != 2 {
		t.Errorf("%+v", te)
	}
	if strings.Contains(fmt.Sprint(err), "s3cret") {
		t.Error("an error shows a value")
	}
}

// Random texts put in stay what they are, and escaping gives any text back.
func TestS1_2_NoExpansion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"{{", "}}", "{", "}", `\`, "x", "{{x}}", "ü", " ", "\n"})
		join := func(label string) string { return strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, label), "") }
		a, b := join("a"), join("b")
		vars, err := NewVars(map[string]any{"x": a, "y": b})
		if err != nil {
			t.Fatal(err)
		}
		got, err := render("<{{x}}{{y}}>", vars)
		if err != nil || got != "<"+a+b+">" {
			t.Fatalf("%q, %v", got, err)
		}
	})
}

func TestTemplateLimits(t *testing.T) {
	if _, err := ParseTemplate(strings.Repeat("a", MaxTemplateBytes)); err != nil {
		t.Error(err)
	}
	if _, err := ParseTemplate(strings.Repeat("a", MaxTemplateBytes+1)); !errors.Is(err, storage.ErrTooLarge) {
		t.Error(err)
	}
	vars := newVars(t, map[string]any{"x": strings.Repeat("y", MaxTextBytes/2)})
	if got, err := render("{{x}}{{x}}", vars); err != nil || len(got) != MaxTextBytes {
		t.Error(len(got), err)
	}
	if _, err := render("{{x}}{{x}}.", vars); !errors.Is(err, storage.ErrTooLarge) {
		t.Error(err)
	}
	// The worst sources of the limit's length take no time.
	for _, s := range []string{"{{", "{{x}}", `\{{`, "{{{", "{{a.b}}\n"} {
		start := time.Now()
		source := strings.Repeat(s, MaxTemplateBytes/len(s))
		if tpl, err := ParseTemplate(source); err == nil {
			_, _ = tpl.Render(newVars(t, map[string]any{"x": "1", "a": map[string]any{"b": "2"}}))
		}
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("%q: %v", s, d)
		}
	}
}

func TestVars(t *testing.T) {
	for _, name := range []string{"", "a.b", "a b", "{{", strings.Repeat("x", 101)} {
		if _, err := NewVars(map[string]any{name: 1}); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	var none *Vars
	if _, err := none.Lookup("x"); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
	vars := newVars(t, map[string]any{"s": struct {
		Inner map[string]int `json:"inner"`
	}{map[string]int{"k": 7}}, "f": func() {}, "m": map[string]string{"k": "v"}})
	if v, err := vars.Lookup("s.inner.k"); err != nil || v != 7.0 {
		t.Error(v, err)
	}
	if v, err := vars.Lookup("m.k"); err != nil || v != "v" {
		t.Error(v, err)
	}
	for _, path := range []string{"f.x", "s.other", "", "a..b", "s.inner.k.x"} {
		if _, err := vars.Lookup(path); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{{x}}", `\{{x}} {{ y.0.k }}`, "{{", "}}{{x.y}}", "{{x}}\n{{missing}}", "{{{x}}}", "\xff{{"} {
		f.Add(s, "value {{x}}")
	}
	f.Fuzz(func(t *testing.T, source, value string) {
		tpl, err := ParseTemplate(source)
		if err != nil {
			if !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrTooLarge) {
				t.Fatal(err)
			}
			return
		}
		vars, err := NewVars(map[string]any{"x": value, "y": []any{map[string]any{"k": value}}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := tpl.Render(vars)
		if err != nil {
			if !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrTooLarge) {
				t.Fatal(err)
			}
			return
		}
		// Without expressions the text is the source with its escapes undone.
		if len(tpl.Paths()) == 0 && got != strings.ReplaceAll(source, escaped, opening) {
			t.Fatalf("%q became %q", source, got)
		}
	})
}
