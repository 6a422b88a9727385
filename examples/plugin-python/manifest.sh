#!/bin/sh
# Writes the list of what the plug-in loads, itself first.
cd "$(dirname "$0")" && sha256sum fencedstore-pysqlite serve.py store.py decide.py fencedstore/v1/*.py >fencedstore-pysqlite.manifest
