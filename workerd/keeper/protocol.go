//go:build linux

package keeper

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// ProtocolVersion is the version this build speaks. A hello carries all versions a client speaks
// and its answer the one chosen, so that a new agent can adopt the children of an old keeper.
const ProtocolVersion = 1

// Names of the variables that tie a process to its worker and key.
const (
	EnvWorkerID      = "HEARTH_WORKER_ID"
	EnvAppID         = "HEARTH_APP_ID"
	EnvExecutorID    = "HEARTH_EXECUTOR_ID"
	EnvDriverID      = "HEARTH_DRIVER_ID"
	EnvDriverAttempt = "HEARTH_DRIVER_ATTEMPT"
)

type request struct {
	ID       uint64           `json:"id"`
	Hello    *helloRequest    `json:"hello,omitempty"`
	Start    *StartRequest    `json:"start,omitempty"`
	Kill     *killRequest     `json:"kill,omitempty"`
	Signal   *signalRequest   `json:"signal,omitempty"`
	List     *listRequest     `json:"list,omitempty"`
	Forget   *forgetRequest   `json:"forget,omitempty"`
	Keep     *keepRequest     `json:"keep,omitempty"`
	Lease    *Lease           `json:"lease,omitempty"`
	Shutdown *shutdownRequest `json:"shutdown,omitempty"`
}

type helloRequest struct {
	Versions []int  `json:"versions"`
	WorkerID string `json:"worker_id"`
}

type killRequest struct {
	Key     string `json:"key"`
	GraceMS int64  `json:"grace_ms"`
}

type signalRequest struct {
	Key    string `json:"key"`
	Signal int    `json:"signal"`
}

type listRequest struct {
	After string `json:"after,omitempty"`
}

type forgetRequest struct {
	Key string `json:"key"`
}

type keepRequest struct {
	ForMS int64 `json:"for_ms"`
}

type shutdownRequest struct {
	GraceMS int64 `json:"grace_ms"`
}

// reply answers the request of the same id; with id 0 it carries an event.
type reply struct {
	ID    uint64     `json:"id"`
	Error *Error     `json:"error,omitempty"`
	Hello *Info      `json:"hello,omitempty"`
	Start *Started   `json:"start,omitempty"`
	List  *listReply `json:"list,omitempty"`
	Event *Event     `json:"event,omitempty"`
}

type listReply struct {
	Entries []Entry `json:"entries"`
	More    bool    `json:"more"`
}

// check reports whether r is well formed: an id and exactly one body. What a body asks for is
// checked by its handler, which answers; a malformed request ends the connection.
func (r *request) check() error {
	if r.ID == 0 {
		return errors.New("request without an id")
	}
	bodies := 0
	for _, set := range []bool{
		r.Hello != nil, r.Start != nil, r.Kill != nil, r.Signal != nil,
		r.List != nil, r.Forget != nil, r.Keep != nil, r.Lease != nil, r.Shutdown != nil,
	} {
		if set {
			bodies++
		}
	}
	if bodies != 1 {
		return fmt.Errorf("request %d has %d bodies, want 1", r.ID, bodies)
	}
	return nil
}

// duration turns milliseconds from the wire into a duration within [0, limit].
func duration(ms int64, limit time.Duration) (time.Duration, error) {
	if ms < 0 || ms > limit.Milliseconds() {
		return 0, &Error{ReasonInvalid, fmt.Sprintf("%d ms is outside 0 to %d ms", ms, limit.Milliseconds())}
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func checkKey(key string) error {
	if key == "" || len(key) > MaxKeyBytes {
		return &Error{ReasonInvalid, fmt.Sprintf("key of %d bytes, want 1 to %d", len(key), MaxKeyBytes)}
	}
	for _, c := range []byte(key) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '_', c == '-', c == '/':
		default:
			return &Error{ReasonInvalid, fmt.Sprintf("key %q may hold only letters, digits and . _ - /", key)}
		}
	}
	return nil
}

// checkStart reports the first thing wrong with r. Both ends call it: JSON would silently replace
// what is not UTF-8, so the client has to refuse it before it is encoded.
func checkStart(r *StartRequest, workerID string) error {
	if err := checkKey(r.Key); err != nil {
		return err
	}
	if len(r.Argv) == 0 || r.Argv[0] == "" || len(r.Argv) > MaxArgs {
		return invalid("%s: a command line of 1 to %d words is needed", r.Key, MaxArgs)
	}
	if len(r.Env) > MaxEnv {
		return invalid("%s: %d environment variables, at most %d", r.Key, len(r.Env), MaxEnv)
	}
	if len(r.Header) > MaxHeaderBytes {
		return invalid("%s: header of %d bytes, at most %d", r.Key, len(r.Header), MaxHeaderBytes)
	}
	for _, text := range r.texts() {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return invalid("%s: %q is not UTF-8 without NUL", r.Key, text)
		}
	}
	for _, path := range []string{r.Dir, r.Stdout, r.Stderr} {
		if !filepath.IsAbs(path) {
			return invalid("%s: path %q is not absolute", r.Key, path)
		}
	}
	if r.Stdout == r.Stderr {
		return invalid("%s: stdout and stderr are the same file", r.Key)
	}
	if err := r.Rotation.check(); err != nil {
		return err
	}
	if r.MemoryLimitMiB < 0 || r.MemoryLimitMiB > 1<<40 {
		return invalid("%s: memory limit of %d MiB", r.Key, r.MemoryLimitMiB)
	}
	if r.RunAs != nil && len(r.RunAs.Groups) > maxExtraGroups {
		return invalid("%s: %d extra groups, at most %d", r.Key, len(r.RunAs.Groups), maxExtraGroups)
	}
	id, err := identityOf(r.Env)
	if err != nil {
		return invalid("%s: %v", r.Key, err)
	}
	if id.worker != workerID {
		return invalid("%s: %s=%s, this keeper works for %s", r.Key, EnvWorkerID, id.worker, workerID)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &Error{ReasonInvalid, fmt.Sprintf(format, args...)}
}

func (r *StartRequest) texts() []string {
	texts := make([]string, 0, len(r.Argv)+len(r.Env)+4)
	texts = append(texts, r.Argv...)
	texts = append(texts, r.Env...)
	return append(texts, r.Dir, r.Stdout, r.Stderr, r.Header)
}

func (r *Rotation) check() error {
	if r.MaxBytes != 0 && r.MaxBytes < MinRotateBytes {
		return invalid("rotation at %d bytes, at least %d", r.MaxBytes, MinRotateBytes)
	}
	if r.KeepFiles < 0 || r.KeepFiles > MaxRotateFiles {
		return invalid("rotation keeps %d files, want 1 to %d", r.KeepFiles, MaxRotateFiles)
	}
	return nil
}

// identity is the part of an environment that ties a process to its key.
type identity struct {
	worker, app, executor, driver, attempt string
}

// identityOf reads the marker variables of env ("NAME=value"). It fails if they do not name a
// worker and either an executor or an attempt of a driver.
func identityOf(env []string) (identity, error) {
	var id identity
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch name {
		case EnvWorkerID:
			id.worker = value
		case EnvAppID:
			id.app = value
		case EnvExecutorID:
			id.executor = value
		case EnvDriverID:
			id.driver = value
		case EnvDriverAttempt:
			id.attempt = value
		}
	}
	if id.worker == "" {
		return id, fmt.Errorf("environment without %s", EnvWorkerID)
	}
	if (id.app == "" || id.executor == "") && (id.driver == "" || id.attempt == "") {
		return id, fmt.Errorf("environment with neither %s and %s nor %s and %s",
			EnvAppID, EnvExecutorID, EnvDriverID, EnvDriverAttempt)
	}
	return id, nil
}
