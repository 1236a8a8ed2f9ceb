package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/index"
)

func TestRestore(t *testing.T) {
	dir := imported(t, 100)
	saved := filepath.Join(t.TempDir(), "saved")
	ok(t, "backup", dir, saved)
	before := search(t, dir, "zeta")
	ok(t, "delete", dir, "--where", `lang = "de"`)
	if out := ok(t, "backup", dir, filepath.Join(t.TempDir(), "other"), "--update"); !strings.Contains(out, "50 documents; segments: ") {
		t.Error(out)
	}
	r := decode[map[string]any](t, ok(t, "restore", saved, dir, "--json"))
	if r["dir"] != saved || r["to"] != dir || r["documents"] != 100.0 {
		t.Errorf("%v", r)
	}
	if after := search(t, dir, "zeta"); cmp.Diff(before.Hits, after.Hits) != "" {
		t.Error("the restored index answers otherwise")
	}
	fails(t, console.ExitFailed, "", "restore", filepath.Join(t.TempDir(), "none"), dir)
	if out := ok(t, "check", dir); !strings.Contains(out, "100 documents, no damage") {
		t.Error(out)
	}
}

func TestRepair(t *testing.T) {
	dir := imported(t, 100)
	ok(t, "merge", dir)
	whole := filepath.Join(t.TempDir(), "whole")
	if out := ok(t, "repair", dir, whole); !strings.Contains(out, "100 documents saved, 0 lost") {
		t.Error(out)
	}
	if a, b := search(t, dir, "zeta"), search(t, whole, "zeta"); cmp.Diff(a.Hits, b.Hits) != "" {
		t.Error("the copy of a sound index answers otherwise")
	}
	segments, err := filepath.Glob(filepath.Join(dir, "seg-*.qry"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	data, err := os.ReadFile(segments[0])
	if err == nil {
		data[len(data)/2] ^= 0x10
		err = os.WriteFile(segments[0], data, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(t.TempDir(), "saved")
	c := command(t.Context(), nil, "repair", dir, saved, "--json")
	r := decode[index.RepairReport](t, c.out)
	if c.code != console.ExitFailed || !strings.Contains(c.err, "was damaged") || len(r.Problems) == 0 || r.Documents+r.Lost != 100 {
		t.Errorf("%+v, %s", r, c.err)
	}
	ok(t, "check", saved)
}

func TestQuerySyntaxAndGroups(t *testing.T) {
	dir := imported(t, 200)
	if r := search(t, dir, "--query-string", `text:"alpha beta"~3 -zeta`); len(r.Hits) == 0 {
		t.Error("nothing found by a query string")
	}
	fails(t, console.ExitUsage, "syntax", "search", dir, "alpha", "--query-string", "--phrase")
	r := search(t, dir, "alpha", "--group", "lang", "--group-size", "2")
	if len(r.Groups) != 2 || len(r.Groups[0].Hits) != 2 {
		t.Errorf("%+v", r.Groups)
	}
	out := ok(t, "search", dir, "alpha", "--group", "lang", "--group-size", "2")
	if !strings.Contains(out, "de\n") || !strings.Contains(out, "en\n") || !strings.Contains(out, "4 of ") {
		t.Error(out)
	}
	c := command(t.Context(), nil, "search", dir, "alpja")
	if c.code != console.ExitOK || !strings.Contains(c.err, "did you mean: alpha") {
		t.Errorf("%+v", c)
	}
}
