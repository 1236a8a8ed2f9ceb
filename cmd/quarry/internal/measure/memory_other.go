//go:build !linux

package measure

import "errors"

var errNoTelling = errors.New("this needs Linux")

func dropFile(string) error { return errNoTelling }

func diskBytes() (int64, error) { return 0, errNoTelling }

func residentSections(string, string) (int64, error) { return 0, errNoTelling }
