package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hearthd/hearth/model"
)

// maxResourcesFile bounds a resources file.
const maxResourcesFile = 1 << 20

// labelsValue keeps "name=value" pairs.
func labelsValue(p *map[string]string) value {
	return pairsValue("label", ",", func(parts []string) error {
		out := make(map[string]string, len(parts))
		for _, part := range parts {
			name, val, ok := strings.Cut(part, "=")
			name = strings.TrimSpace(name)
			switch {
			case !ok || name == "":
				return fmt.Errorf("must be name=value, %q is not", clip(part))
			case len(name) > model.MaxNameBytes || len(val) > model.MaxNameBytes:
				return fmt.Errorf("name and value must be at most %d bytes", model.MaxNameBytes)
			}
			if _, twice := out[name]; twice {
				return fmt.Errorf("%q is given twice", clip(name))
			}
			out[name] = val
		}
		if len(out) > model.MaxLabels {
			return fmt.Errorf("must be at most %d labels", model.MaxLabels)
		}
		*p = out
		return nil
	})
}

// scriptsValue keeps "name=/path" pairs.
func scriptsValue(p *map[string]string) value {
	return pairsValue("script", ",", func(parts []string) error {
		out := make(map[string]string, len(parts))
		for _, part := range parts {
			name, path, ok := strings.Cut(part, "=")
			name, path = strings.TrimSpace(name), strings.TrimSpace(path)
			switch {
			case !ok || name == "" || len(name) > model.MaxNameBytes:
				return fmt.Errorf("must be name=/path with a name of at most %d bytes, %q is not", model.MaxNameBytes, clip(part))
			case !filepath.IsAbs(path):
				return fmt.Errorf("the path of the script for %q must be absolute, %q is not", clip(name), clip(path))
			}
			if _, twice := out[name]; twice {
				return fmt.Errorf("%q is given twice", clip(name))
			}
			out[name] = path
		}
		if len(out) > model.MaxResourceNames {
			return fmt.Errorf("must be at most %d scripts", model.MaxResourceNames)
		}
		*p = out
		return nil
	})
}

// resourcesValue keeps "name=address,address" pairs; a part without "=" is the
// path of a resources file.
func resourcesValue(p *model.Resources) value {
	return pairsValue("resource", ";", func(parts []string) error {
		out := make(model.Resources, len(parts))
		for _, part := range parts {
			name, addrs, ok := strings.Cut(part, "=")
			if !ok {
				if err := readResources(strings.TrimSpace(part), out); err != nil {
					return err
				}
				continue
			}
			if err := addResource(out, strings.TrimSpace(name), strings.Split(addrs, ",")); err != nil {
				return err
			}
		}
		*p = out
		return nil
	})
}

// addResource checks one resource and adds it.
func addResource(out model.Resources, name string, addrs []string) error {
	if name == "" || len(name) > model.MaxNameBytes {
		return fmt.Errorf("a resource needs a name of at most %d bytes", model.MaxNameBytes)
	}
	if _, twice := out[name]; twice {
		return fmt.Errorf("resource %q is given twice", clip(name))
	}
	if len(out) == model.MaxResourceNames {
		return fmt.Errorf("must be at most %d resources", model.MaxResourceNames)
	}
	if len(addrs) == 0 || len(addrs) > model.MaxAddresses {
		return fmt.Errorf("resource %q needs between 1 and %d addresses", clip(name), model.MaxAddresses)
	}
	kept := make([]string, 0, len(addrs))
	for _, addr := range addrs {
		addr = strings.TrimSpace(addr)
		if addr == "" || len(addr) > model.MaxNameBytes || slices.Contains(kept, addr) {
			return fmt.Errorf("address %q of resource %q is empty, too long or given twice", clip(addr), clip(name))
		}
		kept = append(kept, addr)
	}
	out[name] = kept
	return nil
}

// readResources adds the resources of a file in the form of Spark's
// spark.worker.resourcesFile: a JSON array of {"id": {"resourceName": "gpu"},
// "addresses": ["0", "1"]}; id.componentName may be there and is not looked at.
func readResources(path string, out model.Resources) error {
	src, err := readRegular(path, maxResourcesFile)
	if err != nil {
		return fmt.Errorf("must be name=address,address or a file: %s: %w", path, err)
	}
	var entries []struct {
		ID struct {
			ComponentName string `json:"componentName"`
			ResourceName  string `json:"resourceName"`
		} `json:"id"`
		Addresses []string `json:"addresses"`
	}
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&entries); err != nil {
		return fmt.Errorf("resources file %s: %w", path, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("resources file %s: must hold one array and nothing behind it", path)
	}
	for _, e := range entries {
		if err := addResource(out, e.ID.ResourceName, e.Addresses); err != nil {
			return fmt.Errorf("resources file %s: %w", path, err)
		}
	}
	return nil
}
