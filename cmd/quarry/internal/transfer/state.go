package transfer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const stateVersion = 1

// A State is how far a copy is that has not ended.
type State struct {
	Version int    `json:"version"`
	From    string `json:"from"`
	To      string `json:"to"`
	// Last is the id of the last document that is durable at its target, Documents
	// how many that are.
	Last      string `json:"last"`
	Documents int    `json:"documents"`
}

// ReadState reads the state of a copy between these places; a file that does not
// exist is the start, one of another copy an error.
func ReadState(path, from, to string) (State, error) {
	start := State{Version: stateVersion, From: from, To: to}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return start, nil
	}
	if err != nil {
		return start, err
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return start, fmt.Errorf("%s is damaged (%v): remove it to start over", path, err)
	}
	if s.Version != stateVersion || s.From != from || s.To != to || s.Documents < 0 {
		return start, fmt.Errorf("%s is about a copy of version %d from %s to %s: remove it to start over", path, s.Version, s.From, s.To)
	}
	return s, nil
}

// Write replaces the file. It is not synced: an older one is as good.
func (s State) Write(path string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o666); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
