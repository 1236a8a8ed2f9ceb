package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const made = "testdata/lines.jsonl" // made up

// TestGolden draws everything and compares it byte for byte; QUARRY_UPDATE=1
// rewrites what is compared with.
func TestGolden(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	if err := run(&out, []string{"all", "-o", dir, made}); err != nil {
		t.Fatal(err)
	}
	got := map[string][]byte{"table.md": out.Bytes()}
	for _, name := range []string{"curves-made-up.svg", "build-made-up.svg", "filtered-made-up.svg"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = b
	}
	for name, b := range got {
		golden := filepath.Join("testdata", name)
		if os.Getenv("QUARRY_UPDATE") != "" {
			if err := os.WriteFile(golden, b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, want) {
			t.Errorf("%s is not what it was", name)
		}
	}
}

// TestReadme: README.md shows what the lines of bench/runs give, and the plots
// beside it are theirs.
func TestReadme(t *testing.T) {
	runs, err := filepath.Glob("../runs/*.jsonl")
	if err != nil || len(runs) == 0 {
		t.Fatalf("%d files of lines: %v", len(runs), err)
	}
	dir := t.TempDir()
	var out bytes.Buffer
	if err := run(&out, append([]string{"all", "-o", dir}, runs...)); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if curves, _, _ := strings.Cut(out.String(), "\n\n"); !strings.Contains(string(readme), strings.TrimSpace(curves)) {
		t.Errorf("README.md does not have this table:\n%s", curves)
	}
	plots, err := filepath.Glob("../plots/*.svg")
	if err != nil || len(plots) == 0 {
		t.Fatalf("%d plots: %v", len(plots), err)
	}
	for _, path := range plots {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, filepath.Base(path))); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the lines give (%v)", path, err)
		}
	}
}

// TestOrder: the same lines spread over files in another order give the same
// picture.
func TestOrder(t *testing.T) {
	data, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var files [3]strings.Builder
	n := 0
	for l := range strings.Lines(string(data)) {
		files[(n*7)%3].WriteString(l)
		n++
	}
	var names []string
	for i := range files {
		name := filepath.Join(dir, string(rune('c'-i)))
		if err := os.WriteFile(name, []byte(files[i].String()), 0o666); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := run(&bytes.Buffer{}, append([]string{"curves", "-o", dir}, names...)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "curves-made-up.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if want, err := os.ReadFile("testdata/curves-made-up.svg"); err != nil || !bytes.Equal(got, want) {
		t.Error("another picture", err)
	}
}

func TestFrontier(t *testing.T) {
	lines := []line{
		{Kind: "curve", Engine: "a", Set: "s", M: 16, Recall: 0.9, QPS: 100},
		{Kind: "curve", Engine: "a", Set: "s", M: 32, Recall: 0.9, QPS: 80}, // slower at the same recall
		{Kind: "curve", Engine: "a", Set: "s", M: 32, Recall: 0.99, QPS: 50},
		{Kind: "curve", Engine: "a", Set: "s", M: 16, Recall: 0.98, QPS: 40}, // worse in both
	}
	f := frontier(lines, "a", "s")
	if len(f) != 2 || f[0].qps != 100 || f[1].qps != 50 {
		t.Fatalf("%v", f)
	}
	for recall, want := range map[float64]float64{0.5: 100, 0.9: 100, 0.945: math.Sqrt(100 * 50), 0.99: 50, 0.995: 0} {
		if got := at(f, recall); math.Abs(got-want) > 1e-9 {
			t.Errorf("at %v: %v, want %v", recall, got, want)
		}
	}
}

func TestMedians(t *testing.T) {
	l := medians([]line{{QPS: 3, BuildS: 4}, {QPS: 1, BuildS: 1}, {QPS: 2, BuildS: 9}})
	if l.QPS != 2 || l.BuildS != 4 {
		t.Errorf("%+v", l)
	}
	if l := medians([]line{{QPS: 1}, {QPS: 2}}); l.QPS != 1.5 {
		t.Errorf("%+v", l)
	}
}

// A build of no time is an index that was there.
func TestReused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs.jsonl")
	if err := os.WriteFile(file, []byte(`{"kind":"build","engine":"a","set":"s","build_s":0}`+"\n"+`{"kind":"build","engine":"a","set":"s","build_s":7}`+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	lines, err := read([]string{file})
	if err != nil || len(lines) != 1 || lines[0].BuildS != 7 {
		t.Errorf("%+v, %v", lines, err)
	}
}

func TestErrors(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.jsonl")
	if err := os.WriteFile(bad, []byte("{}\nno JSON\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "want curves"},
		{[]string{"table"}, "want curves"},
		{[]string{"pie", made}, "want curves"},
		{[]string{"table", bad}, "bad.jsonl:2"},
		{[]string{"table", "nowhere"}, "nowhere"},
	} {
		if err := run(&bytes.Buffer{}, c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
	if got := fileName("../a b"); got != "___a_b" {
		t.Error(got)
	}
}
