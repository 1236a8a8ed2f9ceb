package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed static
var static embed.FS

// policy allows the page its own files and API, and nothing else. Trusted Types
// without a policy make every sink that turns strings into markup or script an
// error.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// An asset is a file of the page.
type asset struct {
	name, etag string
	data       []byte
}

// Handler serves the page: index.html at /, its other files below /page/. Mount
// it at "GET /{$}" and "GET /page/"; every other path is 404. HEAD and
// conditional requests work. The error is one of the build.
func Handler() (http.Handler, error) {
	assets, err := load(static)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := assets[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		// A new program brings new files: the browser asks each time, and the
		// ETag answers.
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", a.etag)
		h.Set("Content-Type", contentType(a.name))
		http.ServeContent(w, r, a.name, time.Time{}, bytes.NewReader(a.data))
	}), nil
}

// load reads the files and gives each its path.
func load(root fs.FS) (map[string]asset, error) {
	assets := map[string]asset{}
	err := fs.WalkDir(root, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		a := asset{name: path.Base(name), etag: `"` + hex.EncodeToString(sum[:12]) + `"`, data: data}
		at := "/page/" + a.name
		if a.name == "index.html" {
			at = "/"
		}
		assets[at] = a
		return nil
	})
	if err == nil && assets["/"].data == nil {
		err = errors.New("page: index.html is not embedded")
	}
	return assets, err
}

// contentType is told by the name alone, not by what the host's tables say.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "application/octet-stream"
}
