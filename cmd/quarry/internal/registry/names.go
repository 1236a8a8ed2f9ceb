package registry

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quarrysearch/quarry/storage"
)

// NamePattern is what names of collections and snapshots look like.
const NamePattern = "[A-Za-z0-9][A-Za-z0-9_-]{0,63}"

const maxName = 64

// Parts of a data directory.
const (
	collectionsName = "collections"
	snapshotsName   = "snapshots"
	knowledgeName   = "knowledge"
	tmpName         = "tmp"
	trashName       = "trash"
)

// CheckName tells whether a name is one: it matches NamePattern and is no name
// that Windows gives to a device. what is the thing named, for the message.
func CheckName(what, name string) error {
	ok := len(name) > 0 && len(name) <= maxName && name[0] != '_' && name[0] != '-'
	for _, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if !ok {
		return storage.Invalidf("name of a %s: %.80q: want %s", what, name, NamePattern)
	}
	if isDevice(name) {
		return storage.Invalidf("name of a %s: %q is the name of a device on Windows: want another one, of the form %s", what, name, NamePattern)
	}
	return nil
}

// isDevice knows the names that Windows gives to devices in every directory.
func isDevice(name string) bool {
	name = strings.ToLower(name)
	if slices.Contains([]string{"con", "prn", "aux", "nul"}, name) {
		return true
	}
	return len(name) == 4 && (strings.HasPrefix(name, "com") || strings.HasPrefix(name, "lpt")) && name[3] >= '0' && name[3] <= '9'
}

// place is the directory of a name in a part of the data directory, where it
// exists or not. That the name is good is the first guard; here is the second:
// the path must lie right below its part, and nothing on the way may be a link.
func (r *Registry) place(what, name string, part ...string) (string, error) {
	if err := CheckName(what, name); err != nil {
		return "", err
	}
	dir := filepath.Join(append([]string{r.dir}, part...)...)
	path := filepath.Join(dir, name)
	if filepath.Dir(path) != dir {
		return "", storage.Invalidf("name of a %s: %q leads out of %s", what, name, dir)
	}
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		return "", storage.Invalidf("%s %q: %s is no directory", what, name, path)
	}
	if err != nil && !os.IsNotExist(err) {
		return "", fmt.Errorf("%w: %w", storage.ErrIO, err)
	}
	return path, nil
}

// directories lists the well-named directories in dir, sorted.
func directories(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrIO, err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && CheckName("directory", e.Name()) == nil {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// hasIndex tells whether there is an index in dir.
func hasIndex(dir string) (bool, error) {
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return false, nil
	}
	g, err := storage.ListManifests(storage.OS{}, dir)
	return len(g) > 0, err
}
