package web

import (
	"errors"
	"net/http"
	"strings"

	"github.com/hearthd/hearth/model"
)

// cookieName is the cookie of a browser's login.
const cookieName = "hearth_token"

// contentPolicy lets a page load its own files and nothing else: no inline script or style, no other host, no frame.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Harden sets the headers that all answers have.
func Harden(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// refuse says why a request that is no plain question is not served; "" = it is. Only the login takes a POST, and only
// from the own pages: a browser says where a form came from.
func refuse(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return ""
	}
	if r.Method != http.MethodPost || r.URL.Path != "/login" {
		return "these pages change nothing: use the command line, such as hearth kill"
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return "a form of another site may not be sent here"
	}
	return ""
}

// admit asks the gate before h.
func (h *Handler) admit(next http.Handler) http.Handler {
	if h.cfg.Gate == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := h.cfg.Gate.Admit(r, tokenOf(r))
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		code := statusOf(err)
		if errors.Is(err, model.ErrUnauthenticated) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="hearth"`)
		}
		if wantsPage(r) && h.cfg.Gate.Login() {
			h.render(w, code, "login", frame{Title: "Log in", Bare: true, Body: loginBody{Next: r.URL.RequestURI(), Error: shown(r, err)}})
			return
		}
		plain(w, code, err.Error())
	})
}

// shown is the error as the login shows it: who comes for the first time has made no mistake.
func shown(r *http.Request, err error) string {
	if tokenOf(r) == "" {
		return ""
	}
	return err.Error()
}

// tokenOf finds the bearer token of a request: its header, or the cookie of the login.
func tokenOf(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	if c, err := r.Cookie(cookieName); err == nil {
		return c.Value
	}
	return ""
}

// wantsPage reports whether a browser asks.
func wantsPage(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html") && !strings.HasPrefix(r.URL.Path, "/v1/")
}

type loginBody struct{ Next, Error string }

func (h *Handler) loginForm(w http.ResponseWriter, r *http.Request) {
	if h.cfg.Gate == nil || !h.cfg.Gate.Login() {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	h.render(w, http.StatusOK, "login", frame{Title: "Log in", Bare: true, Body: loginBody{Next: "/"}})
}

// login puts the token that a person entered into a cookie that scripts and other sites do not see. It changes nothing on
// the server.
func (h *Handler) login(w http.ResponseWriter, r *http.Request) {
	if h.cfg.Gate == nil || !h.cfg.Gate.Login() {
		plain(w, http.StatusForbidden, "there is no login here")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginBytes)
	token, next := strings.TrimSpace(r.PostFormValue("token")), ownPath(r.PostFormValue("next"))
	if _, err := h.cfg.Gate.Admit(r, token); token == "" || err != nil {
		text := "enter a token"
		if err != nil {
			text = err.Error()
		}
		h.render(w, http.StatusForbidden, "login", frame{Title: "Log in", Bare: true, Body: loginBody{Next: next, Error: text}})
		return
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure follows the listener: on loopback there may be no TLS
		Name: cookieName, Value: token, Path: "/", HttpOnly: true, Secure: h.cfg.Secure, SameSite: http.SameSiteStrictMode,
	})
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// ownPath is where to go after the login: a path of this server, never another host.
func ownPath(next string) string {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n") {
		return "/"
	}
	return next
}
