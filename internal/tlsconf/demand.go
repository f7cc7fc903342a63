package tlsconf

import (
	"net/http"
	"slices"
)

// Demand wraps a handler behind a config of Optional: requests without a
// client certificate get 401 and a line that says how to show one, except for
// the paths in open. Over plain HTTP, which daemons serve on loopback or where
// allow_insecure is written down, it changes nothing.
func Demand(next http.Handler, open ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil && len(r.TLS.PeerCertificates) == 0 && !slices.Contains(open, r.URL.Path) {
			w.Header().Set("Connection", "close")
			http.Error(w, "a client certificate of this cluster is needed: curl --cacert ca.pem --cert client.pem --key client-key.pem (or set http.client_auth = \"optional\")", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
