// Serves minidyn: minidyn HOST:PORT
package main

import (
	"log"
	"net/http"
	"os"

	"github.com/truora/minidyn/server"
)

func main() { log.Fatal(http.ListenAndServe(os.Args[1], server.NewServer())) }
