package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// Format versions, newest last.
const (
	version1 = 1 // the first
	version  = version1
)

const (
	magic      = "QUARRYEC"
	headerSize = 32
	recordHead = 32
	maxDim     = 1 << 16

	flagTruncated = 1
)

// A key stands for one text of one kind under one identity.
type key [16]byte

// scope is the hash of an identity and a kind: the first half of a key's input.
func scope(id embed.Identity, kind embed.Kind) []byte {
	var b []byte
	for _, s := range [...]string{id.Name, id.Revision, id.Metric, id.QueryPrefix, id.PassagePrefix, id.Tokenizer} {
		b = storage.AppendBytes(b, s)
	}
	b = storage.AppendUvarint(b, uint64(id.Dim))
	sum := sha256.Sum256(b)
	return append(sum[:], byte(kind))
}

func keyOf(scope []byte, text string) key {
	h := sha256.New()
	h.Write(scope)
	h.Write([]byte(text))
	var sum [sha256.Size]byte
	return key(h.Sum(sum[:0])[:16])
}

const (
	lockName   = "embeddings.lock"
	namePrefix = "embeddings-"
	nameSuffix = ".log"
)

func logName(number uint64) string { return fmt.Sprintf("%s%016x%s", namePrefix, number, nameSuffix) }

// parseName is strict: a name logName would not write is not ours.
func parseName(name string) (uint64, bool) {
	s, ok1 := strings.CutPrefix(name, namePrefix)
	s, ok2 := strings.CutSuffix(s, nameSuffix)
	n, err := strconv.ParseUint(s, 16, 64)
	return n, ok1 && ok2 && err == nil && logName(n) == name
}

func appendHeader(b []byte, number uint64) []byte {
	start := len(b)
	b = append(b, magic...)
	b = storage.AppendU32(b, version)
	b = storage.AppendU32(b, 0)
	b = storage.AppendU64(b, number)
	return storage.AppendU64(b, xxhash.Sum64(b[start:]))
}

// checkHeader returns a CorruptError, or a VersionError for another release's
// file.
func checkHeader(file string, b []byte, number uint64) error {
	if len(b) < headerSize || string(b[:8]) != magic {
		return storage.Corruptf(file, 0, "no header of an embedding cache")
	}
	le := binary.LittleEndian
	if v, f := le.Uint32(b[8:]), le.Uint32(b[12:]); v != version || f != 0 {
		return &storage.VersionError{File: file, Have: v, Min: version1, Max: version, Features: uint64(f)}
	}
	if xxhash.Sum64(b[:24]) != le.Uint64(b[24:]) {
		return storage.Corruptf(file, 24, "header checksum")
	}
	if n := le.Uint64(b[16:]); n != number {
		return storage.Corruptf(file, 16, "number %d, the name says %d", n, number)
	}
	return nil
}

func recordSize(dim int) int { return recordHead + 4*dim }

func appendRecord(b []byte, k key, vector []float32, truncated bool) []byte {
	start := len(b)
	b = append(b, make([]byte, 8)...)
	b = append(b, k[:]...)
	b = storage.AppendU32(b, uint32(len(vector)))
	flags := uint32(0)
	if truncated {
		flags = flagTruncated
	}
	b = storage.AppendU32(b, flags)
	for _, x := range vector {
		b = storage.AppendF32(b, x)
	}
	binary.LittleEndian.PutUint64(b[start:], xxhash.Sum64(b[start+8:]))
	return b
}

// recordDim reads the dimension from a record's first bytes, and checks what
// can be checked without the rest.
func recordDim(head []byte) (int, bool) {
	dim := binary.LittleEndian.Uint32(head[24:])
	flags := binary.LittleEndian.Uint32(head[28:])
	return int(dim), dim >= 1 && dim <= maxDim && flags&^flagTruncated == 0
}

// checkRecord verifies a whole record.
func checkRecord(b []byte) (k key, dim int, ok bool) {
	if len(b) < recordHead {
		return k, 0, false
	}
	dim, ok = recordDim(b)
	if !ok || len(b) != recordSize(dim) || xxhash.Sum64(b[8:]) != binary.LittleEndian.Uint64(b) {
		return k, 0, false
	}
	return key(b[8:24]), dim, true
}

// readVector copies the components of a checked record.
func readVector(dst []float32, record []byte) (truncated bool) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(record[recordHead+4*i:]))
	}
	return binary.LittleEndian.Uint32(record[28:])&flagTruncated != 0
}
