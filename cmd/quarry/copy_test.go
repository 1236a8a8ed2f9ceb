package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/cluster/testcluster"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
)

// copyResult is what copy --json prints.
type copyResult struct {
	Documents  int    `json:"documents"`
	Resumed    string `json:"resumed_behind"`
	Verified   bool   `json:"verified"`
	Comparison struct {
		From, To struct {
			Documents int
			Checksum  string
		}
		Missing, Extra, Different int
	}
}

// copySource makes an index of n documents with texts, vectors and metadata.
func copySource(t *testing.T, n int) string {
	t.Helper()
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"d%d","title":"Stone %d","text":"Slate splits along its layers.","embedding":[%d,1,0.5],"metadata":{"n":%d,"at":"2020-01-02T03:04:05.678901Z","tags":["a","b%d"],"none":null}}`+"\n",
			i, i, i, i, i%5)
	}
	dir := filepath.Join(t.TempDir(), "idx")
	ok(t, "import", dir, writeFile(t, "docs.jsonl", lines.String()), "--vector", "embedding:3", "--meta", "*,at:time")
	return dir
}

func TestCopyBetweenDirectories(t *testing.T) {
	from, to := copySource(t, 300), filepath.Join(t.TempDir(), "copy")
	r := decode[copyResult](t, ok(t, "copy", "--from", from, "--to", to, "--batch", "70", "--json"))
	if r.Documents != 300 || !r.Verified || r.Comparison.To.Documents != 300 || r.Comparison.From.Checksum != r.Comparison.To.Checksum {
		t.Errorf("%+v", r)
	}
	if a, b := ids(search(t, from, "stone 7")), ids(search(t, to, "stone 7")); a != b || a == "" {
		t.Errorf("the copy finds %s, not %s", b, a)
	}
	// Again: nothing changes.
	if again := decode[copyResult](t, ok(t, "copy", "--from", from, "--to", to, "--json")); again.Comparison != r.Comparison {
		t.Errorf("again: %+v", again)
	}
	// From where an earlier run was cut off, here by a file it could have left.
	state := fmt.Sprintf(`{"version":1,"from":%q,"to":%q,"last":"d5","documents":200}`, from, to)
	if err := os.WriteFile(to+".copy.json", []byte(state), 0o666); err != nil {
		t.Fatal(err)
	}
	if r := decode[copyResult](t, ok(t, "copy", "--from", from, "--to", to, "--json")); r.Resumed != "d5" || r.Documents >= 300 || r.Documents == 0 || !r.Verified {
		t.Errorf("resumed: %+v", r)
	}
	if _, err := os.Stat(to + ".copy.json"); err == nil {
		t.Error("the state stays behind after a copy that ended")
	}
	// What differs is an error.
	ok(t, "delete", to, "d3")
	fails(t, console.ExitFailed, `missing: "d3"`, "copy", "--from", from, "--to", to, "--verify-only")
	ok(t, "delete", from, "d4")
	fails(t, console.ExitFailed, `1 extra`, "copy", "--from", from, "--to", to)
}

func TestCopyUsage(t *testing.T) {
	from := copySource(t, 1)
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{console.ExitUsage, "--collection", []string{"--from", from, "--to", "http://127.0.0.1:1"}},
		{console.ExitUsage, "--collection", []string{"--from", from, "--to", from + "2", "--collection", "c"}},
		{console.ExitUsage, "same directory", []string{"--from", from, "--to", from + "/"}},
		{console.ExitUsage, "--state", []string{"--from", "http://127.0.0.1:1", "--to", "http://127.0.0.1:2", "--collection", "c"}},
		{console.ExitUsage, "--batch", []string{"--from", from, "--to", from + "2", "--batch", "0"}},
		{console.ExitFailed, "no index", []string{"--from", from + "0", "--to", from + "2"}},
		{console.ExitFailed, "no index", []string{"--from", from, "--to", from + "2", "--verify-only"}},
	} {
		fails(t, c.code, c.want, append([]string{"copy"}, c.args...)...)
	}
	if _, err := os.Stat(from + "2"); err == nil {
		t.Error("a copy that was refused made its target")
	}
}

// There and back: what returns from a cluster is what went.
func TestCopyToAClusterAndBack(t *testing.T) {
	c := testcluster.ForTest(t, testcluster.Options{Nodes: 1})
	t.Setenv("QUARRY_CLUSTER_KEY", c.Key())
	urls := strings.Join(c.URLs(), ",")
	from, back := copySource(t, 1200), filepath.Join(t.TempDir(), "back")
	r := decode[copyResult](t, ok(t, "copy", "--from", from, "--to", urls, "--collection", "Stones", "--json"))
	if r.Documents != 1200 || !r.Verified || r.Comparison.To.Documents != 1200 {
		t.Errorf("there: %+v", r)
	}
	if r := decode[copyResult](t, ok(t, "copy", "--from", urls, "--collection", "Stones", "--to", back, "--json")); r.Documents != 1200 || !r.Verified {
		t.Errorf("back: %+v", r)
	}
	if r := decode[copyResult](t, ok(t, "copy", "--from", from, "--to", back, "--verify-only", "--json")); !r.Verified {
		t.Errorf("there and back: %+v", r)
	}
	fails(t, console.ExitFailed, "Nothing", "copy", "--from", urls, "--collection", "Nothing", "--to", back)
}
