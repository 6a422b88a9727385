package lab

import (
	"fmt"
	"os"
	"path/filepath"
)

// ZooKeeper is one server of Apache ZooKeeper, which syncs its log at each write
// and survives kill -9. Its ticks are short, so that sessions of one second are
// possible.
var ZooKeeper = &Server{
	Name: "zookeeper", Version: "3.9.4",
	About:  "Apache ZooKeeper (Maven, Apache-2.0), one server: durable",
	Cannot: "elections, a partition among servers, reads from a follower that lags",
	Pins:   "zookeeper", Install: installMaven,
	Command: func(at Place) (argv, env []string, err error) {
		config := filepath.Join(at.Data, "zoo.cfg")
		text := fmt.Sprintf("tickTime=100\nminSessionTimeout=200\nmaxSessionTimeout=60000\ndataDir=%s\nclientPortAddress=%s\nclientPort=%d\nadmin.enableServer=false\nmaxClientCnxns=0\n",
			filepath.ToSlash(filepath.Join(at.Data, "zk")), at.Host, at.Port)
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			return nil, nil, err
		}
		return []string{"java", "-Xmx256m", "-cp", filepath.Join(at.Install, "lib", "*"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", config}, nil, nil
	},
}
