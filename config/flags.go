package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// flagValue keeps the texts a flag was given. They are parsed by Load together
// with everything else, so that a bad flag is reported beside a bad file.
type flagValue struct {
	kind     string
	def      string
	repeated bool // every occurrence counts, not only the last
	parts    []string
}

var _ pflag.Value = (*flagValue)(nil)

// Set keeps the text; it never fails.
func (f *flagValue) Set(text string) error {
	if !f.repeated {
		f.parts = f.parts[:0]
	}
	f.parts = append(f.parts, text)
	return nil
}

// String returns the texts given so far, or the default.
func (f *flagValue) String() string {
	if len(f.parts) == 0 {
		return f.def
	}
	return strings.Join(f.parts, ",")
}

// Type is the word shown in help behind the flag's name.
func (f *flagValue) Type() string { return f.kind }

// BindMasterFlags defines the flags of a master; LoadMaster reads them.
func BindMasterFlags(fs *pflag.FlagSet) {
	c := DefaultMaster()
	bindFlags(fs, masterKeys(&c))
}

// BindWorkerFlags defines the flags of a worker; LoadWorker reads them.
func BindWorkerFlags(fs *pflag.FlagSet) {
	c := DefaultWorker()
	bindFlags(fs, workerKeys(&c))
}

// BindClientFlags defines the flags of a client command; LoadClient reads them.
func BindClientFlags(fs *pflag.FlagSet) {
	c := DefaultClient()
	bindFlags(fs, clientKeys(&c))
}

func bindFlags(fs *pflag.FlagSet, keys []key) {
	for _, k := range keys {
		if k.flag == "" {
			continue
		}
		flag := fs.VarPF(&flagValue{kind: k.value.kind, def: k.value.text(), repeated: k.value.shape != scalar}, k.flag, "", k.usage)
		if k.value.kind == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
}
