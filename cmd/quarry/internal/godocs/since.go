package godocs

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// since tells the release a symbol came with, as the minor version, 0 for Go 1.0,
// by the symbol's id ("net/http.Client.Do", "net/http").
type since map[string]int

// readSince reads the api files; a GOROOT without them gives nothing.
func readSince(goroot string) (since, error) {
	files, err := filepath.Glob(filepath.Join(goroot, "api", "go1*.txt"))
	if err != nil {
		return nil, err
	}
	s := since{}
	for _, file := range files {
		minor, ok := minorOf(strings.TrimSuffix(filepath.Base(file), ".txt"))
		if !ok {
			continue
		}
		if err := s.read(file, minor); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return s, nil
}

// minorOf reads go1 and go1.N.
func minorOf(name string) (int, bool) {
	if name == "go1" {
		return 0, true
	}
	rest, ok := strings.CutPrefix(name, "go1.")
	n, err := strconv.Atoi(rest)
	return n, ok && err == nil
}

func (s since) read(file string, minor int) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() // read only: nothing to lose
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		pkg, symbol := parseAPI(lines.Text())
		if pkg == "" {
			continue
		}
		s.add(pkg, minor)
		if symbol != "" {
			s.add(pkg+"."+symbol, minor)
		}
	}
	return lines.Err()
}

// add keeps the earliest: a line may come again for another system.
func (s since) add(id string, minor int) {
	if old, ok := s[id]; !ok || minor < old {
		s[id] = minor
	}
}

// parseAPI reads a line such as
//
//	pkg net/http (linux-amd64), method (*Client) Do(*Request) (*Response, error) #123
//
// and returns the package and the symbol, "Client.Do"; "" for other lines and for
// fields of structs.
func parseAPI(line string) (pkg, symbol string) {
	rest, ok := strings.CutPrefix(line, "pkg ")
	if !ok {
		return "", ""
	}
	pkg, rest, ok = strings.Cut(rest, ", ")
	if !ok {
		return "", ""
	}
	pkg, _, _ = strings.Cut(pkg, " ")
	kind, rest, _ := strings.Cut(rest, " ")
	switch kind {
	case "func", "const", "var":
		return pkg, identifier(rest)
	case "type":
		name := identifier(rest)
		if strings.Contains(rest, ", ") && strings.Contains(rest, " struct, ") {
			return pkg, "" // a field of it
		}
		return pkg, name
	case "method":
		recv, name, ok := strings.Cut(strings.TrimPrefix(rest, "("), ") ")
		if !ok {
			return "", ""
		}
		return pkg, identifier(strings.TrimPrefix(recv, "*")) + "." + identifier(name)
	}
	return "", ""
}

// identifier is the name s starts with.
func identifier(s string) string {
	if i := strings.IndexAny(s, "([ ,=#"); i >= 0 {
		return s[:i]
	}
	return s
}
