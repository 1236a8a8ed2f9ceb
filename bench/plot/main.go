package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

// drawings are the kinds of pictures, by the kind of line that they are of.
var drawings = []struct {
	name, kind string
	draw       func(lines []line, set string) (*plot.Plot, error)
}{
	{"curves", "curve", curves},
	{"build", "build", builds},
	{"filtered", "filtered", filtered},
}

const usage = "want curves, build, filtered, table or all, then -o DIR (not for table), then files of JSON lines"

func run(stdout io.Writer, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	what := args[0]
	flags := flag.NewFlagSet(what, flag.ContinueOnError)
	dir := flags.String("o", ".", "folder for the pictures")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New(usage)
	}
	lines, err := read(flags.Args())
	if err != nil {
		return err
	}
	if what != "table" {
		if err := os.MkdirAll(*dir, 0o777); err != nil {
			return err
		}
	}
	known := what == "table" || what == "all"
	for _, d := range drawings {
		if what != d.name && what != "all" {
			continue
		}
		known = true
		for _, set := range sets(lines, d.kind) {
			p, err := d.draw(lines, set)
			if err != nil {
				return err
			}
			if p == nil {
				continue
			}
			if err := save(filepath.Join(*dir, d.name+"-"+fileName(set)+".svg"), p); err != nil {
				return err
			}
		}
	}
	switch {
	case !known:
		return errors.New(usage)
	case what == "table" || what == "all":
		return table(stdout, lines)
	}
	return nil
}

// fileName is a set's name with nothing in it that a path could be made of.
func fileName(set string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, set)
}

func save(path string, p *plot.Plot) (err error) {
	canvas := vgsvg.New(width, height)
	p.Draw(draw.New(canvas))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = canvas.WriteTo(f)
	return err
}
