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
