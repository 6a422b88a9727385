"""Serves moto: serve.py HOST:PORT one-by-one|threads"""
import sys
from werkzeug.serving import make_server
from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app

host, port = sys.argv[1].rsplit(":", 1)
make_server(host, int(port), DomainDispatcherApplication(create_backend_app), threaded=sys.argv[2] == "threads",
            request_handler=MotoRequestHandler).serve_forever()
