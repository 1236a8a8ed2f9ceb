package parse

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/text/encoding/htmlindex"

	"github.com/quarrysearch/quarry/storage"
)

// Sentinels, matched with errors.Is. Besides them Parse returns errors that
// match storage.ErrCorrupt (malformed), storage.ErrTooLarge (a limit),
// storage.ErrInvalid (options) and the context's own.
var (
	// ErrUnsupported is returned for a file of a kind that Parse does not read.
	ErrUnsupported = errors.New("parse: unsupported format")
	// ErrEncrypted is returned for a file that needs a password.
	ErrEncrypted = errors.New("parse: encrypted")
)

// An Error names the file and what broke. It unwraps to the cause.
type Error struct {
	Name   string
	Format Format // "" when not even that is known
	Err    error
}

func (e *Error) Error() string {
	if e.Format == "" {
		return fmt.Sprintf("parse: %s: %v", e.Name, e.Err)
	}
	return fmt.Sprintf("parse: %s (%s): %v", e.Name, e.Format, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Options bound what one Parse may cost. The zero value of a field means its
// default; a negative value is an error.
type Options struct {
	Format  Format // "" detects it from content and name
	Charset string // label of the encoding for text formats, as in HTML; "" detects it

	MaxBytes    int           // of the source; 256 MiB
	MaxText     int           // bytes of Text; 256 MiB
	MaxPages    int           // of a PDF; 20,000. Pages past it are left out with a warning
	MaxBlocks   int           // blocks and sections together; 4 Mi
	MaxCells    int           // cells of a CSV or XLSX file; 16 Mi
	MaxDepth    int           // nesting of Markdown containers, HTML tables, JSON values and XML elements; 128
	MaxRatio    int           // of inflated to stored bytes in an archive of more than 1 MiB inflated; 200
	MaxInflated int           // bytes inflated from one PDF, DOCX or XLSX; 512 MiB
	MaxWarnings int           // kept; 200. One more says how many were dropped
	PageTime    time.Duration // for one PDF page; 5 s. The page is cut there, with a warning
	Time        time.Duration // for all pages of a PDF; 2 min. Later pages are left empty, with a warning
}

// Validate tells what is wrong with the options, as Parse would.
func (o Options) Validate() error {
	if o.Charset != "" {
		if _, err := htmlindex.Get(o.Charset); err != nil {
			return storage.Invalidf("parse: charset %.40q is unknown", o.Charset)
		}
	}
	return o.fill()
}

func (o *Options) fill() error {
	switch o.Format {
	case "", Markdown, HTML, Text, PDF, DOCX, CSV, XLSX, JSONL:
	default:
		return storage.Invalidf("parse: format %q", o.Format)
	}
	for _, f := range []struct {
		name  string
		value *int
		def   int
	}{
		{"MaxBytes", &o.MaxBytes, 256 << 20}, {"MaxText", &o.MaxText, 256 << 20}, {"MaxPages", &o.MaxPages, 20_000},
		{"MaxBlocks", &o.MaxBlocks, 4 << 20}, {"MaxCells", &o.MaxCells, 16 << 20}, {"MaxDepth", &o.MaxDepth, 128},
		{"MaxRatio", &o.MaxRatio, 200}, {"MaxInflated", &o.MaxInflated, 512 << 20}, {"MaxWarnings", &o.MaxWarnings, 200},
	} {
		if *f.value < 0 {
			return storage.Invalidf("parse: %s is %d, want 0 or more", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.def
		}
	}
	if o.PageTime < 0 || o.Time < 0 {
		return storage.Invalidf("parse: negative time budget")
	}
	if o.PageTime == 0 {
		o.PageTime = 5 * time.Second
	}
	if o.Time == 0 {
		o.Time = 2 * time.Minute
	}
	return nil
}

func tooLarge(format string, args ...any) error {
	return fmt.Errorf("%w: %s", storage.ErrTooLarge, fmt.Sprintf(format, args...))
}
