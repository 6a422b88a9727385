package plugins

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// PathEnv names folders with plug-ins, split as PATH is.
	PathEnv = "FENCEDSTORE_PLUGIN_PATH"
	// FilePrefix begins the name of a plug-in's file.
	FilePrefix = "fencedstore-"
)

// Found is a plug-in in a folder of [PathEnv].
type Found struct {
	Name string // without the prefix
	Path string
}

// Discover lists the plug-ins in the folders of list, which is split as PATH
// is; of two with one name the first counts. It starts none. Folders that
// cannot be read are left out, and empty elements, which elsewhere mean the
// working folder.
func Discover(list string) []Found {
	var out []Found
	for _, dir := range filepath.SplitList(list) {
		if dir == "" {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			file, ok := strings.CutPrefix(e.Name(), FilePrefix)
			name := strings.TrimSuffix(file, ".exe")
			path := filepath.Join(dir, e.Name())
			info, err := os.Stat(path)
			if !ok || name == "" || strings.HasSuffix(name, ManifestSuffix) || err != nil || !info.Mode().IsRegular() ||
				slices.ContainsFunc(out, func(f Found) bool { return f.Name == name }) {
				continue
			}
			if info.Mode()&0o111 != 0 {
				out = append(out, Found{name, path})
			}
		}
	}
	return out
}
