package index

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

const (
	killBatch = 10 // documents a batch of the child's
	killKeep  = 7  // batches whose documents live
)

// killDir is the directory of the child process, empty in the parent.
func killDir() string { return os.Getenv("QUARRY_KILL_DIR") }

// killChild writes or reads, until it is killed.
func killChild(dir string) {
	if os.Getenv("QUARRY_KILL_READS") != "" {
		killReader(dir)
		return
	}
	killWriter(dir)
}

// killReader opens the index again and again, beside whoever writes, and
// prints what it finds wrong: each time it must hold whole batches only, and
// none less than the time before. It ends when its input does.
func killReader(dir string) {
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(done)
	}()
	last, opened := 0, 0
	for {
		select {
		case <-done:
			fmt.Println("opened", opened)
			return
		case <-time.After(10 * time.Millisecond):
		}
		ix, err := Open(dir, &Options{ReadOnly: true})
		if errors.Is(err, ErrNotFound) {
			continue // not made yet
		}
		if err == nil {
			var have int
			if have, err = killHolds(ix); err == nil && have < last {
				err = fmt.Errorf("batch %d after batch %d", have, last)
			}
			last = have
			err = errors.Join(err, ix.Close())
		}
		if opened++; err != nil {
			fmt.Println("error", err)
			return
		}
	}
}

// killHolds returns the number of the last batch, and fails unless the index
// holds the documents of the last killKeep batches, whole, and no others.
func killHolds(ix *Index) (int, error) {
	s, err := ix.Snapshot()
	if err != nil {
		return 0, err
	}
	defer s.Close()
	d, err := s.Get("counter")
	if errors.Is(err, ErrNotFound) && s.Len() == 0 {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	have := int(d.Meta["n"].(int64))
	want := 1
	for n := max(1, have-killKeep+1); n <= have; n++ {
		for i := range killBatch {
			want++
			id := fmt.Sprintf("%d-%d", n, i)
			if d, err := s.Get(id); err != nil || d.Vectors["v"] == nil || d.Text["body"] == "" {
				return have, fmt.Errorf("%s after %d batches: %v %w", id, have, d, err)
			}
		}
	}
	if n, err := s.Count(bg, filter.Filter{}); err != nil || n != want {
		return have, fmt.Errorf("%d documents, want %d (%w)", n, want, err)
	}
	return have, nil
}

// killWriter writes numbered batches and prints the number of each once it is
// acknowledged. Batch n puts killBatch documents and the counter, and deletes
// the documents of batch n-killKeep.
func killWriter(dir string) {
	o := killOptions()
	switch os.Getenv("QUARRY_KILL_SYNC") {
	case "never":
		o.Sync = storage.SyncNever
	case "every":
		o.Sync = storage.SyncEvery(2 * time.Millisecond)
	}
	ix, err := Open(dir, o)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	n, err := killCounter(ix)
	for err == nil {
		n++
		b := NewBatch()
		text := strings.Repeat(fmt.Sprintf("batch %d with words ", n), 40)
		for i := range killBatch {
			b.Put(Document{
				ID: fmt.Sprintf("%d-%d", n, i), Text: map[string]string{"body": text}, Meta: map[string]any{"n": n},
				Vectors: map[string][]float32{"v": {float32(n), float32(i), 1, 2}},
			})
		}
		b.Put(Document{ID: "counter", Meta: map[string]any{"n": n}})
		b.DeleteWhere(filter.Eq("n", n-killKeep))
		if err = ix.Apply(bg, b); err == nil {
			fmt.Println(n)
		}
	}
	fmt.Println("error", err)
}

func killOptions() *Options {
	return &Options{Schema: testSchema(), MutableBytes: 128 << 10, GraphMin: 40, MaxSegments: 4}
}

func killCounter(ix *Index) (int, error) {
	d, err := ix.Get("counter")
	if err != nil {
		return 0, ignoreNotFound(err)
	}
	return int(d.Meta["n"].(int64)), nil
}

// TestKill kills a writing process at random moments, under every sync level,
// while another process reads. Whatever was acknowledged must be there (the
// operating system lives on, so under every level); of no batch may there be a
// part. 100 kills, 10 with -short, 1,000 with QUARRY_LONG, or QUARRY_KILLS.
func TestKill(t *testing.T) {
	kills := 100
	switch s := os.Getenv("QUARRY_KILLS"); {
	case s != "":
		kills, _ = strconv.Atoi(s)
	case long():
		kills = 1000
	case testing.Short():
		kills = 10
	}
	r := rand.New(rand.NewPCG(testSeed(t), 2))
	dir := t.TempDir()
	reader := killProcess(dir, "QUARRY_KILL_READS=1")
	stop, err := reader.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said := new(strings.Builder)
	reader.Stdout, reader.Stderr = said, said
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	total := 0
	for i := range kills {
		total = killOnce(t, r, dir, total, []string{"always", "every", "never"}[i%3])
		if rep, err := Check(bg, dir, nil, i%5 == 0); err != nil {
			t.Fatalf("%+v: %v", rep, err)
		}
		if t.Failed() {
			break
		}
	}
	if err := errors.Join(stop.Close(), reader.Wait()); err != nil || !strings.HasPrefix(said.String(), "opened") {
		t.Errorf("reader: %v: %s", err, said)
	}
	t.Logf("%d batches acknowledged over %d kills; reader: %s", total, kills, said)
}

func killProcess(dir string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "QUARRY_KILL_DIR="+dir), env...)
	return cmd
}

func killOnce(t *testing.T, r *rand.Rand, dir string, before int, sync string) int {
	cmd := killProcess(dir, "QUARRY_KILL_SYNC="+sync)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A third of the kills may hit Open and its replay, the others hit a
	// process that writes.
	kill := func() { _ = cmd.Process.Kill() }
	pause := time.Duration(r.IntN(30)) * time.Millisecond
	started := r.IntN(3) == 0
	if started {
		time.AfterFunc(pause, kill)
	}
	acked := before
	for sc := bufio.NewScanner(out); sc.Scan(); {
		n, err := strconv.Atoi(sc.Text())
		if err != nil {
			t.Errorf("child: %s", sc.Text())
			continue
		}
		if acked = n; !started {
			started = true
			time.AfterFunc(pause, kill)
		}
	}
	_ = cmd.Wait() // killed
	ix, err := Open(dir, killOptions())
	if err != nil {
		t.Fatalf("after a kill: %v", err)
	}
	defer ix.Close()
	have, err := killHolds(ix)
	if err != nil || have < acked || have > acked+1 {
		t.Fatalf("%s: acknowledged %d batches, found %d (%v)", sync, acked, have, err)
	}
	return have
}
