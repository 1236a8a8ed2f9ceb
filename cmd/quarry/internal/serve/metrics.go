package serve

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/quarrysearch/quarry/cmd/quarry/internal/httpapi"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/registry"
	"github.com/quarrysearch/quarry/index"
)

// metrics are those of one server.
type metrics struct {
	all      *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	rejected *prometheus.CounterVec
	stages   *prometheus.HistogramVec

	// bound are the children by route, method and status, and stage those by
	// stage: finding one by its labels costs as much as counting.
	bound sync.Map // metricKey → boundMetrics
	stage sync.Map // name → prometheus.Observer
}

type metricKey struct {
	route, method string
	status        int
}

type boundMetrics struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
}

func newMetrics(reg *registry.Registry, version string) *metrics {
	m := &metrics{all: prometheus.NewRegistry()}
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quarry_http_requests_total", Help: "Requests answered, by route and status code."}, []string{"method", "route", "code"})
	m.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "quarry_http_request_seconds", Help: "Time from the header of a request to the end of its answer.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 20)}, []string{"route"})
	m.inFlight = prometheus.NewGauge(prometheus.GaugeOpts{Name: "quarry_http_in_flight", Help: "Requests being answered."})
	m.rejected = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quarry_http_rejected_total", Help: "Requests refused before any handler, by problem code."}, []string{"code"})
	m.stages = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "quarry_stage_seconds", Help: "Time of one stage of a request.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 2, 22)}, []string{"stage"})
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "quarry_build_info", Help: "1, with the version.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.all.MustRegister(m.requests, m.seconds, m.inFlight, m.rejected, m.stages, build, newCollections(reg),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// done counts an answered request.
func (m *metrics) done(w *recorder, r *http.Request, info *httpapi.Info, seconds float64) {
	route := w.route
	if route == "" {
		route = "none"
	}
	key := metricKey{route, methodLabel(r.Method), w.status}
	b, ok := m.bound.Load(key)
	if !ok {
		b, _ = m.bound.LoadOrStore(key, boundMetrics{m.requests.WithLabelValues(key.method, route, strconv.Itoa(w.status)), m.seconds.WithLabelValues(route)})
	}
	one := b.(boundMetrics)
	one.requests.Inc()
	one.seconds.Observe(seconds)
	for _, s := range info.Stages {
		o, ok := m.stage.Load(s.Name)
		if !ok {
			o, _ = m.stage.LoadOrStore(s.Name, m.stages.WithLabelValues(s.Name))
		}
		o.(prometheus.Observer).Observe(s.Took.Seconds())
	}
}

// methodLabel keeps what clients make up out of the labels.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.all, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// collections describes the open collections when it is asked.
type collections struct {
	reg                                     *registry.Registry
	documents, deleted, segments, size, log *prometheus.Desc
}

func newCollections(reg *registry.Registry) *collections {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("quarry_collection_"+name, help, []string{"collection"}, nil)
	}
	return &collections{reg: reg, documents: desc("documents", "Documents."), deleted: desc("deleted", "Deleted documents that no merge has dropped yet."),
		segments: desc("segments", "Segments, those in memory included."), size: desc("bytes", "Bytes of segments and log."), log: desc("log_bytes", "Bytes of the write-ahead log.")}
}

// Describe tells the metrics there are.
func (c *collections) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect measures the collections.
func (c *collections) Collect(out chan<- prometheus.Metric) {
	for _, h := range c.reg.Opened() {
		stats, err := h.Index().Stats(context.Background())
		if errors.Is(err, index.ErrClosed) {
			h.Release()
			continue
		}
		if err != nil {
			out <- prometheus.NewInvalidMetric(c.documents, err)
		} else {
			gauge := func(d *prometheus.Desc, v float64) {
				out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, h.Name())
			}
			gauge(c.documents, float64(stats.Documents))
			gauge(c.deleted, float64(stats.Deleted))
			gauge(c.segments, float64(len(stats.Segments)))
			gauge(c.size, float64(httpapi.SizeOf(&stats)))
			gauge(c.log, float64(stats.WALBytes))
		}
		h.Release()
	}
}
