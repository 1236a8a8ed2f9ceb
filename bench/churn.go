package bench

import (
	"context"
	"fmt"
	"time"
)

// A Change is one step of a churn: the row that an id gets, or −1 to delete it.
type Change struct {
	ID  int
	Row int
}

// A ChurnConfig says what RunChurn measures. Engine, Base, Queries, Open and
// Report are required.
//
// Ids live on: half of the base's rows are live at a time. In each round every
// live document is replaced: one half of them by an upsert of the same id, the
// other by a delete and an insert of a new id, with the vector of another row.
type ChurnConfig struct {
	Engine, Set   string
	Base, Queries Matrix[float32]
	Metric        Metric
	K             int // 0 means 10
	Rounds        int // full replacements; 0 means 10
	Batch         int // changes at once; 0 means 1000

	// Open makes an empty index. The run closes it.
	Open func(ctx context.Context) (ChurnIndex, error)
	// Report takes a ChurnState for every round, and then for the index merged
	// and for one that was built fresh from what is live at the end.
	Report func(line any) error
}

// A ChurnIndex is what a churn works on.
type ChurnIndex struct {
	// Apply makes changes: at once, all or none.
	Apply func(ctx context.Context, changes []Change) error
	// Search appends the ids of the k nearest to dst, best first.
	Search func(ctx context.Context, query []float32, k int, dst []int32) ([]int32, error)
	// Settle merges all of it.
	Settle func(ctx context.Context) error
	// Size tells segments, tombstones and bytes on disk.
	Size  func() (ChurnSize, error)
	Close func() error
}

// A ChurnSize is how large an index has become.
type ChurnSize struct {
	Segments int   `json:"segments"`
	Deleted  int   `json:"deleted"` // tombstones
	Bytes    int64 `json:"bytes"`   // on disk
}

// A ChurnState is how an index stands.
type ChurnState struct {
	Kind   string `json:"kind"` // "churn"
	Engine string `json:"engine"`
	Set    string `json:"set,omitempty"`
	State  string `json:"state"` // churned, merged or fresh
	Round  int    `json:"round"` // full replacements so far
	Live   int    `json:"live"`
	ChurnSize
	Changes int     `json:"changes"` // in this round
	Seconds float64 `json:"seconds"` // that they, or the merge or the build, took
	Recall  float64 `json:"recall"`  // at K
	Latency
}

func (s ChurnState) String() string {
	return fmt.Sprintf("%s %s %s round %d: %d live, %d segments, %d tombstones, %d bytes, %d changes in %.1f s, recall %.4f, avg %.1f us", s.Engine, s.Set,
		s.State, s.Round, s.Live, s.Segments, s.Deleted, s.Bytes, s.Changes, s.Seconds, s.Recall, s.AvgUs)
}

// churn is the state of a run: what is live.
type churn struct {
	*ChurnConfig
	ids  []int // live ids, by slot
	rows []int // the row each slot's document has
	next int   // the next new id
}

// RunChurn replaces everything, time and again.
func RunChurn(ctx context.Context, c ChurnConfig) (err error) {
	if c.K == 0 {
		c.K = 10
	}
	if c.Rounds == 0 {
		c.Rounds = 10
	}
	if c.Batch == 0 {
		c.Batch = 1000
	}
	live := c.Base.Rows() / 2
	if live < c.K || c.Queries.Rows() == 0 || c.Rounds < 1 || c.Batch < 1 {
		return inputf("churn", "%d rows, %d queries, %d rounds, batches of %d: want 2·k rows, and 1 or more of each", c.Base.Rows(), c.Queries.Rows(), c.Rounds, c.Batch)
	}
	ix, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := ix.Close(); err == nil {
			err = cerr
		}
	}()
	s := &churn{ChurnConfig: &c, ids: make([]int, live), rows: make([]int, live)}
	for round := range c.Rounds + 1 {
		changes := s.round(round)
		if err := s.step(ctx, ix, "churned", round, changes); err != nil {
			return err
		}
	}
	start := time.Now()
	if err := ix.Settle(ctx); err != nil {
		return err
	}
	if err := s.report(ctx, ix, ChurnState{State: "merged", Round: c.Rounds, Seconds: time.Since(start).Seconds()}); err != nil {
		return err
	}
	return s.fresh(ctx)
}

// round makes the changes of a round; round 0 fills the index.
func (s *churn) round(round int) []Change {
	var out []Change
	live := len(s.ids)
	for slot := range live {
		// The window of live rows moves by a third of itself a round.
		row := (slot + round*(live/3+1)) % s.Base.Rows()
		if round > 0 && slot%2 == 1 {
			out = append(out, Change{s.ids[slot], -1})
		}
		if round == 0 || slot%2 == 1 {
			s.ids[slot] = s.next
			s.next++
		}
		s.rows[slot] = row
		out = append(out, Change{s.ids[slot], row})
	}
	return out
}

func (s *churn) step(ctx context.Context, ix ChurnIndex, state string, round int, changes []Change) error {
	start := time.Now()
	for at := 0; at < len(changes); at += s.Batch {
		if err := ix.Apply(ctx, changes[at:min(at+s.Batch, len(changes))]); err != nil {
			return fmt.Errorf("bench: round %d: %w", round, err)
		}
	}
	return s.report(ctx, ix, ChurnState{State: state, Round: round, Changes: len(changes), Seconds: time.Since(start).Seconds()})
}

// fresh builds what is live anew.
func (s *churn) fresh(ctx context.Context) (err error) {
	ix, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := ix.Close(); err == nil {
			err = cerr
		}
	}()
	changes := make([]Change, len(s.ids))
	for slot, id := range s.ids {
		changes[slot] = Change{id, s.rows[slot]}
	}
	start := time.Now()
	for at := 0; at < len(changes); at += s.Batch {
		if err := ix.Apply(ctx, changes[at:min(at+s.Batch, len(changes))]); err != nil {
			return err
		}
	}
	if err := ix.Settle(ctx); err != nil {
		return err
	}
	return s.report(ctx, ix, ChurnState{State: "fresh", Round: s.Rounds, Changes: len(changes), Seconds: time.Since(start).Seconds()})
}

// report measures and tells.
func (s *churn) report(ctx context.Context, ix ChurnIndex, line ChurnState) error {
	line.Kind, line.Engine, line.Set, line.Live, line.Seconds = "churn", s.Engine, s.Set, len(s.ids), round(line.Seconds, 2)
	var err error
	if line.ChurnSize, err = ix.Size(); err != nil {
		return err
	}
	live := Matrix[float32]{Dim: s.Base.Dim, Data: make([]float32, 0, len(s.rows)*s.Base.Dim)}
	for _, row := range s.rows {
		live.Data = append(live.Data, s.Base.Row(row)...)
	}
	truth, err := Truth(ctx, live, s.Queries, s.Metric, s.K)
	if err != nil {
		return err
	}
	found := make([][]int32, s.Queries.Rows())
	latency, err := Measure(ctx, len(found), 2, func(ctx context.Context, i int) (err error) {
		found[i], err = ix.Search(ctx, s.Queries.Row(i), s.K, found[i][:0])
		return err
	})
	if err != nil {
		return err
	}
	line.Latency = latency.rounded()
	for i := range found {
		want := make([]int32, s.K)
		for j, slot := range truth.Row(i) {
			want[j] = int32(s.ids[slot])
		}
		line.Recall += RecallAt(found[i], want, s.K) / float64(len(found))
	}
	line.Recall = round(line.Recall, 4)
	return s.Report(line)
}
