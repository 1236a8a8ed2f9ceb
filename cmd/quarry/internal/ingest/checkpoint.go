package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// A Checkpoint is the state of an import that has not ended.
type Checkpoint struct {
	Version int      `json:"version"`
	Sources []Source `json:"sources"`
	// Lines is how many lines of all sources together are in the index or were
	// skipped as bad.
	Lines int `json:"lines"`
}

const checkpointVersion = 1

// ReadCheckpoint reads the checkpoint of an import of these sources; a file that
// does not exist is the start. One of other sources is an error: line numbers
// would mean other lines.
func ReadCheckpoint(path string, sources []Source) (Checkpoint, error) {
	start := Checkpoint{Version: checkpointVersion, Sources: sources}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return start, nil
	}
	if err != nil {
		return start, err
	}
	var c Checkpoint
	if err := json.Unmarshal(b, &c); err != nil {
		return start, fmt.Errorf("%s is damaged (%v): remove it to start over", path, err)
	}
	if c.Version != checkpointVersion || c.Lines < 0 {
		return start, fmt.Errorf("%s has version %d and line %d, this build reads version %d: remove it to start over", path, c.Version, c.Lines, checkpointVersion)
	}
	if !slices.Equal(c.Sources, sources) {
		return start, fmt.Errorf("%s is about %v, not %v: import the same files, or remove it to start over", path, c.Sources, sources)
	}
	return c, nil
}

// Write replaces the checkpoint file. It is not synced: an older one is as good,
// and a damaged one is found out.
func (c Checkpoint) Write(path string) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o666); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// RemoveCheckpoint removes the file, if there is one.
func RemoveCheckpoint(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
