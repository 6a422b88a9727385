package lab

import "errors"

// GRPCPy is no server: it is what the plug-in in examples/plugin-python runs
// with, a Python environment with grpcio. Its host starts the plug-in.
var GRPCPy = &Server{
	Name: "grpcpy", Version: "1.85.3",
	About:  "Python with grpcio (PyPI, Apache-2.0), for the plug-in in examples/plugin-python",
	Cannot: "nothing: it is the plug-in itself",
	Pins:   "grpcpy", Install: installPip,
	Command: func(Place) (argv, env []string, err error) {
		return nil, nil, errors.New("a plug-in is started by its host: go test ./examples/plugin-python")
	},
}
