package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Exit codes of all commands.
const (
	ExitOK     = 0
	ExitFailed = 1 // also: damage was found, or an interrupt ended it
	ExitUsage  = 2
)

// A Console is what a command may use of the process.
type Console struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Color          bool // Stdout shows colors
	Progress       bool // Stderr shows progress bars
	Interactive    bool // somebody sits before Stdin and Stdout
}

// New looks at the streams and at the environment.
func New(stdin io.Reader, stdout, stderr io.Writer) *Console {
	c := &Console{Stdin: stdin, Stdout: stdout, Stderr: stderr}
	out := terminal(stdout)
	c.Color = out && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	c.Progress = terminal(stderr)
	c.Interactive = out && terminal(stdin)
	return c
}

func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Printf writes a result; a closed pipe is found out by the command's end.
func (c *Console) Printf(format string, args ...any) error {
	_, err := fmt.Fprintf(c.Stdout, format, args...)
	return err
}

// Notef tells something beside the results.
func (c *Console) Notef(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Stderr, "quarry: "+format+"\n", args...)
}

// JSON prints one value on a line of its own.
func (c *Console) JSON(v any) error {
	enc := json.NewEncoder(c.Stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Result prints one result, as JSON or by its String method.
func (c *Console) Result(asJSON bool, v fmt.Stringer) error {
	if asJSON {
		return c.JSON(v)
	}
	return c.Printf("%s\n", v)
}

// Report returns what prints one line of several.
func (c *Console) Report(asJSON bool) func(line any) error {
	return func(line any) error {
		if asJSON {
			return c.JSON(line)
		}
		return c.Printf("%v\n", line)
	}
}

// Stages shows the stages of long work; nil when Stderr is no terminal. The
// function may be called from several goroutines; a total below 0 is not known.
func (c *Console) Stages() func(stage string, done, total int) {
	if !c.Progress {
		return nil
	}
	var mu sync.Mutex
	var b *progressbar.ProgressBar
	current := ""
	return func(stage string, done, total int) {
		mu.Lock()
		defer mu.Unlock()
		if stage != current {
			current = stage
			b = progressbar.NewOptions(total, progressbar.OptionSetWriter(c.Stderr), progressbar.OptionSetDescription(stage),
				progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish())
		}
		if total >= 0 { // else there is no telling
			done = min(done, total)
		}
		_ = b.Set(done) // a bar that cannot be drawn is no reason to stop
	}
}

// Fail prints an error, if there is one, on one line, and returns the exit code.
func (c *Console) Fail(err error) int {
	if err == nil {
		return ExitOK
	}
	c.Notef("%s", OneLine(err))
	var usage UsageError
	if errors.As(err, &usage) {
		c.Notef("see quarry --help, or quarry COMMAND --help")
		return ExitUsage
	}
	return ExitFailed
}

// OneLine is an error's text on one line and without our name, which the
// sentinels start with.
func OneLine(err error) string {
	s := strings.ReplaceAll(err.Error(), "\n", "; ")
	return strings.TrimPrefix(strings.ReplaceAll(s, ": quarry: ", ": "), "quarry: ")
}

// A UsageError is about the command line itself.
type UsageError struct{ Err error }

func (u UsageError) Error() string { return u.Err.Error() }

// Unwrap returns what is wrong.
func (u UsageError) Unwrap() error { return u.Err }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Count is a number and what it counts.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
