package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/model"
)

func newWhy(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Say why an application or driver waits",
		Long: "Says why an application or driver has not got what it wants: which resource is missing\n" +
			"and how much of it, who holds it, who comes first, which limit is reached. What can never\n" +
			"fit is told apart from what others hold at the moment. The id may be any unique prefix.\n\n" +
			"The codes are listed in the manual; with -o json every number has a field of its own.",
		Example: "  hearth why app-20261130061500-0003\n  hearth why app-20261130061500-0003 -o json",
		Args:    cobra.ExactArgs(1),
	}
	return question(s, cmd, func(ctx context.Context, c *session, args []string) (any, func(io.Writer) error, error) {
		v, err := c.Why(ctx, args[0])
		if err != nil {
			return nil, nil, err
		}
		return v, func(w io.Writer) error { return whyTable(w, v) }, nil
	})
}

func whyTable(w io.Writer, v model.Why) error {
	_, _ = fmt.Fprintf(w, "%s  %s  %s\n", v.ID, v.Name, whyState(v))
	if len(v.Reasons) == 0 {
		_, err := fmt.Fprintln(w, whyText(v))
		return err
	}
	_, _ = fmt.Fprintln(w)
	t := newTable(w, "CODE", "NEVER", "PROFILE", "WHY")
	for _, r := range v.Reasons {
		never := ""
		if r.Never {
			never = "never"
		}
		t.row(r.Code, never, r.Profile, r.Text)
	}
	return t.flush()
}

// whyState adds to the state how much is missing and since when.
func whyState(v model.Why) string {
	out := v.State
	if v.Kind == model.WhyApp && v.Wanted != model.TargetUnlimited {
		out += fmt.Sprintf("  %d of %d executors", v.Live, v.Wanted)
	}
	if v.Waiting {
		out += "  waiting for " + age(v.AgeMilli)
	}
	return out
}

func whyText(v model.Why) string {
	if v.Text != "" {
		return v.Text
	}
	return "it waits for nothing"
}

func age(milli int64) string {
	return (time.Duration(milli) * time.Millisecond).Round(time.Second).String()
}

func newQueue(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "List everything that waits, and why",
		Long: "Lists the drivers and applications that have not got what they want, in the order in which\n" +
			"they are served, with their age and the first reason. hearth why ID says everything.",
		Args: cobra.NoArgs,
	}
	return question(s, cmd, func(ctx context.Context, c *session, _ []string) (any, func(io.Writer) error, error) {
		v, err := c.Waiting(ctx)
		if err != nil {
			return nil, nil, err
		}
		return v, func(w io.Writer) error { return queueTable(w, v.Waiting) }, nil
	})
}

func queueTable(w io.Writer, list []model.Why) error {
	t := newTable(w, "ID", "NAME", "USER", "QUEUE", "STATE", "AGE", "HAS", "WANTS", "CODE", "WHY")
	for _, v := range list {
		t.row(v.ID, v.Name, v.User, v.Queue, v.State, age(v.AgeMilli), v.Live, wants(v), whyCode(v), whyText(v))
	}
	return t.flush()
}

func wants(v model.Why) string {
	if v.Wanted == model.TargetUnlimited {
		return "all"
	}
	return fmt.Sprint(v.Wanted)
}

// whyCode is the code of the first reason.
func whyCode(v model.Why) string {
	if len(v.Reasons) == 0 {
		return ""
	}
	return string(v.Reasons[0].Code)
}
