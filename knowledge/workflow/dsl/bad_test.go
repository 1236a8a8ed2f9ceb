package dsl

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/storage"
)

const least = "kind: app\nworkflow: {graph: {nodes: [{id: a, data: {type: start}}]}}\n"

func TestBadInput(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "empty",
		"# only words\n":                       "empty",
		"a: [":                                 "line 1",
		"- a\n":                                "want a mapping",
		"kind: app\n":                          "workflow.graph",
		"kind: rag_pipeline\n":                 "want app",
		least + "---\n" + least:                "more than one",
		least + "app: 1\napp: 2\n":             `line 4, column 1: the key "app" comes twice`,
		least + "a: &x {b: 1}\nc:\n  <<: *x\n": "merge",
		least + "? [a]\n: b\n":                 "no scalar",
		least + "\xff":                         "UTF-8",
		least + "a: *gone\n":                   "gone",
		"kind: app\nworkflow: {graph: {nodes: [{data: {type: start}}]}}":             "no id",
		"kind: app\nworkflow: {graph: {nodes: [{id: a}]}}":                           "no data",
		"kind: app\nworkflow: {graph: {nodes: [{id: a, data: []}]}}":                 "no data",
		"kind: app\nworkflow: {graph: {nodes: []}}":                                  "list of nodes",
		"kind: app\nworkflow: {graph: {nodes: x}}":                                   "list of nodes",
		strings.Replace(least, "]}}\n", ", {id: a, data: {}}]}}\n", 1):               "twice",
		strings.Replace(least, "]}}\n", "], edges: [{source: a, target: b}]}}\n", 1): "not both nodes",
		`{"kind": "app", "kind": "app"}`:                                             `line 1, column 17: the key "kind" comes twice`,
		"{\"kind\":\n 1e, \"a\": 2}":                                                 "line 2",
		`{"kind": "app"} {}`:                                                         "follows",
		`{"kind": "app"`:                                                             "no JSON",
	} {
		d, err := Parse([]byte(text))
		if d != nil || !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Bombs are refused by what they stand for, in memory of the order of their own.
func TestBombs(t *testing.T) {
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	for name, text := range map[string]string{
		"billion laughs": laughs.String() + least,
		"own alias":      "a: &a [*a]\n" + least,
		"deep YAML":      "a: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n" + least,
		"deep JSON":      `{"a": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}",
		"deeper YAML":    "a: " + strings.Repeat("[", 200_000),
		"deeper JSON":    `{"a": ` + strings.Repeat("[", 200_000),
		"many values":    least + "a:\n" + strings.Repeat("- \n", MaxValues),
		"many of JSON":   `{"a": [0` + strings.Repeat(",0", MaxValues) + "]}",
		"many nodes":     "kind: app\nworkflow: {graph: {nodes: [" + strings.Repeat("{},", MaxNodes+1) + "]}}",
		"too long":       least + "# " + strings.Repeat("x", MaxBytes),
	} {
		if _, err := Parse([]byte(text)); !errors.Is(err, storage.ErrTooLarge) && !(strings.HasPrefix(name, "deeper") && errors.Is(err, storage.ErrInvalid)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An alias within bounds is kept, and written out where JSON has none.
	d := parse(t, []byte("a: &x [1, 2]\nb: *x\n"+least))
	if got := export(t, d, JSON); !strings.Contains(string(got), "\"b\": [\n    1,\n    2\n  ]") {
		t.Errorf("%s", got)
	}
}

// What JSON cannot hold is an error of the export, with its place; the bytes
// still come back in YAML.
func TestNotInJSON(t *testing.T) {
	for value, want := range map[string]string{".nan": ".nan", "-.inf": "-.inf", "!!binary aGk=": "!!binary", "!mine x": "!mine", "!mine [x]": "!mine"} {
		text := least + "x: " + value + "\n"
		d := parse(t, []byte(text))
		if _, err := d.Export(JSON); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "line 3") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", value, err)
		}
		if !bytes.Equal(export(t, d, YAML), []byte(text)) {
			t.Errorf("%s: other bytes", value)
		}
	}
	if _, err := parse(t, []byte(least)).Export("toml"); !errors.Is(err, storage.ErrInvalid) {
		t.Error(err)
	}
}

// A node whose data an alias shares cannot be changed alone.
func TestSelectShared(t *testing.T) {
	d := parse(t, []byte(`kind: app
x: &d {type: knowledge-retrieval-v2, control_space_ids: [a]}
workflow: {graph: {nodes: [{id: a, data: *d}, {id: b, data: *d}]}}
`))
	if _, err := d.Select("a", []string{"b"}); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "shared") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"app.yml", "old.yml"} {
		data := read(f, name)
		f.Add(data)
		f.Add(export(f, parse(f, data), JSON))
	}
	for _, s := range []string{least, "a: &a [*a]\n" + least, least + "k: \"\\0\\x85\\u2028 \\n \"\n", `{"kind":"app","workflow":{"graph":{"nodes":[{"id":"\n","data":{"type":"start"," a\n":" \n b","x":-0.0e1}}]}}}`,
		least + "s: |\n   x\n    y\n\n", least + "n: [0o17, 0x1F, 1_000, +1, -0, .5, 1., 2001-01-01, 190:20:30, ~, Null, TRUE]\n", least + "? a\n: b\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse(data)
		if err != nil {
			if !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrTooLarge) {
				t.Fatal(err)
			}
			return
		}
		if out, err := d.Export(d.Format()); err != nil || !bytes.Equal(out, data) {
			t.Fatalf("other bytes, %v", err)
		}
		// What there is in the other format comes back, and stays.
		if out, err := d.Export(other(d.Format())); err == nil {
			back, err := parse(t, out).Export(d.Format())
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if again, err := parse(t, back).Export(other(d.Format())); err != nil || !bytes.Equal(again, out) {
				t.Fatalf("not stable, %v:\n%s\n%s", err, out, again)
			}
		}
		for _, n := range d.Nodes() {
			if chosen, err := d.Select(n.ID, []string{"a b", "#c"}); err == nil {
				if node, _ := chosen.find(n.ID); len(node.spaces()) != 2 {
					t.Fatalf("%q", node.spaces())
				}
			}
		}
		if w, err := d.Workflow(); err == nil && len(w.Nodes()) == 0 {
			t.Fatal("no nodes")
		}
	})
}
