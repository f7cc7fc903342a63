package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// errEnough ends the reading of a log after as much as was asked for.
var errEnough = errors.New("enough of the log")

// LogPath is where the output of an executor is shown.
func LogPath(app model.AppID, executor model.ExecutorID, stream string) string {
	return fmt.Sprintf("/logs/%s/%d/%s", app, executor, stream)
}

// logPart is a part of a log.
type logPart struct {
	Ref    model.ExecutorRef
	Stream rpc.LogStream
	From   int64 // offset of its first byte
	To     int64 // offset behind its last
	Text   []byte
}

// readLog reads at most limit bytes from an offset on; negative: that many before the end.
func (h *Handler) readLog(r *http.Request, offset, limit int64) (logPart, error) {
	ref, err := model.ParseExecutorRef(r.PathValue("app") + "/" + r.PathValue("executor"))
	if err != nil {
		return logPart{}, fmt.Errorf("%w: %w", model.ErrInvalid, err)
	}
	part := logPart{Ref: ref, Stream: rpc.LogStream(r.PathValue("stream")), From: max(0, offset), To: max(0, offset)}
	if part.Stream != rpc.LogStdout && part.Stream != rpc.LogStderr {
		return logPart{}, fmt.Errorf("%w: stream %q: an executor has %s and %s", model.ErrInvalid, part.Stream, rpc.LogStdout, rpc.LogStderr)
	}
	ctx, cancel := context.WithTimeout(r.Context(), logTimeout)
	defer cancel()
	begun := false
	err = h.cfg.Source.ReadLog(ctx, rpc.LogRequest{Ref: ref, Stream: part.Stream, Offset: offset}, func(c rpc.LogChunk) error {
		if !begun {
			begun, part.From, part.To = true, c.Offset, c.Offset
		}
		data := c.Data[:min(int64(len(c.Data)), limit-int64(len(part.Text)))]
		part.Text = append(part.Text, data...)
		part.To += int64(len(data))
		if int64(len(part.Text)) >= limit {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) && (!begun || ctx.Err() == nil) {
		return logPart{}, err
	}
	return part, nil
}

// readingLog limits how many logs are read at a time.
func (h *Handler) readingLog(f func(http.ResponseWriter, *http.Request) error) http.Handler {
	return h.limited(h.logs, f)
}

type logBody struct {
	logPart
	Text  string
	Tail  bool   // it is the end of the log that is shown
	Older string // link, "" at the beginning
	Newer string // link, "" at the end
	Raw   string
	Other string // the other stream
	Link  string
}

// logPage shows a part of a log: the end, or from ?offset= on.
func (h *Handler) logPage(w http.ResponseWriter, r *http.Request) error {
	offset, given, err := offsetOf(r)
	if err != nil {
		return err
	}
	snap, err := h.cfg.Board.Snapshot()
	if err != nil {
		return err
	}
	if !given {
		offset = -logPage
	}
	part, err := h.readLog(r, offset, logPage)
	if err != nil {
		return err
	}
	other := rpc.LogStderr
	if part.Stream == rpc.LogStderr {
		other = rpc.LogStdout
	}
	link := LogPath(part.Ref.App, part.Ref.Executor, string(part.Stream))
	b := logBody{
		logPart: part, Text: readable(part.Text), Tail: !given, Link: link, Raw: link + "/raw",
		Other: LogPath(part.Ref.App, part.Ref.Executor, string(other)),
	}
	if part.From > 0 {
		b.Older = fmt.Sprintf("%s?offset=%d", link, max(0, part.From-logPage))
	}
	if given && len(part.Text) == logPage {
		b.Newer = fmt.Sprintf("%s?offset=%d", link, part.To)
	}
	nav := "apps"
	if model.IsDriver(part.Ref.App) {
		nav = "drivers"
	}
	h.render(w, http.StatusOK, "log", frame{Title: part.Ref.String() + " " + string(part.Stream), Nav: nav, Snap: snap, Body: b})
	return nil
}

// logRaw answers bytes of a log: ?offset= (negative: before the end) and ?limit=. The offset behind them is in the header
// Hearth-Log-Next.
func (h *Handler) logRaw(w http.ResponseWriter, r *http.Request) error {
	offset, _, err := offsetOf(r)
	if err != nil {
		return err
	}
	limit := int64(maxLogRange)
	if text := r.URL.Query().Get("limit"); text != "" {
		if limit, err = strconv.ParseInt(text, 10, 64); err != nil || limit <= 0 || limit > maxLogRange {
			return fmt.Errorf("%w: limit %q: give a number from 1 to %d", model.ErrInvalid, trim(text, maxQuery), maxLogRange)
		}
	}
	part, err := h.readLog(r, offset, limit)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Hearth-Log-Next", strconv.FormatInt(part.To, 10))
	_, _ = w.Write(part.Text) // the client may be gone
	return nil
}

func offsetOf(r *http.Request) (offset int64, given bool, err error) {
	text := r.URL.Query().Get("offset")
	if text == "" {
		return 0, false, nil
	}
	offset, err = strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, false, fmt.Errorf("%w: offset %q is not a number", model.ErrInvalid, trim(text, maxQuery))
	}
	return offset, true, nil
}

// readable makes output fit for a page: what is no text is shown as such.
func readable(b []byte) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' {
			return '·'
		}
		return c
	}, strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\r\n", "\n"))
}
