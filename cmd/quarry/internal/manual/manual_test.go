package manual

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// program is a command line with all there can be, and with text that would
// break a script that did not quote it.
type program struct {
	Get struct {
		File string `arg:"" help:"It's a file; .or none."`
		Mode string `enum:"fast,deep" default:"fast" short:"m" help:"Don't ask $(why): fast, deep."`
		JSON bool   `name:"json" help:"Print JSON."`
		Raw  bool   `negatable:"" default:"true" help:"Raw \\ text."`
		Out  string `placeholder:"FILE" env:"PROGRAM_OUT" help:"Where to."`
	} `cmd:"" help:"Get it."`
	Key struct {
		List struct{} `cmd:"" help:"List the keys: all."`
		Add  struct {
			Name string `arg:"" help:"Name."`
		} `cmd:"" help:"Add a 'key'."`
	} `cmd:"" help:"Keys."`
	Secret struct{} `cmd:"" hidden:"" help:"Nobody sees this."`
}

func model(t *testing.T) *kong.Node {
	t.Helper()
	k, err := kong.New(&program{}, kong.Name("prog"), kong.Description("prog does things.\n\nMuch text.\n\n    prog get x\n    .prog\n\n'Quoted' – end."))
	if err != nil {
		t.Fatal(err)
	}
	return k.Model.Node
}

func script(t *testing.T, shell string) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteCompletion(&b, model(t), shell); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestBash asks a real bash what it would complete.
func TestBash(t *testing.T) {
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	file := filepath.Join(t.TempDir(), "completion")
	if err := os.WriteFile(file, []byte(script(t, "bash")), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ words, want string }{
		{"", "get key --help -h"},
		{"g", "get"},
		{"key ", "list add --help -h"},
		{"key l", "list"},
		{"key add ", ""}, // files, by default
		{"get key ", ""}, // key is an argument there
		{"get --j", "--json"},
		{"get x --no", "--no-raw"},
		{"get --mode ", "fast deep"},
		{"get -m d", "deep"},
		{"get --mode = d", "deep"}, // as bash splits --mode=d
		{"get --mode =", "fast deep"},
		{"get --out ", ""},
		{"nothing ", "get key --help -h"},
	} {
		words := strings.Split("prog "+c.words, " ")
		cmd := exec.Command(path, append([]string{"--noprofile", "--norc", "-c",
			`source "$1" || exit 3; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _prog; echo "${COMPREPLY[*]}"`, "bash", file}, words...)...)
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
			t.Errorf("%q: %q, %v, want %q", c.words, got, err, c.want)
		}
	}
	// The script registers itself.
	out, err := exec.Command(path, "--noprofile", "--norc", "-c", `source "$1" && complete -p prog`, "bash", file).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "-F _prog prog") {
		t.Errorf("%s, %v", out, err)
	}
}

// TestShells checks the other scripts by their own shell where there is one,
// and by what must stand in them.
func TestShells(t *testing.T) {
	for shell, c := range map[string]struct {
		check []string // command that parses a file
		want  []string
	}{
		"zsh":        {[]string{"zsh", "-n"}, []string{"#compdef prog", `'list:List the keys'`, `'add:Add a '\''key'\'''`, "('get --mode')) compadd -- fast deep"}},
		"fish":       {[]string{"fish", "-n"}, []string{`-n '__prog_at "key"' -f -a 'list'`, "-l mode -s m -x -a 'fast deep'", "-l no-raw", "-l out -r"}},
		"powershell": {nil, []string{"'key' = @('list', 'add', '--help', '-h')", "'get --mode' = @('fast', 'deep')"}},
	} {
		s := script(t, shell)
		for _, want := range c.want {
			if !strings.Contains(s, want) {
				t.Errorf("%s: no %q in\n%s", shell, want, s)
			}
		}
		if strings.Contains(s, "secret") {
			t.Errorf("%s tells of what is hidden", shell)
		}
		if c.check == nil {
			continue
		}
		if path, err := exec.LookPath(c.check[0]); err == nil {
			file := filepath.Join(t.TempDir(), "script")
			if err := os.WriteFile(file, []byte(s), 0o666); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(path, append(c.check[1:], file)...).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", shell, err, out)
			}
		}
	}
	if err := WriteCompletion(&bytes.Buffer{}, model(t), "tcsh"); err == nil {
		t.Error("no error for tcsh")
	}
}

// TestZsh and TestFish ask the shells, where there are any. Zsh's own completion
// functions are stood in for: they want a terminal.
func TestZsh(t *testing.T) {
	ask(t, "zsh", []string{"-fc", `compdef() {}; compadd() { shift; print -r -- $@ }; _describe() { print -r -- ${(P)2%%:*} }; _files() { print FILES }
source $0; words=("$@"); CURRENT=$#; _prog`}, map[string]string{
		"prog key ":        "list add --help -h",
		"prog get --mode ": "fast deep",
		"prog get x":       "FILES",
		"prog get x --":    "--mode -m --json --raw --no-raw --out --help -h",
	})
}

func TestFish(t *testing.T) {
	ask(t, "fish", []string{"--no-config", "-c", `source $argv[1]; complete -C "$argv[2..-1]" | string split -f1 \t`}, map[string]string{
		"prog key ":        "add list",
		"prog get --mode ": "deep fast",
		"prog get --no":    "--no-raw",
	})
}

func ask(t *testing.T, shell string, args []string, wants map[string]string) {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skip("no " + shell)
	}
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte(script(t, shell)), 0o666); err != nil {
		t.Fatal(err)
	}
	for line, want := range wants {
		cmd := exec.Command(path, append(append(slices.Clone(args), file), strings.Split(line, " ")...)...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", line, got, err, want)
		}
	}
}

var request = regexp.MustCompile(`^\.(TH|SH|SS|TP|P|B|I|RS|RE|nf|fi)\b`)

func TestMan(t *testing.T) {
	var b bytes.Buffer
	if err := WriteMan(&b, model(t)); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{".TH PROG 1", "prog \\- does things\n", ".SS prog get <file> [flags]", ".SS prog key add <name>\n", ".B \\-\\-mode, \\-m \\fIfast|deep\\fR",
		"\\-\\-raw, \\-\\-no\\-raw", "Raw \\e text.", "\\&.prog", "\\&'Quoted' \\[u2013] end.", ".B PROGRAM_OUT\n", ".SH EXIT STATUS"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	fill := 0
	for line := range strings.Lines(page) {
		if line == "\n" || strings.HasPrefix(line, ".") && !request.MatchString(line) || strings.HasPrefix(line, "'") {
			t.Errorf("a line that roff would take for a request: %q", line)
		}
		fill += strings.Count(line, ".nf\n") - strings.Count(line, ".fi\n")
	}
	if fill != 0 || strings.Contains(page, "ecret") {
		t.Errorf(".nf and .fi do not match, or hidden commands are told of:\n%s", page)
	}
	if path, err := exec.LookPath("groff"); err == nil {
		cmd := exec.Command(path, "-man", "-Tascii", "-ww", "-z")
		cmd.Stdin = strings.NewReader(page)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("groff: %v\n%s", err, out)
		}
	}
}
