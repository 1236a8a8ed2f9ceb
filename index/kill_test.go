package index

import (
	"bufio"
	"fmt"
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

// killChild writes numbered batches until it is killed and prints the number
// of each once it is acknowledged. Batch n puts killBatch documents and the
// counter, and deletes the documents of batch n-killKeep.
func killChild(dir string) {
	ix, err := Open(dir, killOptions())
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

// TestKill kills a writing process at random moments, 20 times or as often as
// QUARRY_KILLS says. Whatever it acknowledged must be there; of no batch may
// there be a part.
func TestKill(t *testing.T) {
	kills := 20
	if s := os.Getenv("QUARRY_KILLS"); s != "" {
		kills, _ = strconv.Atoi(s)
	} else if testing.Short() {
		kills = 3
	}
	r := rand.New(rand.NewPCG(testSeed(t), 2))
	dir := t.TempDir()
	total := 0
	for range kills {
		total = killOnce(t, r, dir, total)
	}
	t.Logf("%d batches acknowledged over %d kills", total, kills)
}

func killOnce(t *testing.T, r *rand.Rand, dir string, before int) int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "QUARRY_KILL_DIR="+dir)
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
	pause := time.Duration(r.IntN(120)) * time.Millisecond
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
	have, err := killCounter(ix)
	if err != nil || have < acked || have > acked+1 {
		t.Fatalf("acknowledged %d batches, found %d (%v)", acked, have, err)
	}
	var want []string
	for n := max(1, have-killKeep+1); n <= have; n++ {
		for i := range killBatch {
			want = append(want, fmt.Sprintf("%d-%d", n, i))
		}
	}
	n, err := ix.Count(filter.Filter{})
	if err != nil || have > 0 && n != len(want)+1 {
		t.Fatalf("%d documents, want %d (%v)", n, len(want)+1, err)
	}
	for _, id := range want {
		d, err := ix.Get(id)
		if err != nil || d.Vectors["v"] == nil || d.Text["body"] == "" {
			t.Fatalf("%s after %d batches: %v %v", id, have, d, err)
		}
	}
	if _, err := Check(bg, dir, storage.OS{}, true); err != nil {
		t.Fatal(err)
	}
	return have
}
