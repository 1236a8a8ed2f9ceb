// Package serve runs the HTTP API: who may call it, for how long and how much.
//
// # Promise
//
// A server listens on loopback unless told otherwise, and elsewhere only with
// keys, and TLS or the express wish to do without. A page of somebody else's, in
// a browser on this machine, gets nothing from it. No client can hold it up: not
// by sending slowly, nor by reading slowly, nor by sending too much. A fault in a
// handler is a 500 and a line in the log. What was acknowledged is there after
// any stop.
//
//	listener ─ TLS ─► id, recover, metrics ─► path ─► Host, Origin ─► route
//	                                             key, access ─► room ─► deadline, flow ─┬─ httpapi
//	                                                                                    ├─ mcp
//	                                                                                    └─ page
//
// # Who may call
//
//   - Keys (quarry keys) have the access read, write or admin, each including
//     those before it, and are sent as Authorization: Bearer KEY or X-API-Key.
//     The file holds a salted SHA-256 of each: keys are 160 random bits, so that
//     a slow hash would add nothing. Comparison takes the same time whatever is
//     wrong. A change of the file is seen within a second.
//   - A key may be bound to an account of the catalogue, as which its requests
//     then act; an admin key may name any.
//   - Without any key, a loopback server lets everybody do everything. Once there
//     is a key, or --keys names a file, a key is needed for all but /healthz,
//     /readyz, /openapi.json and the page.
//   - The Host must be a loopback name or address, the address of --listen, the
//     address that the connection came in on, or one of --allow-host: a name
//     that somebody else's DNS points here is none (DNS rebinding).
//   - The Origin, where a browser sends one, must be that of the Host, or one of
//     --allow-origin; "null" is none. Only those of --allow-origin get CORS
//     headers, by name, never with credentials.
//
// # How long and how much
//
//	header                 10 s, 32 KiB
//	request                60 s, or the route streams
//	body or answer at rest 30 s
//	body that trickles     1 KiB in 30 s at least
//	connections            4,096
//	requests at once       256, and 32 that stream; above that 503 and Retry-After
//	bodies                 httpapi.Options
//
// # Stopping
//
// On SIGTERM /readyz turns to 503, connections are closed as they fall idle, and
// imports end behind the batch in hand and say how far they came. Requests have
// 7 s; what runs on then is cancelled (503), and after another second cut off.
// Then the data directory is closed, all within 10 s. A second SIGTERM ends the
// process at once, as kill -9 would: acknowledged writes are in the log on disk.
//
// # Metrics
//
//	quarry_http_requests_total{method,route,code}
//	quarry_http_request_seconds{route}        histogram
//	quarry_http_in_flight
//	quarry_http_rejected_total{code}          before any route: host, origin, key, overload, …
//	quarry_stage_seconds{stage}               histogram: read, decode, embed, search, …
//	quarry_collection_documents, _deleted, _segments, _bytes, _log_bytes {collection}
//	go_…, process_…
//
// # Concurrency and cost
//
// A Server serves any number of connections. Its own work on a search, header to
// answer, is some 40 µs beside net/http's 30, a quarter of it the numbers of a
// vector. The search itself takes longer than in a loop without a server: its
// threads sleep until the request comes, and caches are cold (BenchmarkOverhead).
package serve
