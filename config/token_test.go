package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
)

func TestATokenFileIsReadOnlyIfNobodyElseCanReadIt(t *testing.T) {
	t.Parallel()
	want, err := model.NewBearer(strings.NewReader(strings.Repeat("x", 32)))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []os.FileMode{0o600, 0o400} {
		write(want.Reveal()+"\n", mode)
		if got, err := ReadToken(path); err != nil || got != want {
			t.Errorf("mode %04o: %v", mode, err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o644} {
		write(want.Reveal(), mode)
		if _, err := ReadToken(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	for name, text := range map[string]string{
		"something else": "secret", "nothing": "", "two tokens": want.Reveal() + "\n" + want.Reveal(), "a cut one": want.Reveal()[:30],
	} {
		write(text, 0o600)
		_, err := ReadToken(path)
		if err == nil || !strings.Contains(err.Error(), path) || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := ReadToken(""); err != nil || got != "" {
		t.Errorf("no file: %q, %v", got, err)
	}
	if _, err := ReadToken(path + "-absent"); err == nil {
		t.Error("an absent file was read")
	}
}

// A command finds its token by itself: what was named first, then the one beside
// its certificate, then the user's own.
func TestSE02ACommandFindsTheTokenOfItsUserByItself(t *testing.T) {
	t.Parallel()
	home, tls := t.TempDir(), t.TempDir()
	beside, own, named := filepath.Join(tls, "token"), filepath.Join(home, ".config", "hearth", "token"), filepath.Join(home, "named")
	if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	secure := []string{"HOME=" + home, "HEARTH_TLS_DIR=" + tls}
	find := func(want string, env ...string) {
		t.Helper()
		c, _, err := LoadClient("", env, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.TokenFile != want {
			t.Errorf("with %q: got %q, want %q", env, c.TokenFile, want)
		}
	}
	put := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte("x"), mode); err != nil {
			t.Fatal(err)
		}
	}
	find("", secure...)
	put(own, 0o600)
	find(own, secure...)
	find(own, append(secure, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"), "HOME=/nowhere")...)
	put(beside, 0o600)
	find(beside, secure...)
	find(named, append(secure, "HEARTH_TOKEN_FILE="+named)...)
	find("", "HOME="+home) // without TLS
	if err := os.Chmod(beside, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadToken(beside); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("one that others can read: got %v, want an error that says chmod", err)
	}
}
