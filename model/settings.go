package model

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Settings are the scheduler's replicated settings. The HCL block cluster {}
// seeds them at bootstrap only. They are replaced as a whole: Queues is never
// changed in place.
type Settings struct {
	SpreadOutApps         bool
	WorkerSelectionPolicy SelectionPolicy
	DefaultCores          int // cores of an app without CoresMax; 0 = no limit

	// SpreadOutDrivers goes round the workers from the one used last; otherwise
	// a driver takes the first by id that has room.
	SpreadOutDrivers bool
	MaxDrivers       int // placed at once; 0 = no limit
	// DriverShareMilli bounds the cores of placed drivers, in thousandths of
	// the cores that ALIVE workers offer; 0 = no limit.
	DriverShareMilli int

	// Queues are sorted by name. None: all applications wait together.
	Queues []Queue
	// UserCores bounds the cores that the executors of one user hold (AppUser);
	// 0 = no limit.
	UserCores int
	// GangAfterMilli is how long the oldest gang waits, in ms of cluster clock,
	// until free cores are kept for it; 0 = never.
	GangAfterMilli int64
}

// DefaultSettings are Spark's defaults (spark-standalone 1.E and 1.F).
func DefaultSettings() Settings {
	return Settings{SpreadOutApps: true, WorkerSelectionPolicy: CoresFreeDesc, SpreadOutDrivers: true}
}

// Equal compares settings.
func (s Settings) Equal(o Settings) bool {
	return s.SpreadOutApps == o.SpreadOutApps && s.WorkerSelectionPolicy == o.WorkerSelectionPolicy &&
		s.DefaultCores == o.DefaultCores && s.SpreadOutDrivers == o.SpreadOutDrivers && s.MaxDrivers == o.MaxDrivers &&
		s.DriverShareMilli == o.DriverShareMilli && slices.Equal(s.Queues, o.Queues) &&
		s.UserCores == o.UserCores && s.GangAfterMilli == o.GangAfterMilli
}

// Names of the settings, as commands and operators spell them.
const (
	SettingSpreadOutApps         = "spread_out_apps"
	SettingWorkerSelectionPolicy = "worker_selection_policy"
	SettingDefaultCores          = "default_cores"
	SettingSpreadOutDrivers      = "spread_out_drivers"
	SettingMaxDrivers            = "max_drivers"
	SettingDriverShare           = "driver_share"
	SettingQueues                = "queues"
	SettingUserCores             = "user_cores"
	SettingGangAfter             = "gang_after"
)

// SettingNames lists the settings in the order in which they are shown.
func SettingNames() []string {
	return []string{
		SettingSpreadOutApps, SettingWorkerSelectionPolicy, SettingDefaultCores,
		SettingSpreadOutDrivers, SettingMaxDrivers, SettingDriverShare,
		SettingQueues, SettingUserCores, SettingGangAfter,
	}
}

// ErrUnknownSetting is a name that is not one of SettingNames.
var ErrUnknownSetting = errors.New("unknown setting")

// Set changes one setting from its text, as operators write it; wraps
// ErrInvalid or ErrUnknownSetting. Bounds are those of Validate.
func (s *Settings) Set(name, value string) error {
	var err error
	switch name {
	case SettingSpreadOutApps:
		err = setBool(&s.SpreadOutApps, value)
	case SettingWorkerSelectionPolicy:
		s.WorkerSelectionPolicy = SelectionPolicy(value)
	case SettingDefaultCores:
		err = setInt(&s.DefaultCores, value)
	case SettingSpreadOutDrivers:
		err = setBool(&s.SpreadOutDrivers, value)
	case SettingMaxDrivers:
		err = setInt(&s.MaxDrivers, value)
	case SettingDriverShare:
		var milli int
		if milli, err = ParseShare(value); err == nil {
			s.DriverShareMilli = milli
		}
	case SettingQueues:
		var qs []Queue
		if qs, err = ParseQueues(value); err == nil {
			s.Queues = qs
		}
	case SettingUserCores:
		err = setInt(&s.UserCores, value)
	case SettingGangAfter:
		var d time.Duration
		if d, err = time.ParseDuration(value); err != nil {
			err = fmt.Errorf("%w: %q: must be a duration with a unit, such as 5m, or 0", ErrInvalid, value)
			break
		}
		s.GangAfterMilli = d.Milliseconds()
	default:
		return fmt.Errorf("%w %q: must be one of %v", ErrUnknownSetting, name, SettingNames())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Get is the text of a setting, which Set reads; "" for an unknown name.
func (s Settings) Get(name string) string {
	switch name {
	case SettingSpreadOutApps:
		return strconv.FormatBool(s.SpreadOutApps)
	case SettingWorkerSelectionPolicy:
		return string(s.WorkerSelectionPolicy)
	case SettingDefaultCores:
		return strconv.Itoa(s.DefaultCores)
	case SettingSpreadOutDrivers:
		return strconv.FormatBool(s.SpreadOutDrivers)
	case SettingMaxDrivers:
		return strconv.Itoa(s.MaxDrivers)
	case SettingDriverShare:
		return FormatShare(s.DriverShareMilli)
	case SettingQueues:
		return FormatQueues(s.Queues)
	case SettingUserCores:
		return strconv.Itoa(s.UserCores)
	case SettingGangAfter:
		return FormatMilli(s.GangAfterMilli)
	}
	return ""
}

func setBool(p *bool, value string) error {
	b, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("%w: %q: must be true or false", ErrInvalid, value)
	}
	*p = b
	return nil
}

func setInt(p *int, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil {
		return fmt.Errorf("%w: %q: must be a number", ErrInvalid, value)
	}
	*p = n
	return nil
}
