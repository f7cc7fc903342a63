package model

import "time"

// CompactUTC renders a wall clock reading (ms since 1970) as YYYYMMDDhhmmss in
// UTC. It formats a given instant and reads no clock.
func CompactUTC(wallMilli int64) string {
	return time.UnixMilli(wallMilli).UTC().Format("20060102150405")
}

// RFC3339 renders a wall clock reading (ms since 1970) in UTC, "" for 0.
func RFC3339(wallMilli int64) string {
	if wallMilli == 0 {
		return ""
	}
	return time.UnixMilli(wallMilli).UTC().Format("2006-01-02T15:04:05.000Z")
}

// FormatMilli renders a duration in ms as package time does, such as 1m30s.
func FormatMilli(milli int64) string {
	return (time.Duration(milli) * time.Millisecond).String()
}
