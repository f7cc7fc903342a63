package driver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hearthd/hearth/driver"
)

// A whole program. In a main of your own it is
//
//	func main() { os.Exit(driver.Main(setup)) }
//
// and this example runs it on a cluster with two executors.
func Example() {
	setup := func(p *driver.Program) {
		p.Name = "squares"
		square := driver.Register(p, "square", func(_ context.Context, n int) (int, error) {
			return n * n, nil
		})
		p.Run(func(ctx context.Context, app *driver.App) error {
			squares, err := driver.Map(ctx, app, square, []int{1, 2, 3, 4})
			fmt.Println(squares)
			return err
		})
	}
	onCluster(setup)
	// Output: [1 4 9 16]
}

// Replies come as calls end, each with the index of its argument; one that fails
// does not stop the others.
func ExampleStream() {
	setup := func(p *driver.Program) {
		parse := driver.Register(p, "length", func(_ context.Context, word string) (int, error) {
			if word == "" {
				return 0, errors.New("nothing there")
			}
			return len(word), nil
		})
		p.Run(func(ctx context.Context, app *driver.App) error {
			words := []string{"one", "", "three"}
			lengths := make([]string, len(words))
			for i, r := range driver.Stream(ctx, app, parse, slices.Values(words)) {
				var failed *driver.CallError
				switch {
				case errors.As(r.Err, &failed):
					lengths[i] = failed.Message
				case r.Err != nil:
					return r.Err
				default:
					lengths[i] = fmt.Sprint(r.Value)
				}
			}
			fmt.Println(strings.Join(lengths, ", "))
			return nil
		})
	}
	onCluster(setup)
	// Output: 3, nothing there, 5
}

// A call whose function fails or takes too long is tried again.
func ExampleWithRetry() {
	setup := func(p *driver.Program) {
		fetch := driver.Register(p, "fetch", func(_ context.Context, url string) (string, error) {
			return "", fmt.Errorf("%s does not answer", url)
		})
		p.Run(func(ctx context.Context, app *driver.App) error {
			_, err := driver.Call(ctx, app, fetch, "http://example.org",
				driver.WithTimeout(10*time.Second),
				driver.WithRetry(driver.Retry{Tries: 3, Backoff: time.Millisecond}))
			var failed *driver.CallError
			if errors.As(err, &failed) {
				fmt.Printf("after %d tries: %s\n", failed.Tries, failed.Message)
			}
			return nil
		})
	}
	onCluster(setup)
	// Output: after 3 tries: http://example.org does not answer
}

// A large value that many calls need travels to each executor once.
func ExampleNewBroadcast() {
	type question struct {
		Words driver.Ref[map[string]string]
		Word  string
	}
	setup := func(p *driver.Program) {
		translate := driver.Register(p, "translate", func(ctx context.Context, q question) (string, error) {
			words, err := q.Words.Get(ctx)
			if err != nil {
				return "", err
			}
			return words[q.Word], nil
		})
		p.Run(func(ctx context.Context, app *driver.App) error {
			words, err := driver.NewBroadcast(app, map[string]string{"Feuer": "fire", "Herd": "hearth"})
			if err != nil {
				return err
			}
			defer words.Release()
			out, err := driver.Map(ctx, app, translate, []question{{words.Ref(), "Herd"}, {words.Ref(), "Feuer"}})
			fmt.Println(out)
			return err
		})
	}
	onCluster(setup)
	// Output: [hearth fire]
}

// What takes long to make is made once on each executor.
func ExampleNewLocal() {
	setup := func(p *driver.Program) {
		model := driver.NewLocal(p,
			func(_ context.Context, env *driver.ExecutorEnv) (*strings.Replacer, error) {
				env.Logger().Info("the model is loaded", "cores", env.Cores)
				return strings.NewReplacer("cold", "warm"), nil
			}, nil)
		infer := driver.Register(p, "infer", func(ctx context.Context, text string) (string, error) {
			m, err := model.Get(ctx)
			if err != nil {
				return "", err
			}
			return m.Replace(text), nil
		})
		p.Run(func(ctx context.Context, app *driver.App) error {
			out, err := driver.Call(ctx, app, infer, "a cold night")
			fmt.Println(out)
			return err
		})
	}
	onCluster(setup)
	// Output: a warm night
}

// The number of executors follows the load, and what the program asks for can be
// asked for on its command line.
func ExampleDynamic() {
	setup := func(p *driver.Program) {
		p.Dynamic = &driver.Dynamic{Max: 20, IdleTimeout: 10 * time.Second}
		p.Flags().IntVar(&p.Dynamic.Max, "most", p.Dynamic.Max, "most executors")
		p.Run(func(_ context.Context, _ *driver.App) error {
			fmt.Println("at most", p.Dynamic.Max)
			return nil
		})
	}
	onCluster(setup, "--most", "5")
	// Output: at most 5
}

// Some calls need larger executors than the others.
func ExampleApp_NewProfile() {
	setup := func(p *driver.Program) {
		p.ExecutorCores = 2
		cores := driver.Register(p, "cores", func(ctx context.Context, _ string) (int, error) {
			return driver.Executor(ctx).Cores, nil
		})
		p.Run(func(ctx context.Context, app *driver.App) error {
			large, err := app.NewProfile(ctx, driver.ProfileSpec{Cores: 8, MemoryMiB: 4096, CoresPerTask: 8})
			if err != nil {
				return err
			}
			if err := large.SetExecutors(ctx, 1); err != nil {
				return err
			}
			small, err := driver.Map(ctx, app, cores, []string{"prepare", "prepare"})
			if err != nil {
				return err
			}
			big, err := driver.Call(ctx, app, cores, "train", driver.WithProfile(large))
			fmt.Println(small, big)
			return err
		})
	}
	onCluster(setup)
	// Output: [2 2] 8
}

// onCluster runs a program on the cluster of the tests; a program of your own calls
// driver.Main.
func onCluster(setup func(*driver.Program), args ...string) {
	if code := driver.RunOnTestCluster(setup, os.Stdout, os.Stderr, args...); code != driver.CodeOK {
		fmt.Println("exit code", code)
	}
}
