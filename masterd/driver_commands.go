package masterd

import (
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// expireDriversCommand ends drivers that have been there for longer than they may.
func expireDriversCommand(drivers []model.DriverID) *replogv1.Command {
	names := make([]string, 0, len(drivers))
	for _, id := range drivers {
		names = append(names, string(id))
	}
	return &replogv1.Command{Kind: &replogv1.Command_ExpireDrivers{ExpireDrivers: &replogv1.ExpireDrivers{Drivers: names}}}
}
