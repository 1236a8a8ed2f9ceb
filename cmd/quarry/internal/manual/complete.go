package manual

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/alecthomas/kong"
)

// Completion is quarry completion.
type Completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"Shell: bash, zsh, fish, powershell."`
}

// Help is shown by quarry completion --help.
func (Completion) Help() string {
	return `The script completes commands, flags and the values that a flag may have. It calls no program.

    quarry completion bash > /etc/bash_completion.d/quarry
    quarry completion zsh > "${fpath[1]}/_quarry"
    quarry completion fish > ~/.config/fish/completions/quarry.fish
    quarry completion powershell >> $PROFILE`
}

// Run writes the script.
func (c *Completion) Run(k *kong.Context) error {
	return WriteCompletion(k.Stdout, k.Model.Node, c.Shell)
}

// WriteCompletion writes the completion script of a program for bash, zsh, fish
// or powershell.
func WriteCompletion(w io.Writer, program *kong.Node, shell string) error {
	root := treeOf(program)
	write := map[string]func(*strings.Builder, string, *command){"bash": bash, "zsh": zsh, "fish": fish, "powershell": powershell}[shell]
	if write == nil {
		return errors.New(shell + ": want bash, zsh, fish or powershell")
	}
	var b strings.Builder
	write(&b, program.Name, root)
	_, err := io.WriteString(w, b.String())
	return err
}

// candidates are the words that may come at a command: its commands, or else
// its flags.
func (c *command) candidates() (words []string) {
	for _, child := range c.children {
		words = append(words, child.name())
	}
	for _, f := range c.flags {
		words = append(words, f.words()...)
	}
	return words
}

// choices yields the flags of all commands that take one of several words, as
// "path --flag", in order.
func choices(root *command) (out [][2]string) {
	root.walk(func(c *command) {
		for _, f := range c.flags {
			for _, word := range f.words() {
				if len(f.choices) > 0 {
					out = append(out, [2]string{strings.TrimSpace(c.path + " " + word), strings.Join(f.choices, " ")})
				}
			}
		}
	})
	sort.Slice(out, func(i, j int) bool { return out[i][0] < out[j][0] })
	return out
}

// paths are those of all commands but the program's.
func paths(root *command) (out []string) {
	root.walk(func(c *command) {
		if c.path != "" {
			out = append(out, c.path)
		}
	})
	return out
}

// quote is s as one word of a POSIX shell, which fish reads alike.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func bash(b *strings.Builder, name string, root *command) {
	fmt.Fprintf(b, "# bash completion of %s\n_%s() {\n", name, name)
	b.WriteString(`  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path= i words=
  COMPREPLY=()
  # --flag=value comes as three words.
  if [[ $cur == "=" ]]; then
    cur=
  elif [[ $prev == "=" ]]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "${path:+$path }${COMP_WORDS[i]}" in
`)
	fmt.Fprintf(b, "      %s) path=\"${path:+$path }${COMP_WORDS[i]}\" ;;\n", alternatives(paths(root)))
	b.WriteString("    esac\n  done\n  case \"${path:+$path }$prev\" in\n")
	for _, c := range choices(root) {
		fmt.Fprintf(b, "    %s) words=%s ;;\n", quote(c[0]), quote(c[1]))
	}
	b.WriteString("  esac\n  if [[ -n $words ]]; then\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n    return\n  fi\n  case \"$path\" in\n")
	root.walk(func(c *command) {
		if len(c.children) > 0 { // files are none of its words
			fmt.Fprintf(b, "    %s) words=%s ;;\n", quote(c.path), quote(strings.Join(c.candidates(), " ")))
			return
		}
		fmt.Fprintf(b, "    %s) [[ $cur == -* ]] && words=%s ;;\n", quote(c.path), quote(strings.Join(c.candidates(), " ")))
	})
	fmt.Fprintf(b, `  esac
  if [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  fi
}
complete -o default -F _%s %s
`, name, name)
}

func alternatives(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, "|")
}

func zsh(b *strings.Builder, name string, root *command) {
	fmt.Fprintf(b, "#compdef %s\n_%s() {\n", name, name)
	b.WriteString(`  local at= i
  local -a list
  for ((i = 2; i < CURRENT; i++)); do
    case "${at:+$at }${words[i]}" in
`)
	fmt.Fprintf(b, "      %s) at=\"${at:+$at }${words[i]}\" ;;\n", zshAlternatives(paths(root)))
	b.WriteString("    esac\n  done\n  case \"${at:+$at }${words[CURRENT-1]}\" in\n")
	for _, c := range choices(root) {
		fmt.Fprintf(b, "    (%s)) compadd -- %s; return ;;\n", quote(c[0]), c[1])
	}
	b.WriteString("  esac\n  case \"$at\" in\n")
	root.walk(func(c *command) {
		fmt.Fprintf(b, "    (%s)) list=(", quote(c.path))
		for _, child := range c.children {
			fmt.Fprintf(b, "\n      %s", quote(child.name()+":"+brief(child.help)))
		}
		for _, f := range c.flags {
			for _, w := range f.words() {
				fmt.Fprintf(b, "\n      %s", quote(w+":"+brief(f.help)))
			}
		}
		b.WriteString(")")
		if len(c.children) == 0 {
			b.WriteString("\n      if [[ ${words[CURRENT]} != -* ]]; then _files; return; fi")
		}
		b.WriteString(" ;;\n")
	})
	fmt.Fprintf(b, "  esac\n  _describe '%s' list\n}\nif [[ $funcstack[1] == _%s ]]; then _%s \"$@\"; else compdef _%s %s; fi\n", name, name, name, name, name)
}

func zshAlternatives(words []string) string { return "(" + alternatives(words) + ")" }

func fish(b *strings.Builder, name string, root *command) {
	fmt.Fprintf(b, `# fish completion of %s
function __%s_at
  set -l at
  for word in (commandline -opc)[2..-1]
    set -l next (string trim -- "$at $word")
    if contains -- "$next" %s
      set at $next
    end
  end
  test "$at" = "$argv[1]"
end
`, name, name, strings.ReplaceAll(alternatives(paths(root)), "|", " "))
	root.walk(func(c *command) {
		at := fmt.Sprintf("complete -c %s -n %s", name, quote(fmt.Sprintf("__%s_at %s", name, fishWord(c.path))))
		for _, child := range c.children {
			fmt.Fprintf(b, "%s -f -a %s -d %s\n", at, quote(child.name()), quote(brief(child.help)))
		}
		for _, f := range c.flags {
			fmt.Fprintf(b, "%s -l %s", at, f.name)
			if f.short != "" {
				fmt.Fprintf(b, " -s %s", f.short)
			}
			switch {
			case len(f.choices) > 0:
				fmt.Fprintf(b, " -x -a %s", quote(strings.Join(f.choices, " ")))
			case f.value != "":
				b.WriteString(" -r")
			}
			fmt.Fprintf(b, " -d %s\n", quote(brief(f.help)))
			if f.negated != "" {
				fmt.Fprintf(b, "%s -l %s -d %s\n", at, f.negated, quote("Not: "+brief(f.help)))
			}
		}
	})
}

// fishWord is a word within a quoted condition: paths hold letters, digits,
// dashes and spaces only.
func fishWord(path string) string { return `"` + path + `"` }

func powershell(b *strings.Builder, name string, root *command) {
	word := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	list := func(words []string) string {
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = word(w)
		}
		return "@(" + strings.Join(quoted, ", ") + ")"
	}
	fmt.Fprintf(b, "# PowerShell completion of %s\nRegister-ArgumentCompleter -Native -CommandName %s -ScriptBlock {\n", name, name)
	b.WriteString("  param($wordToComplete, $commandAst, $cursorPosition)\n  $words = @{\n")
	root.walk(func(c *command) { fmt.Fprintf(b, "    %s = %s\n", word(c.path), list(c.candidates())) })
	b.WriteString("  }\n  $choices = @{\n")
	for _, c := range choices(root) {
		fmt.Fprintf(b, "    %s = %s\n", word(c[0]), list(strings.Fields(c[1])))
	}
	b.WriteString(`  }
  $at = ''
  $before = ''
  foreach ($element in $commandAst.CommandElements | Select-Object -Skip 1) {
    if ($element.Extent.EndOffset -ge $cursorPosition) { break }
    $before = $element.ToString()
    $next = "$at $before".Trim()
    if ($words.ContainsKey($next)) { $at = $next }
  }
  $found = $choices["$at $before".Trim()]
  if (-not $found) { $found = $words[$at] }
  $found | Where-Object { $_ -clike "$wordToComplete*" } | ForEach-Object {
    [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
  }
}
`)
}
