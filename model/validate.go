package model

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// Validate reports every problem of a description at once, each naming the
// field, the value and the rule; the result wraps ErrInvalid or ErrTooLarge.
func (s AppSpec) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	checkName(bad, "name", s.Name, true)
	checkName(bad, "user", s.User, false)
	if s.CoresMax < 0 || s.CoresMax > MaxCores {
		bad("cores_max %d: must be between 0 (no limit) and %d", s.CoresMax, MaxCores)
	}
	if s.Executors != TargetUnlimited && (s.Executors < 0 || s.Executors > MaxExecutors) {
		bad("executors %d: must be between 0 and %d, or unlimited", s.Executors, MaxExecutors)
	}
	if s.MaxRuntimeMilli < 0 {
		bad("max_runtime_ms %d: must not be negative", s.MaxRuntimeMilli)
	}
	if p := s.Disconnect.Effective(); p != DisconnectKeep && p != DisconnectSingleton {
		bad("disconnect %q: must be %q or %q", s.Disconnect, DisconnectKeep, DisconnectSingleton)
	}
	if len(s.Artifacts) > 0 {
		bad("artifacts: only a driver in cluster mode has any")
	}
	if _, err := s.Driver.Number(); s.Driver != "" && (err != nil || s.Attempt < 1) || s.Driver == "" && s.Attempt != 0 {
		bad("driver %q, attempt %d: must be those of a driver in cluster mode, or none", s.Driver, s.Attempt)
	}
	s.validatePlace(bad)
	errs = append(errs, s.Profile.validate()...)
	errs = append(errs, s.Command.validate()...)
	for _, f := range s.Files {
		if err := f.validate(); err != nil {
			errs = append(errs, err)
		}
	}
	switch s.Kind {
	case AppKindDriver:
		if s.DriverAddr == "" {
			bad("driver_addr: must be the host:port where executors reach the driver")
		}
		if s.DriverCert != "" {
			if err := ValidDigest(s.DriverCert); err != nil {
				errs = append(errs, fmt.Errorf("driver_cert: %w", err))
			}
		}
		errs = append(errs, s.Program.validate()...)
		if s.Completions != 0 {
			bad("completions %d: only a driver-less application counts completions", s.Completions)
		}
	case AppKindCommand:
		s.validateCommandKind(bad)
	default:
		bad("kind %q: must be %q or %q", s.Kind, AppKindDriver, AppKindCommand)
	}
	if n := s.bytes(); n > MaxSpecBytes {
		errs = append(errs, fmt.Errorf("%w: the application's description has %d bytes with its files; the limit is %d", ErrTooLarge, n, MaxSpecBytes))
	}
	return errors.Join(errs...)
}

// validatePlace checks what says who the application waits with and where its
// executors may go.
func (s AppSpec) validatePlace(bad func(string, ...any)) {
	if s.Queue != "" {
		if err := ValidQueueName(s.Queue); err != nil {
			bad("queue: %v", err)
		}
	}
	switch {
	case s.MinExecutors < 0 || s.MinExecutors > MaxGang:
		bad("min_executors %d: must be between 0 (no gang) and %d", s.MinExecutors, MaxGang)
	case s.MinExecutors > 0 && s.CoresMax > 0 && s.MinExecutors*max(s.Profile.Cores, 1) > s.CoresMax:
		bad("min_executors %d: %d executors of %d cores need more than cores_max %d", s.MinExecutors, s.MinExecutors, max(s.Profile.Cores, 1), s.CoresMax)
	}
	for field, labels := range map[string]map[string]string{"require": s.Require, "prefer": s.Prefer} {
		if len(labels) > MaxLabels {
			bad("%s: %d labels, the limit is %d", field, len(labels), MaxLabels)
		}
		for k, v := range labels {
			checkName(bad, field+": label", k, true)
			checkName(bad, field+": label "+k, v, false)
		}
	}
}

func (s AppSpec) validateCommandKind(bad func(string, ...any)) {
	if len(s.Command.Argv) == 0 {
		bad("command: must not be empty")
	}
	if s.Executors == TargetUnlimited && s.CoresMax == 0 {
		bad("executors: a driver-less application needs a number of copies, or cores_max to bound them")
	}
	if s.Completions < 0 || s.Completions > MaxExecutors {
		bad("completions %d: must be between 0 (keep running) and %d", s.Completions, MaxExecutors)
	}
	if s.Restart != RestartAlways && s.Restart != RestartNever {
		bad("restart %q: must be %q or %q", s.Restart, RestartAlways, RestartNever)
	}
	if s.DriverAddr != "" {
		bad("driver_addr %q: a driver-less application has no driver", s.DriverAddr)
	}
	if s.DriverCert != "" {
		bad("driver_cert: a driver-less application has no driver")
	}
	if s.Program.Set() {
		bad("program: only an application with a driver, which hands it out, has one")
	}
}

func (s AppSpec) bytes() int {
	n := len(s.Name) + len(s.User) + len(s.DriverAddr) + len(s.DriverCert) + len(s.Command.Dir) + len(s.Program.Path)
	for _, a := range s.Command.Argv {
		n += len(a)
	}
	for _, e := range s.Command.Env {
		n += len(e)
	}
	for _, f := range s.Files {
		n += len(f.Name) + len(f.Data)
	}
	for _, a := range s.Artifacts {
		n += len(a.URL) + len(a.SHA256) + len(a.Name)
	}
	return n
}

// Validate checks a profile on its own; the result wraps ErrInvalid.
func (p Profile) Validate() error { return errors.Join(p.validate()...) }

func (p Profile) validate() []error {
	var errs []error
	if p.Cores < 0 || p.Cores > MaxCores {
		errs = append(errs, fmt.Errorf("%w: executor_cores %d: must be between 1 and %d, or unset", ErrInvalid, p.Cores, MaxCores))
	}
	if p.MemoryMiB < 1 || p.MemoryMiB > MaxMemoryMiB {
		errs = append(errs, fmt.Errorf("%w: executor_memory_mib %d: must be between 1 and %d", ErrInvalid, p.MemoryMiB, MaxMemoryMiB))
	}
	if len(p.Resources) > MaxResourceNames {
		errs = append(errs, fmt.Errorf("%w: executor_resources: %d names, the limit is %d", ErrInvalid, len(p.Resources), MaxResourceNames))
	}
	for name, n := range p.Resources {
		if name == "" || len(name) > MaxNameBytes || n < 1 || n > MaxAddresses {
			errs = append(errs, fmt.Errorf("%w: executor_resources %q=%d: needs a name of at most %d bytes and a number between 1 and %d", ErrInvalid, name, n, MaxNameBytes, MaxAddresses))
		}
	}
	return errs
}

func (c Command) validate() []error {
	var errs []error
	if len(c.Argv) > MaxArgs || len(c.Env) > MaxArgs {
		errs = append(errs, fmt.Errorf("%w: command: %d arguments and %d environment entries, the limit is %d each", ErrInvalid, len(c.Argv), len(c.Env), MaxArgs))
	}
	for _, a := range c.Argv {
		if strings.ContainsRune(a, 0) {
			errs = append(errs, fmt.Errorf("%w: command: an argument contains a NUL byte", ErrInvalid))
			break
		}
	}
	if len(c.Argv) > 0 && c.Argv[0] == "" {
		errs = append(errs, fmt.Errorf("%w: command: the program's name is empty", ErrInvalid))
	}
	for _, e := range c.Env {
		name, _, ok := strings.Cut(e, "=")
		if !ok || name == "" || strings.ContainsRune(e, 0) {
			errs = append(errs, fmt.Errorf("%w: environment entry %q: want NAME=value without NUL", ErrInvalid, e))
		}
	}
	if c.Dir != "" && !path.IsAbs(c.Dir) {
		errs = append(errs, fmt.Errorf("%w: working directory %q: must be absolute", ErrInvalid, c.Dir))
	}
	return errs
}

func (f File) validate() error {
	clean := path.Clean(f.Name)
	if f.Name == "" || clean != f.Name || path.IsAbs(clean) || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsRune(f.Name, 0) {
		return fmt.Errorf("%w: file %q: must be a clean relative path inside the executor's directory", ErrInvalid, f.Name)
	}
	return nil
}

// Validate reports every problem of a worker's offer; wraps ErrInvalid.
func (o Offer) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	checkName(bad, "hostname", o.Hostname, true)
	if o.GRPCAddr == "" {
		bad("grpc_addr: must be host:port")
	}
	if o.Cores < 1 || o.Cores > MaxCores {
		bad("cores %d: must be between 1 and %d", o.Cores, MaxCores)
	}
	if o.MemoryMiB < 1 || o.MemoryMiB > MaxMemoryMiB {
		bad("memory_mib %d: must be between 1 and %d", o.MemoryMiB, MaxMemoryMiB)
	}
	if o.CoresTotal < 0 || o.CoresTotal > MaxCores || o.MemoryTotalMiB < 0 || o.MemoryTotalMiB > MaxMemoryMiB {
		bad("cores_total %d, memory_total_mib %d: must be between 0 (not known) and %d, %d", o.CoresTotal, o.MemoryTotalMiB, MaxCores, MaxMemoryMiB)
	}
	if len(o.Resources) > MaxResourceNames {
		bad("resources: %d names, the limit is %d", len(o.Resources), MaxResourceNames)
	}
	for name, addrs := range o.Resources {
		checkName(bad, "resource", name, true)
		if len(addrs) > MaxAddresses {
			bad("resource %s: %d addresses, the limit is %d", name, len(addrs), MaxAddresses)
		}
		seen := make(map[string]bool, len(addrs))
		for _, a := range addrs {
			if a == "" || len(a) > MaxNameBytes || seen[a] {
				bad("resource %s: address %q is empty, too long or given twice", name, a)
			}
			seen[a] = true
		}
	}
	if len(o.Labels) > MaxLabels {
		bad("labels: %d, the limit is %d", len(o.Labels), MaxLabels)
	}
	for k, v := range o.Labels {
		checkName(bad, "label", k, true)
		checkName(bad, "label "+k, v, false)
	}
	return errors.Join(errs...)
}

// Validate checks settings; wraps ErrInvalid.
func (s Settings) Validate() error {
	var errs []error
	known := false
	for _, p := range SelectionPolicies() {
		known = known || p == s.WorkerSelectionPolicy
	}
	if !known {
		errs = append(errs, fmt.Errorf("%w: worker_selection_policy %q: must be one of %v", ErrInvalid, s.WorkerSelectionPolicy, SelectionPolicies()))
	}
	if s.DefaultCores < 0 || s.DefaultCores > MaxCores {
		errs = append(errs, fmt.Errorf("%w: default_cores %d: must be between 0 (no limit) and %d", ErrInvalid, s.DefaultCores, MaxCores))
	}
	if s.MaxDrivers < 0 || s.MaxDrivers > MaxDriversLimit {
		errs = append(errs, fmt.Errorf("%w: max_drivers %d: must be between 0 (no limit) and %d", ErrInvalid, s.MaxDrivers, MaxDriversLimit))
	}
	if s.DriverShareMilli < 0 || s.DriverShareMilli > 1000 {
		errs = append(errs, fmt.Errorf("%w: driver_share %s: must be between 0 (no limit) and 1", ErrInvalid, FormatShare(s.DriverShareMilli)))
	}
	if s.UserCores < 0 || s.UserCores > MaxTotalCores {
		errs = append(errs, fmt.Errorf("%w: user_cores %d: must be between 0 (no limit) and %d", ErrInvalid, s.UserCores, MaxTotalCores))
	}
	if s.GangAfterMilli < 0 || s.GangAfterMilli > MaxGangAfterMilli {
		errs = append(errs, fmt.Errorf("%w: gang_after: %d ms: must be between 0 (never) and %d", ErrInvalid, s.GangAfterMilli, MaxGangAfterMilli))
	}
	if len(s.Queues) > MaxQueues {
		errs = append(errs, fmt.Errorf("%w: queues: %d, the limit is %d", ErrInvalid, len(s.Queues), MaxQueues))
	}
	for i, q := range s.Queues {
		errs = append(errs, q.Validate())
		if i > 0 && s.Queues[i-1].Name >= q.Name {
			errs = append(errs, fmt.Errorf("%w: queues: %q: each name is given once, sorted", ErrInvalid, q.Name))
		}
	}
	return errors.Join(errs...)
}

func checkName(bad func(string, ...any), field, v string, required bool) {
	if required && v == "" {
		bad("%s: must not be empty", field)
	}
	if len(v) > MaxNameBytes {
		bad("%s: %d bytes, the limit is %d", field, len(v), MaxNameBytes)
	}
	for _, r := range v {
		if r < 0x20 || r == 0x7f || r == '\uFFFD' {
			bad("%s %q: must be printable UTF-8", field, v)
			return
		}
	}
}

// ValidRequestID checks a request id: 1 to MaxRequestIDBytes printable ASCII.
func ValidRequestID(id string) error {
	if id == "" || len(id) > MaxRequestIDBytes {
		return fmt.Errorf("%w: request id: %d bytes, want 1 to %d", ErrInvalid, len(id), MaxRequestIDBytes)
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return fmt.Errorf("%w: request id %q: must be printable ASCII without spaces", ErrInvalid, id)
		}
	}
	return nil
}

// TrimReason cuts a reason text to MaxReasonBytes at a rune boundary.
func TrimReason(s string) string {
	if len(s) <= MaxReasonBytes {
		return s
	}
	cut := MaxReasonBytes - len("…")
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + "…"
}
