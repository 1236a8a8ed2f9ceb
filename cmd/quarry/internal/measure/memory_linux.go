package measure

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quarrysearch/quarry/storage"
)

// dropFile throws a file out of the page cache; what is not written yet is
// written first, since only clean pages can go.
func dropFile(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Sync(); err != nil {
		return err
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("posix_fadvise %s: %w", path, err)
	}
	return nil
}

// diskBytes counts the bytes this process has had fetched from disk.
func diskBytes() (int64, error) {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "read_bytes: "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, errors.New("/proc/self/io has no read_bytes")
}

// residentSections adds up what this process has resident of the sections of an
// index whose names end so, as it has mapped them. Pages that two sections share
// count for both.
func residentSections(dir, suffix string) (int64, error) {
	fs := storage.OS{}
	man, err := storage.ReadManifest(fs, dir)
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, entry := range man.Segments {
		path, err := filepath.Abs(filepath.Join(dir, storage.SegmentName(entry.Number)))
		if err != nil {
			return 0, err
		}
		maps, err := mappings(path)
		if err != nil {
			return 0, err
		}
		file, err := storage.OpenSegment(fs, path, entry.Info)
		if err != nil {
			return 0, err
		}
		for _, s := range file.Sections() {
			if !strings.HasSuffix(s.Name, suffix) {
				continue
			}
			for _, m := range maps {
				n, err := m.resident(s.Offset, s.Offset+s.Size)
				if err != nil {
					return 0, err
				}
				total += n
			}
		}
		file.Release()
	}
	return total, nil
}

// A mapping is a part of a file in memory.
type mapping struct {
	start, end uint64 // addresses
	offset     int64  // of start in the file
}

// mappings lists where this process has mapped a file.
func mappings(path string) (out []mapping, err error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if !strings.HasSuffix(lines.Text(), " "+path) {
			continue
		}
		var m mapping
		var mode string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s %x", &m.start, &m.end, &mode, &m.offset); err != nil {
			return nil, fmt.Errorf("/proc/self/maps: %q: %w", lines.Text(), err)
		}
		out = append(out, m)
	}
	return out, nil
}

// resident counts the bytes of a file's range that are present.
func (m mapping) resident(from, to int64) (n int64, err error) {
	page := int64(os.Getpagesize())
	from, to = max(from, m.offset)/page*page, min(to, m.offset+int64(m.end-m.start))
	if from >= to {
		return 0, nil
	}
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	first := (int64(m.start) + from - m.offset) / page
	r := bufio.NewReaderSize(io.NewSectionReader(f, first*8, (to-from+page-1)/page*8), 1<<16)
	var entry [8]byte
	for {
		_, err := io.ReadFull(r, entry[:])
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return 0, fmt.Errorf("/proc/self/pagemap: %w", err)
		}
		if binary.LittleEndian.Uint64(entry[:])>>63 == 1 {
			n += page
		}
	}
}
