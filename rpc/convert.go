package rpc

import (
	"fmt"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// Conversion is one pair of functions per message: xToWire and xFromWire. The
// round-trip tests fill every field of the model struct by reflection, so a
// field that is added to model and forgotten here fails them.

// each converts a list; nil stays nil.
func each[T, U any](in []T, f func(T) U) []U {
	if in == nil {
		return nil
	}
	out := make([]U, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func str[T, U ~string](s T) U { return U(s) }

func wireBytes(s string) []byte   { return []byte(s) }
func modelString(b []byte) string { return string(b) }

func resourcesToWire[M ~map[string][]string](r M) map[string]*pb.Addresses {
	if r == nil {
		return nil
	}
	out := make(map[string]*pb.Addresses, len(r))
	for name, addrs := range r {
		out[name] = &pb.Addresses{Values: addrs}
	}
	return out
}

func resourcesFromWire[M ~map[string][]string](r map[string]*pb.Addresses) M {
	if r == nil {
		return nil
	}
	out := make(M, len(r))
	for name, addrs := range r {
		out[name] = addrs.GetValues()
	}
	return out
}

func identityToWire(c model.ClusterIdentity) *pb.ClusterIdentity {
	return &pb.ClusterIdentity{Id: c.ID, Epoch: c.Epoch, EpochId: c.EpochID}
}

func identityFromWire(c *pb.ClusterIdentity) model.ClusterIdentity {
	return model.ClusterIdentity{ID: c.GetId(), Epoch: c.GetEpoch(), EpochID: c.GetEpochId()}
}

func refToWire(r model.ExecutorRef) *pb.ExecutorRef {
	return &pb.ExecutorRef{App: string(r.App), Executor: int64(r.Executor)}
}

func refFromWire(r *pb.ExecutorRef) model.ExecutorRef {
	return model.ExecutorRef{App: model.AppID(r.GetApp()), Executor: model.ExecutorID(r.GetExecutor())}
}

func beatToWire(b *model.Beat) *pb.Beat { return &pb.Beat{Number: b.Number, NextUs: b.NextMicro} }

func beatFromWire(b *pb.Beat) *model.Beat {
	return &model.Beat{Number: b.GetNumber(), NextMicro: b.GetNextUs()}
}

func profileToWire(p model.Profile) *pb.Profile {
	out := &pb.Profile{Cores: int64(p.Cores), MemoryMib: p.MemoryMiB}
	if p.Resources != nil {
		out.Resources = make(map[string]int64, len(p.Resources))
		for name, n := range p.Resources {
			out.Resources[name] = int64(n)
		}
	}
	return out
}

func profileFromWire(p *pb.Profile) model.Profile {
	out := model.Profile{Cores: int(p.GetCores()), MemoryMiB: p.GetMemoryMib()}
	if r := p.GetResources(); r != nil {
		out.Resources = make(map[string]int, len(r))
		for name, n := range r {
			out.Resources[name] = int(n)
		}
	}
	return out
}

func fileToWire(f model.File) *pb.File {
	return &pb.File{Name: wireBytes(f.Name), Mode: f.Mode, Data: f.Data}
}

func fileFromWire(f *pb.File) model.File {
	return model.File{Name: string(f.GetName()), Mode: f.GetMode(), Data: f.GetData()}
}

func specToWire(s model.AppSpec) *pb.AppSpec {
	return &pb.AppSpec{
		Name:      s.Name,
		User:      s.User,
		Kind:      string(s.Kind),
		CoresMax:  int64(s.CoresMax),
		Profile:   profileToWire(s.Profile),
		Executors: int64(s.Executors),
		Command: &pb.Command{
			Argv: each(s.Command.Argv, wireBytes),
			Env:  each(s.Command.Env, wireBytes),
			Dir:  wireBytes(s.Command.Dir),
		},
		Files:         each(s.Files, fileToWire),
		Completions:   int64(s.Completions),
		Restart:       string(s.Restart),
		MaxRuntimeMs:  s.MaxRuntimeMilli,
		DriverAddr:    s.DriverAddr,
		DriverCert:    s.DriverCert,
		Disconnect:    string(s.Disconnect),
		Program:       programToWire(s.Program),
		Driver:        string(s.Driver),
		DriverAttempt: int64(s.Attempt),
		Artifacts:     each(s.Artifacts, artifactToWire),
		Queue:         s.Queue,
		MinExecutors:  int64(s.MinExecutors),
		Require:       s.Require,
		Prefer:        s.Prefer,
	}
}

// labelsFromWire makes no labels nil, as the model has them.
func labelsFromWire(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

func programToWire(p model.Program) *pb.Program {
	if !p.Set() {
		return nil
	}
	return &pb.Program{Sha256: p.SHA256, Bytes: p.Bytes, Path: p.Path}
}

func programFromWire(p *pb.Program) model.Program {
	return model.Program{SHA256: p.GetSha256(), Bytes: p.GetBytes(), Path: p.GetPath()}
}

func specFromWire(s *pb.AppSpec) model.AppSpec {
	return model.AppSpec{
		Name:      s.GetName(),
		User:      s.GetUser(),
		Kind:      model.AppKind(s.GetKind()),
		CoresMax:  int(s.GetCoresMax()),
		Profile:   profileFromWire(s.GetProfile()),
		Executors: int(s.GetExecutors()),
		Command: model.Command{
			Argv: each(s.GetCommand().GetArgv(), modelString),
			Env:  each(s.GetCommand().GetEnv(), modelString),
			Dir:  string(s.GetCommand().GetDir()),
		},
		Files:           each(s.GetFiles(), fileFromWire),
		Completions:     int(s.GetCompletions()),
		Restart:         model.Restart(s.GetRestart()),
		MaxRuntimeMilli: s.GetMaxRuntimeMs(),
		DriverAddr:      s.GetDriverAddr(),
		DriverCert:      s.GetDriverCert(),
		Disconnect:      model.DisconnectPolicy(s.GetDisconnect()),
		Program:         programFromWire(s.GetProgram()),
		Driver:          model.DriverID(s.GetDriver()),
		Attempt:         int(s.GetDriverAttempt()),
		Artifacts:       each(s.GetArtifacts(), artifactFromWire),
		Queue:           s.GetQueue(),
		MinExecutors:    int(s.GetMinExecutors()),
		Require:         labelsFromWire(s.GetRequire()),
		Prefer:          labelsFromWire(s.GetPrefer()),
	}
}

func logRequestToWire(r LogRequest) *pb.LogRequest {
	return &pb.LogRequest{Ref: refToWire(r.Ref), Stream: string(r.Stream), Offset: r.Offset, Follow: r.Follow}
}

func logRequestFromWire(r *pb.LogRequest) LogRequest {
	return LogRequest{Ref: refFromWire(r.GetRef()), Stream: LogStream(r.GetStream()), Offset: r.GetOffset(), Follow: r.GetFollow()}
}

func checkLogRequest(r LogRequest) error {
	if r.Stream != LogStdout && r.Stream != LogStderr {
		return fmt.Errorf("read log of %s: %w: stream %q: must be %q or %q", r.Ref, model.ErrInvalid, r.Stream, LogStdout, LogStderr)
	}
	return nil
}

func logChunkToWire(c LogChunk) *pb.LogChunk { return &pb.LogChunk{Offset: c.Offset, Data: c.Data} }

func logChunkFromWire(c *pb.LogChunk) LogChunk {
	return LogChunk{Offset: c.GetOffset(), Data: c.GetData()}
}
