package peers

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestScripts: the Python scripts are Python, the shell ones shell.
func TestScripts(t *testing.T) {
	for _, c := range []struct {
		program string
		args    []string
		files   []string
	}{
		{"python3", []string{"-c", "import ast,sys; ast.parse(open(sys.argv[1],encoding='utf8').read())"}, []string{"vectors.py", "text.py", "hybrid.py"}},
		{"bash", []string{"-n"}, []string{"setup.sh", "vectors.sh", "lucene/run.sh"}},
	} {
		program, err := exec.LookPath(c.program)
		if err != nil {
			t.Logf("no %s", c.program)
			continue
		}
		for _, file := range c.files {
			if out, err := exec.Command(program, append(c.args, file)...).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", file, err, out)
			}
		}
	}
}

// decode reads JSON lines and checks what all of them have.
func decode(t *testing.T, out []byte) (lines []map[string]any) {
	t.Helper()
	for l := range strings.Lines(string(out)) {
		var m map[string]any
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		for _, key := range []string{"kind", "engine", "set"} {
			if m[key] == nil || m[key] == "" {
				t.Errorf("%s: no %s", l, key)
			}
		}
		lines = append(lines, m)
	}
	return lines
}

// vecs writes a TexMex file.
func vecs(t *testing.T, path string, rows [][]uint32) {
	t.Helper()
	var b []byte
	for _, row := range rows {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(row)))
		for _, x := range row {
			b = binary.LittleEndian.AppendUint32(b, x)
		}
	}
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestVectors runs an engine of each kind on a few vectors.
func TestVectors(t *testing.T) {
	venv := os.Getenv("PEERS_VENV")
	if venv == "" {
		t.Skip("PEERS_VENV is not set")
	}
	dir := filepath.Join(t.TempDir(), "few")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var base, truth [][]uint32
	for range 500 {
		row := make([]uint32, 8)
		for i := range row {
			row[i] = math.Float32bits(float32(rng.NormFloat64()))
		}
		base = append(base, row)
	}
	for i := range 20 { // only the first neighbor is right: it is the query itself
		row := make([]uint32, 10)
		for j := range row {
			row[j] = uint32(i + 100*j)
			if j > 0 {
				row[j] = 1 << 30
			}
		}
		truth = append(truth, row)
	}
	b, q, gt := filepath.Join(dir, "base.fvecs"), filepath.Join(dir, "query.fvecs"), filepath.Join(dir, "gt.ivecs")
	vecs(t, b, base)
	vecs(t, q, base[:20])
	vecs(t, gt, truth)
	for engine, overhead := range map[string]bool{"hnswlib": false, "vsag": true} {
		out, err := exec.Command(filepath.Join(venv, "bin", "python"), "vectors.py", engine, b, q, gt, "--ef", "10,50", "--threads", "1").Output()
		if err != nil {
			t.Fatalf("%s: %v", engine, err)
		}
		lines := decode(t, out)
		if len(lines) != 4 || lines[0]["kind"] != "build" || lines[0]["vectors"] != 500.0 || lines[0]["set"] != "few" || lines[1]["kind"] != "overhead" {
			t.Fatalf("%s: %s", engine, out)
		}
		last := lines[3]
		_, net := last["net_qps"]
		if last["kind"] != "curve" || last["recall"] != 0.1 || last["qps"].(float64) < 1 || net != overhead {
			t.Errorf("%s: %v", engine, last)
		}
	}
}

// TestText runs bleve, and Tantivy where it is there, on a few lines.
func TestText(t *testing.T) {
	dir := t.TempDir()
	docs, queries := filepath.Join(dir, "docs.txt"), filepath.Join(dir, "queries.txt")
	for name, content := range map[string]string{docs: "granite is hard\nslate is not\nhard granite and hard slate\n", queries: "hard granite\nslate\n"} {
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	check := func(engine string, cmd *exec.Cmd) {
		t.Helper()
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", engine, err)
		}
		lines := decode(t, out)
		if len(lines) != 2 || lines[0]["docs"] != 3.0 || lines[1]["engine"] != engine || lines[1]["hits"] != 4.0 || lines[1]["mode"] != "and" || lines[1]["queries"] != 2.0 {
			t.Errorf("%s: %s", engine, out)
		}
	}
	check("bleve", exec.Command("go", "run", "./bleve", "-docs", docs, "-queries", queries, "-mode", "and"))
	if venv := os.Getenv("PEERS_VENV"); venv != "" {
		check("tantivy", exec.Command(filepath.Join(venv, "bin", "python"), "text.py", docs, queries, "--mode", "and"))
	}
}
