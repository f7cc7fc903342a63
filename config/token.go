package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hearthd/hearth/model"
)

// tokenName is the file with a token that is found without being named.
const tokenName = "token"

// findToken returns where the token of whoever runs a command is, if nothing
// names it: "token" beside the certificate it acts with, or in the directory
// "hearth" of the user's configuration (XDG_CONFIG_HOME, else ~/.config). It
// returns "" if neither is there, and without TLS: a cluster that is tried out on
// loopback is not told the token of another one.
func findToken(tls TLS, env []string) string {
	if !tls.Enabled() {
		return ""
	}
	_, cert, _ := tls.Paths()
	places := []string{filepath.Join(filepath.Dir(cert), tokenName)}
	vars := make(map[string]string)
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		vars[name] = value
	}
	switch xdg, home := vars["XDG_CONFIG_HOME"], vars["HOME"]; {
	case filepath.IsAbs(xdg):
		places = append(places, filepath.Join(xdg, "hearth", tokenName))
	case filepath.IsAbs(home):
		places = append(places, filepath.Join(home, ".config", "hearth", tokenName))
	}
	for _, path := range places {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// ReadToken reads the file with a person's token; "" for no path. A file that
// others may read is refused: the token in it must be taken for known.
func ReadToken(path string) (model.Secret, error) {
	if path == "" {
		return "", nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("client.token_file: must be a readable file: %w", err)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return "", fmt.Errorf("client.token_file %s: must be readable by its owner alone, its mode is %04o: chmod 600 it, and have a new token made if others could read it", path, perm)
	}
	text, err := readRegular(path, model.MaxBearerBytes+2)
	if err != nil {
		return "", fmt.Errorf("client.token_file %s: %w", path, err)
	}
	token, err := model.ParseBearer(strings.TrimSpace(string(text)))
	if err != nil {
		return "", fmt.Errorf("client.token_file %s: %w", path, err)
	}
	return token, nil
}
