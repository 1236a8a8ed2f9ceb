package manual

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// Man is quarry man.
type Man struct{}

// Help is shown by quarry man --help.
func (Man) Help() string {
	return `Prints the page in roff, to be read by man or kept among its pages.

    quarry man > quarry.1
    quarry man | man -l -`
}

// Run writes the page.
func (c *Man) Run(k *kong.Context) error { return WriteMan(k.Stdout, k.Model.Node) }

// environment are the variables that no flag names.
var environment = [][2]string{
	{"NO_COLOR", "Set to anything, it turns colors off."},
	{"QUARRY_CHAT_URL, QUARRY_CHAT_MODEL, QUARRY_CHAT_KEY", "Service that agents of workflows ask: its base URL, the model of nodes that name none, the key."},
}

// WriteMan writes the page of a program, section 1, in roff.
func WriteMan(w io.Writer, program *kong.Node) error {
	root := treeOf(program)
	var b strings.Builder
	name := program.Name
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s \"User Commands\"\n", strings.ToUpper(name), name)
	first, rest, _ := strings.Cut(root.help, "\n\n")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", name, roff(strings.TrimSuffix(strings.TrimPrefix(first, name+" "), ".")))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.I command\n[arguments] [flags]\n.SH DESCRIPTION\n", name)
	paragraphs(&b, rest)
	b.WriteString(".SH COMMANDS\n")
	root.walk(func(c *command) {
		if len(c.children) == 0 {
			c.roff(&b, name)
		}
	})
	b.WriteString(".SH EXIT STATUS\n.TP\n.B 0\nDone.\n.TP\n.B 1\nFailed, found damage, or was interrupted.\n.TP\n.B 2\nThe command line is wrong.\n.SH ENVIRONMENT\n")
	for _, e := range append(environment[:len(environment):len(environment)], flagVariables(root)...) {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(e[0]), roff(e[1]))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// flagVariables are those that stand for flags, once each.
func flagVariables(root *command) (out [][2]string) {
	seen := map[string]bool{}
	root.walk(func(c *command) {
		for _, f := range c.flags {
			for _, name := range f.env {
				if !seen[name] {
					seen[name] = true
					out = append(out, [2]string{name, fmt.Sprintf("Stands for --%s of %s.", f.name, c.path)})
				}
			}
		}
	})
	return out
}

// roff writes a command as a subsection.
func (c *command) roff(b *strings.Builder, program string) {
	fmt.Fprintf(b, ".SS %s\n", roff(program+" "+c.synopsis))
	b.WriteString(roff(c.help) + "\n")
	for _, a := range c.args {
		fmt.Fprintf(b, ".TP\n.I %s\n%s\n", roff(a.name), roff(a.help))
	}
	for _, f := range c.flags {
		if f.name == "help" {
			continue
		}
		b.WriteString(".TP\n.B " + roff(strings.Join(f.words(), ", ")))
		if f.value != "" {
			b.WriteString(" \\fI" + roff(f.value) + "\\fR")
		}
		b.WriteString("\n" + roff(f.help) + "\n")
	}
	paragraphs(b, c.detail)
}

// paragraphs writes the text of a help: paragraphs, and examples, which are
// indented by four spaces.
func paragraphs(b *strings.Builder, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	b.WriteString(".P\n")
	literal := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		example, indented := strings.CutPrefix(line, "    ")
		switch {
		case indented != literal && indented:
			b.WriteString(".RS 4\n.nf\n")
			literal = true
		case literal && !indented && line != "":
			b.WriteString(".fi\n.RE\n.P\n")
			literal = false
		}
		switch {
		case literal && indented:
			b.WriteString(roff(example) + "\n")
		case line == "" && !literal:
			b.WriteString(".P\n")
		case line != "":
			b.WriteString(roff(line) + "\n")
		}
	}
	if literal {
		b.WriteString(".fi\n.RE\n")
	}
}

// roff quotes text on one line: no character of it commands the formatter.
func roff(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r < ' ':
			b.WriteByte(' ')
		case r > '~':
			fmt.Fprintf(&b, "\\[u%04X]", r)
		case b.Len() == 0 && (r == '.' || r == '\''):
			b.WriteString(`\&` + string(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
