"""Serves moto on a free loopback port, one request at a time: its own threads
lose transactions. Prints the port, and ends with its standard input."""
import os, sys, threading
from werkzeug.serving import make_server
from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app

server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False,
                     request_handler=MotoRequestHandler)
print(server.port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)
