// Package page holds the page that quarry serves for people: search with facets,
// highlights and score bars, two settings side by side, a viewer that marks the
// cited span in its source, explanations, import by drag and drop, and
// statistics. It is plain HTML, CSS and JavaScript, embedded, with no build step.
//
//	browser ─ GET /, /page/… ─► Handler ─ embedded bytes
//	        ─ /v1/…          ─► the HTTP API, as any client
//
// # Promise
//
// No request leaves the machine: the Content-Security-Policy allows the page its
// own origin and nothing else, no inline script, no frame, no form. Trusted Types
// are on with no policy, so that no string can become markup or script: text of
// documents reaches the page through textContent, whatever it holds.
//
// All state that makes a view (target, query, mode, filter, options, open
// document) is in the URL: a search is shared by sharing its address. The API key
// is not; it stays in the tab's session storage.
//
// # Files
//
//	static/index.html    the frame: header, place of the view, dialogs
//	static/app.js        start, routing, keyboard, theme
//	static/state.js      URL ⇄ state
//	static/api.js        the HTTP API; with space.js, the only file that knows its shapes
//	static/space.js      spaces: evidence, and what it cites in its source
//	static/dom.js        elements, numbers, times, byte offsets
//	static/settings.js   the form of one settings object: mode, filter, options
//	static/search.js     view: search, facets, timing, why a document is missing
//	static/hits.js       a hit, its bars, highlights, explanation
//	static/compare.js    view: two settings side by side
//	static/viewer.js     a document or chunk with its citation
//	static/stats.js      view: segments, fields, latency
//	static/plots.js      bars and histograms as SVG
//	static/importer.js   view: files and JSONL, with progress
//	static/style.css     light and dark, desktop and phone
//	static/icon.svg      the mark
//
// # Concurrency and cost
//
// The handler is immutable. Everything together is less than 150 kB (a test holds
// it); files carry an ETag of their content, so that a second visit costs a
// handful of empty answers.
package page
