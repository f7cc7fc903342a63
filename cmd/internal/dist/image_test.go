package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// entry is what a test wants of one entry of a tar archive.
type entry struct {
	Mode int64
	UID  int
	Time int64
}

// untar reads an archive into its entries and the contents of its files.
func untar(t *testing.T, data []byte) (map[string]entry, map[string][]byte) {
	t.Helper()
	entries, files := map[string]entry{}, map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries, files
		}
		if err != nil {
			t.Fatal(err)
		}
		entries[h.Name] = entry{h.Mode, h.Uid, h.ModTime.Unix()}
		if h.Typeflag == tar.TypeReg {
			if files[h.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// made writes an image of a binary that is only a text.
func made(t *testing.T, at time.Time) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "hearth")
	if err := os.WriteFile(binary, []byte("the program"), 0o700); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	if err := writeImage(out, image{version: "1.2.3", arch: "arm64", binary: binary, at: at}); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range []string{"rootfs.tar", "image.tar", "Dockerfile"} {
		var err error
		if files[name], err = os.ReadFile(filepath.Join(out, name)); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// blob follows a descriptor.
func blob(t *testing.T, files map[string][]byte, d descriptor, into any) []byte {
	t.Helper()
	data := files["blobs/"+strings.ReplaceAll(d.Digest, ":", "/")]
	if data == nil || digest(data) != d.Digest || len(data) != d.Size {
		t.Fatalf("descriptor %+v leads to %d bytes with the digest %s", d, len(data), digest(data))
	}
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

func TestAnImageHoldsOneUserTheBinaryAndAPlaceForData(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	out := made(t, at)
	entries, files := untar(t, out["rootfs.tar"])
	want := map[string]entry{
		"etc/": {0o755, 0, at.Unix()}, "etc/group": {0o644, 0, at.Unix()}, "etc/passwd": {0o644, 0, at.Unix()},
		"tmp/": {0o1777, 0, at.Unix()}, "usr/": {0o755, 0, at.Unix()}, "usr/bin/": {0o755, 0, at.Unix()},
		"usr/bin/hearth": {0o755, 0, at.Unix()}, "var/": {0o755, 0, at.Unix()}, "var/lib/": {0o755, 0, at.Unix()},
		"var/lib/hearth/": {0o700, imageUID, at.Unix()},
	}
	if diff := cmp.Diff(want, entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if got := string(files["usr/bin/hearth"]); got != "the program" {
		t.Errorf("the binary is %q", got)
	}
	for _, line := range []string{"FROM scratch", "ADD rootfs.tar /", "USER 7070:7070", `ENTRYPOINT ["/usr/bin/hearth"]`} {
		if !strings.Contains(string(out["Dockerfile"]), line+"\n") {
			t.Errorf("the Dockerfile lacks %q:\n%s", line, out["Dockerfile"])
		}
	}
}

func TestEveryDigestOfAnImageLayoutIsThatOfItsBlob(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	out := made(t, at)
	_, files := untar(t, out["image.tar"])
	if got := string(files["oci-layout"]); got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout is %q", got)
	}
	var top index
	if err := json.Unmarshal(files["index.json"], &top); err != nil || len(top.Manifests) != 1 {
		t.Fatalf("index %+v, %v", top, err)
	}
	var m manifest
	blob(t, files, top.Manifests[0], &m)
	if len(m.Layers) != 1 {
		t.Fatalf("%d layers, want 1", len(m.Layers))
	}
	z, err := gzip.NewReader(bytes.NewReader(blob(t, files, m.Layers[0], nil)))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(layer, out["rootfs.tar"]) {
		t.Error("the layer is not rootfs.tar")
	}
	var c imageConfig
	blob(t, files, m.Config, &c)
	if c.Architecture != "arm64" || c.OS != "linux" || !c.Created.Equal(at) || c.Config.User != "7070:7070" {
		t.Errorf("config %+v", c)
	}
	if diff := cmp.Diff([]string{digest(layer)}, c.RootFS.DiffIDs); diff != "" {
		t.Errorf("layers of the config (-want +got):\n%s", diff)
	}
	if len(files) != 5 {
		t.Errorf("the layout has %d files, want 5", len(files))
	}
}

func TestTheSameInputGivesTheSameImage(t *testing.T) {
	at := time.Unix(1700000000, 0)
	if diff := cmp.Diff(made(t, at), made(t, at)); diff != "" {
		t.Error("two images differ")
	}
	if cmp.Equal(made(t, at), made(t, at.Add(time.Second))) {
		t.Error("an image does not show its time")
	}
}

func TestAnImageWithoutItsPartsIsRefused(t *testing.T) {
	if err := writeImage(t.TempDir(), image{version: "1", arch: "amd64"}); !errors.Is(err, errUsage) {
		t.Errorf("without a binary: %v, want the usage", err)
	}
	err := run([]string{"image", "-version", "1", t.TempDir()}, func(string) string { return "" }, io.Discard)
	if err == nil || !strings.Contains(err.Error(), epochVariable) {
		t.Errorf("without a time: %v, want an error that names %s", err, epochVariable)
	}
}
