package main

import (
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
)

// unlike are commands that have no --json, and why.
var unlike = map[string]string{
	"quarry serve":           "it prints no result: it serves",
	"quarry mcp":             "it speaks a protocol",
	"quarry completion":      "its result is a script",
	"quarry man":             "its result is a page",
	"quarry workflow export": "its result is a document",
}

// TestManner holds what all commands have in common: help with an example of
// the command itself, --json, and --data where an index or a store is named.
func TestManner(t *testing.T) {
	var c cli
	parser, err := newParser(t.Context(), &console.Console{Stdout: io.Discard, Stderr: io.Discard}, &c, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range parser.Model.Leaves(false) {
		path := node.FullPath()
		if node.Help == "" || !strings.HasSuffix(node.Help, ".") {
			t.Errorf("%s: help %q: want a sentence", path, node.Help)
		}
		if !strings.Contains(node.Detail, "    "+path) {
			t.Errorf("%s: its help has no example", path)
		}
		if !hasFlag(node, "json") && unlike[path] == "" {
			t.Errorf("%s: no --json", path)
		}
		named := slices.ContainsFunc(node.Positional, func(p *kong.Positional) bool { return p.Name == "dir" || p.Name == "store" })
		if named && !hasFlag(node, "data") {
			t.Errorf("%s: no --data", path)
		}
		for _, f := range node.Flags {
			if f.Help == "" || !strings.HasSuffix(f.Help, ".") {
				t.Errorf("%s --%s: help %q: want a sentence", path, f.Name, f.Help)
			}
		}
	}
}

func hasFlag(n *kong.Node, name string) bool {
	return slices.ContainsFunc(n.Flags, func(f *kong.Flag) bool { return f.Name == name })
}

// TestCompletionAndMan: the real command line, through the commands.
func TestCompletionAndMan(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := ok(t, "completion", shell); !strings.Contains(out, "kb search") || !strings.Contains(out, "--target-recall") && !strings.Contains(out, "-l target-recall") {
			t.Errorf("%s: %.200s", shell, out)
		}
	}
	fails(t, console.ExitUsage, "must be one of", "completion", "tcsh")
	page := ok(t, "man")
	if !strings.Contains(page, ".SS quarry kb search") {
		t.Errorf("%.200s", page)
	}
	if path, err := exec.LookPath("groff"); err == nil {
		cmd := exec.CommandContext(t.Context(), path, "-man", "-Tutf8", "-ww", "-z")
		cmd.Stdin = strings.NewReader(page)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("groff: %v\n%.1000s", err, out)
		}
	}
}

// TestDataDirectory names an index and a store by their data directory.
func TestDataDirectory(t *testing.T) {
	data := t.TempDir()
	file := writeFile(t, "c.jsonl", `{"id":"a","text":"granite"}`)
	ok(t, "import", "--data", data, "notes", file)
	if r := search(t, "--data", data, "notes", "granite"); ids(r) != "a" {
		t.Error(ids(r))
	}
	// It is where the server looks for it.
	r, err := registry.Open(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	names, err := r.Names()
	if err := errors.Join(err, r.Close(t.Context())); err != nil || !slices.Equal(names, []string{"notes"}) {
		t.Error(names, err)
	}
	fails(t, console.ExitUsage, "name", "search", "--data", data, "../notes", "granite")
	ok(t, "kb", "create", "--data", data, "knowledge", "docs", "--embed", "none")
	if out := ok(t, "kb", "list", filepath.Join(data, "knowledge")); !strings.Contains(out, "docs") {
		t.Error(out)
	}
	fails(t, console.ExitUsage, "knowledge", "kb", "list", "--data", data, "store")
}
