package pages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/quarrysearch/quarry/storage"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ignore(string, []byte, []byte, int64) error { return nil }

func walk(data []byte) (uint64, error) {
	return Walk(bytes.NewReader(data), int64(len(data)), "test", ignore)
}

// makeFile returns a bbolt file with pages of 1 KiB, branches, long values,
// free pages, and a bucket kept in the root's page.
func makeFile(t testing.TB) []byte {
	path := filepath.Join(t.TempDir(), "made.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: 1024})
	must(t, err)
	for round := range 2 {
		must(t, db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("large"))
			must(t, err)
			for i := range 150 {
				must(t, b.Put([]byte(fmt.Sprintf("key %03d", i)), bytes.Repeat([]byte("value "), 10+i%40/39*500)))
			}
			b, err = tx.CreateBucketIfNotExists([]byte("small"))
			must(t, err)
			return b.Put([]byte("key"), []byte(fmt.Sprint(round)))
		}))
	}
	must(t, db.Close())
	data, err := os.ReadFile(path)
	must(t, err)
	_, err = walk(data)
	must(t, err)
	return data
}

// newest is the meta page that counts, without the page's head.
func newest(data []byte) []byte {
	m0, m1 := data[pageHeader:], data[1024+pageHeader:]
	if binary.NativeEndian.Uint64(m1[48:]) > binary.NativeEndian.Uint64(m0[48:]) {
		return m1
	}
	return m0
}

// change returns a copy with the newest meta page changed and whole.
func change(data []byte, f func(m []byte)) []byte {
	data = bytes.Clone(data)
	m := newest(data)
	f(m)
	h := fnv.New64a()
	h.Write(m[:metaSize-8])
	binary.NativeEndian.PutUint64(m[metaSize-8:], h.Sum64())
	return data
}

func wantCorrupt(t *testing.T, what string, data []byte) {
	t.Helper()
	if _, err := walk(data); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("%s: %v", what, err)
	}
}

func TestMetaPagesLie(t *testing.T) {
	data := makeFile(t)
	put := func(at int, v uint64) func(m []byte) {
		return func(m []byte) { binary.NativeEndian.PutUint64(m[at:], v) }
	}
	for what, f := range map[string]func(m []byte){
		"root 0":         put(16, 0),
		"root beyond":    put(16, 1<<20),
		"root free":      put(16, binary.NativeEndian.Uint64(newest(data)[32:])),
		"free list 1":    put(32, 1),
		"no free list":   put(32, 1<<64-1),
		"no pages":       put(40, 0),
		"2^40 pages":     put(40, 1<<40),
		"2^63 pages":     put(40, 1<<63),
		"a page more":    put(40, binary.NativeEndian.Uint64(newest(data)[40:])+1),
		"a page less":    put(40, binary.NativeEndian.Uint64(newest(data)[40:])-1),
		"last txid":      put(48, 1<<64-1),
		"page size 0":    func(m []byte) { binary.NativeEndian.PutUint32(m[8:], 0) },
		"page size 2^31": func(m []byte) { binary.NativeEndian.PutUint32(m[8:], 1<<31) },
	} {
		wantCorrupt(t, what, change(data, f))
	}
	// Both metas torn.
	b := bytes.Clone(data)
	b[pageHeader], b[1024+pageHeader] = 0, 0
	wantCorrupt(t, "both torn", b)
	// The newer one torn: the state before, from the other.
	want, err := walk(data)
	must(t, err)
	b = bytes.Clone(data)
	newest(b)[metaSize-1] ^= 1
	if got, err := walk(b); err != nil || got != want-1 {
		t.Errorf("transaction %d after %d", got, want)
	}
}

// Every page that is in use may be claimed by one more, as a whole or as the
// overflow of the page before.
func TestPagesUsedTwice(t *testing.T) {
	data := makeFile(t)
	high := int(binary.NativeEndian.Uint64(newest(data)[40:]))
	w := &walker{r: bytes.NewReader(data), name: "sound", size: int64(len(data)), emit: ignore}
	must(t, w.findMeta())
	w.used = make([]bool, high)
	must(t, w.tree(w.meta.root, "", nil, nil, 0))
	n := 0
	for id := 2; id < high-1; id++ {
		at := id * 1024
		flags, count := binary.NativeEndian.Uint16(data[at+8:]), int(binary.NativeEndian.Uint16(data[at+10:]))
		if !w.used[id] || binary.NativeEndian.Uint64(data[at:]) != uint64(id) {
			continue // free, or overflow
		}
		n++
		b := bytes.Clone(data)
		binary.NativeEndian.PutUint32(b[at+12:], binary.NativeEndian.Uint32(b[at+12:])+1)
		wantCorrupt(t, fmt.Sprintf("page %d overlaps", id), b)
		if flags != flagBranch {
			continue
		}
		for i := range count {
			for _, child := range []int{id, 0, 1, high, int(w.meta.root), int(w.meta.free)} {
				b := bytes.Clone(data)
				binary.NativeEndian.PutUint64(b[at+pageHeader+i*elementSize+8:], uint64(child))
				wantCorrupt(t, fmt.Sprintf("branch %d of page %d to %d", i, id, child), b)
			}
		}
	}
	if n < 20 {
		t.Fatalf("%d pages: nothing to test", n)
	}
}

// Every field of every page's head and elements set to what it should not be:
// an error, or the same pairs as before. No panic, no endless loop.
func TestEveryFieldLies(t *testing.T) {
	data := makeFile(t)
	pairs := func(data []byte) (map[string]string, error) {
		got := map[string]string{}
		_, err := Walk(bytes.NewReader(data), int64(len(data)), "test", func(bucket string, key, value []byte, _ int64) error {
			got[bucket+"/"+string(key)] = string(value)
			return nil
		})
		return got, err
	}
	sound, err := pairs(data)
	must(t, err)
	same, found := 0, 0
	for at := 2048; at < len(data); at += 4 {
		if at%1024 >= 64 || at%3072 >= 1024 { // the head and three elements of every third page
			continue
		}
		for _, v := range []uint32{0, 1, 0x10, 0xFFFF, 1 << 31} {
			b := bytes.Clone(data)
			binary.NativeEndian.PutUint32(b[at:], v)
			got, err := pairs(b)
			if err != nil {
				found++
				continue
			}
			// Pages carry no checksum: a pair may read as another. That is
			// what the catalogue's own sums are for; here only keys' places
			// matter.
			if len(got) <= len(sound) {
				same++
			} else {
				t.Fatalf("byte %d: %d pairs of %d", at, len(got), len(sound))
			}
		}
	}
	if found == 0 || same == 0 {
		t.Errorf("%d found, %d not", found, same)
	}
}

// Our walk and bbolt's own check agree on sound files of any shape.
func TestWalkAgreesWithBolt(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	path := filepath.Join(t.TempDir(), "random.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: 1024})
	must(t, err)
	pairs := map[string]map[string]string{}
	for round := range 25 {
		must(t, db.Update(func(tx *bbolt.Tx) error {
			for range 150 {
				name := string(rune('a' + random.IntN(4)))
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				must(t, err)
				if pairs[name] == nil {
					pairs[name] = map[string]string{}
				}
				key := strings.Repeat("k", 1+random.IntN(40)) + string(rune('a'+random.IntN(26)))
				if random.IntN(3) == 0 {
					must(t, b.Delete([]byte(key)))
					delete(pairs[name], key)
					continue
				}
				value := strings.Repeat("v", random.IntN(60))
				if random.IntN(20) == 0 {
					value = strings.Repeat("w", random.IntN(9000))
				}
				must(t, b.Put([]byte(key), []byte(value)))
				pairs[name][key] = value
			}
			return nil
		}))
		must(t, db.View(func(tx *bbolt.Tx) error {
			for err := range tx.Check() {
				t.Fatal(err)
			}
			return nil
		}))
		f, err := os.Open(path)
		must(t, err)
		info, err := f.Stat()
		must(t, err)
		got := map[string]map[string]string{}
		_, err = Walk(f, info.Size(), path, func(bucket string, key, value []byte, off int64) error {
			if key == nil {
				got[bucket] = map[string]string{}
				return nil
			}
			got[bucket][string(key)] = string(value)
			at := make([]byte, len(key))
			if _, err := f.ReadAt(at, off); err != nil || !bytes.Equal(at, key) {
				t.Fatalf("key %q is not at byte %d: %q", key, off, at)
			}
			return nil
		})
		must(t, err)
		if !reflect.DeepEqual(got, pairs) {
			t.Fatalf("round %d: the walk sees other pairs", round)
		}
		must(t, f.Close())
	}
	must(t, db.Close())
}
