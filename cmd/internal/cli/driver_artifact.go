package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"time"

	"github.com/hearthd/hearth/model"
)

// artifactTimeout bounds the reading of one artifact for its digest.
const artifactTimeout = 10 * time.Minute

// parseArtifacts reads --artifact arguments, and artifacts without a digest.
func parseArtifacts(ctx context.Context, list []string) ([]model.Artifact, error) {
	var out []model.Artifact
	for _, text := range list {
		a, err := parseArtifact(ctx, text)
		if err != nil {
			return nil, fmt.Errorf("--artifact: %w", err)
		}
		out = append(out, a)
	}
	return out, nil
}

func parseArtifact(ctx context.Context, text string) (model.Artifact, error) {
	u, err := url.Parse(text)
	if err != nil {
		return model.Artifact{}, err
	}
	options, err := url.ParseQuery(u.Fragment)
	if err != nil {
		return model.Artifact{}, fmt.Errorf("after the #: %w", err)
	}
	for name := range options {
		if name != "sha256" && name != "name" {
			return model.Artifact{}, fmt.Errorf("%w: after the # there may be sha256=DIGEST and name=PATH, not %q", model.ErrInvalid, name)
		}
	}
	u.Fragment = ""
	a := model.Artifact{URL: u.String(), SHA256: options.Get("sha256"), Name: options.Get("name"), Executable: true}
	if a.Name == "" {
		a.Name = path.Base(u.Path)
	}
	if err := a.ValidateURL(); err != nil { // before anything is asked of it
		return model.Artifact{}, err
	}
	if a.SHA256 == "" {
		ctx, cancel := context.WithTimeout(ctx, artifactTimeout)
		defer cancel()
		if a.SHA256, err = digestOf(ctx, u); err != nil {
			return model.Artifact{}, fmt.Errorf("read %s for its digest (give #sha256=DIGEST where it cannot be read here): %w", a.URL, err)
		}
	}
	return a, nil
}

// digestOf reads what a URL names.
func digestOf(ctx context.Context, u *url.URL) (string, error) {
	if u.Scheme == "file" {
		f, err := os.Open(u.Path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		return digest(f)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%w: the server answers %s", model.ErrNotFound, resp.Status)
	}
	return digest(resp.Body)
}

func digest(r io.Reader) (string, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(r, model.MaxProgramBytes+1))
	if err != nil {
		return "", err
	}
	if n > model.MaxProgramBytes {
		return "", fmt.Errorf("%w: it has more than %d bytes", model.ErrTooLarge, int64(model.MaxProgramBytes))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
