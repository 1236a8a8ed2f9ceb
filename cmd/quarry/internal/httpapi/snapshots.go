package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
)

const mediaTar = "application/x-tar"

type inSnapshot struct {
	Collection string `path:"collection" doc:"name of the collection"`
	Snapshot   string `path:"snapshot" doc:"name of the snapshot"`
}

type snapshotRequest struct {
	Name string `json:"name,omitempty" doc:"letters, digits, - and _, at most 64; default: made of the time"`
}

type snapshotIn struct {
	Collection string          `path:"collection" doc:"name of the collection"`
	Body       snapshotRequest `body:"json"`
}

type snapshotAnswer struct {
	Snapshot registry.Snapshot `json:"snapshot"`
}

type snapshotsAnswer struct {
	Snapshots []registry.Snapshot `json:"snapshots"`
}

type restoreIn struct {
	Collection string `path:"collection" doc:"name of the collection that is replaced, or made"`
	Body       struct {
		Snapshot string `json:"snapshot" shape:"required" doc:"name of the snapshot"`
		From     string `json:"from,omitempty" doc:"collection it was made of; default the one that is replaced"`
	} `body:"json"`
}

func snapshotRoutes() []*route {
	const tag, path = "snapshots", "/v1/collections/{collection}"
	return []*route{
		op(route{method: "GET", path: path + "/snapshots", id: "listSnapshots", tag: tag, access: Read, summary: "List the snapshots of a collection, be it there or not"},
			func(c *call, in *inCollection) (*snapshotsAnswer, error) {
				list, err := c.a.reg.Snapshots(in.Collection)
				return &snapshotsAnswer{Snapshots: list}, err
			}),
		op(route{method: "POST", path: path + "/snapshots", id: "createSnapshot", tag: tag, access: Admin, stream: true, status: http.StatusCreated, summary: "Keep a collection as it is now"},
			func(c *call, in *snapshotIn) (*snapshotAnswer, error) {
				start := time.Now()
				s, err := c.a.reg.CreateSnapshot(c.r.Context(), in.Collection, in.Body.Name)
				c.stage("snapshot", start)
				return &snapshotAnswer{Snapshot: s}, err
			}),
		op(route{method: "DELETE", path: path + "/snapshots/{snapshot}", id: "deleteSnapshot", tag: tag, access: Admin, summary: "Delete a snapshot"},
			func(c *call, in *inSnapshot) (*doneAnswer, error) {
				return &doneAnswer{Done: true}, c.a.reg.DeleteSnapshot(c.r.Context(), in.Collection, in.Snapshot)
			}),
		op(route{method: "GET", path: path + "/snapshots/{snapshot}/archive", id: "downloadSnapshot", tag: tag, access: Admin, stream: true, gives: mediaTar, summary: "Download a snapshot"}, download),
		op(route{method: "POST", path: path + "/restore", id: "restoreSnapshot", tag: tag, access: Admin, stream: true, summary: "Put a snapshot in the place of a collection; it is verified before anything is replaced"}, restore),
		op(route{method: "PUT", path: path + "/archive", id: "restoreArchive", tag: tag, access: Admin, stream: true, takes: mediaTar, summary: "Put a downloaded snapshot in the place of a collection; it is verified before anything is replaced"}, upload),
	}
}

// download streams a snapshot. Its length is told first: what fails behind that
// leaves it short, and the connection broken.
func download(c *call, in *inSnapshot) (*none, error) {
	begun := false
	err := c.a.reg.WriteSnapshot(c.r.Context(), in.Collection, in.Snapshot, c.w, func(size int64) {
		begun = true
		h := c.w.Header()
		h.Set("Content-Type", mediaTar)
		h.Set("Content-Length", strconv.FormatInt(size, 10))
		h.Set("Content-Disposition", `attachment; filename="`+in.Collection+"-"+in.Snapshot+`.tar"`) // both names are checked
	})
	if begun {
		c.info.Err, err = err, nil
	}
	return nil, err
}

func restore(c *call, in *restoreIn) (*collectionAnswer, error) {
	from := in.Body.From
	if from == "" {
		from = in.Collection
	}
	return c.replaced(in.Collection, func(ctx context.Context) error {
		return c.a.reg.RestoreSnapshot(ctx, in.Collection, from, in.Body.Snapshot)
	})
}

func upload(c *call, in *inCollection) (*collectionAnswer, error) {
	if err := c.wantMedia(mediaTar); err != nil {
		return nil, err
	}
	body, err := c.limit(c.a.o.MaxArchive)
	if err != nil {
		return nil, err
	}
	return c.replaced(in.Collection, func(ctx context.Context) error {
		return c.a.reg.RestoreArchive(ctx, in.Collection, body, c.a.o.MaxArchive)
	})
}

// replaced runs a restore and describes what is there then.
func (c *call) replaced(name string, work func(context.Context) error) (*collectionAnswer, error) {
	start := time.Now()
	if err := work(c.r.Context()); err != nil {
		return nil, err
	}
	c.stage("restore", start)
	h, err := c.collection(name)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	return describe(c.r.Context(), h)
}
