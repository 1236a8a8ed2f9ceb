package manual

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// A command is a node of the command line.
type command struct {
	path     string // words behind the program's name, "" for the program itself
	help     string
	detail   string
	synopsis string
	args     []argument
	flags    []flag
	children []*command
}

type argument struct{ name, help string }

type flag struct {
	name    string // without dashes
	short   string // "" or one letter
	value   string // what it takes, "" for a switch
	help    string
	choices []string
	negated string // "" or the flag that says no
	env     []string
}

// treeOf reads the parser's model, hidden parts left out.
func treeOf(n *kong.Node) *command {
	c := &command{path: n.Path(), help: n.Help, detail: strings.TrimRight(n.Detail, "\n"), synopsis: n.Summary()}
	if n.Parent == nil {
		c.path = ""
	}
	for _, p := range n.Positional {
		c.args = append(c.args, argument{p.Summary(), p.Help})
	}
	for _, f := range n.Flags {
		if !f.Hidden {
			c.flags = append(c.flags, flagOf(f))
		}
	}
	if n.Parent != nil && !slices.ContainsFunc(c.flags, func(f flag) bool { return f.name == "help" }) {
		c.flags = append(c.flags, flag{name: "help", short: "h", help: "Show context-sensitive help."})
	}
	for _, child := range n.Children {
		if !child.Hidden {
			c.children = append(c.children, treeOf(child))
		}
	}
	return c
}

func flagOf(f *kong.Flag) flag {
	out := flag{name: f.Name, help: f.Help, env: f.Envs}
	if f.Short != 0 {
		out.short = string(f.Short)
	}
	if f.IsBool() {
		switch no := f.Tag.Negatable; no {
		case "":
		case "_": // kong's own
			out.negated = "no-" + f.Name
		default:
			out.negated = no
		}
		return out
	}
	out.value = strings.Trim(f.FormatPlaceHolder(), `"`)
	for _, c := range strings.Split(f.Enum, ",") {
		if c = strings.TrimSpace(c); c != "" {
			out.choices = append(out.choices, c)
		}
	}
	if len(out.choices) > 0 {
		out.value = strings.Join(out.choices, "|")
	}
	return out
}

// walk visits c and all below it, each before its children.
func (c *command) walk(visit func(*command)) {
	visit(c)
	for _, child := range c.children {
		child.walk(visit)
	}
}

// name is the last word of the path.
func (c *command) name() string { return c.path[strings.LastIndexByte(c.path, ' ')+1:] }

// words are the flags as they are typed.
func (f flag) words() []string {
	out := []string{"--" + f.name}
	if f.short != "" {
		out = append(out, "-"+f.short)
	}
	if f.negated != "" {
		out = append(out, "--"+f.negated)
	}
	return out
}

// brief is the first sentence of a help text.
func brief(help string) string {
	if i := strings.Index(help, ". "); i >= 0 {
		help = help[:i]
	}
	if i := strings.IndexAny(help, ";:"); i > 10 {
		help = help[:i]
	}
	return strings.TrimRight(help, ".")
}
