//go:build ignore

// Command gen makes bgesmall.qem of the files of langchain4j's package.
//
//	go run gen.go path/to/bge-small-en-v1.5-q.onnx path/to/bge-small-en-v1.5-q-tokenizer.json
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/quarrysearch/quarry/knowledge/embed"
)

// The checksums of the two files in version 0.36.2.
const (
	wantModel     = "6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4"
	wantTokenizer = "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func read(name, want string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want {
		return nil, fmt.Errorf("%s: sha256 %x, want %s", name, sum, want)
	}
	return data, nil
}

func run() error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: go run gen.go path/to/bge-small-en-v1.5-q.onnx path/to/bge-small-en-v1.5-q-tokenizer.json")
	}
	data, err := read(os.Args[1], wantModel)
	if err != nil {
		return err
	}
	tokenizer, err := read(os.Args[2], wantTokenizer)
	if err != nil {
		return err
	}
	p, _ := embed.FindProfile("bge-small-en-v1.5")
	m, err := embed.FromONNX("bge-small-en-v1.5-q.onnx", data, tokenizer, p)
	if err != nil {
		return err
	}
	f, err := os.Create("bgesmall.qem")
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
