package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// The user of the image. It has a number, because a scratch image has nobody
// who could look the name up.
const (
	imageUser = "hearth"
	imageUID  = 7070
	imageHome = "/var/lib/hearth"
)

// Media types of the OCI image specification.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// image is what an image is made from.
type image struct {
	version string
	arch    string
	binary  string
	at      time.Time
}

// descriptor points to a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type imageConfig struct {
	Created time.Time `json:"created"`
	platform
	Config  runConfig   `json:"config"`
	RootFS  rootFS      `json:"rootfs"`
	History []histEntry `json:"history"`
}

type runConfig struct {
	User         string              `json:"User"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts"`
	Env          []string            `json:"Env"`
	Entrypoint   []string            `json:"Entrypoint"`
	Cmd          []string            `json:"Cmd"`
	Volumes      map[string]struct{} `json:"Volumes"`
	WorkingDir   string              `json:"WorkingDir"`
	Labels       map[string]string   `json:"Labels"`
	StopSignal   string              `json:"StopSignal"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type histEntry struct {
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
}

// ports are the defaults of package config.
func ports() []string { return []string{"7070/tcp", "7071/tcp", "7072/tcp", "7072/udp", "8080/tcp"} }

// writeImage writes into dir
//
//	rootfs.tar, Dockerfile   to build an image with any tool, without a network
//	image.tar                an OCI image layout, to be loaded as it is
func writeImage(dir string, im image) error {
	if im.version == "" || im.arch == "" || im.binary == "" {
		return errUsage
	}
	root, err := im.root()
	if err != nil {
		return err
	}
	layout, err := im.layout(root)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"rootfs.tar": root, "image.tar": layout, "Dockerfile": im.dockerfile()} {
		if err := writeFile(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	return nil
}

// root is the one layer: the binary, one user, a place for data.
func (im image) root() ([]byte, error) {
	binary, err := os.ReadFile(filepath.Clean(im.binary))
	if err != nil {
		return nil, fmt.Errorf("make an image: %w", err)
	}
	id := strconv.Itoa(imageUID)
	t := newTarball(im.at)
	t.dir("etc/", 0o755, 0)
	t.file("etc/group", 0o644, []byte("root:x:0:\n"+imageUser+":x:"+id+":\n"))
	t.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/:/nologin\n"+imageUser+":x:"+id+":"+id+":Hearth:"+imageHome+":/nologin\n"))
	t.dir("tmp/", 0o1777, 0)
	t.dir("usr/", 0o755, 0)
	t.dir("usr/bin/", 0o755, 0)
	t.file("usr/bin/hearth", 0o755, binary)
	t.dir("var/", 0o755, 0)
	t.dir("var/lib/", 0o755, 0)
	t.dir("var/lib/hearth/", 0o700, imageUID)
	return t.bytes()
}

// layout packs the layer with its description.
func (im image) layout(root []byte) ([]byte, error) {
	var layer bytes.Buffer
	z := gzip.NewWriter(&layer)
	if _, err := z.Write(root); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	config, err := json.Marshal(im.config(digest(root)))
	if err != nil {
		return nil, err
	}
	man, err := json.Marshal(manifest{
		SchemaVersion: 2, MediaType: typeManifest, Config: describe(typeConfig, config),
		Layers: []descriptor{describe(typeLayer, layer.Bytes())},
	})
	if err != nil {
		return nil, err
	}
	top := describe(typeManifest, man)
	top.Platform = &platform{Architecture: im.arch, OS: "linux"}
	top.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": im.version,
		"io.containerd.image.name":          "hearth:" + im.version,
	}
	idx, err := json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{top}})
	if err != nil {
		return nil, err
	}
	t := newTarball(im.at)
	t.dir("blobs/", 0o755, 0)
	t.dir("blobs/sha256/", 0o755, 0)
	for _, blob := range [][]byte{config, layer.Bytes(), man} {
		t.file("blobs/sha256/"+digest(blob)[len("sha256:"):], 0o644, blob)
	}
	t.file("index.json", 0o644, idx)
	t.file("oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`))
	return t.bytes()
}

func (im image) config(diff string) imageConfig {
	c := imageConfig{
		Created:  im.at,
		platform: platform{Architecture: im.arch, OS: "linux"},
		RootFS:   rootFS{Type: "layers", DiffIDs: []string{diff}},
		History:  []histEntry{{Created: im.at, CreatedBy: "make package"}},
		Config: runConfig{
			User:         fmt.Sprintf("%d:%d", imageUID, imageUID),
			ExposedPorts: map[string]struct{}{},
			Env:          []string{"PATH=/usr/bin"},
			Entrypoint:   []string{"/usr/bin/hearth"},
			Cmd:          []string{"--help"},
			Volumes:      map[string]struct{}{imageHome: {}},
			WorkingDir:   imageHome,
			StopSignal:   "SIGTERM",
			Labels:       im.labels(),
		},
	}
	for _, p := range ports() {
		c.Config.ExposedPorts[p] = struct{}{}
	}
	return c
}

func (im image) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    "hearth",
		"org.opencontainers.image.version":  im.version,
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source":   "https://github.com/hearthd/hearth",
	}
}

// dockerfile makes the same image from rootfs.tar.
func (im image) dockerfile() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# docker build -t hearth:%s .\nFROM scratch\nADD rootfs.tar /\nENV PATH=/usr/bin\nUSER %d:%d\nWORKDIR %s\nVOLUME %s\n",
		im.version, imageUID, imageUID, imageHome, imageHome)
	for _, p := range ports() {
		fmt.Fprintf(&b, "EXPOSE %s\n", p)
	}
	fmt.Fprintf(&b, "LABEL org.opencontainers.image.version=%q\nENTRYPOINT [\"/usr/bin/hearth\"]\nCMD [\"--help\"]\n", im.version)
	return b.Bytes()
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func describe(kind string, data []byte) descriptor {
	return descriptor{MediaType: kind, Digest: digest(data), Size: len(data)}
}

// tarball collects entries that all have one time. Its first error is kept.
type tarball struct {
	buf bytes.Buffer
	w   *tar.Writer
	at  time.Time
	err error
}

func newTarball(at time.Time) *tarball {
	t := &tarball{at: at}
	t.w = tar.NewWriter(&t.buf)
	return t
}

func (t *tarball) dir(name string, mode int64, owner int) {
	t.add(tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, Uid: owner, Gid: owner}, nil)
}

func (t *tarball) file(name string, mode int64, data []byte) {
	t.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}, data)
}

func (t *tarball) add(h tar.Header, data []byte) {
	if t.err != nil {
		return
	}
	h.ModTime, h.Format = t.at, tar.FormatUSTAR
	if t.err = t.w.WriteHeader(&h); t.err == nil {
		_, t.err = t.w.Write(data)
	}
}

func (t *tarball) bytes() ([]byte, error) {
	if t.err == nil {
		t.err = t.w.Close()
	}
	return t.buf.Bytes(), t.err
}
