package console

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Without a terminal there is no color and no progress.
func TestNoTerminal(t *testing.T) {
	var out, errs bytes.Buffer
	c := New(strings.NewReader(""), &out, &errs)
	if c.Color || c.Progress || c.Interactive || c.Stages() != nil {
		t.Errorf("%+v", c)
	}
}

func TestStages(t *testing.T) {
	var errs bytes.Buffer
	c := &Console{Stderr: &errs, Progress: true}
	step := c.Stages()
	step("reading", 1, 2)
	step("reading", 5, 2) // more than there are
	step("writing", 3, -1)
	if out := errs.String(); !strings.Contains(out, "reading") || !strings.Contains(out, "writing") {
		t.Errorf("%q", out)
	}
}

func TestFail(t *testing.T) {
	sentinel := errors.New("quarry: not found")
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{nil, ExitOK, ""},
		{fmt.Errorf("open x: %w", sentinel), ExitFailed, "quarry: open x: not found\n"},
		{errors.Join(sentinel, sentinel), ExitFailed, "quarry: not found; quarry: not found\n"},
		{fmt.Errorf("in it: %w", Usagef("--k %d", 0)), ExitUsage, "quarry: in it: --k 0\nquarry: see quarry --help, or quarry COMMAND --help\n"},
	} {
		var errs bytes.Buffer
		if code := (&Console{Stderr: &errs}).Fail(c.err); code != c.code || errs.String() != c.want {
			t.Errorf("%v: %d, %q", c.err, code, errs.String())
		}
	}
}

type words string

func (w words) String() string { return string(w) }

func TestResults(t *testing.T) {
	var out bytes.Buffer
	c := &Console{Stdout: &out}
	for _, err := range []error{c.Result(true, words("<a>")), c.Result(false, words("b")), c.Report(true)(1), c.Report(false)(2)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, want := out.String(), "\"<a>\"\nb\n1\n2\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if Count(1, "hit") != "1 hit" || Count(0, "hit") != "0 hits" {
		t.Error("count")
	}
}
