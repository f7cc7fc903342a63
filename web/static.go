package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
)

//go:embed static
var staticFS embed.FS

//go:embed templates
var templateFS embed.FS

// staticFiles are the files that pages load, by name. A page names the content by its hash, so a browser may keep it.
type staticFiles map[string]staticFile

type staticFile struct {
	data []byte
	hash string
	kind string
}

func loadStatic() staticFiles {
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	entries, err := staticFS.ReadDir("static")
	if err != nil {
		panic(err) // embedded
	}
	out := make(staticFiles, len(entries))
	for _, e := range entries {
		data, err := staticFS.ReadFile("static/" + e.Name())
		if err != nil {
			panic(err) // embedded
		}
		sum := sha256.Sum256(data)
		out[e.Name()] = staticFile{data: data, hash: hex.EncodeToString(sum[:6]), kind: kinds[path.Ext(e.Name())]}
	}
	return out
}

// url names a file by its content.
func (s staticFiles) url(name string) string { return "/static/" + name + "?v=" + s[name].hash }

// ServeHTTP implements http.Handler for /static/{name}.
func (s staticFiles) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := s[r.PathValue("name")]
	if !ok {
		plain(w, http.StatusNotFound, "there is no such file")
		return
	}
	w.Header().Set("Content-Type", f.kind)
	if r.URL.Query().Get("v") == f.hash {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(f.data) // the client may be gone
}
